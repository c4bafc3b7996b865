"""Arrival processes: exact times that start at 0 and never decrease.

A process is sampled in floats; the running time is then rounded to whole microseconds and kept
exactly, so that nothing downstream depends on float rounding. Ties are possible.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bfio.workloads.arrival_times import ArrivalTimes
from bfio.workloads.decimals import MAX_SECONDS
from formulations.arrays import FloatArray, integer
from formulations.errors import InputError

#: Resolution of generated times.
TICKS_PER_SECOND = 1_000_000
#: Most changes between on and off per arrival (on average) that `OnOff` will simulate.
MAX_SWITCHES_PER_ARRIVAL = 100.0

_LOWEST_RATE = 1e-9
_HIGHEST_RATE = 1e9


class ArrivalProcess(Protocol):
    """A law of arrival times."""

    @property
    def rate(self) -> float:
        """Long-run arrivals per second."""
        ...

    @property
    def label(self) -> str:
        """The process and its parameters, for tables and provenance."""
        ...

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """Return the times of the first arrivals after time 0, in order [s]."""
        ...


@dataclass(frozen=True)
class Poisson:
    """Independent exponential gaps of mean ``1 / rate`` seconds."""

    rate: float

    def __post_init__(self) -> None:
        """Validate."""
        _in_range("rate", self.rate, _LOWEST_RATE, _HIGHEST_RATE)

    @property
    def label(self) -> str:
        """See `ArrivalProcess`."""
        return f"poisson(rate={self.rate:g})"

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """See `ArrivalProcess`."""
        gaps = rng.standard_exponential(_count(num_requests)) / self.rate
        return exact_times(np.cumsum(gaps))


@dataclass(frozen=True)
class GammaRenewal:
    """Independent gamma gaps with mean ``1 / rate`` and coefficient of variation ``cv``.

    ``cv = 1`` is Poisson, above it arrivals cluster, below it they are more regular.
    """

    rate: float
    cv: float

    def __post_init__(self) -> None:
        """Validate."""
        _in_range("rate", self.rate, _LOWEST_RATE, _HIGHEST_RATE)
        _in_range("cv", self.cv, 1e-3, 1e2)

    @property
    def label(self) -> str:
        """See `ArrivalProcess`."""
        return f"gamma(rate={self.rate:g}, cv={self.cv:g})"

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """See `ArrivalProcess`."""
        shape = self.cv**-2
        gaps = rng.standard_gamma(shape, _count(num_requests)) / (shape * self.rate)
        return exact_times(np.cumsum(gaps))


@dataclass(frozen=True)
class OnOff:
    """Poisson arrivals whose rate switches between two values (Markov-modulated).

    Parameters
    ----------
    rate_on, rate_off : float
        Arrivals per second in either state; ``rate_off`` may be 0.
    mean_on_s, mean_off_s : float
        Mean of the exponential time spent in either state [s]. The first state is drawn from the
        long-run shares, so the process is stationary.
    """

    rate_on: float
    rate_off: float
    mean_on_s: float
    mean_off_s: float

    def __post_init__(self) -> None:
        """Validate."""
        _in_range("rate_on", self.rate_on, _LOWEST_RATE, _HIGHEST_RATE)
        _in_range("rate_off", self.rate_off, 0.0, _HIGHEST_RATE)
        _in_range("mean_on_s", self.mean_on_s, 1e-6, 1e9)
        _in_range("mean_off_s", self.mean_off_s, 1e-6, 1e9)
        switches = 2.0 / (self.mean_on_s + self.mean_off_s) / self.rate
        if switches > MAX_SWITCHES_PER_ARRIVAL:
            raise InputError(
                "mean_on_s",
                f"the state changes {switches:g} times per arrival",
                "lengthen the states or raise the rates",
            )

    @property
    def rate(self) -> float:
        """See `ArrivalProcess`."""
        arrivals = self.rate_on * self.mean_on_s + self.rate_off * self.mean_off_s
        return arrivals / (self.mean_on_s + self.mean_off_s)

    @property
    def label(self) -> str:
        """See `ArrivalProcess`."""
        return (
            f"on-off(rates={self.rate_on:g}/{self.rate_off:g}, "
            f"means={self.mean_on_s:g}/{self.mean_off_s:g} s)"
        )

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """See `ArrivalProcess`.

        A Poisson process of unit rate, run on the clock that counts expected arrivals, is the
        process itself; so unit-rate points are mapped back through that piecewise linear clock.
        """
        points = np.cumsum(rng.standard_exponential(_count(num_requests)))
        if len(points) == 0:
            return ArrivalTimes(np.zeros(0, dtype=np.int64), 1)
        times, expected = self._clock(float(points[-1]), rng)
        return exact_times(np.interp(points, expected, times))

    def _clock(self, horizon: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        # Times of the state changes, and the expected number of arrivals until each.
        starts_on = bool(rng.random() < self.mean_on_s / (self.mean_on_s + self.mean_off_s))
        means = np.array([self.mean_off_s, self.mean_on_s])
        rates = np.array([self.rate_off, self.rate_on])
        times, expected = np.zeros(1), np.zeros(1)
        while expected[-1] <= horizon:
            # Twice as many states each time: the total work stays linear.
            num_stays = max(256, len(times))
            state = (np.arange(num_stays) + len(times) - 1 + starts_on) % 2
            stays = rng.standard_exponential(num_stays) * means[state]
            times = np.append(times, times[-1] + np.cumsum(stays))
            expected = np.append(expected, expected[-1] + np.cumsum(stays * rates[state]))
        return times, expected


def exact_times(seconds: FloatArray) -> ArrivalTimes:
    """Round non-decreasing float seconds to whole microseconds and return them exactly.

    Raises
    ------
    InputError
        If a time is not finite or beyond `MAX_SECONDS`.
    """
    if len(seconds) and not seconds[-1] <= MAX_SECONDS:
        raise InputError(
            "arrivals", f"last at {seconds[-1]:g} s", "raise the rate or ask for fewer requests"
        )
    return ArrivalTimes(np.rint(seconds * TICKS_PER_SECOND).astype(np.int64), TICKS_PER_SECOND)


def _in_range(name: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        raise InputError(name, f"{value} is out of range", f"use {lowest:g} to {highest:g}")


def _count(num_requests: int) -> int:
    return integer(num_requests, "num_requests")
