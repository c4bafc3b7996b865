"""Appendix B: two readings of first come, first served."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from bfio.decode.cluster import Cluster
from bfio.decode.policy import Policy
from bfio.decode.state import DecodeState
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.runs import engines, full_run
from proofs_checks.search import examine, refute

CLAIMS = Claims()


#: Chooses the worker of the oldest request from the free slots of all workers, one at least > 0.
Rule = Callable[[Sequence[int]], int]


def most_free(free: Sequence[int]) -> int:
    """Algorithm 2: a worker with most free slots, ties to the lowest index."""
    return max(range(len(free)), key=lambda g: (free[g], -g))


def lowest_index(free: Sequence[int]) -> int:
    """Choose as the text does: the first worker that has a free slot."""
    return next(g for g, slots in enumerate(free) if slots)


def least_free(free: Sequence[int]) -> int:
    """Choose a worker with fewest free slots: what Algorithm 2 must not do."""
    return min((g for g, slots in enumerate(free) if slots), key=lambda g: (free[g], g))


def placements(rule: Rule, outputs: Sequence[int], workers: int, slots: int) -> list[int]:
    """Simulate FCFS by hand: the worker of each request, oldest first; all wait from the start.

    Requests need ``outputs`` steps each; a slot that gets free is used from the next step on.
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
    """Admit the newest requests: what FCFS must not do."""
    free: list[int] = state.free_slots.tolist()
    answer: list[int | None] = [None] * state.num_waiting
    for i in reversed(range(state.num_waiting)):
        worker = max(range(len(free)), key=free.__getitem__)
        if free[worker]:
            answer[i], free[worker] = worker, free[worker] - 1
    return answer


def verify_fcfs(data: Data) -> str | None:
    """Compute both readings by hand: scan workers by index, or take the emptiest each time."""
    prompts, workers, slots = data["prompts"], data["workers"], data["slots"]
    if not prompts or min(prompts) < 1 or workers < 1 or slots < 1:
        return None
    admitted = prompts[: workers * slots]
    by_index, by_free = (
        first_loads(placements(rule, [1] * len(admitted), workers, slots), admitted, workers)
        for rule in (lowest_index, most_free)
    )
    if by_index == by_free:
        return None
    return f"the text gives the loads {by_index}, Algorithm 2 gives {by_free}"


def first_loads(placed: Sequence[int], prompts: Sequence[int], workers: int) -> list[int]:
    """Add up the prompts of each worker."""
    loads = [0] * workers
    for prompt, worker in zip(prompts, placed, strict=True):
        loads[worker] += prompt
    return loads


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
    """Two readings of FCFS.

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
    printed = refute(
        "text and Algorithm 2 assign alike",
        f"all lists of up to {count} prompts in 1..2, two empty workers with {slots} slot(s)",
        lists,
        verify_fcfs,
        lambda p: {"prompts": list(p), "workers": 2, "slots": slots},
    )

    def as_toolkit(case: tuple[Sequence[int], int, int], engine: str = "reference") -> bool:
        outputs, workers, slots = case
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
