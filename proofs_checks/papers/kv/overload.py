"""Stochastic arrivals: streams of equal requests, Theorem 5.3, and sustainable rates.

With equal requests a schedule is a number of starts per round, so long streams are computed
exactly at low cost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import log

from formulations.hindsight_latency import Convention, LatencyProblem, lower_bound, total_latency
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    algorithm,
    jobs,
    peak,
    problem_of,
    random_problem,
)
from proofs_checks.search import examine
from proofs_checks.statistics import slope_estimate

CLAIMS = Claims()


@dataclass(frozen=True)
class EqualRequests:
    """One kind of request and the memory size.

    Parameters
    ----------
    memory, first, length : int
        ``M``, tokens in the first slot, slots; see `proofs_checks.papers.kv.model`.
    """

    memory: int
    first: int
    length: int

    @staticmethod
    def of(memory: int, prompt: int, output: int, convention: Convention) -> "EqualRequests":
        """Return the kind of a request; it must fit alone."""
        data = jobs(problem_of(memory, [prompt], [output], convention))
        return EqualRequests(memory, data.first[0], data.length[0])

    @property
    def area(self) -> int:
        """Token-slots of a request: its tokens summed over its slots."""
        return sum(self.first + age for age in range(self.length))

    @property
    def steady(self) -> int:
        """Requests that can start in every round indefinitely: ``⌊M / area⌋``."""
        return self.memory // self.area


def kinds_of(memory: int, prompt: int, output: int) -> dict[Convention, EqualRequests]:
    """Return the kind of request of a counterexample, under each convention."""
    if prompt + output > memory:
        raise ValueError("a request that never fits")
    return {c: EqualRequests.of(memory, prompt, output, c) for c in CONVENTIONS}


def greedy(kind: EqualRequests, recent: Sequence[int]) -> int:
    """Return how many requests Algorithm 2 starts; ``recent[k]`` started k + 1 rounds ago."""
    rooms = []
    for delay in range(kind.length):
        held = sum(
            count * (kind.first + age + delay)
            for age, count in enumerate(recent, start=1)
            if age + delay < kind.length
        )
        rooms.append((kind.memory - held) // (kind.first + delay))
    return min(rooms)


def started(kind: EqualRequests, arrivals: Sequence[int], *, most: int | None = None) -> list[int]:
    """Return the number of starts in each round until all requests have started.

    Parameters
    ----------
    kind : EqualRequests
        Kind of the requests.
    arrivals : sequence of int
        Number of arrivals in each round.
    most : int, optional
        Start at most this many per round, in place of Algorithm 2.
    """
    counts: list[int] = []
    waiting = 0
    while waiting or len(counts) < len(arrivals):
        waiting += arrivals[len(counts)] if len(counts) < len(arrivals) else 0
        recent = counts[: -kind.length : -1] if kind.length > 1 else []
        room = greedy(kind, recent) if most is None else most
        counts.append(min(waiting, room))
        waiting -= counts[-1]
    return counts


def mean_wait(arrivals: Sequence[int], counts: Sequence[int]) -> Fraction:
    """Return the mean waiting time (start − arrival) under first come, first served."""
    waits = sum(now * count for now, count in enumerate(counts))
    waits -= sum(now * count for now, count in enumerate(arrivals))
    return Fraction(waits, sum(arrivals))


def saturated_rate(kind: EqualRequests) -> Fraction:
    """Return Algorithm 2's long-run starts per round if requests never run out.

    The starts depend on the last ``length − 1`` rounds only, so the run becomes periodic.
    """
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    recent: tuple[int, ...] = (0,) * (kind.length - 1)
    now = total = 0
    while recent not in seen:
        seen[recent] = now, total
        count = greedy(kind, recent)
        recent = (count, *recent)[: kind.length - 1]
        now, total = now + 1, total + count
    begin, before = seen[recent]
    return Fraction(total - before, now - begin)


def as_starts(counts: Sequence[int]) -> list[int]:
    """Return the round of each request from the number of requests per round."""
    return [now for now, count in enumerate(counts) for _ in range(count)]


def stream(
    memory: int, prompt: int, output: int, convention: Convention, arrivals: Sequence[int]
) -> LatencyProblem:
    """Return the problem of a stream."""
    rounds = as_starts(arrivals)
    return problem_of(memory, [prompt] * len(rounds), [output] * len(rounds), convention, rounds)


# Stochastic arrivals: Theorem 5.3, growth of the latency, and sustainable rates.


#: Horizons T at which streams are compared; each doubles the one before.
_ROUNDS = (12, 24, 48)


# Theorem 5.3.
def excesses(kind: EqualRequests, per_round: int) -> list[Fraction]:
    """Return the AEL of Algorithm 2 less that of steady starts, for each duration."""
    excess = []
    for rounds in _ROUNDS:
        arrivals = [per_round] * rounds
        steady = started(kind, arrivals, most=kind.steady)
        mine = mean_wait(arrivals, started(kind, arrivals))
        excess.append(mine - mean_wait(arrivals, steady))
    return excess


def grows(excess: Sequence[Fraction]) -> bool:
    """Return whether the excesses at doubling horizons grow at least linearly in T."""
    first, second = excess[1] - excess[0], excess[2] - excess[1]
    return first > 0 and second >= Fraction(3, 2) * first


@verifier
def verify_regret(memory: int, prompt: int, output: int, per_round: int) -> str:
    """Check that the excess over a feasible schedule grows like T, under every convention."""
    kinds = kinds_of(memory, prompt, output)
    arrivals = [per_round] * _ROUNDS[0]
    excess = {}
    for convention, kind in kinds.items():
        dismiss_if(per_round < 1 or kind.steady < 1)
        excess[convention] = excesses(kind, per_round)
        dismiss_if(not grows(excess[convention]))
        problem = stream(memory, prompt, output, convention, arrivals)
        # Steady starts must be feasible.
        steady = as_starts(started(kind, arrivals, most=kind.steady))
        dismiss_if(peak(jobs(problem), steady) > memory)
    shown = "; ".join(
        f"{c}: at most {kind.steady} a round, {', '.join(map(str, excess[c]))}"
        for c, kind in kinds.items()
    )
    return (
        f"M = {memory}, {per_round} requests with s = {prompt}, o = {output} in every round; "
        "steady start, and what AEL of Algorithm 2 exceeds it by at T = "
        f"{', '.join(map(str, _ROUNDS))}: {shown}"
    )


def _streams(context: Context, rates: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    largest, longest, prompts = context.choose((20, 3, (1,)), (24, 4, (1, 2)), (40, 6, (1, 2)))
    for prompt, output, per_round in product(prompts, range(1, longest + 1), rates):
        for memory in range(prompt + output, largest + 1):
            if all(kind.steady for kind in kinds_of(memory, prompt, output).values()):
                yield memory, prompt, output, per_round


STREAM = ("arrivals per round i.i.d. with bounded support", "outputs i.i.d.", "a common prompt s")


@CLAIMS.result(
    "kv.theorem5.3",
    Mutation("one arrival a round, which never overloads", rates=(1,)),
    Mutation("a quarter of the bound in the correction", share=Fraction(1, 4)),
    hypotheses=STREAM,
    defect=Defect.RESULT,
    verify=verify_regret,
)
def _regret_check(
    context: Context, *, rates: Sequence[int] = (1, 4, 6), share: Fraction = Fraction(1)
) -> Outcome:
    """Constant regret.

    Source: KV-cache paper, Theorem 5.3 (section 5.1)
    Statement: The regret of Algorithm 2 is at most a constant independent of T, stable or
        overloaded.
    Formula: E[AEL(I; Algorithm 2) − OPT/n] ≤ C
    Summary: Algorithm 2 starts as many as fit; they end together, and their memory stands idle. A
        fixed number in every round is a distribution with bounded support, and the excess over any
        feasible schedule is a lower bound on the regret. It does not go away as s/M → 0: see the
        rates.
    Reading: latency counted until all have completed; an excess of AEL over a feasible schedule
        that doubles as T doubles refutes any constant. A counterexample is one under every
        convention, A, B and C.
    Correction: The regret is at most linear in T, since Algorithm 2 never idles, and linear it can
        be: with equal requests it sustains as little as just over half the rate of other schedules
        (kv.stability). The later version of the paper no longer claims constant regret.
    """
    problems = (
        random_problem(context.rng, most=8) for _ in range(context.choose(150, 2000, 30_000))
    )

    def at_most_linear(problem: LatencyProblem) -> bool:
        data = jobs(problem)
        latest = max(data.arrival) + sum(data.length)
        return max(algorithm(data)) <= share * latest

    def counted_alike(memory: int, prompt: int, output: int, per_round: int) -> bool:
        arrivals = [per_round] * 3
        return all(
            algorithm(jobs(stream(memory, prompt, output, convention, arrivals)))
            == as_starts(started(kind, arrivals))
            for convention, kind in kinds_of(memory, prompt, output).items()
        )

    cases = list(_streams(context, rates))
    printed = context.refute(
        "the excess over a steady start does not grow like T, under one convention at least",
        f"equal requests, a fixed number in every round, small domain, T = {_ROUNDS}",
        cases,
    )
    corrected = examine(
        "no request starts after max a + Σ d: AEL, and so the regret, is at most linear in T",
        "random instances of up to 8 requests",
        problems,
        at_most_linear,
    )
    counted = examine(
        "counting by age = Algorithm 2",
        "the first 3 rounds of every third stream, conventions A, B, C",
        cases[::3],
        counted_alike,
    )
    thin = EqualRequests.of(600, 1, 2, Convention.HALF_OPEN)
    return Findings(
        printed,
        corrected,
        counted,
        numbers={
            "starts_per_round_at_M_600_s_1_o_2_convention_C": float(saturated_rate(thin)),
            "steady_starts_per_round_there": thin.steady,
        },
    )


# Remark 5.2 and the order of OPT.
@CLAIMS.remark(
    "kv.remark5.2",
    Mutation("a thirtieth of the rounds with arrivals", every=30),
    hypotheses=(*STREAM, "3 to 5 arrivals a round, outputs 1 to 3, M = 6, s = 1: overloaded"),
    kind=Kind.STATISTICAL,
)
def _growth_check(context: Context, *, every: int = 1) -> Outcome:
    """Latency in an overloaded system.

    Source: KV-cache paper, Remark 5.2 and section 5 (overloaded systems)
    Statement: In an overloaded system TEL of Algorithm 2 and OPT scale as O(T²), so AEL and OPT/n
        are O(T).
    Formula: TEL, OPT = O(T²);  AEL, OPT/n = O(T)
    Summary: OPT lies between the two, so AEL of both is linear in T. That constant regret would
        imply equal coefficients is arithmetic; it does not apply, since kv.theorem5.3 fails.
    Reading: as an exact order, Θ(T²) and Θ(T): the remark goes on to compare leading coefficients
        of T, and the upper bound alone holds in a stable system too.
    """
    points: list[tuple[float, float, float]] = []
    for rounds in context.choose((10, 20, 40), (15, 30, 60), (20, 40, 80, 160, 320)):
        for _ in range(context.choose(12, 12, 20)):
            counts = context.rng.integers(3, 6, rounds) * (
                context.rng.integers(every, size=rounds) == 0
            )
            arrivals = as_starts(counts.tolist()) or [0]
            outputs = context.rng.integers(1, 4, len(arrivals)).tolist()
            problem = problem_of(6, [1] * len(arrivals), outputs, arrivals=arrivals)
            mine = total_latency(problem, algorithm(jobs(problem)))
            points.append((log(rounds), log(lower_bound(problem)), log(mine)))
    duration, least, online = zip(*points, strict=True)
    estimates = tuple(
        slope_estimate(
            f"slope of log total latency on log T, {name}",
            duration,
            values,
            "the 95 % interval lies in 1.75 to 2.25 (theory 2; T is small)",
            lambda low, high: low >= 1.75 and high <= 2.25,
        )
        for name, values in (("a lower bound on OPT", least), ("Algorithm 2", online))
    )
    return Findings(estimates=estimates)


@verifier
def verify_stability(memory: int, prompt: int, output: int) -> str:
    """Compare the rates that Algorithm 2 and steady starts sustain, under every convention."""
    kinds = kinds_of(memory, prompt, output)
    dismiss_if(any(saturated_rate(kind) >= kind.steady for kind in kinds.values()))
    shown = "; ".join(
        f"{convention}: starting {kind.steady} a round keeps the memory, Algorithm 2 with a long "
        f"queue starts {saturated_rate(kind)} a round"
        for convention, kind in kinds.items()
    )
    return (
        f"M = {memory}, s = {prompt}, o = {output}; {shown}; arrivals in bursts at a rate between "
        "leave one stable and overload the other"
    )


@CLAIMS.remark(
    "kv.stability",
    Mutation("three quarters in the correction", share=Fraction(3, 4)),
    Mutation("half the rate of a steady start", asked=2),
    hypotheses=STREAM,
    defect=Defect.SENTENCE,
    verify=verify_stability,
)
def _stability_check(
    context: Context, *, share: Fraction = Fraction(1, 2), asked: int = 1
) -> Outcome:
    """Stable where the optimum is stable.

    Source: KV-cache paper, text before Theorem 5.3
    Statement: Algorithm 2 keeps the system stable whenever the hindsight optimum does.
    Formula: λ < μ*  ⇒  the queue of Algorithm 2 stays bounded in the mean
    Summary: Rates are exact: with a long queue the starts depend on the last o rounds only, so the
        run is periodic. A queue with bounded arrivals that drifts up is unstable.
    Reading: the hindsight optimum is stable where some schedule is: starting at most so many a
        round as can go on for ever. Arrivals between the two rates come as nothing or as a burst,
        which finds Algorithm 2 idle at times. A counterexample is one under every convention, A, B
        and C.
    Correction: With equal requests Algorithm 2 sustains more than half of M/area requests a round,
        the most that any schedule can (area: tokens times rounds of a request); the half is nearly
        reached for long outputs.
    """
    largest, longest = context.choose((24, 4), (60, 8), (150, 12))
    cases = [
        (memory, prompt, output)
        for prompt, output in product((1, 2), range(1, longest + 1))
        for memory in range(prompt + output, largest + 1)
    ]
    made = f"equal requests, s = 1, 2, o up to {longest}, M up to {largest}"
    printed = context.refute(
        "Algorithm 2 sustains the rate of a steady start, under one convention at least",
        made,
        cases,
        holds=lambda *case: any(
            saturated_rate(kind) * asked >= kind.steady for kind in kinds_of(*case).values()
        ),
    )

    corrected = examine(
        "it sustains more than half of M/area, which no schedule exceeds",
        f"{made}, conventions A, B, C",
        [kind for case in cases for kind in kinds_of(*case).values()],
        lambda kind: saturated_rate(kind) > share * Fraction(kind.memory, kind.area),
    )
    return printed, corrected
