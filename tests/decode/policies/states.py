"""States of one decode step for the policy tests: a builder and a strategy."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from bfio.decode.state import DecodeState

#: Token counts from ties and zeros to the millions.
TOKENS = st.integers(0, 3) | st.integers(0, 20) | st.integers(0, 5_000_000)
SIZES = st.integers(1, 3) | st.integers(1, 20) | st.integers(1, 5_000_000)


def state(
    loads: Sequence[int],
    free: Sequence[int],
    sizes: Sequence[int],
    *,
    running: Sequence[int] | None = None,
    queued: Sequence[int] | None = None,
    queued_tokens: Sequence[int] | None = None,
    projected: Sequence[Sequence[int]] | None = None,
    contributions: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
) -> DecodeState:
    """Build a state; by default values are 0, or constant over a window of one step."""
    G, N = len(loads), len(sizes)

    def vector(values: Sequence[int] | None, length: int) -> np.ndarray[tuple[int], np.dtype]:
        filled = [0] * length if values is None else values
        return np.array(filled, dtype=np.int64).reshape(length)

    window = [[load] for load in loads] if projected is None else projected
    added = [[size] for size in sizes] if contributions is None else contributions
    columns = len(window[0])
    return DecodeState(
        step=0,
        slots=max([1, *free]),
        loads=vector(loads, G),
        projected_loads=np.array(window, dtype=np.int64).reshape(G, columns),
        free_slots=vector(free, G),
        running=vector(running, G),
        projected_running=np.repeat(vector(running, G)[:, None], columns, axis=1),
        queued=vector(queued, G),
        queued_tokens=vector(queued_tokens, G),
        sizes=vector(sizes, N),
        ages=vector(None, N),
        contributions=np.array(added, dtype=np.int64).reshape(N, columns),
        rng=np.random.default_rng(seed),
    )


@st.composite
def states(draw: st.DrawFn, *, max_workers: int = 5, max_waiting: int = 9) -> DecodeState:
    """Draw a state with many ties, full workers, empty pools, and a window of 1 to 4 steps."""
    G = draw(st.integers(1, max_workers))
    N = draw(st.integers(0, max_waiting))
    columns = draw(st.integers(1, 4))

    def per_worker(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=G, max_size=G))

    loads = per_worker(TOKENS)
    sizes = draw(st.lists(SIZES, min_size=N, max_size=N))
    rest = st.lists(TOKENS, min_size=columns - 1, max_size=columns - 1)
    return state(
        loads,
        per_worker(st.integers(0, 4)),
        sizes,
        running=per_worker(st.integers(0, 5)),
        queued=per_worker(st.integers(0, 5)),
        queued_tokens=per_worker(TOKENS),
        projected=[[load, *draw(rest)] for load in loads],
        contributions=[[size, *draw(rest)] for size in sizes],
        seed=draw(st.integers(0, 5)),
    )


def imbalance(decode_state: DecodeState, assignment: Sequence[int | None]) -> int:
    """Imbalance of this step after admission, from its definition."""
    loads = decode_state.loads.tolist()
    for i, worker in enumerate(assignment):
        if worker is not None:
            loads[worker] += int(decode_state.sizes[i])
    return sum(max(loads) - load for load in loads)


def assert_admissible(decode_state: DecodeState, assignment: Sequence[int | None]) -> None:
    """Assert one entry per waiting request, known workers, and no more than the free slots."""
    assert len(assignment) == decode_state.num_waiting
    taken = Counter(worker for worker in assignment if worker is not None)
    for worker, count in taken.items():
        assert type(worker) is int
        assert 0 <= worker < decode_state.num_workers
        assert count <= decode_state.free_slots[worker]
