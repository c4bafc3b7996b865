"""Off-Couple: Algorithm 3, the rounds at which it is compared, Lemma 5.4, and its uses.

Off-Couple serves the analysis only. It starts from the state of Algorithm 2 at some round, knows
an offline schedule from there on, and follows it until both are in the same state. The proof of
its lemma (it never exceeds M, and it catches up) is informal, so the result is checked.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from formulations.hindsight_latency import Convention, LatencyProblem, violations
from proofs_checks.claim import Claims, Context, Defect, Mutation, Scope, texts_of
from proofs_checks.evidence import Data, Findings, Outcome, Verifier, dismiss_if, verifier
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    Jobs,
    algorithm,
    as_data,
    from_data,
    jobs,
    least_latency,
    optima,
    prefix,
    present,
    problem_of,
    random_problem,
    running_loads,
    selected,
    shortest_first,
)
from proofs_checks.search import examine

CLAIMS = Claims()


@dataclass(frozen=True)
class Coupling:
    """The schedule of Off-Couple.

    Parameters
    ----------
    starts : tuple of int
        Start round of each request.
    copies_from : int
        ``t̂``: round from which it copies the offline schedule; by then the offline schedule has
        completed all requests that Algorithm 2 had started.
    """

    starts: tuple[int, ...]
    copies_from: int


def off_couple(
    problem: LatencyProblem, online: Sequence[int], offline: Sequence[int], now: int
) -> Coupling:
    """Return the schedule of Off-Couple from round ``now``, by the text of Algorithm 3.

    Parameters
    ----------
    problem : LatencyProblem
        Requests.
    online, offline : sequence of int
        Complete schedules of Algorithm 2 and of OFF, which agree before ``now``.
    now : int
        ``t``.
    """
    data, outputs, starts = jobs(problem), problem.output.tolist(), prefix(online, now + 1)
    t_hat = max((offline[job] + outputs[job] for job in starts), default=now + 1)
    left = set(range(len(online))) - set(starts)
    while left:
        now += 1
        running = running_loads(data, starts, now)
        copied = [job for job in left if now >= t_hat and offline[job] == now]
        running += [data.load(job) for job in copied]
        behind = [job for job in left if offline[job] <= now and job not in copied]
        behind.sort(key=lambda job: shortest_first(data, job))
        positions = selected(data.memory, running, [data.load(job) for job in behind])
        starts |= dict.fromkeys([*copied, *(behind[k] for k in positions)], now)
        left -= set(starts)
    return Coupling(tuple(starts[job] for job in range(len(online))), t_hat)


# Rounds of runs of Algorithm 2, with the optimum from the state it has reached.


@dataclass(frozen=True)
class Moment:
    """A run of Algorithm 2 at round ``now``, and the optimum from the state it has reached.

    Parameters
    ----------
    problem : LatencyProblem
        Requests with a common prompt.
    now : int
        ``t``.
    at_once : bool
        Whether a broken Off-Couple equals OFF from the round after ``now`` on.
    """

    problem: LatencyProblem
    now: int
    at_once: bool = False

    @cached_property
    def data(self) -> Jobs:
        """Memory profiles of the requests."""
        return jobs(self.problem)

    @cached_property
    def online(self) -> list[int]:
        """Starts of Algorithm 2."""
        return algorithm(self.data)

    @cached_property
    def offline(self) -> list[tuple[int, ...]]:
        """All optima from the state of Algorithm 2 at ``now``: OFF may be any of them."""
        return optima(self.data, prefix(self.online, self.now), self.now, self.online)

    @cached_property
    def compensated(self) -> int:
        """``CP_{t+1}`` of this path: the cost to OFF of Algorithm 2's decision at ``now``."""
        later = self.now + 1
        after = least_latency(self.data, prefix(self.online, later), later, self.online)
        return after - sum(self.offline[0])

    def started(self, starts: Sequence[int]) -> set[int]:
        """Return the requests that start at ``now``."""
        return {job for job, start in enumerate(starts) if start == self.now}

    def pending(self, starts: Sequence[int], now: int) -> int:
        """Return the number of requests that have arrived by round ``now`` and not completed."""
        columns = zip(self.data.arrival, starts, self.problem.output.tolist(), strict=True)
        return sum(arrival <= now < start + output for arrival, start, output in columns)

    def coupled(self, offline: Sequence[int]) -> Coupling:
        """Return the schedule of Off-Couple for this optimum."""
        if self.at_once:
            return Coupling(tuple(offline), self.now + 1)
        return off_couple(self.problem, self.online, offline, self.now)


def small_problems(context: Context, count: int) -> Iterator[LatencyProblem]:
    """Draw instances of 4 requests with a prompt of 1 that arrive in rounds 0 to 3."""
    for _ in range(count):
        yield random_problem(context.rng, least=4, most=4, memory=6, prompt=1, rounds=3)


#: Convention, M and last arrival for which a few hundred draws include violations of Lemma 5.4.
FILLING = ((Convention.CLOSED, 6, 4), (Convention.PRINTED, 6, 4), (Convention.HALF_OPEN, 8, 6))


def filling_problems(
    context: Context, count: int
) -> Iterator[tuple[Convention, int, tuple[int, ...], tuple[int, ...]]]:
    """Draw convention, M, outputs and arrivals of 4 requests with s = 1; conventions alternate."""
    for draw in range(count):
        convention, memory, last = FILLING[draw % 3]
        least = 1 + (convention is not Convention.CLOSED)
        longest = memory - 1 + (convention is Convention.PRINTED)
        outputs = context.rng.integers(least, longest + 1, 4).tolist()
        arrivals = np.sort(context.rng.integers(0, last + 1, 4))
        yield convention, memory, tuple(outputs), tuple((arrivals - arrivals[0]).tolist())


def moments(context: Context, count: int) -> Iterator[Moment]:
    """Yield the rounds of `small_problems` whose runs are not optimal."""
    return rounds_to_see(small_problems(context, count))


def rounds_to_see(problems: Iterable[LatencyProblem]) -> Iterator[Moment]:
    """Yield the rounds of runs that are not optimal; in optimal runs the claims are trivial."""
    for problem in problems:
        data = jobs(problem)
        online = algorithm(data)
        if sum(online) > sum(data.arrival) and least_latency(data, known=online) < sum(online):
            yield from (Moment(problem, now) for now in range(max(online) + 1))


MADE = "every round of random runs of Algorithm 2 on 4 requests that are not optimal"


def draws(context: Context) -> int:
    """Return the number of instances needed to meet rare failures."""
    return context.choose(260, 1200, 30_000)


# The decomposition of the regret.
def read_common(data: Data) -> LatencyProblem:
    """Read a problem and reject different prompts."""
    problem = from_data(data | {"requests": [row[:3] for row in data["requests"]]})
    if len(set(problem.prompt.tolist())) > 1:
        raise ValueError("prompts differ")
    return problem


FROM_STATE = ("a common prompt s", "no pausing", "OFF optimal from the state of Algorithm 2 at t")


# Off-Couple: Lemma 5.4, the inequality before Equation (7), and the use of (7).


#: A moment and the unique optimum from it.
Case: TypeAlias = tuple[Moment, tuple[int, ...]]
#: A condition on a moment and the optimum from it.
Part: TypeAlias = Callable[[Moment, Sequence[int]], bool]


def decides_alike(moment: Moment, offline: Sequence[int]) -> bool:
    """Return whether OFF starts the same requests at t as Algorithm 2."""
    return moment.started(offline) == moment.started(moment.online)


def puts_off(moment: Moment, offline: Sequence[int]) -> bool:
    """Return whether OFF starts at t only requests that Algorithm 2 starts: V ⊂ S_ON ∪ U."""
    return moment.started(offline) <= moment.started(moment.online)


def always(moment: Moment, offline: Sequence[int]) -> bool:
    """Return true: the condition that every moment meets."""
    del moment, offline
    return True


def _verifier(part: Part, broken: str) -> Verifier:
    @verifier
    def verify(data: Data) -> str:
        problem, now = read_common(data), data["now"]
        dismiss_if(not 0 <= now <= 50)
        moment = Moment(problem, now)
        offline = moment.offline[0]
        dismiss_if(
            len(moment.offline) > 1 or not puts_off(moment, offline) or part(moment, offline)
        )
        coupled = moment.coupled(offline)
        return (
            f"convention {problem.convention}, M = {problem.memory}, (arrival, s, o) = "
            f"{data['requests']}: Algorithm 2 starts at {moment.online}; from its state at t = "
            f"{now} the only optimum starts at {list(offline)}, and OC at {list(coupled.starts)} "
            f"with t̂ = {coupled.copies_from}: {broken}"
        )

    return verify


@lru_cache(maxsize=2**14)
def _cases_of(
    convention: Convention, memory: int, outputs: tuple[int, ...], arrivals: tuple[int, ...]
) -> tuple[Case, ...]:
    """Return moments with a unique optimum, which starts only requests that Algorithm 2 starts."""
    problem = problem_of(memory, [1] * len(outputs), outputs, convention, arrivals)
    return tuple(
        (moment, moment.offline[0])
        for moment in rounds_to_see([problem])
        # If Algorithm 2 starts nothing, no request fits, and OFF starts nothing either.
        if moment.started(moment.online)
        and len(moment.offline) == 1
        and puts_off(moment, moment.offline[0])
    )


def _examined(
    context: Context, part: Part, verify: Verifier, alike: Part, at_once: bool
) -> Outcome:
    drawn = filling_problems(context, context.choose(780, 2400, 60_000))
    cases = [case for requests in drawn for case in _cases_of(*requests)]
    if at_once:
        cases = [(replace(moment, at_once=True), offline) for moment, offline in cases]
    made = (
        "rounds in which Algorithm 2 starts something, with a single optimum from there that "
        "starts nothing else then, of random runs on 4 requests that are not optimal, s = 1; A "
        "and B with M = 6, C with M = 8, in turn"
    )
    domain = context.domain(made, cases)
    printed = examine("the statement", made, cases, part, keep=len(cases))
    corrected = domain.examine("the corrected statement", part, alike)
    seen = Counter(moment.problem.convention for moment, _ in cases)
    under = Counter(moment.problem.convention for moment, _ in printed.failures)
    everywhere = examine(
        "no convention saves it: some round breaks it",
        "A, B and C, each with the rounds above",
        CONVENTIONS,
        lambda convention: under[convention] > 0,
    )
    # The algorithms look ahead by Equation (1), so the counterexample uses its convention.
    shown = [
        as_data(moment.problem, now=moment.now)
        for moment, _ in printed.failures
        if moment.problem.convention is Convention.CLOSED and not at_once
    ]
    refuted = replace(
        printed, counterexamples=tuple(shown), verify=verify, found=f"search: {made}"
    )
    rates = {f"failures_under_{c}": f"{under[c]} of {seen[c]} rounds" for c in CONVENTIONS}
    return Findings(refuted, corrected, everywhere, numbers=rates)


_READING = (
    "Algorithm 3 as printed, t̂ the round in which OFF completes the last request of S_ON ∪ U. "
    "Looked at where OFF is the only optimum, so that nothing depends on which one is taken, and "
    "starts at t only what Algorithm 2 starts, as the text before the lemma has it (V ⊂ S_ON ∪ "
    "U). Under A, B and C alike: it fails under each, as the figures count; the counterexample "
    "shown is under A, the convention of Equation (1)."
)


def _claim(
    claim_id: str,
    broken: str,
    condition: Part,
    scope: Scope = Scope.RESULT,
    defect: Defect = Defect.RESULT,
) -> Callable[[Part], Part]:
    """Decorate a part of Lemma 5.4 or its use: claim it; the correction adds ``condition``."""

    def add(part: Part) -> Part:
        verify = _verifier(part, broken)

        def check(context: Context, *, alike: Part = condition, at_once: bool = False) -> Outcome:
            return _examined(context, part, verify, alike, at_once)

        return CLAIMS.stated(
            scope,
            claim_id,
            Mutation("the condition of the correction dropped", alike=always),
            Mutation("OC that follows OFF at once", at_once=True),
            check=check,
            hypotheses=(*FROM_STATE, "OFF starts at t only some of what Algorithm 2 starts"),
            summary="OC lags behind OFF where Algorithm 2 has started a request that OFF "
            "puts off.",
            reading=f"{_READING} {texts_of(part).get('reading', '')}".rstrip(),
            defect=defect,
            verify=verify,
        )(part)

    return add


@_claim("kv.lemma5.4-i", "OC exceeds M", decides_alike)
def within_memory(moment: Moment, offline: Sequence[int]) -> bool:
    """OC keeps the memory.

    Source: KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2), (i)
    Statement: Off-Couple never exceeds the memory limit.
    Formula: Σ tokens of OC ≤ M at all times
    Reading: What OC starts by Equation (2) fits; what it copies from t̂ on need not.
    Correction: It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} =
        0 anyway.
    """
    return not violations(moment.problem, moment.coupled(offline).starts)


@_claim("kv.lemma5.4-ii", "OFF has completed more by t̂", decides_alike)
def in_time(moment: Moment, offline: Sequence[int]) -> bool:
    """OC completes in time.

    Source: KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2), (ii)
    Statement: At t̂ Off-Couple has completed all that the hindsight optimum has completed.
    Formula: c_i(OFF) ≤ t̂  ⇒  c_i(OC) ≤ t̂
    Correction: It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} =
        0 anyway.
    """
    coupled, outputs = moment.coupled(offline), moment.problem.output.tolist()
    ends = zip(offline, coupled.starts, outputs, strict=True)
    return all(
        oc + o <= coupled.copies_from for off, oc, o in ends if off + o <= coupled.copies_from
    )


@_claim("kv.lemma5.4-iii", "OC holds more once what completes at t̂ has left", decides_alike)
def no_more_memory(moment: Moment, offline: Sequence[int]) -> bool:
    """OC holds no more memory.

    Source: KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2), (iii)
    Statement: At t̂ Off-Couple uses no more memory than the optimum.
    Formula: memory(OC, t̂) ≤ memory(OFF, t̂)
    Reading: Memory at t̂ is that of the slot after the completions of t̂: by the proof OFF then
        holds only what it has begun after the last of them. (In slot t̂ itself, where under A and
        C what completes still holds its memory, no failure is known while V ⊂ S_ON ∪ U. Without
        that there is one under C: M = 4, (arrival, s, o) = (0, 1, 2), (0, 1, 3), (2, 1, 3), (3, 1,
        1), (4, 1, 1), t = 0.)
    Correction: It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} =
        0 anyway.
    """
    coupled = moment.coupled(offline)
    # Under Equation (1) a request that completes at t̂ still holds its memory in that slot.
    after = coupled.copies_from + (moment.problem.convention is Convention.CLOSED)
    mine, theirs = (present(moment.data, s, after) for s in (coupled.starts, offline))
    return sum(mine) <= sum(theirs)


@_claim(
    "kv.coupling-inequality",
    "CP is greater than L^OC − L^OFF",
    within_memory,
    Scope.STEP,
    Defect.SENTENCE,
)
def bounded_by_coupling(moment: Moment, offline: Sequence[int]) -> bool:
    """Off-Couple bounds the compensated value.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), inequality before Algorithm 3
    Statement: OFF from the online state costs no more than any other algorithm, so CP is at most
        the difference of OC and OFF.
    Formula: CP_{t+1} ≤ L^OC_{t+1}(S_ON, R_ON) − L^OFF_{t+1}(S̃_OFF, R̃_OFF)
    Correction: It holds where OC keeps the memory (kv.lemma5.4-i): what exceeds M may cost less
        than any schedule.
    """
    return moment.compensated <= sum(moment.coupled(offline).starts) - sum(offline)


def same_state(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether OC and OFF have completed the same requests by t̂ and run the others identically."""
    coupled, outputs = moment.coupled(offline), moment.problem.output.tolist()
    ends = zip(offline, coupled.starts, outputs, strict=True)
    return all(off == oc or max(off, oc) + o <= coupled.copies_from for off, oc, o in ends)


@_claim(
    "kv.eq7",
    "after t̂ the numbers of pending requests differ",
    same_state,
    Scope.STEP,
    Defect.SENTENCE,
)
def over_at_t_hat(moment: Moment, offline: Sequence[int]) -> bool:
    """From t̂ on OC and OFF cost the same.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), Equation (7) and the display that
        it leads to
    Statement: OC decides as OFF from t̂ on, so the difference of their latencies from t + 1 on is
        that of the rounds t + 1 to t̂.
    Formula: L^OC_{t+1} − L^OFF_{t+1} = Σ_{t′=t+1}^{t̂} (|S_OC ∪ R_OC| − |S̃_OFF ∪ R̃_OFF|)
    Reading: (7) subtracts L^OC from OFF's state at t̂; with that it is an identity, but its first
        difference is the latency of OC in rounds t + 1 to t̂ only if OC is in that state.
    Correction: It holds where OC reaches OFF's state at t̂, which the text before Lemma 5.4 states
        and the lemma does not contain.
    """
    coupled = moment.coupled(offline)
    rounds = range(moment.now + 1, coupled.copies_from + 1)
    difference = sum(
        moment.pending(coupled.starts, r) - moment.pending(offline, r) for r in rounds
    )
    return difference == sum(coupled.starts) - sum(offline)
