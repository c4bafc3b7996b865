"""Equation (1) of the KV-cache paper: whether requests can start now and never exceed M."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from bfio.kvcache.state import CacheState

#: Tokens needed in the coming batch, and batches still occupied, the coming one included.
Load: TypeAlias = tuple[int, int]


def running_loads(state: CacheState) -> list[Load]:
    """Return the loads of the running requests."""
    return list(zip(state.need.tolist(), state.batches_left.tolist(), strict=True))


def memory_after(loads: Iterable[Load], delay: int) -> int:
    """Return the tokens in the cache ``delay`` batches after the coming one."""
    return sum(need + delay for need, batches in loads if batches > delay)


def fits(loads: Sequence[Load], memory: int) -> bool:
    """Whether the requests stay within the memory if nothing else starts.

    Between completions the memory grows, so it is greatest in the last batch of some request;
    only those batches are looked at (the paper's checkpoints, the candidate's own included).
    """
    checkpoints = {batches - 1 for _, batches in loads}
    return all(memory_after(loads, delay) <= memory for delay in checkpoints)
