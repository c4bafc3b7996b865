"""Sections 4 and 5: the program (IO), Algorithm 1, and the overloaded family."""

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np

from bfio.workloads.lengths import Empirical, Geometric
from bfio.workloads.overload import overload_violations, overloaded
from formulations.arrays import integer_matrix, integer_vector
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation, Scope
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.balance.separation import Step
from proofs_checks.runs import small_run
from proofs_checks.search import examine, refute
from proofs_checks.step_enumeration import imbalance, multisets, reachable_loads

#: Capacity, base loads [g][h] and contributions [i][h] of a step.
SmallStep = tuple[list[int], list[list[int]], list[list[int]]]


# Algorithm 1 and (IO).


def enumerated_optimum(instance: SmallStep, full_use: bool) -> int:
    """Return the least accumulated imbalance by Algorithm 1: all allocations, one by one."""
    capacity, base, contribution = instance
    G, N = len(capacity), len(contribution)
    admitted = min(N, sum(capacity))
    best = None
    for chosen in product(range(G + 1), repeat=N):
        counts = [chosen.count(g) for g in range(G)]
        if any(c > cap for c, cap in zip(counts, capacity, strict=True)):
            continue
        if full_use and sum(counts) != admitted:
            continue
        loads = np.array(base)
        for i, g in enumerate(chosen):
            if g < G:
                loads[g] += contribution[i]
        value = sum(imbalance(loads[:, h].tolist()) for h in range(loads.shape[1]))
        best = value if best is None else min(best, value)
    assert best is not None
    return best


def _instances(context: Context) -> Iterator[SmallStep]:
    rng = context.rng
    for _ in range(context.choose(12, 80, 2000)):
        G, N, H = (int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(0, 3)))
        yield (
            rng.integers(0, 3, G).tolist(),
            rng.integers(0, 9, (G, H + 1)).tolist(),
            rng.integers(0, 9, (N, H + 1)).tolist(),
        )


def _algorithm_check(context: Context, *, full_use: bool = True) -> Outcome:
    from formulations.step import StepProblem, solve

    def holds(instance: SmallStep) -> bool:
        capacity, base, contribution = instance
        problem = StepProblem(
            integer_vector(capacity, "capacity"),
            integer_matrix(base, "base"),
            integer_matrix(contribution, "contribution"),
        )
        result = solve(problem)
        return result.is_optimal and result.objective == enumerated_optimum(instance, full_use)

    return examine(
        "the program's optimum is that of the enumeration",
        "random steps of up to 3 workers, 4 requests, 3 steps of the window; CP-SAT against all "
        "allocations",
        _instances(context),
        holds,
    )


# The program and the length of the step.


def verify_admission(data: Data) -> str | None:
    """Confirm that every optimum of (IO) makes the step longer than another full allocation."""
    base, pool = data["base"], data["pool"]
    slots = [1] * len(base)
    if len(base) < 2 or len(pool) < len(base) or min(base) < 0 or min(pool) < 1:
        return None
    if not Step(tuple(base), tuple(slots), tuple(pool)).overloaded:
        return None
    reached = reachable_loads(base, slots, pool)
    least = min(map(imbalance, reached))
    program = min(max(x) for x in reached if imbalance(x) == least)
    shortest = min(reached, key=lambda x: (max(x), x))
    if program <= max(shortest):
        return None
    return (
        f"the least imbalance, {least}, needs a maximum of {program}; loads {list(shortest)} have "
        f"imbalance {imbalance(shortest)} and maximum {max(shortest)}, for as many tokens"
    )


def _admission_check(context: Context, *, spare: int = 2, free_choice: bool = False) -> Outcome:
    largest = context.choose(3, 5, 7)
    cases = [
        (base, pool)
        for G in (2, 3)
        for base in product(range(3), repeat=G)
        for pool in multisets(G + spare, largest)
    ]
    made = f"steps of 2 and 3 workers with one free slot, sizes up to {largest}, {spare} to spare"
    printed = refute(
        "an optimum of (IO) has the least maximum load",
        made,
        cases,
        verify_admission,
        lambda c: {"base": list(c[0]), "pool": list(c[1])},
    )

    corrected = examine(
        "for a fixed admitted set both optima are the same", made, cases,
        lambda case: _same_optima(*case, free_choice),
    )  # fmt: skip
    return printed, corrected


def _same_optima(base: tuple[int, ...], pool: tuple[int, ...], free_choice: bool) -> bool:
    """Whether allocations of least imbalance are those of least maximum; one slot per worker."""
    admitted = pool if free_choice else pool[: len(base)]
    reached = reachable_loads(base, [1] * len(base), admitted)
    return {x for x in reached if imbalance(x) == min(map(imbalance, reached))} == {
        x for x in reached if max(x) == min(map(max, reached))
    }


def _throughput_check(context: Context, *, free_choice: bool = False) -> Outcome:
    largest = context.choose(3, 5, 7)
    cases = [
        (base, pool)
        for G in (2, 3)
        for base in product(range(3), repeat=G)
        for pool in multisets(G + free_choice, largest)
    ]
    return examine(
        "for given requests least imbalance and least maximum load have the same allocations",
        f"every step of 2 and 3 workers with one free slot, base loads 0..2, sizes 1..{largest}",
        cases,
        lambda case: _same_optima(*case, free_choice),
    )


def by_definition(pool: tuple[int, ...], free: int, largest: int) -> bool:
    """Definition 1 as printed: the minimum over all lengths 1..s_max."""
    return min(sum(s != length for s in pool) for length in range(1, largest + 1)) >= free


def in_words(pool: tuple[int, ...], free: int, skip: int = 1) -> bool:
    """Apply the sentence below it: remove the most numerous length (``skip`` of them)."""
    removed = sum(count for _, count in Counter(pool).most_common(skip))
    return len(pool) - removed >= free


def _definition_check(context: Context, *, skip: int = 1) -> Outcome:
    count, largest = context.choose((5, 3), (7, 4), (9, 5))
    cases = [
        (pool, free)
        for n in range(count + 1)
        for pool in multisets(n, largest)
        for free in range(1, count + 2)
    ]
    made = f"all pools of up to {count} sizes in 1..{largest} and all numbers of free slots"
    words = examine(
        "formula and sentence agree", made, cases,
        lambda c: by_definition(*c, largest) == in_words(*c, skip),
    )  # fmt: skip
    checker = examine(
        "the toolkit's checker agrees", made, cases,
        lambda c: by_definition(*c, largest) == (not overload_violations([c[0]], [c[1]])),
    )  # fmt: skip
    return words, checker


def _generator_check(
    context: Context, *, spare: Callable[[int], int] = lambda steps: steps
) -> Outcome:
    rng = context.rng
    policies = ("fcfs", "longest-first")
    cases = [
        (policy, int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(2, 6)))
        for policy in policies
        for _ in range(context.choose(3, 20, 200))
    ]

    def holds(case: tuple[str, int, int, int]) -> bool:
        policy, G, B, steps = case
        law = Empirical([1, 2, 5], [0.5, 0.3, 0.2])
        workload = overloaded(spare(steps), G * B, law, Geometric(2.0), rng=rng)
        prompts, outputs = workload.prompt_tokens.tolist(), workload.output_tokens.tolist()
        run = small_run(prompts, outputs, policy, G, B, steps=steps)
        started = run.start_step
        pending = [
            [s for s, k in zip(prompts, started, strict=True) if k < 0 or k >= step]
            for step in range(run.steps)
        ]
        return run.steps == steps and not overload_violations(pending, run.admitted.tolist())

    return examine(
        "every step of the run is overloaded",
        f"random machines and workloads of the generator, run under {', '.join(policies)}",
        cases,
        holds,
    )


def _popoviciu_check(context: Context, *, denominator: int = 4) -> Outcome:
    largest, total = context.choose((5, 6), (7, 8), (9, 10))
    # Where the bars stand among stars and bars.
    bars = combinations(range(total + largest - 1), largest - 1)
    cases = (
        tuple(b - a - 1 for a, b in pairwise((-1, *places, total + largest - 1)))
        for places in bars
    )

    def holds(weights: tuple[int, ...]) -> bool:
        first = Fraction(sum(w * s for s, w in enumerate(weights, 1)), total)
        second = Fraction(sum(w * s * s for s, w in enumerate(weights, 1)), total)
        # Ours is sharper: prompts start at 1, so the interval has length s_max − 1.
        bound = Fraction((largest - 1) ** 2, denominator)
        return second - first**2 <= bound <= Fraction(largest**2, 4)

    return examine(
        "σ_s² ≤ (s_max − 1)²/4 ≤ s_max²/4",
        f"all laws on 1..{largest} with probabilities in multiples of 1/{total}, in fractions",
        cases,
        holds,
    )


CLAIMS = (
    Claim(
        id="balance.algorithm1",
        source="BF-IO paper, section 4, Algorithm 1 and (IO)",
        title="Algorithm 1 solves the program (IO)",
        statement="Enumerating the feasible allocations and taking one of least accumulated "
        "imbalance is the same as solving the integer program.",
        formula="min over allocations of J(S(k)) = min over x of J_k(x)",
        hypotheses=("integer loads",),
        kind=Kind.FINITE,
        scope=Scope.FORMULA,
        check=_algorithm_check,
        summary="Both agree to the token.",
        mutations=(Mutation("slots may stay empty while requests wait", full_use=False),),
    ),
    Claim(
        id="balance.throughput",
        source="BF-IO paper, section 6.3, remark on eq. (8)",
        title="Less imbalance, shorter steps",
        statement="Since step duration is governed by the maximum load across workers, reducing "
        "imbalance directly increases throughput.",
        formula="Imbalance = G·max_g L_g − Σ_g L_g  ⇒  argmin Imbalance = argmin max_g L_g",
        hypotheses=("the same requests in service, so that Σ_g L_g and the tokens are given",),
        kind=Kind.FINITE,
        scope=Scope.REMARK,
        check=_throughput_check,
        summary="For given requests the imbalance is G times the longest load less a constant, so "
        "less of the one is less of the other.",
        mutations=(Mutation("whom to admit is free as well", free_choice=True),),
        reading="of what a balancer does with given requests, as the sentence says. That (IO) "
        "also chooses whom to admit is own.shortest-step.",
    ),
    Claim(
        id="own.shortest-step",
        source="BF-IO paper, program (IO) with eq. (6) and (8) (our question)",
        title="Least imbalance need not be the shortest step",
        statement="Where the pool offers a choice, an allocation of least imbalance has the least "
        "maximum load too, so that (IO) also takes the shortest step.",
        formula="argmin Imbalance(k) ⊆ argmin max_g L_g(k) over the allocations of (IO)",
        hypotheses=(
            "one step, all free slots filled, so that equally many tokens are emitted",
            "overloaded pool (Definition 1)",
        ),
        kind=Kind.COUNTEREXAMPLE,
        scope=Scope.OURS,
        check=_admission_check,
        summary="The program also chooses whom to admit, and large requests fill gaps as well as "
        "small ones.",
        mutations=(
            Mutation("no request to spare, so nothing to choose", spare=0),
            Mutation("the admitted set free in the correction", free_choice=True),
        ),
        correction="It holds for a fixed set of admitted requests (balance.throughput). Where the "
        "pool offers a choice, (IO) may admit larger requests to level the loads, and the step "
        "gets longer. Over a whole drained run the work is the same (own.work).",
        defect=Defect.INFERENCE,
        reading="no sentence of the paper says it; what one might take it to say.",
        verify=verify_admission,
    ),
    Claim(
        id="balance.definition1",
        source="BF-IO paper, Definition 1 (section 5)",
        title="Overloaded instances",
        statement="The pool without the requests of any one length holds at least C_k requests; "
        "in words: even without the most numerous length it can fill all free slots.",
        formula="min_l |R_k \\ R_k(l)| ≥ C_k",
        hypotheses=("lengths in 1..s_max",),
        kind=Kind.FINITE,
        scope=Scope.FORMULA,
        check=_definition_check,
        summary="The family is what the sentence says.",
        mutations=(Mutation("the two most numerous lengths removed", skip=2),),
    ),
    Claim(
        id="own.overloaded-generator",
        source="BF-IO paper, Definition 1 (our generator)",
        title="A generator of overloaded instances",
        statement="The toolkit's generator gives workloads that are overloaded for the promised "
        "number of steps under every policy.",
        formula="n − max_l n_l ≥ A_k + C_k for k < K",
        hypotheses=("the whole workload in the pool from the start",),
        kind=Kind.FINITE,
        scope=Scope.OURS,
        check=_generator_check,
        summary="Runs of other claims on overloaded instances rest on this generator or on the "
        "checker.",
        mutations=(Mutation("a workload certified for one step only", spare=lambda steps: 1),),
    ),
    Claim(
        id="balance.popoviciu",
        source="BF-IO paper, section 5, non-degeneracy condition",
        title="Popoviciu's inequality for prompts",
        statement="For every law of prompts on 1..s_max the deviation is at most s_max/2.",
        formula="σ_s/s_max ≤ 1/2",
        hypotheses=("prompts in 1..s_max",),
        kind=Kind.FINITE,
        scope=Scope.REMARK,
        check=_popoviciu_check,
        summary="Since prompts are at least 1, κ_0 = 1/2 itself is out of reach: σ_s/s_max ≤ "
        "(1 − 1/s_max)/2.",
        mutations=(Mutation("1/5 in place of 1/4", denominator=5),),
    ),
)
