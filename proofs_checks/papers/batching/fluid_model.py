"""The fluid model of one engine: Proposition 2."""

from collections.abc import Iterator
from fractions import Fraction

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.batching.fluid_paths import (
    Fluid,
    Point,
    path,
    random_fluid,
    random_start,
    workload,
)
from proofs_checks.search import examine, refute

CLAIMS = Claims()


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
    rng = context.rng

    def paths() -> Iterator[tuple[Fluid, list[Point]]]:
        for _ in range(context.choose(40, 500, 10_000)):
            fluid = random_fluid(rng, Fraction(int(rng.integers(min(load, 50), load + 1)), 100))
            yield fluid, list(path(fluid, random_start(rng), rng, 150, wasted=wasted))

    def empties(pair: tuple[Fluid, list[Point]]) -> bool:
        fluid, points = pair
        begin = workload(fluid, points[0], printed=False)
        on_line = all(
            workload(fluid, x, printed=False) == begin + fluid.drift * x.time for x in points
        )
        last = points[-1]
        is_empty = last.in_prefill == last.in_decode == 0
        # A path cut off on its way is on its line; one that ends does so at f(0)/δ.
        return on_line and fluid.drift < 0 and (not is_empty or last.time == begin / -fluid.drift)

    return examine(
        "f falls at the rate δ, to 0 at f(0)/δ",
        "random work-conserving fluid solutions with loads below 1, in fractions",
        paths(),
        empties,
    )


def verify_2b(data: Data) -> str | None:
    """Confirm an overloaded engine whose fluid equations let nothing accumulate.

    ``F_p = F_d = λt`` and ``Z = W = 0`` satisfy (C.10), (C.11), (C.13) and (C.14). So they do
    (C.12), which bounds each phase by itself, if ``λ m_p`` and ``λ m_d`` are at most ``b/t_b``.
    """
    rate, p, d = (Fraction(data[name], 10) for name in ("rate", "prefill", "decode"))
    capacity = data["capacity"]
    if min(rate, p, d, capacity) <= 0 or min(p, d) < 1 or rate * (p + d) <= capacity:
        return None
    if max(rate * p, rate * d) > capacity:
        return None
    return (
        f"λ = {rate}, (m_p, m_d) = ({p}, {d}), b/t_b = {capacity}: B_p' = {rate * p} and "
        f"B_d' = {rate * d} are each at most b/t_b, and Z stays 0"
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

    def cases() -> Iterator[Data]:
        for _ in range(context.choose(200, 2000, 40_000)):
            p, d = (int(x) for x in rng.integers(10, 60, size=2))
            capacity = int(rng.integers(1, 12))
            # A capacity less than what either phase needs, for the mutation.
            rate = int(rng.integers(1, 40)) + (1000 if short else 0)
            yield {"rate": rate, "prefill": p, "decode": d, "capacity": capacity}

    def overloaded(data: Data) -> bool:
        return bool(data["rate"] * (data["prefill"] + data["decode"]) > 100 * data["capacity"])

    printed = refute(
        "Z(a) != 0 for every solution of (C.10) to (C.14) from 0",
        "overloaded engines; the solution that serves all at once",
        cases(),
        verify_2b,
        applies=overloaded,
    )

    def grows(data: Data) -> bool:
        rate, p, d = (Fraction(data[name], 10) for name in ("rate", "prefill", "decode"))
        capacity = Fraction(data["capacity"]) * (1 if summed else 2)
        fluid = Fluid(rate, p, d, capacity)
        start = Point(Fraction(0), Fraction(1, 100), Fraction(0), Fraction(0))
        begin = workload(fluid, start, printed=False)
        slack = rate * (p + d) - data["capacity"]
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
