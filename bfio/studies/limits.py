"""What one row may take before it is stopped."""

from dataclasses import dataclass

from formulations.errors import InputError

_GIBIBYTE = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of one row.

    Parameters
    ----------
    seconds : float
        Wall-clock time; a row that takes longer is killed and recorded as timed out.
    memory_gib : float
        Memory of the process that computes it [GiB]; a row that wants more is recorded as out of
        memory.
    attempts : int
        How often a row is begun whose process is killed from outside, before it counts as
        crashed.
    fresh_process : bool
        Whether each row gets a process of its own, so that no earlier row leaves memory or caches.
    """

    seconds: float = 3600.0
    memory_gib: float = 4.0
    attempts: int = 5
    fresh_process: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 1e7:
            raise InputError("limits.seconds", f"{self.seconds}", "use 0 < seconds <= 10^7")
        if not 0.25 <= self.memory_gib <= 65_536:
            raise InputError("limits.memory_gib", f"{self.memory_gib}", "use 0.25 to 65,536")
        if not 1 <= self.attempts <= 1000:
            raise InputError("limits.attempts", f"{self.attempts}", "use 1 to 1000")

    @property
    def memory_bytes(self) -> int:
        """Memory of one row [bytes]."""
        return round(self.memory_gib * _GIBIBYTE)
