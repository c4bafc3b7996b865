"""The answers of the threshold programs."""

from dataclasses import dataclass
from typing import Any, ClassVar

from formulations.results import ProgramResult


@dataclass(frozen=True, kw_only=True)
class ThresholdResult(ProgramResult[Any]):
    """The answer of a threshold program; the objective is the memory ``Σ n_i w_i`` [tokens].

    Parameters
    ----------
    thresholds : tuple of int, optional
        Per class (WAIT) or per segment (Nested WAIT), per stage; None without a solution.
    iterations : int
        Rounds of the fixed-point iteration, where that is the method.
    """

    solution_fields: ClassVar[tuple[str, ...]] = ("thresholds",)

    thresholds: tuple[int, ...] | None = None
    iterations: int = 0


@dataclass(frozen=True, kw_only=True)
class SegmentResult(ThresholdResult):
    """The answer of the segment program; see `segment_program` for its objective.

    Parameters
    ----------
    boundaries : tuple of int, optional
        Last stage of each chosen segment.
    """

    solution_fields = ("thresholds", "boundaries")

    boundaries: tuple[int, ...] | None = None
