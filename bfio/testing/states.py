"""Build the state of one decode step from plain numbers, and describe a state in words."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bfio.decode.cluster import NO_LIMIT
from bfio.decode.policy import checked_decision
from bfio.decode.state import ActiveRequests, DecodeState
from formulations.arrays import (
    IntArray,
    check_length,
    entries,
    frozen,
    integer,
    integer_matrix,
    integer_vector,
)
from formulations.errors import InputError


def make_state(
    loads: Sequence[int],
    free: Sequence[int],
    sizes: Sequence[int],
    *,
    running: Sequence[int] | None = None,
    queued: Sequence[int] | None = None,
    queued_tokens: Sequence[int] | None = None,
    projected: Sequence[Sequence[int]] | None = None,
    contributions: Sequence[Sequence[int]] | None = None,
    room: Sequence[int] | None = None,
    seed: int = 0,
) -> DecodeState:
    """Return a state with read-only arrays, like those that policies get in runs.

    Counts that are not given are 0, loads are constant over the window, and memory is unlimited.
    Active requests share the load of their worker equally, with at least one token each, and none
    was paused. A step takes one unit of time, plus one unit per token of load. Set other fields
    with `dataclasses.replace`.

    Parameters
    ----------
    loads, free : sequence of int
        Length G: load [tokens] and free slots of each worker.
    sizes : sequence of int
        Length N: size of each waiting request [tokens], oldest first.
    running, queued, queued_tokens : sequence of int, optional
        Length G: number of running requests of each worker, number of requests assigned to the
        worker that do not run yet, and prompt tokens of these queued requests.
    projected, contributions : sequence of sequences, optional
        Shapes (G, H+1) and (N, H+1): loads of workers and of waiting requests at each step of the
        look-ahead window [tokens]; columns 0 are ``loads`` and ``sizes``.
    room : sequence of int, optional
        Length G: free memory of each worker [tokens]; a request needs as much as its size.
    seed : int
        Seed of ``state.rng``.
    """
    G, N = len(entries(loads, "loads")), len(entries(sizes, "sizes"))
    if not G:
        raise InputError("loads", "no worker", "give one load per worker")
    integer(seed, "seed")

    def vector(values: Sequence[int] | None, length: int, where: str = "") -> IntArray:
        filled = integer_vector([0] * length if values is None else values, where)
        check_length(filled, length, where, "request" if where in ("sizes", "ages") else "worker")
        return filled

    window = integer_matrix([[a] for a in loads] if projected is None else projected, "projected")
    check_length(window, G, "projected", "worker")
    columns = window.shape[1]
    worker = np.repeat(np.arange(G), vector(running, G, "running"))
    load = np.maximum(vector(loads, G, "loads")[worker] // vector(running, G)[worker], 1)
    active = ActiveRequests(np.arange(len(worker)), worker, load, np.zeros_like(load), load)
    units = frozen(np.ones(G, dtype=np.int64))
    added = [[size] * columns for size in sizes] if contributions is None else contributions
    state = DecodeState(
        step=0,
        slots=int(vector(free, G, "free").max(initial=1)),
        loads=vector(loads, G, "loads"),
        projected_loads=window,
        free_slots=vector(free, G, "free"),
        running=vector(running, G, "running"),
        projected_running=frozen(np.repeat(vector(running, G)[:, None], columns, axis=1)),
        queued=vector(queued, G, "queued"),
        queued_tokens=vector(queued_tokens, G, "queued_tokens"),
        sizes=vector(sizes, N, "sizes"),
        ages=vector(None, N),
        contributions=integer_matrix(added, "contributions", columns=columns),
        rng=np.random.default_rng(seed),
        holdings=lambda: active,
        step_units=(units, units),
    )
    return state if room is None else replace(state, room=vector(room, G, "room"))


def loads_after(state: DecodeState, answer: Sequence[int | None]) -> list[int]:
    """Return the load of each worker after admission, length G [tokens]."""
    loads: list[int] = state.loads.tolist()
    for size, worker in zip(state.sizes.tolist(), answer, strict=True):
        if worker is not None:
            loads[worker] += size
    return loads


def contract_violation(state: DecodeState, answer: object) -> str | None:
    """Return the fault of an answer to a state; None if it follows the contract of policies.

    A valid answer is a sequence with a worker of ``0..G-1`` or None for each waiting request. No
    worker gets more requests than it has free slots.
    """
    try:
        decided = checked_decision(answer, state.num_waiting, state.num_workers, "", state.step)
    except InputError as error:
        request = error.where.partition("request ")[2]
        return f"{f'request {request}: ' if request else ''}{error.what}"
    for worker, free in enumerate(state.free_slots.tolist()):
        if (count := decided.count(worker)) > free:
            return f"worker {worker} gets {count} requests and has {free} free slots"
    return None


def in_words(state: DecodeState) -> str:
    """Return the workers and the waiting requests of a state in one line."""
    waits = f"{_listed(state.sizes)}" if state.num_waiting else "none"
    parts = [f"loads {_listed(state.loads)}", f"free slots {_listed(state.free_slots)}"]
    for name in ("running", "queued", "queued_tokens"):
        if (values := getattr(state, name)).any():
            parts.append(f"{name.replace('_', ' ')} {_listed(values)}")
    if not (state.room >= NO_LIMIT // 2).all():
        parts.append(f"free memory {_listed(state.room)}")
    if (state.projected_loads != state.loads[:, None]).any():
        parts.append(f"projected loads {state.projected_loads.tolist()}")
    if (state.contributions != state.sizes[:, None]).any():
        parts.append(f"contributions {state.contributions.tolist()}")
    return f"{state.num_workers} workers: {'; '.join(parts)}; waiting sizes, oldest first: {waits}"


def _listed(values: IntArray) -> str:
    return ", ".join(map(str, values.tolist()))
