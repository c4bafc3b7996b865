"""Solve the hindsight latency problem: a schedule, prices that bound, a search that closes."""

import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from bfio.hindsight.in_hand import InHand, is_over, seconds_of
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
    limit = seconds_of(time_limit)
    integer(decodes, "decodes")
    if threads is not None and threads < 1:
        raise InputError("threads", f"{threads} is below 1", "use 1 or more")
    with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))) as pool:
        return _Run(problem, limit, decodes, pool).result()


class _Run:
    """The phases of one solve; what is in hand counts sums of starts."""

    def __init__(
        self, problem: LatencyProblem, limit: float, decodes: int, pool: Executor
    ) -> None:
        self._problem = problem
        self._pool = pool
        self._began = time.perf_counter()
        self._limit = limit
        self._form = normal_form(problem)
        starts = good_starts(self._form, decodes, self._deadline(_SCHEDULE_SHARE))
        bound = lower_bound(problem) - self._form.constant
        self._hand = InHand(_sum(starts), starts, bound, "area")

    def _deadline(self, share: float = 1.0) -> float:
        return self._began + share * self._limit

    def result(self) -> HindsightResult:
        """Run all phases until the bound meets the schedule."""
        scheduled = priced = time.perf_counter()
        hand, form = self._hand, self._form
        area = certified = hand.bound
        certificate = None
        if not hand.is_closed and _affordable(form, hand.schedule):
            cells = build_cells(form)
            root = self._price(cells)
            priced = time.perf_counter()
            certified = max(area, min(root.starts, hand.objective))
            if root.starts > area:
                certificate = _certificate(cells, root)
            if form.num_requests <= MAX_REQUESTS:
                self._search(cells, root)
        ended = time.perf_counter()
        starts = form.starts(hand.schedule)
        return HindsightResult(
            starts=starts,
            objective=total_latency(self._problem, starts),
            bound=hand.bound + form.constant,
            method=hand.proof,
            priced=certified + form.constant,
            certificate=certificate,
            states=hand.states,
            seconds=HindsightSeconds(scheduled - self._began, priced - scheduled, ended - priced),
            stopped_by_time=is_over(self._deadline()) and not hand.is_closed,
        )

    def _price(self, cells: Cells) -> PricedBound:
        """Raise prices stage by stage; return the best bound they prove."""
        ascent = PriceAscent(self._form, cells, self._hand.schedule, self._pool)
        self._windows = ascent.windows
        best = priced_bound(self._form, cells, ascent.windows, ascent.prices)
        now = best
        for stage in STAGES:
            ascent.run(stage, now.dearest / SCALE, self._deadline(_PRICE_SHARE))
            now = priced_bound(self._form, cells, ascent.windows, ascent.prices)
            best = max(best, now, key=lambda priced: priced.scaled)
            if best.starts >= self._hand.objective:
                break
        self._hand.raise_bound(best.starts, "prices")
        return best

    def _search(self, cells: Cells, priced: PricedBound) -> None:
        """Search wider and wider."""
        hand = self._hand
        for width in WIDTHS:
            if hand.is_closed or is_over(self._deadline()):
                return
            priced = self._narrow(cells, priced)
            pairs = pair_losses(cells, priced, self._windows, self._pool)
            search = RoundSearch(self._form, cells, priced, pairs, self._pool)
            result = search.run(hand.objective, width, self._deadline())
            hand.states += result.states
            if result.starts is not None:
                starts = result.starts.astype(np.int64)
                hand.improve(_sum(starts), starts)
            hand.raise_bound(result.bound, "search")

    def _narrow(self, cells: Cells, priced: PricedBound) -> PricedBound:
        """Close the starts that no better schedule can have; the prices stay."""
        cutoff = SCALE * (self._hand.objective - 1)
        windows = narrowed_windows(self._form, cells, self._windows, priced, cutoff)
        self._windows = windows
        return priced_bound(self._form, cells, windows, priced.prices / SCALE)


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


def _certificate(cells: Cells, priced: PricedBound) -> PriceCertificate:
    names = list(zip(cells.tokens.tolist(), cells.left.tolist(), strict=True))
    return PriceCertificate(
        scale=SCALE,
        prices={
            now: {name: price for name, price in zip(names, row, strict=True) if price}
            for now, row in enumerate(priced.prices.tolist())
        },
    )
