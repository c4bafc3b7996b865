"""Algorithms: the program (IO) of section 4, and the baselines of appendices A.1.1 and B."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.policy import Policy
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.workloads.overload import Lengths, jsq_bad, round_robin_bad
from formulations.arrays import integer_matrix, integer_vector
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.papers.balance.separation import Step
from proofs_checks.runs import engines, full_run, imbalance, multisets, reachable_loads, small_run
from proofs_checks.search import examine

CLAIMS = Claims()


#: Capacity, base loads [g][h] and contributions [i][h] of a step.
SmallStep = tuple[list[int], list[list[int]], list[list[int]]]


# Algorithm 1 and (IO).


def enumerated_optimum(instance: SmallStep, full_use: bool) -> int:
    """Return the least accumulated imbalance by Algorithm 1, which enumerates all allocations."""
    capacity, base, contribution = instance
    G, N = len(capacity), len(contribution)
    admitted = min(N, sum(capacity))
    values = []
    for chosen in product(range(G + 1), repeat=N):
        counts = [chosen.count(g) for g in range(G)]
        fits = all(c <= cap for c, cap in zip(counts, capacity, strict=True))
        if not fits or (full_use and sum(counts) != admitted):
            continue
        loads = np.array(base)
        for i, g in enumerate(chosen):
            if g < G:
                loads[g] += contribution[i]
        values.append(sum(imbalance(column.tolist()) for column in loads.T))
    return min(values)


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


@verifier
def verify_admission(base: list[int], pool: list[int]) -> str:
    """Confirm that every optimum of (IO) makes the step longer than another full allocation."""
    slots = [1] * len(base)
    dismiss_if(len(base) < 2 or len(pool) < len(base) or min(base) < 0 or min(pool) < 1)
    dismiss_if(not Step(tuple(base), tuple(slots), tuple(pool)).overloaded)
    reached = reachable_loads(base, slots, pool)
    least = min(map(imbalance, reached))
    program = min(max(x) for x in reached if imbalance(x) == least)
    shortest = min(reached, key=lambda x: (max(x), x))
    dismiss_if(program <= max(shortest))
    return (
        f"the least imbalance, {least}, needs a maximum of {program}; loads {list(shortest)} have "
        f"imbalance {imbalance(shortest)} and maximum {max(shortest)}, for as many tokens"
    )


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
    Correction: It holds for a fixed set of admitted requests, as the remark on eq. (8) in section
        6.3 has it: there the imbalance is G times the largest load less a constant, so that less
        of the one is less of the other. Where the pool offers a choice, (IO) may admit larger
        requests to level the loads, and the step gets longer. Over a whole drained run the work is
        the same (own.work).
    """
    largest = context.choose(3, 5, 7)
    cases = [
        (base, pool)
        for G in (2, 3)
        for base in product(range(3), repeat=G)
        for pool in multisets(G + spare, largest)
    ]
    domain = context.domain(
        f"steps of 2 and 3 workers with one free slot, sizes up to {largest}, {spare} to spare",
        cases,
    )
    printed = domain.refute("an optimum of (IO) has the least maximum load")

    corrected = domain.examine(
        "for a fixed admitted set both optima are the same",
        lambda base, pool: _same_optima(base, pool, free_choice)
    )  # fmt: skip
    return printed, corrected


def _same_optima(base: tuple[int, ...], pool: tuple[int, ...], free_choice: bool) -> bool:
    """Whether allocations of least imbalance are those of least maximum; one slot per worker."""
    admitted = pool if free_choice else pool[: len(base)]
    reached = reachable_loads(base, [1] * len(base), admitted)
    return {x for x in reached if imbalance(x) == min(map(imbalance, reached))} == {
        x for x in reached if max(x) == min(map(max, reached))
    }


_HEAVY, _SHORT = Lengths(1000, 12), Lengths(1, 1)


# Round-robin.


@verifier
def verify_round_robin(workers: int, heavies: int) -> str:
    """Confirm that H heavy requests on G workers have ``H/⌈H/G⌉ < G``."""
    dismiss_if(workers < 2 or heavies < workers)
    share = -(-heavies // workers)
    dismiss_if(heavies >= workers * share)
    return f"G = {workers}, H = {heavies}: H/⌈H/G⌉ = {heavies}/{share} < {workers}"


@CLAIMS.remark(
    "balance.round-robin",
    Mutation("H a multiple of G", multiples=True),
    Mutation("join the shortest queue by tokens in place of round-robin", policy="jsq-tokens"),
    defect=Defect.FORMULA,
    verify=verify_round_robin,
)
def _round_robin_check(
    context: Context, *, multiples: bool = False, policy: str = "round-robin"
) -> Outcome:
    """Round-robin loses at least a factor G.

    Source: BF-IO paper, appendix A.1.1, Round-Robin
    Statement: If every G-th request is heavy, H of them, the longest local time under round-robin
        over that of an even spread is H/⌈H/G⌉ ≥ G.
    Formula: T_RR/T* ≥ H/⌈H/G⌉ ≥ G
    Assumes: G ≥ 2 workers, H heavy requests, no heavy one ends
    Summary: The inequality points the wrong way; the pathology itself is real.
    Reading: shown for H ≥ G, at least one heavy request per worker.
    Correction: H/⌈H/G⌉ ≤ G, with equality exactly if G divides H. So the loss is a factor of up to
        G, and G itself for H = G, 2G, ...
    """
    most = context.choose(4, 8, 20)
    cases = [
        (G, H)
        for G, H in product(range(2, most), range(2, 2 * most))
        if H >= G and (not multiples or H % G == 0)
    ]
    printed = context.refute("H/⌈H/G⌉ ≥ G", f"all G and H ≥ G below {most} and {2 * most}", cases)

    def as_corrected(G: int, H: int) -> bool:
        share = -(-H // G)
        workload = round_robin_bad(G, H, heavy=_HEAVY, short=_SHORT)
        prompts, outputs = workload.prompt_tokens.tolist(), workload.output_tokens.tolist()
        run = small_run(prompts, outputs, policy, G, H, steps=1)
        # Short requests of one token shift the peak at step 0 by less than one heavy request.
        piled = int(run.max_load[0]) // _HEAVY.prompt_tokens
        return G * share >= H and (G * share == H) == (H % G == 0) and piled == H

    corrected = examine(
        "H/⌈H/G⌉ ≤ G, equal iff G divides H, and round-robin piles H heavies on one worker",
        "the same, run by the engine", cases, as_corrected,
    )  # fmt: skip
    return printed, corrected


# Join the shortest queue.


def heavies_by_counts(workers: int, heavies: int, *, burst: int = 0) -> list[int]:
    """Return the heavy requests per worker after some rounds of join-the-shortest-queue.

    In round r = 0, 1, ... ``r·(G − 1) − burst`` short requests and a heavy one arrive; the short
    ones complete before the next round.
    """
    heavy = [0] * workers
    for r in range(heavies):
        queues = list(heavy)
        for _ in range(r * (workers - 1) - burst):
            queues[queues.index(min(queues))] += 1
        heavy[queues.index(min(queues))] += 1
    return heavy


def loses_order_of_workers(workers: int, policy: str, engine: str) -> bool:
    """Return whether worker 0 has all heavy requests, and the peak is 0.9·G times the even one."""
    workload = jsq_bad(workers, workers)
    # A step takes 0.1 s per heavy request on the most loaded worker; a round takes 4 s.
    steps = 45 * workers
    run = simulate(
        workload, policy, Cluster(workers, 2 * workers), arrivals="timed", engine=engine,
        steps=steps,
    )  # fmt: skip
    heavy = int(workload.prompt_tokens.max())
    # The peak load if each worker has one of the G heavy requests.
    even = heavy + steps + workers * workers
    piled = run.worker[workload.prompt_tokens == heavy]
    return not piled.any() and 10 * int(run.max_load.max()) >= 9 * workers * even


@CLAIMS.remark(
    "balance.jsq",
    Mutation("queues measured in tokens", policy="jsq-tokens"),
    Mutation("bursts shorter by one request", burst=1),
)
def _jsq_check(context: Context, *, policy: str = "jsq", burst: int = 0) -> Outcome:
    """JSQ loses a factor of order G.

    Source: BF-IO paper, appendix A.1.1, Join Shortest Queue
    Statement: There are arrival sequences on which join-the-shortest-queue, counting requests,
        sends k heavy requests to one worker while an even spread puts ⌈k/G⌉ on each.
    Formula: for every G and k = G there is one with T_JSQ/T* ≥ 0.9·G, so T_JSQ/T* = Ω(G)
    Assumes: ties to the lowest worker; short requests end between bursts
    Summary: By induction, for every G: worker 0 has r heavy requests in round r and the others
        nothing, so the r·(G − 1) short ones go to the others until all queues are r long, and the
        tie puts the next heavy request on worker 0. With heavy requests long enough the ratio
        comes as close to G as one likes; in the runs, prompts of 10⁶ tokens, it is above 0.9·G.
    Reading: where each worker stands is proved for every G and k (see the finding) and recomputed
        in integers; the factor 0.9 instead of 1 leaves room for what the short requests and the
        growth of the heavy ones add to the even spread.
    """
    largest, most = context.choose((16, 5), (30, 7), (50, 16))
    counts = examine(
        "after k rounds worker 0 has k heavy requests and the others none, so that an even "
        "spread has a largest share k/⌈k/G⌉ times smaller, G times for k = G, 2G",
        f"join the shortest queue by hand, G = 2..{largest} k = 1, G − 1, G, G + 1, 2G",
        [(G, k) for G in range(2, largest + 1) for k in (1, G - 1, G, G + 1, 2 * G)],
        lambda G, k: heavies_by_counts(G, k, burst=burst) == [k, *[0] * (G - 1)],
    )
    runs = [
        examine(
            f"so do the runs of the {engine} engine, and their peak load is at least 0.9·G times "
            "that of an even spread",
            f"the instance of appendix A.1.1 with arrival times, k = G = 2..{most}",
            range(2, most + 1),
            partial(loses_order_of_workers, policy=policy, engine=engine),
        )
        for engine in engines(context)
    ]
    return counts, *runs


# Appendix B: two interpretations of first come, first served.


#: Chooses the worker of the oldest request, given the free slots per worker, not all 0.
Rule = Callable[[Sequence[int]], int]


def most_free(free: Sequence[int]) -> int:
    """Return the worker with the most free slots, ties to the lowest index (Algorithm 2)."""
    return max(range(len(free)), key=lambda g: (free[g], -g))


def lowest_index(free: Sequence[int]) -> int:
    """Return the first worker with a free slot, the rule of the paper's text."""
    return next(g for g, slots in enumerate(free) if slots)


def least_free(free: Sequence[int]) -> int:
    """Return the worker with the fewest free slots, a deliberately wrong rule."""
    return min((g for g, slots in enumerate(free) if slots), key=lambda g: (free[g], g))


def placements(rule: Rule, outputs: Sequence[int], workers: int, slots: int) -> list[int]:
    """Return the worker of each request under FCFS, oldest first; all wait from the start.

    Request i runs for ``outputs[i]`` steps; a freed slot is available from the next step on.
    """
    waiting, placed = list(outputs), []
    remaining: list[list[int]] = [[] for _ in range(workers)]
    while waiting:
        free = [slots - len(steps) for steps in remaining]
        while waiting and any(free):
            worker = rule(free)
            free[worker] -= 1
            remaining[worker].append(waiting.pop(0))
            placed.append(worker)
        remaining = [[left - 1 for left in steps if left > 1] for steps in remaining]
    return placed


def newest_first(state: DecodeState) -> list[int | None]:
    """Admit the newest requests first, a deliberately wrong FCFS."""
    free: list[int] = state.free_slots.tolist()
    answer: list[int | None] = [None] * state.num_waiting
    for i in reversed(range(state.num_waiting)):
        worker = max(range(len(free)), key=free.__getitem__)
        if free[worker]:
            answer[i], free[worker] = worker, free[worker] - 1
    return answer


@verifier
def verify_fcfs(prompts: list[int], workers: int, slots: int) -> str:
    """Confirm that workers scanned by index and Algorithm 2 give different loads."""
    dismiss_if(not prompts or min(prompts) < 1 or workers < 1 or slots < 1)
    admitted = prompts[: workers * slots]
    by_index, by_free = (
        np.bincount(placements(rule, [1] * len(admitted), workers, slots), admitted, workers)
        .astype(int)
        .tolist()
        for rule in (lowest_index, most_free)
    )
    dismiss_if(by_index == by_free)
    return f"the text gives the loads {by_index}, Algorithm 2 gives {by_free}"


@CLAIMS.formula(
    "balance.algorithm2",
    Mutation("one slot per worker", slots=1),
    Mutation("newest first in place of FCFS", policy=newest_first),
    Mutation("the toolkit's fcfs by index", policy="fcfs-by-index"),
    Mutation("fewest free slots in place of most in Algorithm 2", rule=least_free),
    defect=Defect.MISPRINT,
    verify=verify_fcfs,
)
def _fcfs_check(
    context: Context, *, slots: int = 2, policy: str | Policy = "fcfs", rule: Rule = most_free
) -> Outcome:
    """FCFS by the text and by Algorithm 2.

    Source: BF-IO paper, appendix B, text against Algorithm 2
    Statement: FCFS, which scans workers in increasing index g = 1, ..., G and fills any free slots
        on each, has the pseudocode of Algorithm 2, which gives the oldest request to a worker with
        most free slots, one after the other.
    Formula: loads by index = loads with g* ∈ argmax_g cap[g]
    Assumes: two workers, all slots free
    Summary: The theorems need neither: to both, sizes are exchangeable.
    Reading: the loop of Algorithm 2 ends when no slot is free, as the text above it says; as
        printed it looks at the queue only. Ties go to the lowest index.
    Correction: They admit the same requests but place them differently. The paper says that the
        pseudocode is the one used in analysis and implementation. The toolkit has both: fcfs
        (Algorithm 2) and fcfs-by-index (the text); where they put each request is compared with a
        simulation by hand.
    """
    count = context.choose(5, 6, 7)
    lists = [p for n in range(1, count + 1) for p in product((1, 2), repeat=n)]
    printed = context.refute(
        "text and Algorithm 2 assign alike",
        f"all lists of up to {count} prompts in 1..2, two empty workers with {slots} slot(s)",
        [(p, 2, slots) for p in lists],
    )

    def as_toolkit(
        outputs: Sequence[int], workers: int, slots: int, engine: str = "reference"
    ) -> bool:
        return all(
            full_run([1] * len(outputs), outputs, name, Cluster(workers, slots), engine)
            .worker.tolist() == placements(by_hand, outputs, workers, slots)
            for name, by_hand in ((policy, rule), ("fcfs-by-index", lowest_index))
        )  # fmt: skip

    rng = context.rng
    made = "random runs of 20 requests of 1 to 5 steps on 3 workers with 3 slots"
    runs = [(rng.integers(1, 6, 20).tolist(), 3, 3) for _ in range(context.choose(5, 50, 1000))]
    corrected = examine(
        "the toolkit's fcfs puts each request where Algorithm 2 does, its fcfs-by-index where the "
        "text does",
        f"all lists of up to {count - 1} requests of 1 or 2 steps, two workers with {slots} "
        f"slot(s); {made}",
        [*((p, 2, slots) for p in lists if len(p) < count), *runs],
        as_toolkit,
    )
    return (
        printed,
        corrected,
        *(
            examine(f"so does the {engine} engine", made, runs, partial(as_toolkit, engine=engine))
            for engine in engines(context)[1:]
        ),
    )
