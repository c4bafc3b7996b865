"""The measured part of a run: the steps and requests that metrics use, fixed before the run.

The measured part depends only on the requests, the machine and the options. No policy can shift
it, and it is the same for all policies of a comparison.

**Warm-up.** A run starts empty, and its first requests all start at once. The warm-up ends when
both effects have decayed:

- By step W, 99 % of the tokens of a slot in equilibrium come from requests that started within W
  steps: ``Σ_{x >= W} P(o > x) <= 0.01 E[o]`` for output lengths o (by renewal theory the age of
  the request in a slot has the distribution ``P(o > x)/E[o]``).
- Because of simultaneous starts, requests end in waves. After k request lifetimes, the first
  harmonic of these waves has decayed to ``exp(-2 π² c² k)``, where c is the coefficient of
  variation of o. It is below 5 % from ``k = 0.152/c²`` on, that is after k·E[o] steps; k is at
  most 10.

**End.** With a pool, steps count up to the first step at which some policy could have seen the
last request: every slot emits at most one token per step, and a policy can hold back at most the
requests of pool and slots. With timed arrivals, steps count if they start before the last arrival.

**Requests.** Request metrics use a fixed set of requests. With timed arrivals, these are the
requests that arrive in the part. With a pool, they are the requests whose index is revealed and
completed in the part if slots are always full. These requests count whenever they complete, so a
policy cannot improve its times by postponing requests.

**Length.** The confidence interval of a mean needs a part that is long compared to the memory of
the run, which is the mean remaining lifetime ``τ = E[o²]/(2 E[o])`` of a request in a slot. The
target is 20 τ and at least 2,000 steps, and with a pool 50 requests; a part of less than 500 steps
is not measured. Repeating the requests gives a part of any length.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from math import ceil, log, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np

from bfio.common.statistics import mser
from bfio.decode.offered_load import full_step_s, rate_factor
from bfio.decode.options import ArrivalMode, RunOptions
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.scalars import integer
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.run import Run
    from bfio.workloads.workload import Workload
    from formulations.arrays import IntArray

#: Least length of a measured part [steps], and its target length if requests are repeated.
LEAST_STEPS, WANTED_STEPS = 500, 2000
#: The target length in mean remaining lives, and the target number of requests.
WANTED_LIVES, WANTED_REQUESTS = 20, 50
#: Repeats the requests as often as the target length needs.
AUTO = "auto"
#: Share of a slot's tokens in equilibrium that may come from requests older than the warm-up.
_OLDER = 0.01
#: Residual share of the waves of simultaneous starts, and most lives to wait for it.
_WAVE, _MOST_LIVES = 0.05, 10
#: Most passes over timed requests.
_MOST_PASSES = 1e9
#: Largest output length for which lengths are counted in a table.
_MOST_COUNTED = 1_000_000


@dataclass(frozen=True)
class MeasuredPart:
    """The steps and requests of a run that are measured."""

    #: Whether ``begin`` and ``end`` are times [s]; otherwise they are step indices.
    is_timed: bool
    #: Steps count if they begin at or after ``begin`` and before ``end``.
    begin: float
    end: float
    #: Requests count from ``first`` to ``last``, without ``last``.
    first: int
    last: int
    #: Why there is no measured part, and a remedy; empty if there is one.
    why_not: str = ""

    def steps(self, run: Run) -> IntArray | None:
        """Return the indices of the measured steps of a run; None if there is no measured part.

        The answer is also None if the run was stopped before the end of the part.
        """
        if self.why_not or not self.is_covered_by(run):
            return None
        at = run.start_s if self.is_timed else np.arange(run.steps)
        which = np.flatnonzero((at >= self.begin) & (at < self.end))
        return which if len(which) else None

    def is_covered_by(self, run: Run) -> bool:
        """Return whether a run reaches the end of the measured part."""
        if run.steps == 0:
            return False
        reached = run.start_s[-1] + run.duration_s[-1] if self.is_timed else run.steps
        return bool(reached >= self.end)

    def mser_steps(self, run: Run) -> int:
        """Return the warm-up by MSER-5 [steps], from the imbalance up to the part's end."""
        steps = self.steps(run)
        end = run.steps if steps is None else int(steps[-1]) + 1
        return mser(run.imbalance[:end])

    @property
    def text(self) -> str:
        """The measured range in words."""
        if self.is_timed:
            return f"from {self.begin:,.5g} s to {self.end:,.5g} s"
        return f"steps {self.begin:,.0f} to {self.end:,.0f}"


class _Outputs:
    """Distribution of the output lengths of requests: distinct lengths and their counts."""

    def __init__(self, workload: Workload) -> None:
        self.lengths, self.counts = _each_once(workload.output_tokens)
        self.total = workload.total_output_tokens
        self.mean = self.total / len(workload)
        squares = float((self.lengths.astype(np.float64) ** 2) @ self.counts) / len(workload)
        #: Mean remaining life of the request in a slot in equilibrium [steps].
        self.life = squares / (2 * self.mean)
        self.variation = sqrt(max(squares / self.mean**2 - 1, 0.0))

    def warm_up(self) -> int:
        """Return the warm-up W [steps]: see the docstring of this module."""
        waves = 2 * (pi * self.variation) ** 2
        lives = min(log(1 / _WAVE) / waves, _MOST_LIVES) if waves else _MOST_LIVES

        def is_enough(steps: int) -> bool:
            # Σ_{x >= W} P(o > x) = E[max(o - W, 0)], which decreases in W.
            return int(np.maximum(self.lengths - steps, 0) @ self.counts) <= _OLDER * self.total

        least = bisect_left(range(int(self.lengths[-1])), True, key=is_enough)
        return max(least, ceil(lives * self.mean))

    def wanted(self) -> int:
        """Return the target length of a measured part [steps]."""
        return max(WANTED_STEPS, ceil(WANTED_LIVES * self.life))

    def longest(self, number: int, repeat: int) -> int:
        """Return the total tokens of the ``number`` longest requests of ``repeat`` passes."""
        counts = np.minimum(np.cumsum(self.counts[::-1] * repeat), number)
        return int(np.diff(counts, prepend=0) @ self.lengths[::-1])


def _each_once(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return distinct values and their counts, without sorting if values are small."""
    if int(values.max()) > _MOST_COUNTED:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values)
    lengths = np.flatnonzero(counts)
    return lengths, counts[lengths]


def measured_part(workload: Workload, cluster: Cluster, options: RunOptions) -> MeasuredPart:
    """Return the measured part of runs on these requests, the same for any policy."""
    if len(workload) == 0:
        return MeasuredPart(False, 0, 0, 0, 0, "there are no requests")
    outputs, is_timed = _Outputs(workload), options.arrivals is ArrivalMode.TIMED
    warm_up = outputs.warm_up()
    if is_timed:
        factor = rate_factor(workload, cluster, options)
        arrivals = workload.exact_arrivals().scaled_seconds(1 / factor)
        step_s = full_step_s(workload, cluster, options.drift)
        begin = float(arrivals[0]) + warm_up * step_s
        span_s = float(arrivals[-1] - arrivals[0])
        if options.steps is not None:
            # No step is shorter than a step without load, so every policy reaches this time.
            span_s = min(span_s, options.steps * float(cluster.worker_times()[0].max()))
        end = float(arrivals[0]) + span_s
        first, last = (int(k) for k in np.searchsorted(arrivals, (begin, end)))
        steps = (end - begin) / step_s if step_s else 0.0
    else:
        begin, end = warm_up, _end_step(outputs, cluster, options)
        served = cluster.total_slots / outputs.mean
        first, last = ceil(begin * served) + cluster.total_slots + options.pool, int(end * served)
        steps = end - begin
    why_not = ""
    if steps < LEAST_STEPS:
        enough = _repeats(workload, cluster, options, warm_up + LEAST_STEPS)
        # What is counted are passes over the requests of the user, not over repeated ones.
        repeated = workload.provenance.get("repeated")
        passes = enough * (repeated if isinstance(repeated, int) else 1)
        remedy = f"repeat the requests {passes} times"
        if options.steps is not None:
            remedy = "use a run of more steps"
        elif enough == 1:
            remedy = "give requests that arrive over a longer time"
        held = "arrive within" if is_timed else "keep all slots busy for"
        of_full = " of full slots" if is_timed else ""
        lasting = counted(max(0, int(steps + warm_up)), "step")
        why_not = (
            f"{counted(len(workload), 'request')} {held} {lasting}{of_full}, "
            f"but {warm_up:,} warm-up steps and {LEAST_STEPS} measured steps are needed; {remedy}"
        )
    return MeasuredPart(is_timed, begin, end, first, max(first, last), why_not)


def repeats(
    workload: Workload, cluster: Cluster, options: RunOptions, asked: int | str = AUTO
) -> int:
    """Return the number of passes over the requests in a measured run.

    ``asked`` is this number, or ``auto`` for the number that the target length of the measured
    part needs. Raises InputError for other texts and for numbers below 1.
    """
    if isinstance(asked, str) and asked != AUTO:
        raise InputError("repeat", f"{asked!r:.40} is unknown", "give a whole number, or auto")
    if asked != AUTO:
        return integer(asked, "repeat", minimum=1)
    if len(workload) == 0:
        return 1
    outputs = _Outputs(workload)
    wanted = outputs.wanted()
    if options.arrivals is ArrivalMode.POOL:
        # The first requests that could be counted are those of slots and pool.
        requests = WANTED_REQUESTS + cluster.total_slots + options.pool
        wanted = max(wanted, ceil(requests * outputs.mean / cluster.total_slots))
    return _repeats(workload, cluster, options, outputs.warm_up() + wanted)


def _repeats(workload: Workload, cluster: Cluster, options: RunOptions, steps: int) -> int:
    """Return the least number of passes whose measured part ends at ``steps`` or later."""
    if options.steps is not None:
        # More requests do not raise a limit on the steps.
        steps = min(steps, options.steps)
    if options.arrivals is ArrivalMode.TIMED:
        times = workload.exact_arrivals()
        span = float(times[-1] - times[0]) / float(rate_factor(workload, cluster, options))
        period = span * len(workload) / max(len(workload) - 1, 1)
        asked_s = steps * full_step_s(workload, cluster, options.drift)
        more = max(0.0, (asked_s - span) / period) if period else 0.0
        # Requests that arrive almost at once never last long enough.
        return 1 + ceil(more) if more < _MOST_PASSES else 1
    repeat, outputs, free = 1, _Outputs(workload), replace(options, steps=None)
    while (short := steps - _end_step(outputs, cluster, free, repeat)) > 0:
        # A pass adds at most the steps that all its tokens take.
        repeat += max(1, short * cluster.total_slots // outputs.total)
    return repeat


def _end_step(outputs: _Outputs, cluster: Cluster, options: RunOptions, repeat: int = 1) -> int:
    """Return the first step at which some policy could have seen the last request."""
    slots = cluster.total_slots
    # Interrupted requests wait again, in addition to those that the pool has revealed.
    held = outputs.longest(options.pool + 2 * slots, repeat)
    end = (repeat * outputs.total - held) // slots
    return end if options.steps is None else min(end, options.steps)
