"""Solve the hindsight latency problem: a schedule, prices that bound, a search that closes."""

import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from bfio.common.memory import allowed_bytes
from bfio.hindsight.in_hand import InHand
from bfio.hindsight.latency.bound import SCALE, PricedBound, narrowed_windows, priced_bound
from bfio.hindsight.latency.cells import Cells, build_cells
from bfio.hindsight.latency.configurations import table_size
from bfio.hindsight.latency.normal_form import NormalForm, normal_form
from bfio.hindsight.latency.pairs import pair_losses
from bfio.hindsight.latency.prices import PARTS, STAGES, PriceAscent
from bfio.hindsight.latency.result import HindsightResult, HindsightSeconds
from bfio.hindsight.latency.schedule import good_starts, sequential_starts
from bfio.hindsight.latency.search import MAX_REQUESTS, RoundSearch
from formulations.arrays import IntArray, integer
from formulations.deadline import FIRST_GRACE_S, Deadline, OutOfTime, TimeLimit
from formulations.errors import InputError
from formulations.hindsight_latency import (
    LatencyProblem,
    lower_bound,
    total_latency,
)
from formulations.hindsight_latency.bound import PriceCertificate

#: Widths of successive searches: narrow ones improve the schedule, wide ones prove it.
WIDTHS = (300, 3_000, 30_000, 1_000_000)
#: Work on prices is refused beyond these: entries of the prices, and of one round's tables.
_MAX_PRICES = 3_000_000
_MAX_TABLE = 100_000_000
#: Shares of the time limit by whose end the first schedule and the prices are done.
_SCHEDULE_SHARE = 0.15
_PRICE_SHARE = 0.6


def solve_hindsight(
    problem: LatencyProblem,
    time_limit: TimeLimit = None,
    *,
    decodes: int = 60_000,
    threads: int | None = None,
) -> HindsightResult:
    """Find a schedule of least total latency, and the best bound within the limits.

    Parameters
    ----------
    problem : LatencyProblem
        Data of any convention. Prices and search cost time by the memory, so values beyond some
        hundred tokens get the area bound and a simple schedule.
    time_limit : float or Deadline, optional
        Wall-clock seconds; None runs all stages and widths.
    decodes : int
        Orders tried for the first schedule.
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
    OutOfTime
        If time was up long before a first schedule could be made.
    """
    deadline = Deadline.of(time_limit)
    integer(decodes, "decodes")
    if threads is not None and threads < 1:
        raise InputError("threads", f"{threads} is below 1", "use 1 or more")
    with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))) as pool:
        return _Run(problem, deadline, decodes, pool).result()


class _Run:
    """The phases of one solve; what is in hand counts sums of starts."""

    def __init__(
        self, problem: LatencyProblem, deadline: Deadline, decodes: int, pool: Executor
    ) -> None:
        self._problem = problem
        self._pool = pool
        self._deadline = deadline
        self._began, self._limit = time.perf_counter(), deadline.left
        self._scheduled = self._priced = 0.0
        self._certificate: PriceCertificate | None = None
        with deadline.interrupting(FIRST_GRACE_S):
            self._form = normal_form(problem)
            starts = sequential_starts(self._form)
        # No start precedes its arrival.
        self._certified = _sum(self._form.arrival)
        self._hand = InHand(_sum(starts), starts, self._certified, "area")
        self._tell()
        with suppress(OutOfTime):
            with deadline.interrupting():
                self._hand.raise_bound(lower_bound(problem) - self._form.constant, "area")
            self._tell()
            starts = good_starts(self._form, decodes, self._at(_SCHEDULE_SHARE))
            self._hand.improve(_sum(starts), starts)
        self._area = self._certified = self._hand.bound
        self._scheduled = self._priced = time.perf_counter()
        self._tell()

    def _at(self, share: float = 1.0) -> float:
        """Return when a share of the time limit is over."""
        return self._deadline.at if share == 1.0 else self._began + share * self._limit

    def _tell(self) -> None:
        self._deadline.found(lambda: self._result(late=True).to_latency_result(self._problem))

    def result(self) -> HindsightResult:
        """Run all phases until the bound meets the schedule."""
        hand, form = self._hand, self._form
        with suppress(OutOfTime):
            self._deadline.check()
            if not hand.is_closed and _affordable(form, hand.schedule):
                with self._deadline.interrupting():
                    cells = build_cells(form)
                if _table_bytes(cells) <= allowed_bytes():
                    self._close(cells)
        return self._result(late=self._deadline.is_over)

    def _close(self, cells: Cells) -> None:
        """Raise the bound by prices, then let a search meet it."""
        root = self._price(cells)
        self._priced = time.perf_counter()
        self._certified = max(self._area, min(root.starts, self._hand.objective))
        if root.starts > self._area:
            self._certificate = _certificate(self._form, cells, root)
        self._tell()
        if self._form.num_requests <= MAX_REQUESTS:
            self._search(cells, root)

    def _result(self, *, late: bool) -> HindsightResult:
        hand, form, ended = self._hand, self._form, time.perf_counter()
        scheduled, priced = self._scheduled or ended, self._priced or ended
        starts = form.starts(hand.schedule)
        return HindsightResult(
            starts=starts,
            objective=total_latency(self._problem, starts),
            bound=hand.bound + form.constant,
            method=hand.proof,
            priced=self._certified + form.constant,
            certificate=self._certificate,
            states=hand.states,
            seconds=HindsightSeconds(scheduled - self._began, priced - scheduled, ended - priced),
            stopped_by_time=late and not hand.is_closed,
        )

    def _price(self, cells: Cells) -> PricedBound:
        """Raise prices stage by stage; return the best bound they prove."""
        deadline = self._deadline
        ascent = PriceAscent(self._form, cells, self._hand.schedule, self._pool)
        self._windows = ascent.windows
        best = priced_bound(self._form, cells, ascent.windows, ascent.prices, deadline)
        now = best
        for stage in STAGES:
            ascent.run(stage, now.dearest / SCALE, self._at(_PRICE_SHARE))
            now = priced_bound(self._form, cells, ascent.windows, ascent.prices, deadline)
            best = max(best, now, key=lambda priced: priced.scaled)
            if best.starts >= self._hand.objective:
                break
        self._hand.raise_bound(best.starts, "prices")
        return best

    def _search(self, cells: Cells, priced: PricedBound) -> None:
        """Search wider and wider."""
        hand = self._hand
        for width in WIDTHS:
            if hand.is_closed or self._deadline.is_over:
                return
            priced = self._narrow(cells, priced)
            pairs = pair_losses(cells, priced, self._windows, self._pool, self._deadline)
            search = RoundSearch(self._form, cells, priced, pairs, self._pool)
            result = search.run(hand.objective, width, self._deadline.at)
            hand.states += result.states
            if result.starts is not None:
                starts = result.starts.astype(np.int64)
                hand.improve(_sum(starts), starts)
            hand.raise_bound(result.bound, "search")
            self._tell()

    def _narrow(self, cells: Cells, priced: PricedBound) -> PricedBound:
        """Close the starts that no better schedule can have; the prices stay."""
        cutoff = SCALE * (self._hand.objective - 1)
        deadline = self._deadline
        windows = narrowed_windows(self._form, cells, self._windows, priced, cutoff, deadline)
        self._windows = windows
        return priced_bound(self._form, cells, windows, priced.prices / SCALE, deadline)


def _sum(starts: IntArray) -> int:
    return sum(starts.tolist())


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


def _table_bytes(cells: Cells) -> int:
    """Return the memory of the largest tables, of all threads together [bytes]."""
    of_stages = PARTS * int(cells.copies.sum())
    of_pairs = 2 * len(os.sched_getaffinity(0)) * len(cells.tokens)
    return 8 * table_size(cells) * max(of_stages, of_pairs)


def _certificate(form: NormalForm, cells: Cells, priced: PricedBound) -> PriceCertificate:
    names = list(zip(cells.tokens.tolist(), cells.left.tolist(), strict=True))
    return PriceCertificate(
        scale=SCALE,
        prices={
            now: {name: price for name, price in zip(names, row, strict=True) if price}
            for now, row in enumerate(priced.prices.tolist(), start=form.origin)
        },
    )
