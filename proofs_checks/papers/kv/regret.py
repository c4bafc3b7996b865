"""The proof of constant regret: round accounting, signs, what OFF starts."""

from collections import Counter
from collections.abc import Sequence

from formulations.hindsight_latency import LatencyProblem, total_latency
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import algorithm, as_data, jobs, random_problem
from proofs_checks.papers.kv.moments import (
    FROM_STATE,
    MADE,
    PROOF,
    Moment,
    draws,
    moments,
    read_common,
)
from proofs_checks.search import examine, refute


# Equation (6).
def _rounds_check(context: Context, *, truncated: bool = False) -> Outcome:
    def counted(problem: LatencyProblem) -> bool:
        starts = algorithm(jobs(problem))
        ends = [p + o for p, o in zip(starts, problem.output.tolist(), strict=True)]
        spans = list(zip(problem.arrival.tolist(), ends, strict=True))
        rounds = max(problem.arrival.tolist()) + 1 if truncated else max(ends)
        pending = (sum(a <= t < c for a, c in spans) for t in range(rounds))
        return bool(sum(pending) == total_latency(problem, starts))

    problems = (
        random_problem(context.rng, most=8, memory=15)
        for _ in range(context.choose(200, 2000, 50_000))
    )
    return examine(
        "Σ_t |S ∪ R| = Σ_i (c_i − a_i)", "random runs of Algorithm 2", problems, counted
    )


# Footnote 6.
def _sign_check(context: Context, *, against_online: bool = False) -> Outcome:
    def never_negative(moment: Moment) -> bool:
        if against_online:
            return moment.compensated + sum(moment.offline[0]) >= sum(moment.online)
        alike = any(moment.started(o) == moment.started(moment.online) for o in moment.offline)
        return moment.compensated >= 0 and not (alike and moment.compensated)

    return examine(
        "CP ≥ 0, and 0 if some optimum decides alike",
        MADE,
        moments(context, draws(context)),
        never_negative,
    )


# Which requests OFF starts.
def lengths(moment: Moment, starts: Sequence[int]) -> Counter[tuple[int, int]]:
    """Return arrivals and lengths of what starts now; requests alike in both are one."""
    data = moment.data
    return Counter((data.arrival[job], data.length[job]) for job in moment.started(starts))


def leaves_the_batch(moment: Moment) -> bool:
    """Whether every optimum starts something that Algorithm 2 does not."""
    mine = lengths(moment, moment.online)
    return all(lengths(moment, other) - mine for other in moment.offline)


def verify_subset(data: Data) -> str | None:
    """Enumerate the optima from a state of Algorithm 2 and compare their batches with its own."""
    if not 0 <= data["now"] <= 50:
        return None
    moment = Moment(read_common(data), data["now"])
    if not leaves_the_batch(moment):
        return None
    return (
        f"convention {moment.problem.convention}, M = {moment.problem.memory}, (arrival, s, o) = "
        f"{data['requests']}: at t = {moment.now} Algorithm 2 starts "
        f"{sorted(moment.started(moment.online))}, every optimum something else, such as "
        f"{sorted(moment.started(moment.offline[0]))}"
    )


def _subset_check(context: Context, *, spare: int = 0) -> Outcome:
    # Rarer than what the other claims look for.
    cases = list(moments(context, 2 * draws(context)))
    return refute(
        "some optimum starts a subset of what Algorithm 2 starts",
        MADE,
        cases,
        verify_subset,
        lambda m: as_data(m.problem, now=m.now),
        holds=lambda m: not leaves_the_batch(m),
    ), examine(
        "no optimum starts more requests",
        MADE,
        cases,
        lambda m: all(len(m.started(o)) + spare <= len(m.started(m.online)) for o in m.offline),
    )


CLAIMS = (
    Claim(
        id="kv.eq6",
        source=f"{PROOF}, Equations (5) and (6)",
        title="Latency round by round",
        statement="Every pending request, processed or not, costs 1 in each round; the sum over "
        "all rounds is the total latency.",
        formula="ℓ_t = |S(t) ∪ R(t)|,  TEL = Σ_t ℓ_t",
        hypotheses=("unit rounds", "summed until all have completed"),
        kind=Kind.IDENTITY,
        check=_rounds_check,
        summary="Rounds after the last arrival count too.",
        mutations=(Mutation("summed to the last arrival", truncated=True),),
    ),
    Claim(
        id="kv.footnote6",
        source=f"{PROOF}, footnote 6",
        title="Compensated values are not negative",
        statement="CP_{t+1} is never negative, and 0 if online and offline decide alike at t.",
        formula="L^OFF_{t+1}(S_ON, R_ON) ≥ L^OFF_{t+1}(S̃_OFF, R̃_OFF)",
        hypotheses=FROM_STATE,
        kind=Kind.FINITE,
        check=_sign_check,
        summary="By enumeration of all schedules from the state.",
        mutations=(
            Mutation("Algorithm 2 in place of OFF in the second term", against_online=True),
        ),
    ),
    Claim(
        id="kv.off-subset",
        source=f"{PROOF}, text before Algorithm 3",
        title="OFF differs only by starting less",
        statement="Where OFF decides otherwise than Algorithm 2, it processes a subset of "
        "S_ON ∪ U, saving memory for shorter requests to come.",
        formula="V(t) ⊂ S_ON(t) ∪ U(t)",
        hypotheses=FROM_STATE,
        kind=Kind.COUNTEREXAMPLE,
        check=_subset_check,
        summary="It may start a longer one instead of a shorter one, because of when they end.",
        mutations=(Mutation("fewer by one in the correction", spare=1),),
        correction="It starts no more requests than Algorithm 2 does, |V| ≤ |U|, but may start "
        "others.",
        reading="refuted where no optimum starts a subset, requests of equal arrival and output "
        "alike.",
        defect=Defect.RESULT,
        verify=verify_subset,
    ),
)
