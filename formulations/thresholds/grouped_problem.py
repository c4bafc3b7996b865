"""Data of Nested WAIT for several prompt lengths, in common batches on one worker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker
from formulations.thresholds.nested_problem import SegmentedProblem
from formulations.thresholds.prompt_group import PromptGroup, prompt_groups


@dataclass(frozen=True)
class GroupedProblem(SegmentedProblem):
    """Thresholds for several prompt lengths: one Nested WAIT for each, in common batches.

    A full batch is full in every segment of every group, so ``ΔT(n)`` sums over all of them; the
    first part of (10) must hold for each group with its own rate, the second along each chain. The
    paper only says that groups run independently; they share the time of a batch. With one group
    it is `NestedProblem`, with one class in each group `WaitProblem`.

    Parameters
    ----------
    groups : tuple of PromptGroup
        At least one, of different prompt lengths (of any, if outputs are known, as in WAIT).
    worker : FluidWorker
        Times and memory.
    strict, within_memory : bool
        As in `NestedProblem`.

    Raises
    ------
    InputError
        If there is no group.
    """

    groups: tuple[PromptGroup, ...]
    worker: FluidWorker
    strict: bool = True
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        if not self.groups:
            raise InputError("groups", "0 of them", "give one at least")

    @staticmethod
    def from_fluid(fluid: FluidProblem, **options: Any) -> "GroupedProblem":
        """Return the problem of a fluid problem with one worker, a group for each prompt length.

        Groups come in order of their first class.

        Raises
        ------
        InputError
            If the outputs of a group do not increase, naming the class.
        """
        worker = fluid.single_worker()
        return GroupedProblem(prompt_groups(fluid.classes), worker, **options)

    def with_segments(self, boundaries: Sequence[Sequence[int]]) -> "GroupedProblem":
        """Return the problem with other segments, given for each group."""
        pairs = zip(self.groups, boundaries, strict=True)
        return replace(self, groups=tuple(group.with_boundaries(b) for group, b in pairs))
