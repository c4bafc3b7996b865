"""The answer to a hindsight makespan problem."""

from dataclasses import dataclass

from formulations.results import ProgramResult

#: First step and worker of each request.
Schedule = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class MakespanResult(ProgramResult[Schedule]):
    """The answer of a hindsight makespan program, ``scale`` units to a second (or 1).

    Parameters
    ----------
    starts, workers : tuple of int, optional
        First step and worker of each request.
    """

    solution_fields = ("starts", "workers")

    starts: tuple[int, ...] | None = None
    workers: tuple[int, ...] | None = None

    def to_mapping(self) -> dict[str, object]:
        """Return a JSON document."""
        return super().to_mapping() | {"scale": self.scale}
