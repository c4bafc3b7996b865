"""Baselines: instances on which they fail (A.1.1)."""

from functools import partial
from itertools import product

from bfio.decode.cluster import Cluster
from bfio.decode.simulation import simulate
from bfio.workloads.overload import Lengths, jsq_bad, round_robin_bad
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.runs import engines, small_run
from proofs_checks.search import examine, refute

CLAIMS = Claims()


_HEAVY, _SHORT = Lengths(1000, 12), Lengths(1, 1)


# Round-robin.


def verify_round_robin(data: Data) -> str | None:
    """Confirm ``H/⌈H/G⌉ < G``."""
    workers, heavies = data["workers"], data["heavies"]
    if workers < 2 or heavies < workers:
        return None
    share = -(-heavies // workers)
    if heavies >= workers * share:
        return None
    return f"G = {workers}, H = {heavies}: H/⌈H/G⌉ = {heavies}/{share} < {workers}"


def heavy_peaks(policy: str, workers: int, heavies: int) -> int:
    """Return the peak load at step 0 of the round-robin instance under a policy."""
    workload = round_robin_bad(workers, heavies, heavy=_HEAVY, short=_SHORT)
    run = small_run(
        workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), policy, workers, heavies,
        steps=1,
    )  # fmt: skip
    return int(run.max_load[0])


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
    printed = refute(
        "H/⌈H/G⌉ ≥ G",
        f"all G and H ≥ G below {most} and {2 * most}",
        cases,
        verify_round_robin,
        lambda c: {"workers": c[0], "heavies": c[1]},
    )

    def as_corrected(case: tuple[int, int]) -> bool:
        G, H = case
        share = -(-H // G)
        # Shorts of one token shift the peaks by less than one heavy request.
        piled = heavy_peaks(policy, G, H) // _HEAVY.prompt_tokens
        return G * share >= H and (G * share == H) == (H % G == 0) and piled == H

    corrected = examine(
        "H/⌈H/G⌉ ≤ G, equal iff G divides H, and round-robin piles H heavies on one worker",
        "the same, run by the engine", cases, as_corrected,
    )  # fmt: skip
    return printed, corrected


# Join the shortest queue.


def heavies_by_counts(workers: int, heavies: int, *, burst: int = 0) -> list[int]:
    """Join the shortest queue by hand: heavy requests per worker after so many rounds.

    In round r = 0, 1, ... come ``r·(G − 1)`` short requests, less ``burst``, and a heavy one; the
    short ones are gone by the next round.
    """
    heavy = [0] * workers
    for r in range(heavies):
        queues = list(heavy)
        for _ in range(r * (workers - 1) - burst):
            queues[queues.index(min(queues))] += 1
        heavy[queues.index(min(queues))] += 1
    return heavy


def loses_order_of_workers(workers: int, policy: str, engine: str) -> bool:
    """Run the instance for k = G heavies; compare its peak load with an even spread."""
    workload = jsq_bad(workers, workers)
    # A step takes 0.1 s per heavy request on the worst worker, a round 4 s.
    steps = 45 * workers
    run = simulate(
        workload, policy, Cluster(workers, 2 * workers), arrivals="timed", engine=engine,
        steps=steps,
    )  # fmt: skip
    heavy = int(workload.prompt_tokens.max())
    # Spread evenly, the G heavies would be one per worker.
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
        lambda c: heavies_by_counts(*c, burst=burst) == [c[1], *[0] * (c[0] - 1)],
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
