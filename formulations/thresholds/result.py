"""The answers of the threshold programs."""

from dataclasses import dataclass

from formulations.results import ProgramResult


@dataclass(frozen=True, kw_only=True)
class ThresholdResult(ProgramResult):
    """The answer of a threshold program; the objective is the memory ``Σ n_i w_i`` [tokens].

    Parameters
    ----------
    thresholds : tuple of int, optional
        Per class (WAIT) or per segment (Nested WAIT), per stage; None without a solution.
    iterations : int
        Rounds of the fixed-point iteration, where that is the method.
    """

    thresholds: tuple[int, ...] | None = None
    iterations: int = 0

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        super().__post_init__()
        if (self.objective is None) != (self.thresholds is None):
            raise ValueError("objective and thresholds come together")

    def to_mapping(self) -> dict[str, object]:
        """Return a JSON document."""
        found = None if self.thresholds is None else list(self.thresholds)
        return super().to_mapping() | {"thresholds": found}


@dataclass(frozen=True, kw_only=True)
class SegmentResult(ThresholdResult):
    """The answer of the segment program; see `segment_program` for its objective.

    Parameters
    ----------
    boundaries : tuple of int, optional
        Last stage of each chosen segment.
    """

    boundaries: tuple[int, ...] | None = None

    def to_mapping(self) -> dict[str, object]:
        """Return a JSON document."""
        found = None if self.boundaries is None else list(self.boundaries)
        return super().to_mapping() | {"boundaries": found}
