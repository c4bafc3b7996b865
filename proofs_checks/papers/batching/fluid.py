"""The fluid model of one engine (Proposition 2), and the counts that it scales (C.1, C.3)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from formulations.batching import BatchTime
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.batching.model import (
    Batch,
    Policy,
    Queue,
    State,
    fill,
    orca,
    places,
    random_time,
    sarathi,
    simple_engine,
)
from proofs_checks.search import examine

CLAIMS = Claims()


_ZERO = Fraction(0)


@dataclass(frozen=True)
class Fluid:
    """An engine in the fluid model: ``λ``, ``m_p``, ``m_d`` and ``μ = b/t_b``."""

    rate: Fraction
    prefill: Fraction
    decode: Fraction
    capacity: Fraction

    @property
    def drift(self) -> Fraction:
        """``λ(m_p + m_d) − b/t_b``."""
        return self.rate * (self.prefill + self.decode) - self.capacity


@dataclass(frozen=True)
class Point:
    """A point of a solution: time, requests in each phase, tokens processed."""

    time: Fraction
    in_prefill: Fraction
    in_decode: Fraction
    done: Fraction


def workload(fluid: Fluid, point: Point, *, printed: bool) -> Fraction:
    """Return f: by (C.19), or with the remaining tokens m_p + m_d and m_d as weights."""
    both, p, d = fluid.prefill + fluid.decode, fluid.prefill, fluid.decode
    weights = (p, both) if printed else (both, d)
    return weights[0] * point.in_prefill + weights[1] * point.in_decode


def path(
    fluid: Fluid, start: Point, rng: np.random.Generator, steps: int, *, wasted: bool = False
) -> Iterator[Point]:
    """Yield the breakpoints of a solution that gives random shares of capacity to the phases.

    Parameters
    ----------
    fluid : Fluid
        The engine.
    start : Point
        Initial point.
    rng : numpy.random.Generator
        Draws shares and durations.
    steps : int
        Maximum number of breakpoints; the path ends when both phases are empty.
    wasted : bool
        Whether part of the capacity may be left unused.
    """
    point = start
    yield point
    for _ in range(steps):
        if point.in_prefill == point.in_decode == 0:
            return
        used = fluid.capacity
        if wasted:
            used *= Fraction(int(rng.integers(0, 5)), 4)
        prefill, decode = _shares(fluid, point, used, Fraction(int(rng.integers(0, 9)), 8))
        flows = (fluid.rate - prefill / fluid.prefill, prefill / fluid.prefill)
        slopes = (flows[0], flows[1] - decode / fluid.decode)
        ends = [
            -level / slope
            for level, slope in zip((point.in_prefill, point.in_decode), slopes, strict=True)
            if slope < 0
        ]
        lasts = min([*ends, Fraction(int(rng.integers(1, 9)), 2)])
        point = Point(
            point.time + lasts,
            point.in_prefill + slopes[0] * lasts,
            point.in_decode + slopes[1] * lasts,
            point.done + (prefill + decode) * lasts,
        )
        yield point


def _shares(
    fluid: Fluid, point: Point, used: Fraction, share: Fraction
) -> tuple[Fraction, Fraction]:
    """Return tokens per slot of both phases: an empty phase gets at most its inflow."""
    prefill = used * share
    if point.in_prefill == 0:
        prefill = min(prefill, fluid.rate * fluid.prefill)
    decode = used - prefill
    if point.in_decode == 0 and decode * fluid.prefill > prefill * fluid.decode:
        # Completed prompts are decoded at once, so the capacity is split in proportion to tokens.
        prefill = used * fluid.prefill / (fluid.prefill + fluid.decode)
        decode = used - prefill
    return prefill, decode


def random_fluid(rng: np.random.Generator, load: Fraction) -> Fluid:
    """Return a random engine with this load."""
    prefill, decode, capacity = (Fraction(int(x)) for x in rng.integers(1, 30, size=3))
    return Fluid(load * capacity / (prefill + decode), prefill, decode, capacity)


def random_start(rng: np.random.Generator) -> Point:
    """Return a random initial point with requests in one or both phases."""
    levels = [Fraction(int(x), 4) for x in rng.integers(0, 9, size=2)]
    return Point(_ZERO, levels[0], levels[1] if any(levels) else Fraction(1), _ZERO)


def _paths(
    context: Context, loads: tuple[int, int], of: int, steps: int, *, wasted: bool
) -> Iterator[tuple[Fluid, list[Point]]]:
    """Yield engines and solutions; the load is between ``loads``, in parts of 1/``of``."""
    rng = context.rng
    for _ in range(context.choose(40, 500, 10_000)):
        fluid = random_fluid(rng, Fraction(int(rng.integers(loads[0], loads[1] + 1)), of))
        yield fluid, list(path(fluid, random_start(rng), rng, steps, wasted=wasted))


# The fluid model of one engine: Proposition 2.


@CLAIMS.result(
    "batching.proposition2a",
    Mutation("capacity left unused, against (C.17)", wasted=True),
    Mutation("a load of up to 1.2", load=120),
    kind=Kind.IDENTITY,
)
def _proposition2a_check(context: Context, *, wasted: bool = False, load: int = 99) -> Outcome:
    """The fluid model is stable below capacity.

    Source: throughput paper, Proposition 2 (a) (appendix C.2)
    Statement: Under any work-conserving (K_p, K_d)-FCFS algorithm the fluid model is stable under
        (C.1): f(t) = 0 for t ≥ f(0)/δ.
    Formula: λ(m_p + m_d) < b/t_b  ⇒  f(t) = max(0, f(0) − δt)
    Assumes: (C.10) to (C.14), (C.17); f = (m_p+m_d)Z_p + m_d Z_d (batching.c19)
    Summary: However the capacity is split between the phases, f falls along one line, and both
        phases are empty where it meets 0.
    """

    def empties(fluid: Fluid, points: list[Point]) -> bool:
        begin = workload(fluid, points[0], printed=False)
        on_line = all(
            workload(fluid, x, printed=False) == begin + fluid.drift * x.time for x in points
        )
        last = points[-1]
        is_empty = last.in_prefill == last.in_decode == 0
        # A truncated path is still on the line; a complete one ends at time f(0)/δ.
        return on_line and fluid.drift < 0 and (not is_empty or last.time == begin / -fluid.drift)

    return examine(
        "f falls at the rate δ, to 0 at f(0)/δ",
        "random work-conserving fluid solutions with loads below 1, in fractions",
        _paths(context, (min(load, 50), load), 100, 150, wasted=wasted),
        empties,
    )


@verifier
def verify_2b(rate: int, prefill: int, decode: int, capacity: int) -> str:
    """Confirm an overloaded engine whose fluid equations have a solution without accumulation.

    ``F_p = F_d = λt`` and ``Z = W = 0`` satisfy (C.10), (C.11), (C.13) and (C.14). They also
    satisfy (C.12), which bounds each phase separately, if ``λ m_p`` and ``λ m_d`` are at most
    ``b/t_b``. Rate and lengths are in tenths.
    """
    come, p, d = (Fraction(tenths, 10) for tenths in (rate, prefill, decode))
    dismiss_if(min(rate, capacity) <= 0 or min(p, d) < 1 or come * (p + d) <= capacity)
    dismiss_if(max(come * p, come * d) > capacity)
    return (
        f"λ = {come}, (m_p, m_d) = ({p}, {d}), b/t_b = {capacity}: B_p' = {come * p} and "
        f"B_d' = {come * d} are each at most b/t_b, and Z stays 0"
    )


@CLAIMS.result(
    "batching.proposition2b",
    Mutation("the correction with twice the capacity", summed=False),
    Mutation("a phase alone that exceeds the capacity", short=True),
    defect=Defect.FORMULA,
    verify=verify_2b,
)
def _proposition2b_check(context: Context, *, summed: bool = True, short: bool = False) -> Outcome:
    """The fluid model is weakly unstable above capacity.

    Source: throughput paper, Proposition 2 (b) and Definition 4 (appendix C.2)
    Statement: If λ(m_p + m_d) > b/t_b, then under any scheduling algorithm every fluid model
        solution from 0, that is of (C.10) to (C.14), has Z_p(a) + Z_d(a) ≠ 0 for some a > 0.
    Formula: (C.18)  ⇒  Z_p(a) + Z_d(a) ≠ 0
    Assumes: a solution satisfies (C.10) to (C.14)
    Summary: (C.8) and (C.12) bound each phase by b/t_b, not their sum, though a batch holds b
        tokens of both. Where λ m_p and λ m_d are at most b/t_b, the equations let Z stay 0.
    Correction: With B_p(t) + B_d(t) − B_p(s) − B_d(s) ≤ (t − s)b/t_b in (C.12), which the proof
        uses: f(t) ≥ t(λ(m_p+m_d) − b/t_b).
    """
    rng = context.rng

    def cases() -> Iterator[tuple[int, int, int, int]]:
        for _ in range(context.choose(200, 2000, 40_000)):
            p, d = (int(x) for x in rng.integers(10, 60, size=2))
            capacity = int(rng.integers(1, 12))
            # For the mutation: a capacity below the need of each phase.
            rate = int(rng.integers(1, 40)) + (1000 if short else 0)
            yield rate, p, d, capacity

    def overloaded(rate: int, p: int, d: int, capacity: int) -> bool:
        return rate * (p + d) > 100 * capacity

    printed = context.refute(
        "Z(a) != 0 for every solution of (C.10) to (C.14) from 0",
        "overloaded engines; the solution that serves all at once",
        cases(),
        applies=overloaded,
    )

    def grows(rate: int, prefill: int, decode: int, capacity: int) -> bool:
        come, p, d = (Fraction(tenths, 10) for tenths in (rate, prefill, decode))
        fluid = Fluid(come, p, d, Fraction(capacity * (1 if summed else 2)))
        start = Point(Fraction(0), Fraction(1, 100), Fraction(0), Fraction(0))
        begin = workload(fluid, start, printed=False)
        slack = come * (p + d) - capacity
        return all(
            workload(fluid, x, printed=False) - begin >= slack * x.time
            for x in path(fluid, start, rng, 12, wasted=True)
        )

    corrected = examine(
        "f(t) >= f(0) + t(λ(m_p+m_d) − b/t_b) where B_p' + B_d' <= b/t_b",
        "overloaded engines, random solutions in fractions",
        cases(),
        grows,
        overloaded,
    )
    return printed, corrected


# The total workload of the fluid model: (C.19), and section 4.2 with two types.


@verifier
def verify_c19(rate: int, prefill: int, decode: int, decoded: int) -> str:
    """Confirm that the slope of (C.19) differs from arrivals minus tokens, at constant flows.

    The flows are ``B_p' = m_p λ`` (arrivals are processed at once) and ``B_d'`` as given.
    """
    p, d = prefill, decode
    dismiss_if(min(rate, p, d) < 1 or not 0 <= decoded <= rate * d)
    # Z_p' = λ − B_p'/m_p = 0 and Z_d' = λ − B_d'/m_d.
    slope = (p + d) * (rate - Fraction(decoded, d))
    stated = rate * (p + d) - (rate * p + decoded)
    dismiss_if(slope == stated)
    return (
        f"λ = {rate}, (m_p, m_d) = ({p}, {d}), B_p' = {rate * p}, B_d' = {decoded}: "
        f"f' = {slope}, not {stated}"
    )


@CLAIMS.step(
    "batching.c19",
    Mutation("the correction with the printed weights", printed_again=True),
    Mutation("flows with Z_d' = 0 only", least=1),
    defect=Defect.FORMULA,
    verify=verify_c19,
)
def _weights_check(context: Context, *, printed_again: bool = False, least: int = 0) -> Outcome:
    """The total workload.

    Source: throughput paper, (C.19) and the display after it (appendix C.2)
    Statement: f(t) = m_p Z_p(t) + (m_p + m_d) Z_d(t) is the total workload, and equals f(0) +
        λ(m_p + m_d)t − (B_p(t) + B_d(t)).
    Formula: m_p Z_p + (m_p+m_d) Z_d = f(0) + λ(m_p+m_d)t − (B_p + B_d)
    Assumes: (C.10) to (C.14)
    Summary: The weights are exchanged: a request in prefill has both its prompt and its decode
        tokens to come, one in decode only these.
    Correction: f = (m_p + m_d) Z_p + m_d Z_d. The proof of Proposition 2 then goes through.
    """
    rng = context.rng
    flows = []
    for _ in range(context.choose(60, 600, 20_000)):
        rate, p, d = (int(x) for x in rng.integers(1, 9, size=3))
        decoded = rate * d if least else int(rng.integers(0, rate * d + 1))
        flows.append((rate, p, d, decoded))
    printed = context.refute("f' = λ(m_p+m_d) − (B_p' + B_d')", "constant flows", flows)

    def kept(fluid: Fluid, points: list[Point]) -> bool:
        begin = workload(fluid, points[0], printed=printed_again)
        arriving = fluid.rate * (fluid.prefill + fluid.decode)
        return all(
            workload(fluid, x, printed=printed_again) == begin + arriving * x.time - x.done
            for x in points
        )

    corrected = examine(
        "f = (m_p+m_d)Z_p + m_d Z_d is f(0) + λ(m_p+m_d)t − (B_p+B_d)",
        "random fluid solutions in fractions, every corner",
        _paths(context, (1, 14), 10, 12, wasted=True),
        kept,
    )
    return printed, corrected


#: λ, m_p, m_d, B_p', B_d' of a type.
_Row = Sequence[int]


def printed_slope(rows: Sequence[_Row]) -> Fraction:
    """Return ``f'`` of section 4.2 as printed, with ``Z_p' = λ − B_p'/m_p`` and so on."""
    return _slope(rows, lambda p, d: (p, p + d))


def _slope(rows: Sequence[_Row], weights: Callable[[int, int], tuple[int, int]]) -> Fraction:
    total = Fraction(0)
    for rate, p, d, begun, decoded in rows:
        first, second = weights(p, d)
        into_decode = Fraction(begun, p)
        total += first * (rate - into_decode) + second * (into_decode - Fraction(decoded, d))
    return total


def _room(rows: Sequence[_Row], capacity: int) -> int:
    """Return ``δ = b/t_b − Σ_j λ^j(m_p^j + m_d^j)``."""
    return capacity - sum(rate * (p + d) for rate, p, d, *_ in rows)


@verifier
def verify_two_types(types: list[list[int]]) -> str:
    """Confirm that the workload of section 4.2 grows although the load is below 1 (two types).

    All of the capacity is used. Both types have requests in both phases, so for some time any
    split of the capacity is feasible.
    """
    dismiss_if(
        len(types) != 2 or any(len(row) != 5 or min(row[:3]) < 1 or min(row) < 0 for row in types)
    )
    capacity = sum(begun + decoded for *_, begun, decoded in types)
    room = _room(types, capacity)
    dismiss_if(room <= 0 or printed_slope(types) == -room)
    return (
        f"(λ, m_p, m_d, B_p', B_d') = {types}, b/t_b = {capacity}: f' = {printed_slope(types)}, "
        f"not −δ = {-room}"
    )


@CLAIMS.step(
    "batching.section4.2",
    Mutation("the correction with the printed weights", swapped=True),
    Mutation("flows with m_p Z_d' = m_d Z_p' only", balanced=True),
    Mutation("a token of the capacity unused", unused=1),
    defect=Defect.FORMULA,
    verify=verify_two_types,
)
def _two_types_check(
    context: Context, *, swapped: bool = False, balanced: bool = False, unused: int = 0
) -> Outcome:
    """The total workload of two types.

    Source: throughput paper, section 4.2, the Lyapunov function of two types
    Statement: f(t) = Σ_j (m_p^j Z_p^j + (m_p^j + m_d^j) Z_d^j) is the total workload; under (4.2)
        it falls at the rate δ = b/t_b − Σ_j λ^j(m_p^j + m_d^j) while it is positive.
    Formula: f' = −δ while f > 0
    Assumes: (4.2); Σ_j (B_p^j' + B_d^j') = b/t_b; f > 0
    Summary: The weights are exchanged as in (C.19). With the printed ones f may even grow: a
        request that enters decode gains weight.
    Correction: f = Σ_j ((m_p^j + m_d^j) Z_p^j + m_d^j Z_d^j), for any number of types; the
        condition (4.2), printed with t_p for t_b, stands.
    """
    rng = context.rng

    def row() -> list[int]:
        rate, p, d, more = (int(x) for x in rng.integers(1, 9, size=4))
        if balanced:
            # m_p·Z_d' = m_d·Z_p' = −m_p·m_d·more: the printed weights give all splits one slope.
            return [rate, p, d, p * (rate + p * more), d * (rate + (p + d) * more)]
        return [rate, p, d, *(int(x) for x in rng.integers(0, 2 * rate * (p + d), size=2))]

    number = context.choose(60, 600, 20_000)
    cases = [[row(), row()] for _ in range(number)]
    others = [[row() for _ in range(int(rng.integers(1, 6)))] for _ in range(number)]

    def room(rows: Sequence[_Row]) -> int:
        return _room(rows, sum(sum(flows[3:]) for flows in rows) + unused)

    def below(rows: Sequence[_Row]) -> bool:
        return room(rows) > 0

    def right(rows: Sequence[_Row]) -> bool:
        slope = _slope(rows, lambda p, d: (p, p + d) if swapped else (p + d, d))
        return slope == -room(rows)

    made = "constant flows that use all of b/t_b, loads below 1, requests in both phases"
    printed = context.refute("f' = −δ", made, cases, applies=below)
    corrected = examine(
        "the same with weights m_p + m_d and m_d", f"{made}, 1 to 5 types", others, right, below
    )
    growing = sum(below(rows) and printed_slope(rows) > 0 for rows in cases)
    return Findings(printed, corrected, numbers={"flows for which the printed f grows": growing})


def completed(time: BatchTime, loads: Sequence[int]) -> list[int]:
    """Return ``B(n)``, n = 0, 1, ...: tokens of the batches completed by the end of slot n."""
    done = [0]
    for load in loads:
        done += [done[-1]] * (time.slots(load) - 1) + [done[-1] + load]
    return done


def _worst_window(time: BatchTime, budget: int, loads: Sequence[int]) -> tuple[int, int] | None:
    """Return the first ``n1 < n2``, in blocks of t_b, that violate (C.8), or None."""
    done = completed(time, loads)
    blocks = done[:: time.slots(budget)]
    for i, before in enumerate(blocks):
        for j in range(i + 1, len(blocks)):
            if blocks[j] - before > (j - i) * budget:
                return i, j
    return None


@verifier
def verify_c8(time: list[int], budget: int, loads: list[int]) -> str | None:
    """Confirm a sequence of batches that violates (C.8), although full batches are fastest."""
    c, a, b0 = time
    dismiss_if(min(c, budget) < 1 or min(a, b0) < 0 or any(not 0 <= x <= budget for x in loads))
    took = BatchTime(Fraction(c), Fraction(a), b0)
    window = _worst_window(took, budget, loads)
    if window is None or not took.rate_check(budget).holds:
        return None
    done = completed(took, loads)[:: took.slots(budget)]
    first, last = window
    return (
        f"b = {budget}, t_b = {took.slots(budget)}, batches of {loads}: "
        f"{done[last] - done[first]} tokens are done between n1 = {first} and n2 = {last}, not "
        f"{(last - first) * budget}"
    )


def _numbers(time: BatchTime, budget: int, loads: list[int]) -> Data:
    numbers = [int(time.overhead), int(time.per_token), time.free_tokens]
    return {"time": numbers, "budget": budget, "loads": loads}


@CLAIMS.formula(
    "batching.c8",
    Mutation("full batches only, which begin at multiples of t_b", full=True),
    Mutation("the correction without b more", slack=False),
    defect=Defect.FORMULA,
    verify=verify_c8,
)
def _c8_check(context: Context, *, slack: bool = True, full: bool = False) -> Outcome:
    """Tokens completed in a time.

    Source: throughput paper, (C.8) (appendix C.1)
    Statement: Between n1·t_b and n2·t_b at most (n2 − n1)b tokens are completed.
    Formula: B_f(n2 t_b) − B_f(n1 t_b) ≤ (n2 − n1) b
    Assumes: b'/t_b' ≤ b/t_b for all b' ≤ b
    Summary: Batches need not begin at multiples of t_b: one that began before is completed within,
        and tokens count when their batch is done. Of either phase alone it fails alike, as a batch
        may be of one phase.
    Correction: With b more: B(n') − B(n) ≤ (n' − n)b/t_b + b between any two slots, which is
        enough for the fluid limit.
    """
    rng = context.rng

    def cases() -> Iterator[tuple[BatchTime, int, list[int]]]:
        for _ in range(context.choose(150, 2000, 40_000)):
            time, b = random_time(rng), int(rng.integers(1, 8))
            yield time, b, rng.integers(b if full else 0, b + 1, int(rng.integers(1, 9))).tolist()

    def applies(time: BatchTime, b: int, _: list[int]) -> bool:
        return time.rate_check(b).holds

    def bounded(time: BatchTime, b: int, loads: list[int]) -> bool:
        done, t_b = completed(time, loads), time.slots(b)
        pairs = ((i, j) for i in range(len(done)) for j in range(i + 1, len(done)))
        return all(t_b * (done[j] - done[i] - b * slack) <= (j - i) * b for i, j in pairs)

    made = "random batch times with full batches fastest, random sequences of batches"
    printed = context.refute("(C.8)", made, cases(), _numbers, applies=applies)
    corrected = examine(
        "(C.8) with b more, between any two slots", made, cases(), bounded, applies
    )
    return printed, corrected


def limited_run(
    sizes: Sequence[Sequence[int]], budget: int, k_p: int, k_d: int, starve: int
) -> Iterator[tuple[int, int]]:
    """Run requests that all arrive at 0 under a (K_p, K_d)-FCFS policy, one slot per batch.

    Decode tokens of the oldest K_d requests in decode come first. Then come the oldest K_p
    prompts: in order of arrival, or those with the fewest tokens left first if ``starve``. Yields
    the decode tokens and the requests completed after each batch, ``(B_d(n), F_d(n))``.
    """
    state = State(0, tuple((p, d) for p, d in sizes))
    engine, tokens = simple_engine(budget, state.queue[0]), 0
    yield 0, 0
    for _ in range(499):
        if not (queue := state.queue):
            return
        prompts = places(queue, decoding=False)[:k_p]
        if starve:
            prompts.sort(key=lambda i: queue[i][0])
        order = places(queue, decoding=True)[:k_d] + prompts
        batch = fill(queue, engine.budget, order)
        state, tokens = engine.step(state, batch), tokens + sum(y for _, y in batch)
        yield tokens, len(sizes) - len(state.queue)


def _breaks_c9(
    own: int, sizes: Sequence[Sequence[int]], *limits: int
) -> tuple[int, int, int, int, int] | None:
    """Return the first violation of ``V(F − own + 1) − (own − 1)·max <= B <= V(F + own)``.

    It is n, F_d, B_d and both bounds. The limits are the other arguments of `limited_run`.
    """
    decode = [d for _, d in sizes]
    for n, (tokens, requests) in enumerate(limited_run(sizes, *limits)):
        low = sum(decode[: max(0, requests - own + 1)]) - (own - 1) * max(decode)
        high = sum(decode[: requests + own])
        if not low <= tokens <= high:
            return n, requests, tokens, low, high
    return None


@verifier
def verify_c9(sizes: list[list[int]], budget: int, k_p: int, k_d: int, starve: int) -> str | None:
    """Confirm a (K_p, K_d)-FCFS run that violates the key relationship (C.9) in decode."""
    dismiss_if(min(budget, k_p, k_d) < 1 or not sizes or min(map(min, sizes)) < 1)
    broken = _breaks_c9(k_d, sizes, budget, k_p, k_d, starve)
    if broken is None:
        return None
    n, requests, tokens, low, high = broken
    return (
        f"K_p = {k_p}, K_d = {k_d}, b = {budget}, (v_p, v_d) = {sizes}, fewest prompt tokens "
        f"first: at n = {n}, F_d = {requests} and B_d = {tokens} is not within "
        f"{low}..{high}"
    )


@CLAIMS.formula(
    "batching.c9",
    Mutation("K_p = 1, where prompts are done in order", one_prompt=True),
    Mutation("the correction without K_p", with_prompts=False),
    defect=Defect.FORMULA,
    verify=verify_c9,
)
def _c9_check(context: Context, *, one_prompt: bool = False, with_prompts: bool = True) -> Outcome:
    """The key relationship of (K_p, K_d)-FCFS.

    Source: throughput paper, (C.9) (appendix C.1)
    Statement: V_f(F_f − K_f + 1) − (K_f − 1) max v_f ≤ B_f ≤ V_f(F_f + K_f) for both phases, with
        V_f the tokens of the requests that arrived first.
    Formula: V_d(F_d − K_d + 1) − (K_d − 1) max v_d ≤ B_d ≤ V_d(F_d + K_d)
    Assumes: a (K_p, K_d)-FCFS algorithm; requests are indexed by arrival
    Summary: With K_p ≥ 2 a prompt may be overtaken by all later ones, so that the requests that
        decode first are not those that arrived first; the relation in decode knows K_d only.
    Correction: In decode with K_p + K_d − 1 in place of K_d: of the requests up to the last one
        that decoded, at most K_p − 1 are still in prefill and K_d − 1 still in decode.
    """
    rng = context.rng

    def cases() -> Iterator[tuple[list[list[int]], int, int, int, int]]:
        for _ in range(context.choose(200, 3000, 60_000)):
            sizes = [
                [int(rng.integers(1, 12)), int(rng.integers(1, 12))]
                for _ in range(int(rng.integers(1, 7)))
            ]
            budget, k_p = int(rng.integers(1, 6)), 1 if one_prompt else int(rng.integers(1, 4))
            yield sizes, budget, k_p, int(rng.integers(1, 4)), int(rng.integers(0, 2))

    def holds(sizes: list[list[int]], budget: int, k_p: int, k_d: int, starve: int) -> bool:
        own = k_d + (k_p - 1 if with_prompts else 0)
        return _breaks_c9(own, sizes, budget, k_p, k_d, starve) is None

    made = "random requests, budgets, K_p and K_d; prompts in order or fewest tokens first"
    printed = context.refute("(C.9) for decode", made, cases())
    corrected = examine("(C.9) with K_p + K_d − 1 for K_d in decode", made, cases(), holds)
    return printed, corrected


@verifier
def verify_lemma2(left: int, mean_decode: int) -> str:
    """Confirm initial states for which W_d and m_d Z_d, scaled, stay apart at time 0.

    State k has one request, with k·left tokens to decode: |x| = k·left, scaled ``W_d(0) = 1`` and
    ``m_d Z_d(0) = m_d/(k·left)``.
    """
    dismiss_if(min(left, mean_decode) < 1)
    gaps = [1 - Fraction(mean_decode, k * left) for k in (1000, 10_000)]
    dismiss_if(min(gaps) <= Fraction(1, 2))
    return (
        f"states with a single request of {left}k decode tokens, m_d = {mean_decode}: the scaled "
        f"W_d(0) is 1 and m_d Z_d(0) is {1 - gaps[-1]} for k = 10,000, so that (C.29) fails at "
        "t = 0"
    )


def most_left_first(queue: Queue, budget: int) -> Batch:
    """Return a batch of a non-FCFS policy: prompts, then decode tokens, most left first."""
    order = sorted(range(len(queue)), key=lambda i: (queue[i][0] == 0, -queue[i][1]))
    return fill(queue, budget, order)


def _fresh_gap(size: tuple[int, int], number: int, budget: int, policy: Policy) -> Fraction:
    """Return ``max_n |W_d(n) − v_d Z_d(n)| / |x|`` of a run from ``number`` equal new requests."""
    engine = simple_engine(budget, size)
    state, worst = State(0, (size,) * number), 0
    while state.queue:
        in_decode = [d for p, d in state.queue if p == 0]
        worst = max(worst, abs(sum(in_decode) - size[1] * len(in_decode)))
        state = engine.step(state, policy(state.queue, budget))
    return Fraction(worst, number * sum(size))


@CLAIMS.result(
    "batching.lemma2",
    Mutation("a mean above all tokens of the states", fresh=False),
    Mutation(
        "decode tokens of whoever has most left first, not FCFS",
        policies=(sarathi, most_left_first),
    ),
    defect=Defect.HYPOTHESIS,
    verify=verify_lemma2,
)
def _lemma2_check(
    context: Context, *, policies: tuple[Policy, ...] = (sarathi, orca), fresh: bool = True
) -> Outcome:
    """Workload and counts in the limit.

    Source: throughput paper, Lemma 2 and (C.29) (appendix C.3)
    Statement: Along any sequence of initial states with (C.23) and (C.24) the scaled processes
        converge, with W_f(t) = m_f Z_f(t) in the limit.
    Formula: lim W_f^{x_k} = m_f lim Z_f^{x_k}
    Assumes: a (K_p, K_d)-FCFS algorithm; |x_k| → ∞, the number of tokens
    Summary: A state may hold one request with ever more tokens left: its workload is all of |x|,
        its count nothing. Such a request needs as many batches as it has tokens, at whatever b;
        appendix B has a quadratic term for it.
    Correction: For states of fresh requests, whose tokens left have the means of new ones but for
        finitely many: of one size, the gap is at most b v_d in any slot.
    """
    rng, numbers = context.rng, context.choose((8, 32), (16, 64), (32, 256))
    states = rng.integers(1, 40, size=(context.choose(20, 100, 1000), 2)).tolist()
    if not fresh:
        states = [(1, 10**6)]
    printed = context.refute(
        "(C.29) at t = 0", "states with one request of k, 2k, ... tokens", states
    )
    cases = [
        ((int(p), int(d)), int(b), policy)
        for p, d, b in rng.integers(1, 5, size=(context.choose(5, 20, 100), 3))
        for policy in policies
    ]

    def shrinks(size: tuple[int, int], budget: int, policy: Policy) -> bool:
        most = Fraction(budget * size[1], sum(size))
        return all(_fresh_gap(size, n, budget, policy) <= most / n for n in numbers)

    corrected = examine(
        "from fresh requests of one size the gap is at most b v_d / |x|",
        f"Sarathi-Serve and Orca, t = 1, {numbers[0]} and {numbers[-1]} requests, whole runs",
        cases,
        shrinks,
    )
    return printed, corrected
