"""Data of the Nested WAIT threshold programs: one worker, output lengths unknown beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.thresholds.conditions import (
    ThresholdConditions,
    ThresholdProblem,
    constant_rate_conditions,
)
from formulations.thresholds.prompt_group import PromptGroup, prompt_groups


@dataclass(frozen=True)
class NestedProblem(ThresholdProblem):
    """Thresholds ``n_i >= 1`` of segments of stages, for one prompt length or several.

    Of one prompt length l there are classes with output lengths ``l'_1 < ... < l'_m`` and rates
    λ_j. Segment i ends with stage ``b_i``: the first is stages ``0..b_1``, the others
    ``b_{i−1}+1..b_i``. With ``Λ_i`` the rate of classes longer than ``b_{i−1}`` and ``s_i = Σ (l
    + k)`` over the stages k of segment i, a full batch takes ``ΔT(n) = d0 + d1·Σ n_i s_i``, and
    condition (10) asks

        ΔT(n) < n_1/Λ_1      and      n_{i+1}/n_i > P_{i+1} = Λ_{i+1}/Λ_i.

    With several prompt lengths there is one Nested WAIT for each, in common batches. A full batch
    is full in every segment of every group, so ``ΔT(n)`` sums over all of them; the first part of
    (10) must hold for each group with its own rate, the second along each chain. The paper only
    says that groups run independently; they share the time of a batch. With one class in each
    group it is `WaitProblem`.

    Parameters
    ----------
    groups : tuple of PromptGroup
        At least one, of different prompt lengths (of any, if outputs are known, as in WAIT).
        Fewer boundaries than outputs are the segments of section 7.2: requests that end within
        one leave it at once, so that ``Σ n_i s_i`` is an upper bound, and the load is more than
        that of the fluid model.
    worker : FluidWorker
        Times and memory.
    strict : bool
        Whether (10) holds with ``<`` and ``>`` as bounded latency and buffers need; otherwise
        with equality allowed, as (14) prints the first and the paper's experiments use the other.
    within_memory : bool
        Whether ``Σ n_i s_i <= C`` is required (the safety buffer comes on top, see `buffer`).

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
    def single(
        prompt: int,
        outputs: tuple[int, ...],
        rates: tuple[Fraction, ...],
        worker: FluidWorker,
        boundaries: tuple[int, ...] | None = None,
        **options: bool,
    ) -> "NestedProblem":
        """Return the problem of one prompt length; see `PromptGroup` and the options above."""
        group = PromptGroup(prompt, outputs, rates, boundaries)
        return NestedProblem((group,), worker, **options)

    @staticmethod
    def from_fluid(fluid: FluidProblem, **options: bool) -> "NestedProblem":
        """Return the problem of a fluid problem with one worker, a group for each prompt length.

        Groups come in order of their first class.

        Raises
        ------
        InputError
            If the outputs of a group do not increase, naming the class.
        """
        return NestedProblem(prompt_groups(fluid.classes), fluid.single_worker(), **options)

    @staticmethod
    def single_from_fluid(
        fluid: FluidProblem, boundaries: Sequence[int] | None = None, **options: bool
    ) -> "NestedProblem":
        """Return the problem of a fluid problem with one worker and one prompt length.

        Raises
        ------
        InputError
            If prompts differ or outputs do not increase, naming the class.
        """
        problem = NestedProblem.from_fluid(fluid, **options)
        if len(problem.groups) > 1:
            first = problem.groups[0].prompt
            j = next(j for j, k in enumerate(fluid.classes) if k.prompt != first)
            raise InputError(
                f"classes[{j}].prompt",
                f"{fluid.classes[j].prompt} differs from {first}, but here all are equal",
                "make a problem of several groups",
            )
        return problem if boundaries is None else problem.with_boundaries(boundaries)

    @property
    def group(self) -> PromptGroup:
        """The only group.

        Raises
        ------
        InputError
            If there are several.
        """
        if len(self.groups) > 1:
            raise InputError("groups", f"{len(self.groups)} of them", "give one prompt length")
        return self.groups[0]

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

    def with_segments(self, boundaries: Sequence[Sequence[int]]) -> "NestedProblem":
        """Return the problem with other segments, given for each group."""
        pairs = zip(self.groups, boundaries, strict=True)
        return replace(self, groups=tuple(group.with_boundaries(b) for group, b in pairs))

    def with_boundaries(self, boundaries: Sequence[int]) -> "NestedProblem":
        """Return the problem with other segments, given for the only group."""
        return self.with_segments([boundaries])
