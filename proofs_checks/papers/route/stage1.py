"""Stage 1 of BR-0: which request it sends to which worker."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np

from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage_reference
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.route.br0 import Rules, decision, decisions, f_score
from proofs_checks.search import Domain, examine
from proofs_checks.step_enumeration import multisets

CLAIMS = Claims()


def emptiest(data: Data) -> int | None:
    """Return the worker with the most free slots; None if there is a tie."""
    counts = [len(requests) for requests in data["active"]]
    return counts.index(min(counts)) if counts.count(min(counts)) == 1 else None


def best_single(waiting: Sequence[int], margin: int, workers: int) -> set[int]:
    """Return the sizes of highest F-score for a worker with this margin."""
    scores = {size: f_score(size, margin, workers) for size in waiting}
    return {size for size, value in scores.items() if value == max(scores.values())}


def verify_stage1(data: Data) -> str | None:
    """Confirm that stage 1 sends an unsafe request, contrary to the sentence."""
    active, waiting, slots = data["active"], data["waiting"], data["slots"]
    if len(active) < 2 or len(waiting) < 2 or min(waiting) < 1 or data["threshold"] < 1:
        return None
    if any(not 1 <= len(requests) <= slots or min(requests) < 1 for requests in active):
        return None
    free = sum(slots - len(requests) for requests in active)
    worker = emptiest(data)
    if worker is None or free <= data["threshold"]:
        return None
    loads = [sum(requests) for requests in active]
    margin = max(loads) - loads[worker]
    sent = best_single(waiting, margin, len(active))
    # Every part of the sentence must fail: safe request, largest request, lightest worker.
    if min(sent) <= margin or max(waiting) in sent or loads[worker] == min(loads):
        return None
    return (
        f"loads {loads}, {[slots - len(r) for r in active]} free slots, θ = {data['threshold']}, "
        f"sizes {waiting} waiting: the worker with most free slots has the load {loads[worker]} "
        f"and the margin {margin}, and the request of highest score for it has the size "
        f"{min(sent)}"
    )


def _states(context: Context) -> Iterator[Data]:
    """Yield small clusters with active requests and a unique emptiest worker."""
    largest, slots = context.choose((3, 3), (4, 3), (4, 4))
    rows = [
        list(row)
        for count in range(1, slots + 1)
        for row in combinations_with_replacement(range(1, largest + 1), count)
    ]
    for active in product(rows, repeat=2):
        for waiting in multisets(2, largest):
            data = {
                "slots": slots,
                "threshold": 1,
                "active": list(active),
                "waiting": list(waiting),
            }
            if len(active[0]) != len(active[1]) and sum(map(len, active)) < 2 * slots - 1:
                yield data


def _as_toolkit(data: Data, penalty: int | None) -> bool:
    """Whether the toolkit's BR-0 makes one of the decisions that enumerated BR-0 allows."""
    waiting = data["waiting"]
    free = [data["slots"] - len(row) for row in data["active"]]
    loads = [sum(row) for row in data["active"]]
    assignment = two_stage_reference(
        np.array(free), np.array(loads)[:, None], np.array(waiting)[:, None], (1,),
        TwoStageParameters(
            threshold=data["threshold"], beta=None if penalty is None else Fraction(penalty)
        ),
    )  # fmt: skip
    by_hand = decisions(free, loads, waiting, Rules(data["threshold"], len(waiting)))
    return decision(assignment, waiting, len(free)) in by_hand


@CLAIMS.remark(
    "route.stage1",
    Mutation("all requests of one size", alike=True),
    Mutation("safe requests only in the correction", fits=True),
    Mutation("the toolkit's BR-0 without a penalty", penalty=0),
    defect=Defect.SENTENCE,
    verify=verify_stage1,
)
def _stage1_check(
    context: Context, *, alike: bool = False, fits: bool = False, penalty: int | None = None
) -> Outcome:
    """The safe regime of stage 1.

    Source: BalanceRoute paper, section 3.2, stage 1
    Statement: While more than θ slots are free, the worker with most free slots admits the single
        request of highest score. Because it has the largest spare capacity it is in the safe
        regime, F = s_i: the largest waiting request goes to the lightest worker with most free
        slots.
    Formula: g* = argmax_g cap_g  ⇒  s_i ≤ m_{g*},  i = argmax s_i,  L_{g*} = min_g L_g
    Assumes: Σ_g cap_g > θ; BR-0
    Summary: A worker with few but long requests can have most free slots and the highest load;
        then its margin is 0, every request overflows, and the smallest does least harm. An empty
        cluster is another case.
    Reading: a counterexample breaks all three parts, and every worker in it is at work.
    Correction: Free slots count requests, margins count tokens. Stage 1 sends the largest request
        that fits the margin of g* or the smallest that does not, whichever scores higher; the
        largest one if all fit, and the smallest one if none does.
    """
    cases = [
        data
        for data in _states(context)
        # If all requests have the same size, fewer requests mean a smaller load.
        if not alike
        or len({size for row in (*data["active"], data["waiting"]) for size in row}) == 1
    ]
    domain = Domain("two workers with a few active requests, two waiting, small sizes", cases)
    printed = domain.refute(
        "stage 1 sends a safe request, or the largest one, or to the lightest worker",
        verify_stage1,
    )

    def corrected_holds(data: Data) -> bool:
        loads = [sum(row) for row in data["active"]]
        margin = max(loads) - loads[emptiest(data) or 0]
        safe = [size for size in data["waiting"] if size <= margin]
        over = [size for size in data["waiting"] if size > margin]
        candidates = {*([max(safe)] if safe else []), *([min(over)] if over and not fits else [])}
        sent = best_single(data["waiting"], margin, len(loads))
        return bool(candidates) and sent <= candidates and (bool(over) or sent == {max(safe)})

    corrected = domain.examine(
        "it sends the largest request up to the margin or the smallest above; if all are up to "
        "the margin, the largest", corrected_holds
    )  # fmt: skip
    toolkit = examine(
        "the toolkit's BR-0 takes a decision of BR-0 by hand", "a part of the same",
        cases[:: context.choose(4, 2, 1)], lambda data: _as_toolkit(data, penalty),
    )  # fmt: skip
    return printed, corrected, toolkit
