"""Choose the number and boundaries of segments: plans with their memory, and the best plan."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import Unpack

from formulations.errors import CapabilityError, InputError
from formulations.thresholds.buffer import (
    BufferTarget,
    SafetyBuffer,
    cheapest_thresholds,
    group_buffers,
    sum_of_buffers,
)
from formulations.thresholds.conditions import least_thresholds
from formulations.thresholds.problem import NestedProblem

#: Largest number of inner boundaries whose subsets are enumerated (at most 2^16 subsets).
_MAX_INNER = 16


@dataclass(frozen=True)
class SegmentPlan:
    """Segments with their thresholds and memory.

    Parameters
    ----------
    problem : NestedProblem
        Data, including the segments.
    thresholds : tuple of int
        Threshold of each segment, per stage.
    group_buffers : tuple of SafetyBuffer
        Contribution of each prompt length to the memory of (12).
    """

    problem: NestedProblem
    thresholds: tuple[int, ...]
    group_buffers: tuple[SafetyBuffer, ...]

    @cached_property
    def buffer(self) -> SafetyBuffer:
        """The memory of (12) and its parts."""
        return sum_of_buffers(self.group_buffers)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Last stage of each segment, concatenated over the prompt lengths."""
        return tuple(end for group in self.problem.groups for end in group.ends)

    @property
    def num_segments(self) -> int:
        """``L``."""
        return len(self.boundaries)

    @property
    def memory(self) -> int | None:
        """Memory that suffices with the required probability [tokens]; None if unbounded."""
        return self.buffer.total


def plan(
    problem: NestedProblem, *, raised: bool = False, **target: Unpack[BufferTarget]
) -> SegmentPlan | None:
    """Return the plan for the problem's own segments; None if their load is 1 or more.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    raised : bool
        Whether thresholds may exceed the least ones to save memory, see `cheapest_thresholds`.
    **target
        ``duration``, ``probability`` and ``argument``, see `BufferTarget`.

    Raises
    ------
    CapabilityError
        If ``raised`` is used with several prompt lengths or too large thresholds.
    """
    if raised:
        if len(problem.groups) > 1:
            raise CapabilityError("raised", "several prompt lengths", "use least thresholds")
        thresholds = cheapest_thresholds(problem, **target)
    else:
        thresholds, _ = least_thresholds(problem)
    if thresholds is None:
        return None
    return SegmentPlan(problem, thresholds, group_buffers(problem, thresholds, **target))


def equal_boundaries(outputs: Sequence[int], num_segments: int) -> tuple[int, ...]:
    """Return the boundaries of L segments of ``m/L`` classes each (section 7.2).

    Raises
    ------
    InputError
        If L does not divide m.
    """
    m = len(outputs)
    if not 1 <= num_segments <= m or m % num_segments:
        raise InputError(
            "segments",
            f"{num_segments} do not divide {m} output lengths evenly",
            f"use a divisor of {m}",
        )
    width = m // num_segments
    return tuple(outputs[width - 1 :: width])


def printed_segment_memory(prompt: int, width: int, thresholds: Sequence[int]) -> Fraction:
    """Return the M of (14), ``Σ n_i (l + i·Δ/2)·Δ`` for segments of Δ stages each.

    Segment i ends at stage ``iΔ``; its mean stage is ``(i − 1/2)Δ + 1/2``, not ``iΔ/2``.
    """
    return sum(
        (n * (prompt + Fraction(i * width, 2)) * width for i, n in enumerate(thresholds, 1)),
        Fraction(0),
    )


def equal_plans(
    problem: NestedProblem, counts: Iterable[int], **target: Unpack[BufferTarget]
) -> dict[int, SegmentPlan | None]:
    """Return the plan for every number of equal segments: the U-shape of figures 16 to 18.

    With several prompt lengths, each has this number of segments. See `BufferTarget` for the
    keywords.
    """
    return {
        count: plan(
            problem.with_segments([equal_boundaries(g.outputs, count) for g in problem.groups]),
            **target,
        )
        for count in counts
    }


def all_boundaries(outputs: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every choice of boundaries among the output lengths; the last is always included."""
    inner = outputs[:-1]
    sizes = range(len(inner) + 1)
    return [(*chosen, outputs[-1]) for size in sizes for chosen in combinations(inner, size)]


def all_segments(problem: NestedProblem) -> Iterator[NestedProblem]:
    """Yield the problem for every choice of boundaries among the outputs of every group.

    Raises
    ------
    CapabilityError
        If there are too many choices.
    """
    inner = sum(len(group.outputs) - 1 for group in problem.groups)
    if inner > _MAX_INNER:
        raise CapabilityError(
            "outputs", f"2^{inner} choices of boundaries", "merge some, or use solve_segments"
        )
    for boundaries in product(*(all_boundaries(group.outputs) for group in problem.groups)):
        yield problem.with_segments(boundaries)


def best_plan(
    problem: NestedProblem, *, raised: bool = False, **target: Unpack[BufferTarget]
) -> SegmentPlan | None:
    """Return the plan of least memory (12) over all boundaries; see `plan` for the parameters.

    Ties go to fewer segments. None if no choice of segments is stable with a bounded buffer.

    Raises
    ------
    CapabilityError
        If there are too many choices to enumerate.
    """
    plans = (plan(candidate, raised=raised, **target) for candidate in all_segments(problem))
    known = [(p.memory, p) for p in plans if p is not None and p.memory is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None
