"""Measured steps: how long each lasted, and what the workers held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.decode.cluster import MAX_TIME_S, MIN_TIME_S
from formulations.arrays import MAX_TOKENS, BoolArray, FloatArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from bfio.decode.run import Run

_REMEDY = "correct or leave out the step"


class Rule(NamedTuple):
    """The least and most that something measured may be, and that in words."""

    least: float
    most: float
    words: str


DURATION = Rule(MIN_TIME_S, MAX_TIME_S, f"a duration is > 0 and at most {MAX_TIME_S:g} s")
LOAD = Rule(0.0, float(MAX_TOKENS), f"a load is >= 0 and at most {MAX_TOKENS:g} tokens")


@dataclass(frozen=True)
class MeasuredSteps:
    """K steps in the order in which they were measured.

    Parameters
    ----------
    duration_s : FloatArray
        Shape (K,): how long each step lasted, > 0 [s].
    max_load : FloatArray
        Shape (K,): load of the fullest worker [tokens].
    mean_load : FloatArray, optional
        Shape (K,): mean load of the workers [tokens]; None if it is not known.
    loads : FloatArray, optional
        Shape (K, G): load of each worker [tokens]; None if only their peak is known.

    Raises
    ------
    InputError
        If there is no step, a duration is no positive number, a load is negative, or every step
        has the same peak.
    """

    duration_s: FloatArray
    max_load: FloatArray
    mean_load: FloatArray | None = None
    loads: FloatArray | None = None

    def __post_init__(self) -> None:
        """Validate."""
        if len(self.duration_s) == 0:
            raise InputError("steps", "there is none", "measure some")
        _check("duration_s", self.duration_s, DURATION)
        for name in ("max_load", "mean_load", "loads"):
            column = getattr(self, name)
            if column is not None:
                _check(name, column, LOAD)
        if self.mean_load is not None:
            # A mean that was written with few digits may exceed a peak it is equal to.
            above = np.flatnonzero(self.mean_load > self.max_load * 1.000001)
            if len(above):
                what = f"{self.mean_load[above[0]]:g}, but a mean is no more than the peak"
                raise InputError(f"mean_load[{above[0]}]", what, _REMEDY)
        if np.ptp(self.max_load) == 0:
            what = f"every step has a peak of {self.max_load[0]:g} tokens"
            remedy = "measure steps of other loads, or overhead and time per token are one"
            raise InputError("max_load", what, remedy)

    @classmethod
    def from_loads(cls, duration_s: FloatArray, loads: FloatArray) -> MeasuredSteps:
        """Return steps of which the load of every worker is known, shape (K, G)."""
        return cls(duration_s, loads.max(axis=1, initial=0), loads.mean(axis=1), loads)

    @classmethod
    def from_run(cls, run: Run) -> MeasuredSteps:
        """Return the steps of a simulated run.

        Raises
        ------
        InputError
            If workers had token budgets: steps last as their batches, too.
        """
        if run.chunks is not None:
            what = "steps last as their batches, too, and not as their loads alone"
            raise InputError("token_budget", what, "fit runs without token budgets")
        if run.loads is not None:
            return cls.from_loads(run.duration_s, run.loads.astype(np.float64))
        mean = run.total_load / run.cluster.workers
        return cls(run.duration_s, run.max_load.astype(np.float64), mean)

    @property
    def workers(self) -> int | None:
        """``G``, if the load of each is known."""
        return None if self.loads is None else self.loads.shape[1]

    def __len__(self) -> int:
        return len(self.duration_s)


def keeps(rule: Rule, column: FloatArray) -> BoolArray:
    """Return which entries are within the bounds of a rule; NaN is not."""
    kept: BoolArray = (column >= rule.least) & (column <= rule.most)
    return kept


def _check(name: str, column: FloatArray, rule: Rule) -> None:
    """Name the first entry that breaks a rule."""
    bad = np.argwhere(~keeps(rule, column))
    if len(bad):
        place = tuple(int(k) for k in bad[0])
        where = f"{name}[{', '.join(map(str, place))}]"
        raise InputError(where, f"{column[place]:g}, but {rule.words}", _REMEDY)
