"""What a policy sees at one decode step."""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray


@dataclass(frozen=True)
class DecodeState:
    """The cluster and the wait pool before admission at one step.

    G workers, N waiting requests in arrival order, look-ahead steps h = 0..H. Tokens throughout.

    Parameters
    ----------
    step : int
        Decode step, from 0.
    slots : int
        Slots per worker, ``B``.
    loads : IntArray
        Shape (G,): load of each worker now, without new admissions.
    projected_loads : IntArray
        Shape (G, H+1): ``b_g(h)``, predicted loads without new admissions; column 0 is ``loads``.
    free_slots : IntArray
        Shape (G,): slots that can be filled at this step.
    running : IntArray
        Shape (G,): requests being decoded.
    projected_running : IntArray
        Shape (G, H+1): how many of those are predicted to run still; column 0 is ``running``.
    queued : IntArray
        Shape (G,): requests bound to the worker that do not run yet (0 with pooled dispatch).
    queued_tokens : IntArray
        Shape (G,): prompt tokens of those.
    sizes : IntArray
        Shape (N,): prompt tokens ``s_i`` of the waiting requests.
    ages : IntArray
        Shape (N,): steps each has waited since it was revealed.
    contributions : IntArray
        Shape (N, H+1): ``v_i(h)``, predicted load of each if admitted now; column 0 is ``sizes``.
    rng : numpy.random.Generator
        The run's own generator; a policy draws from no other.
    """

    step: int
    slots: int
    loads: IntArray
    projected_loads: IntArray
    free_slots: IntArray
    running: IntArray
    projected_running: IntArray
    queued: IntArray
    queued_tokens: IntArray
    sizes: IntArray
    ages: IntArray
    contributions: IntArray
    rng: np.random.Generator

    @property
    def num_workers(self) -> int:
        """``G``."""
        return len(self.loads)

    @property
    def num_waiting(self) -> int:
        """``N``."""
        return len(self.sizes)

    @property
    def num_admissible(self) -> int:
        """``U = min(N, free slots)``: how many requests a work-conserving policy admits."""
        return min(self.num_waiting, int(self.free_slots.sum()))
