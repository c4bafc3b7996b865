"""What memory and load allow: the stable region, heavy traffic, admission when memory is short."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

from formulations.fluid import FluidProblem, FluidWorker, equilibrium, knapsack, throughput
from formulations.results import Termination
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.fluid.cases import Case, random_cases
from proofs_checks.search import examine

CLAIMS = Claims()


@CLAIMS.remark(
    "fluid.scaling",
    Mutation("d1 not scaled", scale_d1=False),
    Mutation("memory scaled as well", memory_too=True),
    kind=Kind.IDENTITY,
)
def _scaling_check(
    context: Context, *, memory_too: bool = False, scale_d1: bool = True
) -> Outcome:
    """Conventional heavy traffic.

    Source: fluid paper, section 4.2
    Statement: With rates times ζ and d0, d1 over ζ, memory fixed, the equilibrium keeps its memory
        and counts.
    Formula: (ζλ, d0/ζ, d1/ζ):  M*, n* unchanged,  ΔT*/ζ,  ζ·Thr*
    Assumes: d1·A < 1; ζ > 0
    Summary: Memory and counts do not notice the scaling; rates and times do.
    Reading: what the paper uses of the scaling; fluid.time-change follows it path by path.
    """
    cases = random_cases(context.rng, context.choose(40, 400, 4000))

    def holds(pair: tuple[Case, Fraction]) -> bool:
        case, zeta = pair
        worker = case.worker()
        classes = [replace(kind, rate=kind.rate * zeta) for kind in case.classes]
        faster = FluidWorker(worker.d0 / zeta, worker.d1 / (zeta if scale_d1 else 1), 1)
        before = equilibrium(case.classes, worker)
        if faster.d1 * before.work_rate * zeta >= 1:
            return False
        after = equilibrium(classes, faster)
        return (
            after.memory == before.memory * (zeta if memory_too else 1)
            and after.active == before.active
            and after.iteration_time * zeta == before.iteration_time
            and after.throughput == before.throughput * zeta
        )

    return examine(
        "M*, n* as before, ΔT* over ζ, Thr* times ζ",
        "random cases, ζ = 1/3, 2, 10; exactly",
        product(list(cases), (Fraction(1, 3), Fraction(2), Fraction(10))),
        holds,
    )


@CLAIMS.own("fluid.memory-region", Mutation("C/d0 in place of it", fixed_too=False))
def _region_check(context: Context, *, fixed_too: bool = True) -> Outcome:
    """Stable region with limited memory.

    Source: Ours, from (6)
    Statement: The equilibrium fits into memory C if and only if A is at most C/(d0 + d1·C).
    Formula: M* ≤ C  ⇔  A ≤ C/(d0 + d1·C)
    Assumes: one engine of memory C ≥ 1, d0 > 0 and d1 ≥ 0; M* = ∞ where d1·A ≥ 1
    Summary: So d1·A < 1 is the stability condition of unlimited memory only.
    """

    def fits(case: Case, memory: int) -> bool:
        work, d1 = case.work_rate, case.d1
        return d1 * work < 1 and case.fixed * work / (1 - d1 * work) <= memory

    def allowed(case: Case, memory: int) -> bool:
        worker = case.worker(memory)
        limit = worker.capacity if fixed_too else memory / worker.d0
        return case.work_rate <= limit

    number = context.choose(60, 600, 6000)
    cases = [
        (Case(c.rows, c.fixed, max(1, c.inverse // int(context.rng.integers(1, 4)))), memory)
        for c in random_cases(context.rng, number)
        for memory in (1, 10, int(c.memory(c.counts)) or 1, int(c.memory(c.counts)) + 1, 10**6)
    ]
    seen = examine(
        "M* ≤ C iff A ≤ C/(d0 + d1·C)",
        "random cases with loads on both sides of 1; C from 1 to 10⁶ and next to M*",
        cases,
        lambda pair: fits(*pair) == allowed(*pair),
    )
    return Findings(seen, numbers={"within": sum(fits(*pair) for pair in cases)})


def best_admission(problem: FluidProblem) -> Fraction:
    """Maximise ``Σ x_j (l'_j + 1)`` within the memory by looking at every vertex.

    A vertex of boxes and one row has at most one rate strictly between its bounds.
    """
    capacity, classes = problem.single_worker().capacity, problem.classes
    best = Fraction(0)
    for chosen in product((False, True), repeat=len(classes)):
        left = capacity - sum(k.rate * k.work for k, c in zip(classes, chosen, strict=True) if c)
        if left < 0:
            continue
        full = sum(
            (k.rate * k.iterations for k, c in zip(classes, chosen, strict=True) if c), Fraction(0)
        )
        part = max(
            (
                min(k.rate, left / k.work) * k.iterations
                for k, c in zip(classes, chosen, strict=True)
                if not c
            ),
            default=Fraction(0),
        )
        best = max(best, full + part)
    return best


@CLAIMS.own("fluid.admission", Mutation("memory ignored", unlimited=True))
def _admission_check(context: Context, *, unlimited: bool = False) -> Outcome:
    """Best throughput with too little memory.

    Source: Ours; the paper says only that (8) cannot be approached with less memory (section 4)
    Statement: Admitting classes in order of l_j + l'_j/2, the last one in part, maximises the
        fluid throughput within memory C; it is Throughput* if and only if C is at least M*.
    Formula: max Σ x_j(l'_j+1)  s.t.  Σ x_j w_j ≤ C/(d0 + d1·C),  0 ≤ x_j ≤ λ_j
    Assumes: d1·A < 1; one engine of memory C
    Summary: With too little memory Throughput* of (8) is out of reach.
    """
    problems = [
        case.problem(max(1, int(case.memory(case.counts) * share)))
        for case in random_cases(context.rng, context.choose(20, 200, 2000))
        for share in (Fraction(1, 5), Fraction(4, 5), Fraction(2))
    ]

    def holds(problem: FluidProblem) -> bool:
        result, benchmark = knapsack(problem), throughput(problem.classes)
        best = benchmark if unlimited else best_admission(problem)
        fits = equilibrium(problem.classes, problem.single_worker()).memory
        return (
            result.termination is Termination.OPTIMAL
            and result.value == best
            and (best == benchmark) == (unlimited or fits <= problem.single_worker().memory)
        )

    return examine(
        "greedy by l_j + l'_j/2 is optimal; it reaches Thr* iff M* ≤ C",
        "random cases, C at a fifth, four fifths and twice M*; optimum by all vertices",
        problems,
        holds,
    )
