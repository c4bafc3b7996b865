"""What can be written behind ``learned``."""

from dataclasses import dataclass

from bfio.common.options import WHOLE, option
from formulations.keywords import known_fields
from formulations.scalars import integer

#: Most trees, levels, and tokens or requests between two refreshes or fits.
_MOST = {"trees": 10_000, "depth": 32, "refresh": 10**6, "refit": 10**9}


@known_fields
@dataclass(frozen=True)
class LearnedOptions:
    """Options of the learned predictor, checked.

    Parameters
    ----------
    refresh : int
        ``q``: tokens after which each request is asked about again.
    refit : int
        Finished requests after which it is trained anew, on the latest ones; 0 for never.
    trees : int
        Boosting rounds of each stage.
    depth : int
        Depth of a tree.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    refresh: int = option(10, WHOLE, "Q", "tokens after which each request is asked about again")
    refit: int = option(0, WHOLE, "N", "finished requests after which it is trained anew (never)")
    trees: int = option(100, WHOLE, "N", "boosting rounds of each stage")
    depth: int = option(4, WHOLE, "N", "depth of a tree")

    def __post_init__(self) -> None:
        """Validate."""
        for name, most in _MOST.items():
            least = 0 if name == "refit" else 1
            integer(getattr(self, name), f"predictor learned: {name}", minimum=least, maximum=most)
