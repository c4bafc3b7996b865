"""The answers of the batch program."""

from dataclasses import dataclass
from typing import ClassVar

from formulations.batch_composition.greedy import Batch
from formulations.results import ProgramResult


@dataclass(frozen=True, kw_only=True)
class BatchResult(ProgramResult[Batch]):
    """A batch; the objective is minus its worth, scaled, plus its requests if fewest are wanted.

    Parameters
    ----------
    prefill, decode : tuple of int, optional
        Length n: ``δ^p_i`` and ``δ^d_i``.
    """

    solution_fields: ClassVar[tuple[str, ...]] = ("prefill", "decode")

    prefill: tuple[int, ...] | None = None
    decode: tuple[int, ...] | None = None

    @property
    def tokens(self) -> int:
        """``b'``, tokens in the batch; 0 without one."""
        return sum(self.prefill or ()) + sum(self.decode or ())
