"""Appendix A.1.1 and B: instances on which simple rules fail, and two readings of FCFS."""

from functools import partial
from itertools import product

from bfio.decode.cluster import Cluster
from bfio.decode.policy import Policy
from bfio.decode.state import DecodeState
from bfio.simulation import simulate
from bfio.workloads.adversarial import Lengths, jsq_bad, round_robin_bad
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.runs import small_run, step_loads
from proofs_checks.search import corrected_evidence, evidence_of, examine

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


def _round_robin_check(
    context: Context, *, multiples: bool = False, policy: str = "round-robin"
) -> Evidence:
    most = context.choose(4, 8, 20)
    cases = [
        (G, H)
        for G, H in product(range(2, most), range(2, 2 * most))
        if H >= G and (not multiples or H % G == 0)
    ]
    printed = examine(
        "H/⌈H/G⌉ ≥ G", f"all G and H ≥ G below {most} and {2 * most}", cases,
        lambda c: verify_round_robin({"workers": c[0], "heavies": c[1]}) is None,
    )  # fmt: skip

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
    return corrected_evidence(
        printed, corrected, verify_round_robin, lambda c: {"workers": c[0], "heavies": c[1]},
        "The inequality points the wrong way; the pathology itself is real.",
    )  # fmt: skip


# Join the shortest queue.


def _jsq_check(context: Context, *, policy: str = "jsq") -> Evidence:
    most = context.choose(4, 6, 9)

    def holds(workers: int) -> bool:
        workload = jsq_bad(workers, workers)
        # A step takes 0.1 s per heavy request on the worst worker, a round 4 s.
        steps = 45 * workers
        run = simulate(
            workload, policy, Cluster(workers, 2 * workers), arrivals="timed", engine="reference",
            steps=steps,
        )  # fmt: skip
        # Spread evenly, the G heavies would be one per worker.
        even = int(workload.prompt_tokens.max()) + steps + workers * workers
        return int(run.max_load.max()) >= 0.9 * workers * even

    seen = examine(
        "the peak load is Θ(G) times that of an even spread",
        f"the instance of appendix A.1.1 for G = 2..{most}, run by the engine with arrival times",
        range(2, most + 1),
        holds,
    )
    return evidence_of(
        seen, "Each burst of short requests fills the other workers, so that the next heavy "
        "request joins the heavy ones."
    )  # fmt: skip


# FCFS.


def newest_first(state: DecodeState) -> list[int | None]:
    """Admit the newest requests: what FCFS must not do."""
    free: list[int] = state.free_slots.tolist()
    answer: list[int | None] = [None] * state.num_waiting
    for i in reversed(range(state.num_waiting)):
        worker = max(range(len(free)), key=free.__getitem__)
        if free[worker]:
            answer[i], free[worker] = worker, free[worker] - 1
    return answer


def fcfs_loads(
    policy: str | Policy, prompts: tuple[int, ...], workers: int, slots: int
) -> list[int]:
    """Return the loads of the first step."""
    run = small_run(prompts, [1] * len(prompts), policy, workers, slots, steps=1)
    loads: list[int] = step_loads(run)[0].tolist()
    return loads


def verify_fcfs(data: Data) -> str | None:
    """Compute both readings by hand: scan workers by index, or take the emptiest each time."""
    prompts, workers, slots = data["prompts"], data["workers"], data["slots"]
    if not prompts or min(prompts) < 1 or workers < 1 or slots < 1:
        return None
    by_index, by_free = [0] * workers, [0] * workers
    free = [slots] * workers
    for i, prompt in enumerate(prompts[: workers * slots]):
        by_index[i // slots] += prompt
        emptiest = max(range(workers), key=lambda g: (free[g], -g))
        free[emptiest] -= 1
        by_free[emptiest] += prompt
    if by_index == by_free:
        return None
    return f"the text gives the loads {by_index}, Algorithm 2 gives {by_free}"


def _fcfs_check(context: Context, *, slots: int = 2, policy: str | Policy = "fcfs") -> Evidence:
    count = context.choose(5, 6, 7)
    cases = [p for n in range(1, count + 1) for p in product((1, 2), repeat=n)]
    made = f"all lists of up to {count} prompts in 1..2, two empty workers with {slots} slot(s)"
    printed = examine(
        "text and Algorithm 2 assign alike", made, cases,
        lambda p: verify_fcfs({"prompts": list(p), "workers": 2, "slots": slots}) is None,
    )  # fmt: skip

    def oldest_first(prompts: tuple[int, ...]) -> bool:
        by_free, by_index = (
            fcfs_loads(name, prompts, 2, slots) for name in (policy, "fcfs-by-index")
        )
        admitted = prompts[: 2 * slots]
        return sum(by_free) == sum(by_index) == sum(admitted)

    corrected = examine(
        "both admit the oldest requests, as many as fit", made, cases, oldest_first
    )
    return corrected_evidence(
        printed, corrected, verify_fcfs,
        lambda p: {"prompts": list(p), "workers": 2, "slots": slots},
        "The theorems need neither: to both, sizes are exchangeable.",
    )  # fmt: skip


CLAIMS = (
    Claim(
        id="balance.round-robin",
        source="BF-IO paper, appendix A.1.1, Round-Robin",
        title="Round-robin loses at least a factor G",
        statement="If every G-th request is heavy, H of them, the longest local time under "
        "round-robin over that of an even spread is H/⌈H/G⌉ ≥ G.",
        formula="T_RR/T* ≥ H/⌈H/G⌉ ≥ G",
        hypotheses=("G ≥ 2 workers, H heavy requests, no heavy one ends",),
        kind=Kind.COUNTEREXAMPLE,
        check=_round_robin_check,
        mutations=(
            Mutation("H a multiple of G", partial(_round_robin_check, multiples=True)),
            Mutation(
                "join the shortest queue by tokens in place of round-robin",
                partial(_round_robin_check, policy="jsq-tokens"),
            ),
        ),
        correction="H/⌈H/G⌉ ≤ G, with equality exactly if G divides H. So the loss is a factor of "
        "up to G, and G itself for H = G, 2G, ...",
        defect=Defect.FORMULA,
        reading="shown for H ≥ G, at least one heavy request per worker.",
        verify=verify_round_robin,
    ),
    Claim(
        id="balance.jsq",
        source="BF-IO paper, appendix A.1.1, Join Shortest Queue",
        title="JSQ loses a factor of order G",
        statement="There are arrival sequences on which join-the-shortest-queue, counting "
        "requests, sends k heavy requests to one worker while an even spread puts ⌈k/G⌉ on each.",
        formula="T_JSQ/T* = Ω(G)",
        hypotheses=("ties to the lowest worker", "short requests end between bursts"),
        kind=Kind.FINITE,
        check=_jsq_check,
        mutations=(
            Mutation("queues measured in tokens", partial(_jsq_check, policy="jsq-tokens")),
        ),
        reading="with a factor of 0.9·G for k = G heavy requests.",
    ),
    Claim(
        id="balance.algorithm2",
        source="BF-IO paper, appendix B, text against Algorithm 2",
        title="Two readings of FCFS",
        statement="FCFS, which scans workers in increasing index g = 1, ..., G and fills any free "
        "slots on each, has the pseudocode of Algorithm 2, which gives the oldest request to a "
        "worker with most free slots, one after the other.",
        formula="loads by index = loads with g* ∈ argmax_g cap[g]",
        hypotheses=("two workers, all slots free",),
        kind=Kind.COUNTEREXAMPLE,
        check=_fcfs_check,
        mutations=(
            Mutation("one slot per worker", partial(_fcfs_check, slots=1)),
            Mutation("newest first in place of FCFS", partial(_fcfs_check, policy=newest_first)),
        ),
        correction="They admit the same requests but place them differently. The paper says that "
        "the pseudocode is the one used in analysis and implementation. The toolkit has both: "
        "fcfs (Algorithm 2) and fcfs-by-index (the text).",
        defect=Defect.MISPRINT,
        verify=verify_fcfs,
    ),
)
