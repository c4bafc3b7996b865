"""Stochastic arrivals: Theorem 5.3, stability, growth of the latency in an overloaded system."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import log

from formulations.hindsight_latency import (
    Convention,
    LatencyProblem,
    lower_bound,
    total_latency,
)
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Estimate, Evidence, accepted, agreed
from proofs_checks.papers.kv import equal_streams
from proofs_checks.papers.kv.equal_streams import mean_wait, saturated_rate, started, stream
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    algorithm,
    jobs,
    peak,
    problem_of,
    random_problem,
)
from proofs_checks.search import corrected_evidence, examine, smallest_counterexample
from proofs_checks.statistics import slope_estimate

#: Horizons T at which streams are compared; each doubles the one before.
_ROUNDS = (12, 24, 48)


def kind_of(data: Data) -> equal_streams.Kind:
    """Read the kind of request of a counterexample, in the convention of Equation (1)."""
    memory, prompt, output = (data[key] for key in ("memory", "prompt", "output"))
    return equal_streams.Kind.of(memory, prompt, output, Convention.CLOSED)


# Theorem 5.3.
def excesses(kind: equal_streams.Kind, per_round: int) -> list[Fraction]:
    """Return AEL of Algorithm 2 less that of the steady start, for each horizon."""
    found = []
    for rounds in _ROUNDS:
        arrivals = [per_round] * rounds
        steady = started(kind, arrivals, most=kind.steady)
        mine = mean_wait(arrivals, started(kind, arrivals))
        found.append(mine - mean_wait(arrivals, steady))
    return found


def verify_regret(data: Data) -> str | None:
    """Check that the excess over a feasible schedule grows with T as a line does."""
    kind, per_round = kind_of(data), data["per_round"]
    if per_round < 1 or kind.steady < 1:
        return None
    found = excesses(kind, per_round)
    first, second = found[1] - found[0], found[2] - found[1]
    if first <= 0 or second < Fraction(3, 2) * first:
        return None
    arrivals = [per_round] * _ROUNDS[0]
    problem = stream(data["memory"], data["prompt"], data["output"], Convention.CLOSED, arrivals)
    steady = _as_starts(started(kind, arrivals, most=kind.steady))
    if peak(jobs(problem), steady) > data["memory"]:
        return None
    return (
        f"convention A, M = {data['memory']}, {per_round} requests with s = {data['prompt']}, o "
        f"= {data['output']} in every round: at T = {', '.join(map(str, _ROUNDS))} AEL of "
        f"Algorithm 2 exceeds that of starting at most {kind.steady} a round by "
        f"{', '.join(map(str, found))}"
    )


def _as_starts(counts: Sequence[int]) -> list[int]:
    return [now for now, count in enumerate(counts) for _ in range(count)]


def _streams(context: Context, rates: Sequence[int]) -> Iterator[Data]:
    largest, longest = context.choose((9, 2), (16, 4), (30, 6))
    for prompt, output, per_round in product((1, 2), range(1, longest + 1), rates):
        for memory in range(prompt + output, largest + 1):
            data = {"memory": memory, "prompt": prompt, "output": output, "per_round": per_round}
            if kind_of(data).steady:
                yield data


def _regret_check(
    context: Context, *, rates: Sequence[int] = (1, 2, 3), share: Fraction = Fraction(1)
) -> Evidence:
    problems = (
        random_problem(context.rng, most=8) for _ in range(context.choose(150, 2000, 30_000))
    )

    def at_most_linear(problem: LatencyProblem) -> bool:
        data = jobs(problem)
        latest = max(data.arrival) + sum(data.length)
        return max(algorithm(data)) <= share * latest

    def counted_alike(data: Data) -> bool:
        arrivals = [data["per_round"]] * 5
        problem = stream(
            data["memory"], data["prompt"], data["output"], Convention.CLOSED, arrivals
        )
        return algorithm(jobs(problem)) == _as_starts(started(kind_of(data), arrivals))

    cases = list(_streams(context, rates))
    printed = examine(
        "the excess over a steady start does not grow like T",
        f"equal requests, a fixed number in every round, small domain, T = {_ROUNDS}",
        cases,
        lambda data: verify_regret(data) is None,
    )
    corrected = examine(
        "no request starts after max a + Σ d: AEL, and so the regret, is at most linear in T",
        "random instances of up to 8 requests",
        problems,
        at_most_linear,
    )
    counted = examine(
        "counting by age = Algorithm 2", "the first 5 rounds of the streams", cases, counted_alike
    )
    thin = equal_streams.Kind.of(600, 1, 2, Convention.HALF_OPEN)
    return Evidence(
        printed.tally.verdict(),
        agreed(corrected.tally, counted.tally),
        "Algorithm 2 starts as many as fit; they end together, and their memory stands idle. A "
        "fixed number in every round is a distribution with bounded support, and the excess "
        "over any feasible schedule is a lower bound on the regret. It does not go away as s/M "
        "→ 0: see the rates.",
        (printed.tally, corrected.tally, counted.tally),
        numbers={
            "starts_per_round_at_M_600_s_1_o_2_convention_C": float(saturated_rate(thin)),
            "steady_starts_per_round_there": thin.steady,
        },
        counterexample=smallest_counterexample(
            printed.failures, verify_regret, f"search: {printed.tally.made}"
        ),
    )


# Stability.
def verify_stability(data: Data) -> str | None:
    """Compare the rates that Algorithm 2 and a steady start sustain."""
    kind = kind_of(data)
    rate = saturated_rate(kind)
    if rate >= kind.steady:
        return None
    return (
        f"convention A, M = {data['memory']}, s = {data['prompt']}, o = {data['output']}: "
        f"starting {kind.steady} a round keeps the memory, Algorithm 2 with a long queue starts "
        f"{rate} a round; arrivals in bursts at a rate between leave one stable and overload the "
        "other"
    )


def _stability_check(context: Context, *, share: Fraction = Fraction(1, 2)) -> Evidence:
    largest, longest = context.choose((24, 4), (60, 8), (150, 12))
    kinds = [
        (memory, prompt, output, convention)
        for prompt, output, convention in product((1, 2), range(1, longest + 1), CONVENTIONS)
        for memory in range(prompt + output, largest + 1)
    ]
    made = f"equal requests, s = 1, 2, o up to {longest}, M up to {largest}"
    printed = examine(
        "Algorithm 2 sustains the rate of a steady start",
        f"{made}, convention A",
        kinds,
        lambda k: saturated_rate(equal_streams.Kind.of(*k)) >= equal_streams.Kind.of(*k).steady,
        lambda k: k[3] is Convention.CLOSED,
    )

    def over_half(case: tuple[int, int, int, Convention]) -> bool:
        kind = equal_streams.Kind.of(*case)
        return saturated_rate(kind) > share * Fraction(kind.memory, kind.area)

    corrected = examine(
        "it sustains more than half of M/area, which no schedule exceeds",
        f"{made}, conventions A, B, C",
        kinds,
        over_half,
    )
    return corrected_evidence(
        printed,
        corrected,
        verify_stability,
        lambda k: {"memory": k[0], "prompt": k[1], "output": k[2]},
        "Rates are exact: with a long queue the starts depend on the last o rounds only, so the "
        "run is periodic. A queue with bounded arrivals that drifts up is unstable.",
    )


# Remark 5.2 and the order of OPT.
def _growth_check(context: Context, *, every: int = 1) -> Evidence:
    points: list[tuple[float, float, float]] = []
    for rounds in context.choose((10, 20, 40), (15, 30, 60), (20, 40, 80, 160, 320)):
        for _ in range(context.choose(12, 12, 20)):
            counts = context.rng.integers(3, 6, rounds) * (
                context.rng.integers(every, size=rounds) == 0
            )
            arrivals = [now for now, count in enumerate(counts) for _ in range(count)] or [0]
            outputs = context.rng.integers(1, 4, len(arrivals)).tolist()
            problem = problem_of(6, [1] * len(arrivals), outputs, arrivals=arrivals)
            mine = total_latency(problem, algorithm(jobs(problem)))
            points.append((log(rounds), log(lower_bound(problem)), log(mine)))
    horizon, least, online = zip(*points, strict=True)
    estimates = tuple(
        _square(name, horizon, values)
        for name, values in (("a lower bound on OPT", least), ("Algorithm 2", online))
    )
    return Evidence(
        accepted(*estimates),
        summary="OPT lies between the two, so AEL of both is linear in T. That constant regret "
        "would imply equal coefficients is arithmetic; it does not apply, since kv.theorem5.3 "
        "fails.",
        estimates=estimates,
    )


def _square(name: str, x: Sequence[float], y: Sequence[float]) -> Estimate:
    return slope_estimate(
        f"slope of log total latency on log T, {name}",
        x,
        y,
        "the 95 % interval lies in 1.75 to 2.25 (theory 2; T is small)",
        lambda low, high: low >= 1.75 and high <= 2.25,
    )


_STREAM = ("arrivals per round i.i.d. with bounded support", "outputs i.i.d.", "a common prompt s")

CLAIMS = (
    Claim(
        id="kv.theorem5.3",
        source="KV-cache paper, Theorem 5.3 (section 5.1)",
        title="Constant regret",
        statement="The regret of Algorithm 2 is at most a constant independent of T, stable or "
        "overloaded.",
        formula="E[AEL(I; Algorithm 2) − OPT/n] ≤ C",
        hypotheses=_STREAM,
        kind=Kind.COUNTEREXAMPLE,
        check=_regret_check,
        mutations=(
            Mutation(
                "one arrival a round, which never overloads", partial(_regret_check, rates=(1,))
            ),
            Mutation(
                "a quarter of the bound in the correction",
                partial(_regret_check, share=Fraction(1, 4)),
            ),
        ),
        correction="The regret is at most linear in T, since Algorithm 2 never idles, and "
        "linear it can be: with equal requests it sustains as little as just over half the rate "
        "of other schedules (kv.stability). The later version of the paper no longer claims "
        "constant regret.",
        reading="latency counted until all have completed; an excess of AEL over a feasible "
        "schedule that doubles as T doubles refutes any constant.",
        defect=Defect.RESULT,
        verify=verify_regret,
    ),
    Claim(
        id="kv.stability",
        source="KV-cache paper, text before Theorem 5.3",
        title="Stable where the optimum is stable",
        statement="Algorithm 2 keeps the system stable whenever the hindsight optimum does.",
        formula="λ < μ*  ⇒  the queue of Algorithm 2 stays bounded in the mean",
        hypotheses=_STREAM,
        kind=Kind.COUNTEREXAMPLE,
        check=_stability_check,
        mutations=(
            Mutation(
                "three quarters in the correction", partial(_stability_check, share=Fraction(3, 4))
            ),
        ),
        correction="With equal requests Algorithm 2 sustains more than half of M/area requests "
        "a round, the most that any schedule can (area: tokens times rounds of a request); the "
        "half is nearly reached for long outputs.",
        defect=Defect.RESULT,
        verify=verify_stability,
    ),
    Claim(
        id="kv.remark5.2",
        source="KV-cache paper, Remark 5.2 and section 5 (overloaded systems)",
        title="Latency in an overloaded system",
        statement="In an overloaded system TEL of Algorithm 2 and OPT scale as O(T²), so AEL and "
        "OPT/n are O(T).",
        formula="TEL, OPT = O(T²);  AEL, OPT/n = O(T)",
        hypotheses=(*_STREAM, "3 to 5 arrivals a round, outputs 1 to 3, M = 6, s = 1: overloaded"),
        kind=Kind.STATISTICAL,
        check=_growth_check,
        mutations=(
            Mutation("a thirtieth of the rounds with arrivals", partial(_growth_check, every=30)),
        ),
        reading="as an exact order, Θ(T²) and Θ(T): the remark goes on to compare leading "
        "coefficients of T, and the upper bound alone holds in a stable system too.",
    ),
)
