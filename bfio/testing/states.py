"""States of one decode step: a maker from plain numbers, and how a state reads."""

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
    """Return a state with read-only arrays, as policies get it in runs.

    What is not given is 0, or constant over the window; memory is unlimited by default. Active
    requests share the load of their worker equally, with at least one token each, and have not
    rested; a step takes a unit, and a unit per token. Other fields are set by
    `dataclasses.replace`.

    Parameters
    ----------
    loads, free : sequence of int
        G loads of workers [tokens], and their free slots.
    sizes : sequence of int
        N sizes of waiting requests [tokens], oldest first.
    running, queued, queued_tokens : sequence of int, optional
        G requests that run, that are bound and do not run yet, and prompt tokens of the latter.
    projected, contributions : sequence of sequences, optional
        Shapes (G, H+1) and (N, H+1): loads of workers and of waiting requests in the window
        [tokens]; columns 0 are ``loads`` and ``sizes``.
    room : sequence of int, optional
        G free memories [tokens]; each request needs its size.
    seed : int
        Seed of the state's generator.
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
        slots=max([1, *entries(free, "free")]),
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
    """Return the loads of the workers after admission, from their definition [tokens]."""
    loads: list[int] = state.loads.tolist()
    for size, worker in zip(state.sizes.tolist(), answer, strict=True):
        if worker is not None:
            loads[worker] += size
    return loads


def contract_violation(state: DecodeState, answer: object) -> str | None:
    """Return what is wrong with an answer to a state; None if it keeps the contract of policies.

    An answer is a sequence with a worker of ``0..G-1`` or None for each waiting request, and gives
    no worker more requests than its free slots.
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
    parts = [
        f"loads {_listed(state.loads)}",
        f"free slots {_listed(state.free_slots)}",
        *(
            f"{word} {_listed(values)}"
            for word, values in (
                ("running", state.running),
                ("queued", state.queued),
                ("queued tokens", state.queued_tokens),
            )
            if values.any()
        ),
    ]
    if not (state.room >= NO_LIMIT // 2).all():
        parts.append(f"free memory {_listed(state.room)}")
    if (state.projected_loads != state.loads[:, None]).any():
        parts.append(f"projected loads {state.projected_loads.tolist()}")
    if (state.contributions != state.sizes[:, None]).any():
        parts.append(f"contributions {state.contributions.tolist()}")
    return f"{state.num_workers} workers: {'; '.join(parts)}; waiting sizes, oldest first: {waits}"


def _listed(values: IntArray) -> str:
    return ", ".join(map(str, values.tolist()))
