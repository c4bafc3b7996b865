"""Section 4: the program (IO), Algorithm 1, and step duration."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from formulations.arrays import integer_matrix, integer_vector
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.balance.separation import Step
from proofs_checks.search import Domain, examine, named
from proofs_checks.step_enumeration import imbalance, multisets, reachable_loads

CLAIMS = Claims()


#: Capacity, base loads [g][h] and contributions [i][h] of a step.
SmallStep = tuple[list[int], list[list[int]], list[list[int]]]


# Algorithm 1 and (IO).


def enumerated_optimum(instance: SmallStep, full_use: bool) -> int:
    """Return the least accumulated imbalance by Algorithm 1, which enumerates all allocations."""
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


@CLAIMS.formula(
    "balance.algorithm1", Mutation("slots may stay empty while requests wait", full_use=False)
)
def _algorithm_check(context: Context, *, full_use: bool = True) -> Outcome:
    """Algorithm 1 solves the program (IO).

    Source: BF-IO paper, section 4, Algorithm 1 and (IO)
    Statement: Enumerating the feasible allocations and taking one of least accumulated imbalance
        is the same as solving the integer program.
    Formula: min over allocations of J(S(k)) = min over x of J_k(x)
    Assumes: integer loads
    Summary: Both agree to the token.
    """
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


# The program and the step duration.


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


def _steps(
    context: Context, spare: int
) -> tuple[int, list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Return the largest size, and loads and pools of steps with one free slot per worker."""
    largest = context.choose(3, 5, 7)
    return largest, [
        (base, pool)
        for G in (2, 3)
        for base in product(range(3), repeat=G)
        for pool in multisets(G + spare, largest)
    ]


@CLAIMS.own(
    "own.shortest-step",
    Mutation("no request to spare, so nothing to choose", spare=0),
    Mutation("the admitted set free in the correction", free_choice=True),
    defect=Defect.INFERENCE,
    verify=verify_admission,
)
def _admission_check(context: Context, *, spare: int = 2, free_choice: bool = False) -> Outcome:
    """Least imbalance need not be the shortest step.

    Source: BF-IO paper, program (IO) with eq. (6) and (8) (our question)
    Statement: Where the pool offers a choice, an allocation of least imbalance has the least
        maximum load too, so that (IO) also takes the shortest step.
    Formula: argmin Imbalance(k) ⊆ argmin max_g L_g(k) over the allocations of (IO)
    Assumes: one step, all free slots filled, so that equally many tokens are emitted; overloaded
        pool (Definition 1)
    Summary: The program also chooses whom to admit, and large requests fill gaps as well as small
        ones.
    Reading: no sentence of the paper says it; what one might take it to say.
    Correction: It holds for a fixed set of admitted requests (balance.throughput). Where the pool
        offers a choice, (IO) may admit larger requests to level the loads, and the step gets
        longer. Over a whole drained run the work is the same (own.work).
    """
    largest, cases = _steps(context, spare)
    domain = Domain(
        f"steps of 2 and 3 workers with one free slot, sizes up to {largest}, {spare} to spare",
        cases,
    )
    printed = domain.refute(
        "an optimum of (IO) has the least maximum load",
        verify_admission,
        named("base pool"),
    )

    corrected = domain.examine(
        "for a fixed admitted set both optima are the same",
        lambda case: _same_optima(*case, free_choice)
    )  # fmt: skip
    return printed, corrected


def _same_optima(base: tuple[int, ...], pool: tuple[int, ...], free_choice: bool) -> bool:
    """Whether allocations of least imbalance are those of least maximum; one slot per worker."""
    admitted = pool if free_choice else pool[: len(base)]
    reached = reachable_loads(base, [1] * len(base), admitted)
    return {x for x in reached if imbalance(x) == min(map(imbalance, reached))} == {
        x for x in reached if max(x) == min(map(max, reached))
    }


@CLAIMS.remark("balance.throughput", Mutation("whom to admit is free as well", free_choice=True))
def _throughput_check(context: Context, *, free_choice: bool = False) -> Outcome:
    """Less imbalance, shorter steps.

    Source: BF-IO paper, section 6.3, remark on eq. (8)
    Statement: Since step duration is governed by the maximum load across workers, reducing
        imbalance directly increases throughput.
    Formula: Imbalance = G·max_g L_g − Σ_g L_g  ⇒  argmin Imbalance = argmin max_g L_g
    Assumes: the same requests in service, so that Σ_g L_g and the tokens are given
    Summary: For given requests the imbalance is G times the longest load less a constant, so less
        of the one is less of the other.
    Reading: of what a balancer does with given requests, as the sentence says. That (IO) also
        chooses whom to admit is own.shortest-step.
    """
    largest, cases = _steps(context, int(free_choice))
    return examine(
        "for given requests least imbalance and least maximum load have the same allocations",
        f"every step of 2 and 3 workers with one free slot, base loads 0..2, sizes 1..{largest}",
        cases,
        lambda case: _same_optima(*case, free_choice),
    )
