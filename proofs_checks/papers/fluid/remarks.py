"""Remarks (i) and (ii): how the memory depends on the number of types, and its first term."""

from fractions import Fraction

from formulations.fluid import FluidWorker
from formulations.thresholds import LogArgument, NestedProblem, equal_boundaries, plan
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.search import Domain
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


def even_problem(longest: int, types: int, segments: int | None = None) -> NestedProblem:
    """One request per second, lengths spread evenly over 1..longest, d0 = 50 s, d1 = 1 µs.

    By a change of time: 1000 requests per second, d0 = 50 ms, d1 = 1 ns.
    """
    outputs = tuple(longest * j // types for j in range(1, types + 1))
    problem = NestedProblem.single(
        1, outputs, (Fraction(1, types),) * types, FluidWorker(Fraction(50), Fraction(1, 10**6), 1)
    )
    return (
        problem
        if segments is None
        else problem.with_boundaries(equal_boundaries(outputs, segments))
    )


def required(longest: int, types: int, segments: int | None = None) -> int | None:
    """Memory of (12), or (15), with the least thresholds, T = 10⁵ s and δ = 1/10."""
    least = plan(
        even_problem(longest, types, segments),
        duration=10**5,
        probability=Fraction(1, 10),
        argument=LogArgument.THEOREM,
    )
    return None if least is None else least.memory


def verify_remark1(data: Data) -> str | None:
    """Confirm that squaring the number of types more than doubles the memory of (12)."""
    longest, types = data["longest"], data["types"]
    if types < 2 or longest < types**2 or longest > 300:
        return None
    few, many = required(longest, types), required(longest, types**2)
    if few is None or many is None or many <= 2 * few:
        return None
    return (
        f"1000 requests a second, d0 = 50 ms, d1 = 1 ns, lengths spread over 1..{longest}: {few} "
        f"tokens with {types} types, {many} with {types**2}; a + b·ln m would at most double"
    )


@CLAIMS.remark(
    "fluid.remark1",
    Mutation("a segment per type in the correction", segments=None),
    Mutation("two segments as printed", printed=2),
    defect=Defect.HYPOTHESIS,
    verify=verify_remark1,
)
def _remark1_check(
    context: Context, *, segments: int | None = 2, printed: int | None = None
) -> Outcome:
    """Dependence of the guarantee on the number of types.

    Source: fluid paper, section 2.1, text on the number of types
    Statement: The theoretical guarantees depend on the number m of types weakly (logarithmically),
        and primarily on total rate and lengths.
    Formula: memory of (12) = a + b·ln m for given total rate and range of lengths
    Assumes: a segment per type; integer thresholds that satisfy (10), the least
    Summary: Each type adds a summand to the second and third terms of (12): the second may grow to
        M^π, which stays, and the third grows with m or faster, as n_j and n_{j−1}p_j come closer
        and θ_j falls.
    Reading: of the one guarantee in which m occurs, the memory (12). Remark (i) of section 5.2,
        that performance depends little on m, speaks of throughput and latency and is not touched.
    Correction: It holds for a fixed number of segments, (15): then m enters through ln m only.
        With a segment per type the second and third terms of (12) have m − 1 summands.
    """
    cases = [(types**2, types) for types in context.choose((6, 8), (6, 8, 10), (6, 8, 10, 12))]

    def at_most_double(case: tuple[int, int], number: int | None) -> bool:
        longest, types = case
        few, many = required(longest, types, number), required(longest, types**2, number)
        return few is not None and many is not None and many <= 2 * few

    domain = Domain(
        "lengths 1..m² spread evenly, least thresholds (n_1 = 51); m and m² types", cases
    )
    as_printed = domain.refute(
        "a segment per type: (12) at most doubles",
        verify_remark1,
        lambda c: {"longest": c[0], "types": c[1]},
        holds=lambda c: at_most_double(c, printed),
    )
    corrected = domain.examine(
        "two segments: (15) at most doubles", lambda c: at_most_double(c, segments)
    )
    return as_printed, corrected


@CLAIMS.remark(
    "fluid.remark2", Mutation("sixty types, one per length", types=60), kind=Kind.STATISTICAL
)
def _remark2_check(context: Context, *, types: int | None = None) -> Outcome:
    """The first term dominates.

    Source: fluid paper, remark (ii) (section 5.2)
    Statement: The memory requirement (12) is generally dominated by its first term M^π.
    Formula: M^π > half of (12), generally
    Assumes: least thresholds that satisfy (10)
    Summary: Random instances of 2 to 5 types with gaps up to 19 tokens, loads up to 0.95, least
        thresholds, T = 1000, δ = 1/10. With a type for every length it is the other way round.
    Reading: 'generally' as: in most of the random instances described.
    """
    rng = context.rng
    shares = []
    for _ in range(context.choose(25, 300, 3000)):
        number = types or int(rng.integers(2, 6))
        widths = rng.integers(1, 20, number) if types is None else [1] * number
        outputs = tuple(sum(widths[: j + 1]) for j in range(number))
        rates = tuple(Fraction(int(x)) for x in rng.integers(1, 20, number))
        idle = NestedProblem.single(
            int(rng.integers(1, 30)),
            tuple(map(int, outputs)),
            rates,
            FluidWorker(Fraction(1), Fraction(0), 1),
        )
        work = sum(a * w for a, w in zip(idle.arriving, idle.weights, strict=True))
        load = Fraction(int(rng.integers(1, 95)), 100)
        problem = NestedProblem.single(
            idle.group.prompt, idle.group.outputs, rates, FluidWorker(Fraction(1), load / work, 1)
        )
        least = plan(problem, duration=1000, probability=Fraction(1, 10))
        if least is not None and least.memory is not None:
            shares.append(float(2 * least.buffer.policy_memory > least.memory))
    estimate = mean_estimate(
        "share of instances in which M^π is more than half of (12)", shares, "lower end above 1/2",
        lambda low, high: low > 0.5,
    )  # fmt: skip
    return Findings(estimates=(estimate,))
