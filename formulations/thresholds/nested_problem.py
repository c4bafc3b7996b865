"""Data of the Nested WAIT threshold programs: one worker, output lengths unknown beforehand."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.thresholds.conditions import (
    ThresholdConditions,
    ThresholdProblem,
    constant_rate_conditions,
)
from formulations.thresholds.prompt_group import PromptGroup, prompt_groups


class SegmentedProblem(ThresholdProblem):
    """Thresholds of segments, for one prompt length (`NestedProblem`) or several."""

    #: The classes of each prompt length.
    groups: tuple[PromptGroup, ...]
    worker: FluidWorker
    strict: bool
    within_memory: bool

    @abstractmethod
    def with_segments(self, boundaries: Sequence[Sequence[int]]) -> "SegmentedProblem":
        """Return the problem with other segments, given for each group."""

    @cached_property
    def conditions(self) -> ThresholdConditions:
        """Condition (10): one chain of segments for each prompt length."""
        return constant_rate_conditions(
            [group.chain for group in self.groups],
            self.worker,
            strict=self.strict,
            within_memory=self.within_memory,
        )

    def fluid(self) -> FluidProblem:
        """Return the fluid problem of the same classes."""
        classes = tuple(
            RequestClass(rate, group.prompt, output)
            for group in self.groups
            for rate, output in zip(group.rates, group.outputs, strict=True)
        )
        return FluidProblem(classes, (self.worker,))


@dataclass(frozen=True)
class NestedProblem(SegmentedProblem):
    """Thresholds ``n_i >= 1`` of L segments of stages.

    Classes have one prompt length l, output lengths ``l'_1 < ... < l'_m`` and rates λ_j. Segment i
    ends with stage ``b_i``: the first is stages ``0..b_1``, the others ``b_{i−1}+1..b_i``. With
    ``Λ_i`` the rate of classes longer than ``b_{i−1}`` and ``s_i = Σ (l + k)`` over the stages k
    of segment i, a full batch takes ``ΔT(n) = d0 + d1·Σ n_i s_i``, and condition (10) asks

        ΔT(n) < n_1/Λ_1      and      n_{i+1}/n_i > P_{i+1} = Λ_{i+1}/Λ_i.

    Parameters
    ----------
    prompt : int
        ``l >= 1`` [tokens].
    outputs : tuple of int
        ``l'_j >= 0``, increasing [tokens].
    rates : tuple of Fraction
        ``λ_j > 0`` [1/s].
    worker : FluidWorker
        Times and memory.
    boundaries : tuple of int, optional
        ``b_1 < ... < b_L = l'_m``; by default every output length (section 5). Fewer are the
        segments of section 7.2: requests that end within one leave it at once, so that ``Σ n_i
        s_i`` is an upper bound, and the load is more than that of the fluid model.
    strict : bool
        Whether (10) holds with ``<`` and ``>`` as bounded latency and buffers need; otherwise
        with equality allowed, as (14) prints the first and the paper's experiments use the other.
    within_memory : bool
        Whether ``Σ n_i s_i <= C`` is required (the safety buffer comes on top, see `buffer`).

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    prompt: int
    outputs: tuple[int, ...]
    rates: tuple[Fraction, ...]
    worker: FluidWorker
    boundaries: tuple[int, ...] | None = None
    strict: bool = True
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        group = PromptGroup(self.prompt, self.outputs, self.rates, self.boundaries)
        for name in ("prompt", "outputs", "rates", "boundaries"):
            object.__setattr__(self, name, getattr(group, name))
        object.__setattr__(self, "groups", (group,))

    @staticmethod
    def from_fluid(
        fluid: FluidProblem, boundaries: Sequence[int] | None = None, **options: Any
    ) -> "NestedProblem":
        """Return the problem of a fluid problem with one worker.

        Raises
        ------
        InputError
            If prompts differ or outputs do not increase, naming the class.
        """
        worker = fluid.single_worker()
        (group, *others) = prompt_groups(fluid.classes)
        if others:
            j = next(j for j, k in enumerate(fluid.classes) if k.prompt != group.prompt)
            raise InputError(
                f"classes[{j}].prompt",
                f"{fluid.classes[j].prompt} differs from {group.prompt}, but here all are equal",
                "make a GroupedProblem",
            )
        return NestedProblem(
            prompt=group.prompt,
            outputs=group.outputs,
            rates=group.rates,
            worker=worker,
            boundaries=None if boundaries is None else tuple(boundaries),
            **options,
        )

    @property
    def ends(self) -> tuple[int, ...]:
        """``b_1 .. b_L``: the last stage of each segment."""
        return self.groups[0].ends

    @property
    def entries(self) -> tuple[int, ...]:
        """``e_1 = 0``, ``e_i = b_{i−1} + 1``: the first stage of each segment."""
        return self.groups[0].entries

    @property
    def passing(self) -> tuple[Fraction, ...]:
        """``P_2 .. P_L``: share of the requests of a segment that go on to the next."""
        return self.groups[0].chain.passing

    def with_boundaries(self, boundaries: Sequence[int]) -> "NestedProblem":
        """Return the problem with other segments."""
        return replace(self, boundaries=tuple(boundaries))

    def with_segments(self, boundaries: Sequence[Sequence[int]]) -> "NestedProblem":
        """Return the problem with other segments, given for the only group."""
        (ends,) = boundaries
        return self.with_boundaries(ends)
