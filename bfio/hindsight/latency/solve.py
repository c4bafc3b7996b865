"""Solve the hindsight latency problem: a schedule, prices that bound, a search that closes."""

import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from bfio.hindsight.latency.bound import SCALE, PricedBound, narrowed_windows, priced_bound
from bfio.hindsight.latency.cells import Cells, build_cells
from bfio.hindsight.latency.certificate import PriceCertificate
from bfio.hindsight.latency.normal_form import NormalForm, normal_form
from bfio.hindsight.latency.pairs import pair_losses
from bfio.hindsight.latency.prices import STAGES, PriceAscent
from bfio.hindsight.latency.result import HindsightResult, HindsightSeconds
from bfio.hindsight.latency.schedule import good_starts
from bfio.hindsight.latency.search import MAX_REQUESTS, RoundSearch
from formulations.arrays import IntArray, integer
from formulations.errors import InputError
from formulations.hindsight_latency import (
    LatencyProblem,
    LatencyProgram,
    LatencyResult,
    lower_bound,
    total_latency,
)

#: Widths of successive searches: narrow ones improve the schedule, wide ones prove it.
WIDTHS = (300, 3_000, 30_000, 1_000_000)
#: Work on prices is refused beyond these: entries of the prices, and of one round's tables.
_MAX_PRICES = 3_000_000
_MAX_TABLE = 100_000_000
#: Shares of the time limit by whose end the first schedule and the prices are done.
_SCHEDULE_SHARE = 0.15
_PRICE_SHARE = 0.6


def solve_latency(
    problem: LatencyProblem,
    *,
    method: str = "exact",
    time_limit: float | None = None,
    seed: int = 0,
) -> LatencyResult:
    """Solve one hindsight latency problem and check the answer.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    method : str
        ``exact`` (our own), ``brute-force`` (tiny problems), or a backend: ``cp-sat``, ``highs``,
        ``pyomo``, ``pyomo:SOLVER``.
    time_limit : float, optional
        Wall-clock seconds.
    seed : int
        Random seed of the backends.

    Returns
    -------
    LatencyResult
        ``termination`` is optimal only with a proof in integers.

    Raises
    ------
    InputError
        If the method is unknown or the time limit negative.
    CapabilityError
        If the problem is too large for a backend or for enumeration.
    """
    return LatencyProgram.solve_by(
        problem,
        method,
        time_limit=time_limit,
        seed=seed,
        own={"exact": lambda: solve_hindsight(problem, time_limit).to_latency_result(problem)},
    )


def solve_hindsight(
    problem: LatencyProblem,
    time_limit: float | None = None,
    *,
    decodes: int = 60_000,
    widths: tuple[int, ...] = WIDTHS,
    threads: int | None = None,
) -> HindsightResult:
    """Find a schedule of least total latency, and the best bound within the limits.

    Parameters
    ----------
    problem : LatencyProblem
        Data of any convention. Prices and search cost time by the memory, so values beyond some
        hundred tokens get the area bound and a simple schedule.
    time_limit : float, optional
        Wall-clock seconds; None runs all stages and widths.
    decodes : int
        Orders tried for the first schedule.
    widths : tuple of int
        Most states kept per round, search by search; empty for no search.
    threads : int, optional
        Threads at a time; as many as processors by default. They change the time only.

    Returns
    -------
    HindsightResult
        Deterministic if the time limit does not strike.

    Raises
    ------
    InputError
        If the time limit is negative or there is not even one thread.
    """
    if time_limit is not None and not (isinstance(time_limit, int | float) and time_limit >= 0):
        raise InputError(
            "time_limit", f"{time_limit!r} is negative or no number", "use seconds >= 0"
        )
    integer(decodes, "decodes")
    if threads is not None and threads < 1:
        raise InputError("threads", f"{threads} is below 1", "use 1 or more")
    with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))) as pool:
        return _Run(problem, time_limit, decodes, pool).result(widths)


class _Run:
    """The schedule and bound in hand, in sums of starts."""

    def __init__(
        self, problem: LatencyProblem, time_limit: float | None, decodes: int, pool: Executor
    ) -> None:
        self._problem = problem
        self._pool = pool
        self._began = time.perf_counter()
        self._limit = time_limit
        self._form = normal_form(problem)
        self._starts = good_starts(self._form, decodes, deadline=self._deadline(_SCHEDULE_SHARE))
        self._bound = lower_bound(problem) - self._form.constant
        self._method = "area"

    @property
    def _best(self) -> int:
        return sum(self._starts.tolist())

    def _deadline(self, share: float) -> float | None:
        return None if self._limit is None else self._began + share * self._limit

    def result(self, widths: tuple[int, ...]) -> HindsightResult:
        """Run all phases until the bound meets the schedule."""
        scheduled = time.perf_counter()
        area = certified = self._bound
        certificate = None
        states = 0
        priced = scheduled
        if self._bound < self._best and _affordable(self._form, self._starts):
            cells = build_cells(self._form)
            root = self._price(cells)
            priced = time.perf_counter()
            certified = max(area, min(root.starts, self._best))
            if root.starts > area:
                certificate = _certificate(cells, root)
            if self._form.num_requests <= MAX_REQUESTS:
                states = self._search(cells, root, widths)
        ended = time.perf_counter()
        starts = self._form.starts(self._starts)
        return HindsightResult(
            starts=starts,
            objective=total_latency(self._problem, starts),
            bound=self._bound + self._form.constant,
            method=self._method,
            priced=certified + self._form.constant,
            certificate=certificate,
            states=states,
            seconds=HindsightSeconds(scheduled - self._began, priced - scheduled, ended - priced),
            stopped_by_time=self._is_late() and self._bound < self._best,
        )

    def _is_late(self, share: float = 1.0) -> bool:
        deadline = self._deadline(share)
        return deadline is not None and time.perf_counter() >= deadline

    def _raise_bound(self, bound: int, method: str) -> None:
        # A bound on better schedules only is one on all together with the schedule in hand.
        bound = min(bound, self._best)
        if bound > self._bound:
            self._bound, self._method = bound, method

    def _price(self, cells: Cells) -> PricedBound:
        """Raise prices stage by stage; return the best bound they prove."""
        ascent = PriceAscent(self._form, cells, self._starts, self._pool)
        self._windows = ascent.windows
        best = priced_bound(self._form, cells, ascent.windows, ascent.prices)
        now = best
        for stage in STAGES:
            ascent.run(stage, now.dearest / SCALE, self._deadline(_PRICE_SHARE))
            now = priced_bound(self._form, cells, ascent.windows, ascent.prices)
            best = max(best, now, key=lambda priced: priced.scaled)
            if best.starts >= self._best:
                break
        self._raise_bound(best.starts, "prices")
        return best

    def _search(self, cells: Cells, priced: PricedBound, widths: tuple[int, ...]) -> int:
        """Search wider and wider; return how many states were generated."""
        states = 0
        for width in widths:
            if self._bound >= self._best or self._is_late():
                break
            priced = self._narrow(cells, priced)
            pairs = pair_losses(cells, priced, self._windows, self._pool)
            search = RoundSearch(self._form, cells, priced, pairs, self._pool)
            result = search.run(self._best, width, self._deadline(1.0))
            states += result.states
            if result.starts is not None:
                self._starts = result.starts.astype(np.int64)
            self._raise_bound(result.bound, "search")
        return states

    def _narrow(self, cells: Cells, priced: PricedBound) -> PricedBound:
        """Close the starts that no better schedule can have; the prices stay."""
        cutoff = SCALE * (self._best - 1)
        windows = narrowed_windows(self._form, cells, self._windows, priced, cutoff)
        self._windows = windows
        return priced_bound(self._form, cells, windows, priced.prices / SCALE)


def _affordable(form: NormalForm, starts: IntArray) -> bool:
    # In this order: nothing is allocated before it is known to be small.
    if sum(form.duration.tolist()) > _MAX_PRICES or form.memory > 100_000:
        return False
    rounds = int((starts + form.duration).max(initial=0))
    kinds = set(zip(form.prompt.tolist(), form.duration.tolist(), strict=True))
    num_cells = sum(duration for _, duration in kinds)
    most = form.memory // int(form.prompt.min()) + 2
    table = num_cells * (form.memory + 1) * most
    small: bool = rounds * num_cells <= _MAX_PRICES and table <= _MAX_TABLE
    return small


def _certificate(cells: Cells, priced: PricedBound) -> PriceCertificate:
    names = list(zip(cells.tokens.tolist(), cells.left.tolist(), strict=True))
    return PriceCertificate(
        scale=SCALE,
        prices={
            now: {name: price for name, price in zip(names, row, strict=True) if price}
            for now, row in enumerate(priced.prices.tolist())
        },
    )
