"""The answer to a hindsight latency problem."""

from dataclasses import dataclass

from formulations.errors import InputError
from formulations.results import ProgramResult


@dataclass(frozen=True, kw_only=True)
class LatencyResult(ProgramResult):
    """The answer of a hindsight latency program; the objective is the total latency [rounds].

    Parameters
    ----------
    starts : tuple of int, optional
        Start round of each request.
    """

    starts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        super().__post_init__()
        if (self.objective is None) != (self.starts is None):
            raise ValueError("objective and starts come together")

    def required_starts(self) -> tuple[int, ...]:
        """Return the starts.

        Raises
        ------
        InputError
            If the run left none.
        """
        if self.starts is None:
            raise InputError(
                self.method, f"no schedule ({self.termination})", "raise the time limit"
            )
        return self.starts

    def to_mapping(self) -> dict[str, object]:
        """Return a JSON document."""
        starts = None if self.starts is None else list(self.starts)
        return super().to_mapping() | {"starts": starts}
