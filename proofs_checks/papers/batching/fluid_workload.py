"""The total workload of the fluid model: (C.19), and section 4.2 with two types."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
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


def verify_c19(data: Data) -> str | None:
    """Confirm that (C.19) changes by other than arrivals less tokens, at constant flows.

    The flows are ``B_p' = m_p λ`` (what arrives is processed at once) and ``B_d'`` as given.
    """
    rate, p, d, served = data["rate"], data["prefill"], data["decode"], data["decoded"]
    if min(rate, p, d) < 1 or not 0 <= served <= rate * d:
        return None
    # Z_p' = λ − B_p'/m_p = 0 and Z_d' = λ − B_d'/m_d.
    slope = (p + d) * (rate - Fraction(served, d))
    stated = rate * (p + d) - (rate * p + served)
    if slope == stated:
        return None
    return (
        f"λ = {rate}, (m_p, m_d) = ({p}, {d}), B_p' = {rate * p}, B_d' = {served}: "
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
        flows.append({"rate": rate, "prefill": p, "decode": d, "decoded": decoded})
    printed = refute("f' = λ(m_p+m_d) − (B_p' + B_d')", "constant flows", flows, verify_c19)

    def paths() -> Iterator[tuple[Fluid, list[Point]]]:
        for _ in range(context.choose(40, 500, 10_000)):
            fluid = random_fluid(rng, Fraction(int(rng.integers(1, 15)), 10))
            yield fluid, list(path(fluid, random_start(rng), rng, 12, wasted=True))

    def kept(pair: tuple[Fluid, list[Point]]) -> bool:
        fluid, points = pair
        begin = workload(fluid, points[0], printed=printed_again)
        arriving = fluid.rate * (fluid.prefill + fluid.decode)
        return all(
            workload(fluid, x, printed=printed_again) == begin + arriving * x.time - x.done
            for x in points
        )

    corrected = examine(
        "f = (m_p+m_d)Z_p + m_d Z_d is f(0) + λ(m_p+m_d)t − (B_p+B_d)",
        "random fluid solutions in fractions, every corner",
        paths(),
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


def verify_two_types(data: Data) -> str | None:
    """Confirm the same of the function of section 4.2, with two types and a load below 1.

    All of the capacity is used. Both types have requests in both phases, so that for a while it
    may be split between them in any way.
    """
    rows = data["types"]
    if len(rows) != 2 or any(len(row) != 5 or min(row[:3]) < 1 or min(row) < 0 for row in rows):
        return None
    capacity = sum(begun + decoded for *_, begun, decoded in rows)
    room = _room(rows, capacity)
    if room <= 0 or printed_slope(rows) == -room:
        return None
    return (
        f"(λ, m_p, m_d, B_p', B_d') = {rows}, b/t_b = {capacity}: f' = {printed_slope(rows)}, not "
        f"−δ = {-room}"
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
            # m_p·Z_d' = m_d·Z_p' = −m_p·m_d·more: to the printed weights all is one.
            return [rate, p, d, p * (rate + p * more), d * (rate + (p + d) * more)]
        return [rate, p, d, *(int(x) for x in rng.integers(0, 2 * rate * (p + d), size=2))]

    number = context.choose(60, 600, 20_000)
    cases = [{"types": [row(), row()]} for _ in range(number)]
    others = [{"types": [row() for _ in range(int(rng.integers(1, 6)))]} for _ in range(number)]

    def capacity(data: Data) -> int:
        return sum(sum(flows[3:]) for flows in data["types"]) + unused

    def below(data: Data) -> bool:
        return _room(data["types"], capacity(data)) > 0

    def right(data: Data) -> bool:
        rows = data["types"]
        slope = _slope(rows, lambda p, d: (p, p + d) if swapped else (p + d, d))
        return slope == -_room(rows, capacity(data))

    made = "constant flows that use all of b/t_b, loads below 1, requests in both phases"
    printed = refute("f' = −δ", made, cases, verify_two_types, applies=below)
    corrected = examine(
        "the same with weights m_p + m_d and m_d", f"{made}, 1 to 5 types", others, right, below
    )
    growing = sum(below(data) and printed_slope(data["types"]) > 0 for data in cases)
    return Findings(printed, corrected, numbers={"flows for which the printed f grows": growing})
