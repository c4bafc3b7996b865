"""The answer to a hindsight makespan problem."""

from dataclasses import dataclass

from formulations.errors import InputError
from formulations.results import ProgramResult


@dataclass(frozen=True, kw_only=True)
class MakespanResult(ProgramResult):
    """The answer of a hindsight makespan program.

    Parameters
    ----------
    starts, workers : tuple of int, optional
        First step and worker of each request.
    scale : int
        How many units of objective and bound make one unit of time (1 for tokens and steps).
    """

    starts: tuple[int, ...] | None = None
    workers: tuple[int, ...] | None = None
    scale: int = 1

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        super().__post_init__()
        missing = {value is None for value in (self.objective, self.starts, self.workers)}
        if len(missing) > 1:
            raise ValueError("objective, starts and workers come together")

    def required_schedule(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return starts and workers.

        Raises
        ------
        InputError
            If the run left none.
        """
        if self.starts is None or self.workers is None:
            raise InputError(
                self.method, f"no schedule ({self.termination})", "raise the time limit"
            )
        return self.starts, self.workers

    def to_mapping(self) -> dict[str, object]:
        """Return a JSON document."""
        return super().to_mapping() | {
            "scale": self.scale,
            "starts": None if self.starts is None else list(self.starts),
            "workers": None if self.workers is None else list(self.workers),
        }
