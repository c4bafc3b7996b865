"""The policy `adp-router`: TensorRT-LLM's default rule for ranks of attention data parallelism."""

import numpy as np

from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import ServingOrder, StepTally, in_order
from formulations.arrays import IntArray


def assign_under_cap(state: DecodeState) -> list[int | None]:
    """Assign the ``U`` oldest requests, largest first, to the worker with fewest prompt tokens.

    A worker that has as many requests as the fair share ``⌈(active + U) / G⌉``, or as the fullest
    worker if that is more, gets none while another one is open: slots and memory that differ
    could else leave slots idle, which cannot occur in the source. Ties go to the worker with
    fewest requests, then to the lowest index.
    """
    tally, tokens = StepTally(state), prompt_tokens(state).tolist()
    held = state.running + state.queued
    share = -(-(int(held.sum()) + state.num_admissible) // state.num_workers)
    cap = max(share, int(held.max()))

    def key(g: int) -> tuple[bool, int, int, int]:
        requests = tally.workers[g].requests
        return requests >= cap, tokens[g], requests, g

    for request in in_order(state, ServingOrder.LARGEST_OF_OLDEST):
        if not (workers := tally.open_workers(request)):
            break
        worker = min(workers, key=key)
        tally.assign(request, worker)
        tokens[worker] += tally.sizes[request]
    return tally.assignment


assign_under_cap.binds_together = True  # type: ignore[attr-defined]


def prompt_tokens(state: DecodeState) -> IntArray:
    """Return the prompts of the active and bound requests of each worker, shape (G,) [tokens].

    Where individual requests are unknown, as with telemetry, the load stands for active prompts.
    """
    if state.holdings is None:
        return state.loads + state.queued_tokens
    active = state.active
    prompts = np.bincount(active.worker, active.prompt, state.num_workers).astype(np.int64)
    total: IntArray = prompts + state.queued_tokens
    return total


SPEC = PolicySpec(
    name="adp-router",
    factory=lambda _: assign_under_cap,
    summary=(
        "the U oldest requests, largest first, each to the worker with fewest prompt tokens among "
        "those below a cap of requests"
    ),
    source="TensorRT-LLM, `DefaultADPRouter`",
)
