"""What a search for worst cases found, and what it proved."""

from dataclasses import dataclass
from typing import Any

from bfio.worst_cases.case import Case


@dataclass(frozen=True)
class Found:
    """The worst case that a search met.

    Parameters
    ----------
    case : Case
        The first met of those with the largest ratio.
    method : str
        Which search.
    space : str
        What was looked through, in words.
    tried, solved : int
        Instances on which the policy ran, and those of them whose optimum was asked for; a lower
        bound on the optimum settled the others.
    is_maximal : bool
        Whether no instance of the space has a larger ratio: proven by a search that left nothing
        out, as far as the proofs of the optima reach.
    """

    case: Case
    method: str
    space: str
    tried: int
    solved: int
    is_maximal: bool

    def to_mapping(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "method": self.method,
            "space": self.space,
            "tried": self.tried,
            "solved": self.solved,
            "is_maximal": self.is_maximal,
            **self.case.to_mapping(),
            "violations": self.case.violations(),
        }
