"""What the two searches for the solution of a fill problem share."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.enumerate import NODE, enumerate_placements
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.peaks import IMPOSSIBLE
from bfio.step.exact.phases import Phase
from bfio.step.exact.result import ExactResult, Seconds
from formulations.arrays import IntArray
from formulations.step.certificate import Certificate

#: Requests up to which the enumeration is worth a try.
_MAX_ENUMERATED = 32


class CoreSearch(ABC):
    """One solve of a fill problem: incumbent, lower bound, and the phases.

    Parameters
    ----------
    core : FillProblem
        The fill problem; at least one request is admitted.
    effort : Effort
        Limits, and the work used so far.
    skip : collection of Phase, optional
        Phases to skip.
    """

    def __init__(self, core: FillProblem, effort: Effort, skip: Collection[Phase] = ()) -> None:
        self._core = core
        self._effort = effort
        self._skip = skip
        self._best = IMPOSSIBLE
        self._owner: IntArray = np.full(len(core.sizes), -1, dtype=np.int64)
        self._lower = 0
        self._method = "closed-form"
        self._nodes = 0
        self._prices: list[IntArray] = []
        self._bound_seconds = 0.0

    def run(self, start: tuple[int | None, ...] | None, node_limit: int) -> ExactResult:
        """Solve the problem within the limits; see `bfio.step.exact.solve.solve_exact`."""
        began = time.perf_counter()
        core = self._core
        # What is given first stays unless something beats it: so ties are broken.
        if start is not None:
            self._accept(core.owner_of(start))
        self._search()
        small = len(core.sizes) <= _MAX_ENUMERATED
        tried = small and node_limit > 0 and Phase.ENUMERATION not in self._skip
        if self._open and tried and not self._effort.is_over:
            self._enumerate(node_limit)
        seconds = time.perf_counter() - began
        return ExactResult(
            method=self._method,
            assignment=core.assignment(self._owner),
            objective=self._best * core.multiplier,
            bound=self._lower * core.multiplier,
            certificate=self._certificate(self._lower * core.multiplier),
            seconds=Seconds(bound=self._bound_seconds, search=seconds - self._bound_seconds),
            nodes=self._nodes,
        )

    @abstractmethod
    def open_peaks(self) -> tuple[int, int]:
        """Return the first and last peak that could give a better placement."""

    @abstractmethod
    def _search(self) -> None:
        """Run all phases before the enumeration."""

    @abstractmethod
    def _certificate(self, bound: int) -> Certificate:
        """Return the certificate of a bound on the step problem's objective."""

    @property
    def _open(self) -> bool:
        return self._best > self._lower

    @contextmanager
    def _bounding(self) -> Iterator[None]:
        """Count the time of the block as that of the bound."""
        began = time.perf_counter()
        yield
        self._bound_seconds += time.perf_counter() - began

    def _accept(self, owner: IntArray) -> None:
        """Keep a placement if it beats the incumbent."""
        value = self._core.value_of(owner)
        if value < self._best:
            self._best = value
            self._owner = owner.copy()

    def _enumerate(self, node_limit: int) -> None:
        core, owner = self._core, self._owner.copy()
        best, self._nodes, exhausted = enumerate_placements(
            core.open_workers, core.sizes, self._best, self._lower, node_limit, owner
        )
        self._effort.spend(self._nodes * NODE)
        self._accept(owner)
        if exhausted and self._open:
            self._lower = best
            self._method = "enumeration"
