"""Data of the WAIT threshold program: one worker, known output lengths."""

from dataclasses import dataclass
from functools import cached_property

from formulations.fluid import FluidProblem, FluidWorker
from formulations.thresholds.chain import SegmentChain
from formulations.thresholds.conditions import (
    ThresholdConditions,
    ThresholdProblem,
    constant_rate_conditions,
)


@dataclass(frozen=True)
class WaitProblem(ThresholdProblem):
    """Thresholds ``n_j >= 1``: WAIT starts class j once n_j of it wait for their prefill.

    Then every stage of class j holds 0 or n_j requests, a batch of everything takes ``ΔT(n) = d0 +
    d1·M(n)`` with ``M(n) = Σ_j n_j w_j``, and condition (9) asks ``ΔT(n) <= n_j/λ_j`` for all j.

    Parameters
    ----------
    fluid : FluidProblem
        Classes and one worker.
    strict : bool
        Whether (9) must hold with ``<``, as the bounded latency of theorem 1 needs.
    within_memory : bool
        Whether ``M(n) <= C`` is required. WAIT never holds more than M(n).

    Raises
    ------
    InputError
        If there are several workers.
    """

    fluid: FluidProblem
    strict: bool = False
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        self.fluid.single_worker()

    @property
    def worker(self) -> FluidWorker:
        """The worker."""
        return self.fluid.workers[0]

    @cached_property
    def conditions(self) -> ThresholdConditions:
        """Condition (9): every class is a chain of one segment."""
        chains = [
            SegmentChain(kind.prompt, (kind.output,), kind.rate, (), 1)
            for kind in self.fluid.classes
        ]
        return constant_rate_conditions(
            chains, self.worker, strict=self.strict, within_memory=self.within_memory
        )
