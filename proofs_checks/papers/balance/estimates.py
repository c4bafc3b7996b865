"""Means of quantities that cannot be negative, against bounds from above."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from numpy.typing import ArrayLike

from proofs_checks.evidence import Estimate
from proofs_checks.statistics import mean_estimate


@dataclass(frozen=True)
class Bounded:
    """An estimate and the bound that its interval has to stay below.

    Parameters
    ----------
    estimate : Estimate
        Mean of a quantity that cannot be negative; its interval is cut off at 0.
    bound : float
        The bound.
    """

    estimate: Estimate
    bound: float

    @property
    def room(self) -> float:
        """How many times the upper end of the interval fits into the bound."""
        return self.bound / self.estimate.high if self.estimate.high else inf


def bounded_mean(name: str, samples: ArrayLike, bound_name: str, bound: float) -> Bounded:
    """Estimate the mean of samples that are at least 0, accepted below a bound.

    Parameters
    ----------
    name : str
        What is estimated, unit included.
    samples : array of float
        Shape (n,), n >= 2, independent, at least 0.
    bound_name : str
        The bound as a formula.
    bound : float
        Its value.
    """
    estimate = mean_estimate(
        name, samples, f"upper end at most {bound_name} = {bound:g}",
        lambda low, high: high <= bound,
    )  # fmt: skip
    return Bounded(replace(estimate, low=max(0.0, estimate.low)), bound)


def room(measured: Sequence[Bounded]) -> str:
    """Say by what factor the bounds are met, and that this says nothing of their tightness."""
    least, most = (f"{choose(m.room for m in measured):.3g}" for choose in (min, max))
    factor = least if least == most else f"{least} to {most}"
    return (
        f"The upper end measured lies below the bound by a factor of {factor}: the rule is met "
        "with that much room, which says nothing of how tight the bound is."
    )
