"""Arrival processes: exact, non-decreasing arrival times from 0 on.

A process is sampled in floats. The cumulative times are then rounded to whole microseconds and
kept exactly, so that later results do not depend on float rounding. Ties are possible.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import pi
from typing import Protocol

import numpy as np

from bfio.workloads.lengths import Labelled, in_range, source
from bfio.workloads.request_data import ArrivalTimes
from bfio.workloads.trace_format import MAX_SECONDS
from formulations.arrays import FloatArray, integer
from formulations.errors import InputError

#: Resolution of generated times.
TICKS_PER_SECOND = 1_000_000
#: Maximum mean number of state changes per arrival.
MAX_SWITCHES_PER_ARRIVAL = 100.0

_LOWEST_RATE = 1e-9
_HIGHEST_RATE = 1e9


class ArrivalProcess(Protocol):
    """A random process of arrival times."""

    @property
    def rate(self) -> float:
        """Long-run arrivals per second."""

    @property
    def label(self) -> str:
        """The process and its parameters, for tables and provenance."""

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """Return the first ``num_requests`` arrival times after time 0, in order [s]."""


@dataclass(frozen=True)
class Poisson(Labelled):
    """Independent exponential gaps of mean ``1 / rate`` seconds."""

    rate: float
    _text = "poisson(rate={0.rate:g})"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        in_range("rate", self.rate, _LOWEST_RATE, _HIGHEST_RATE)

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """Return the first ``num_requests`` arrival times after time 0 [s]."""
        gaps = source(rng).standard_exponential(_count(num_requests)) / self.rate
        return exact_times(np.cumsum(gaps))


@dataclass(frozen=True)
class GammaRenewal(Labelled):
    """Independent gamma gaps with mean ``1 / rate`` and coefficient of variation ``cv``.

    ``cv = 1`` is Poisson; above 1 arrivals cluster, below 1 they are more regular.
    """

    rate: float
    cv: float
    _text = "gamma(rate={0.rate:g}, cv={0.cv:g})"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        in_range("rate", self.rate, _LOWEST_RATE, _HIGHEST_RATE)
        in_range("cv", self.cv, 1e-3, 1e2)

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """Return the first ``num_requests`` arrival times after time 0 [s]."""
        shape = self.cv**-2
        gaps = source(rng).standard_gamma(shape, _count(num_requests)) / (shape * self.rate)
        return exact_times(np.cumsum(gaps))


class _OnClock(ABC):
    """Base of processes whose rate is constant between the times of a clock."""

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """Return the first ``num_requests`` arrival times after time 0 [s].

        Measured in expected arrivals instead of seconds, the process is Poisson with unit rate. So
        unit-rate points are mapped back to times by linear interpolation.
        """
        points = np.cumsum(source(rng).standard_exponential(_count(num_requests)))
        if len(points) == 0:
            return ArrivalTimes(np.zeros(0, dtype=np.int64), 1)
        times, expected = self._clock(float(points[-1]), rng)
        return exact_times(np.interp(points, expected, times))

    @abstractmethod
    def _clock(self, duration: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return times and the expected arrivals until each, up to an expected number."""


@dataclass(frozen=True)
class OnOff(Labelled, _OnClock):
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
    _text = "on-off(rates={0.rate_on:g}/{0.rate_off:g}, means={0.mean_on_s:g}/{0.mean_off_s:g} s)"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        in_range("rate_on", self.rate_on, _LOWEST_RATE, _HIGHEST_RATE)
        in_range("rate_off", self.rate_off, 0.0, _HIGHEST_RATE)
        in_range("mean_on_s", self.mean_on_s, 1e-6, 1e9)
        in_range("mean_off_s", self.mean_off_s, 1e-6, 1e9)
        _check_switches(2.0 / (self.mean_on_s + self.mean_off_s) / self.rate, "mean_on_s")

    @property
    def rate(self) -> float:
        """Long-run arrivals per second."""
        arrivals = self.rate_on * self.mean_on_s + self.rate_off * self.mean_off_s
        return arrivals / (self.mean_on_s + self.mean_off_s)

    def _clock(self, duration: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        # Times of the state changes, and the expected number of arrivals until each.
        starts_on = bool(rng.random() < self.mean_on_s / (self.mean_on_s + self.mean_off_s))
        means = np.array([self.mean_off_s, self.mean_on_s])
        rates = np.array([self.rate_off, self.rate_on])
        times, expected = np.zeros(1), np.zeros(1)
        while expected[-1] <= duration:
            # The number of states doubles in each pass, so the total work stays linear.
            num_stays = max(256, len(times))
            state = (np.arange(num_stays) + len(times) - 1 + starts_on) % 2
            stays = rng.standard_exponential(num_stays) * means[state]
            times = np.append(times, times[-1] + np.cumsum(stays))
            expected = np.append(expected, expected[-1] + np.cumsum(stays * rates[state]))
        return times, expected


@dataclass(frozen=True)
class MarkovModulated(_OnClock):
    """Poisson arrivals whose rate jumps among any number of values (MMPP).

    Parameters
    ----------
    rates : tuple of float
        Arrivals per second in each of at least two states, not all 0.
    mean_stays_s : tuple of float
        Mean of the exponential time spent in each state [s]. The next state is uniform over the
        other states. The first state is drawn from the long-run shares.
    """

    rates: tuple[float, ...]
    mean_stays_s: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        if len(self.rates) != len(self.mean_stays_s) or len(self.rates) < 2:
            what = f"{len(self.rates)} rates and {len(self.mean_stays_s)} mean stays"
            remedy = "give a rate and a mean stay for each of two or more states"
            raise InputError("rates", what, remedy)
        for rate in self.rates:
            in_range("rates", rate, 0.0, _HIGHEST_RATE)
        for stay in self.mean_stays_s:
            in_range("mean_stays_s", stay, 1e-6, 1e9)
        in_range("rates", max(self.rates), _LOWEST_RATE, _HIGHEST_RATE)
        _check_switches(len(self.rates) / sum(self.mean_stays_s) / self.rate)

    @property
    def rate(self) -> float:
        """Long-run arrivals per second."""
        pairs = zip(self.rates, self.mean_stays_s, strict=True)
        return sum(rate * stay for rate, stay in pairs) / sum(self.mean_stays_s)

    @property
    def label(self) -> str:
        """The process and its parameters as text, for tables and provenance."""
        rates, stays = (
            "/".join(f"{value:g}" for value in values)
            for values in (self.rates, self.mean_stays_s)
        )
        return f"mmpp(rates={rates}, means={stays} s)"

    def _clock(self, duration: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        count, means, rates = len(self.rates), np.array(self.mean_stays_s), np.array(self.rates)
        # All states are visited equally often, so the long-run shares are proportional to the mean
        # stays.
        state = int(rng.choice(count, p=means / means.sum()))
        times, expected = np.zeros(1), np.zeros(1)
        while expected[-1] <= duration:
            num_stays = max(256, len(times))
            jumps = rng.integers(1, count, num_stays)
            states = (state + np.concatenate(([0], np.cumsum(jumps)))) % count
            states, state = states[:-1], int(states[-1])
            stays = rng.standard_exponential(num_stays) * means[states]
            times = np.append(times, times[-1] + np.cumsum(stays))
            expected = np.append(expected, expected[-1] + np.cumsum(stays * rates[states]))
        return times, expected


@dataclass(frozen=True)
class Diurnal(Labelled):
    """Poisson arrivals with a sinusoidal rate, over a day or any other period.

    The rate at time t is ``rate·(1 + amplitude·sin(2πt/period))``; times are drawn by thinning (P.
    Lewis, G. Shedler, "Simulation of nonhomogeneous Poisson processes by thinning", 1979).

    Parameters
    ----------
    rate : float
        Mean arrivals per second.
    amplitude : float
        In [0, 1]: with 0 the process is Poisson, with 1 the lowest rate is 0.
    period_s : float
        Length of a period [s].
    """

    rate: float
    amplitude: float
    period_s: float
    _text = "diurnal(rate={0.rate:g}, amplitude={0.amplitude:g}, period={0.period_s:g} s)"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        in_range("rate", self.rate, _LOWEST_RATE, _HIGHEST_RATE)
        in_range("amplitude", self.amplitude, 0.0, 1.0)
        in_range("period_s", self.period_s, 1e-3, 1e9)

    def sample(self, num_requests: int, rng: np.random.Generator) -> ArrivalTimes:
        """Return the first ``num_requests`` arrival times after time 0 [s]."""
        missing, rng = _count(num_requests), source(rng)
        kept, now, highest = [np.zeros(0)], 0.0, 1.0 + self.amplitude
        while missing > 0:
            # Draw as many candidates at the highest rate as give the missing number on average.
            gaps = rng.standard_exponential(int(missing * highest) + 16) / (self.rate * highest)
            times = now + np.cumsum(gaps)
            level = 1.0 + self.amplitude * np.sin(2 * pi / self.period_s * times)
            kept.append(times[rng.random(len(times)) * highest < level][:missing])
            missing, now = missing - len(kept[-1]), float(times[-1])
        return exact_times(np.concatenate(kept))


@dataclass(frozen=True)
class Surges(Labelled, _OnClock):
    """Poisson arrivals with a base rate, and a higher rate during surges at fixed intervals.

    Parameters
    ----------
    rate_base, rate_surge : float
        Arrivals per second outside and within a surge; ``rate_base`` may be 0.
    every_s, length_s : float
        Interval between the starts of surges, the first of which is at ``every_s - length_s``, and
        their length ``length_s`` < ``every_s``.
    """

    rate_base: float
    rate_surge: float
    every_s: float
    length_s: float
    _text = (
        "surges(rate={0.rate_base:g}, {0.rate_surge:g} for {0.length_s:g} s every {0.every_s:g} s)"
    )

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        in_range("rate_base", self.rate_base, 0.0, _HIGHEST_RATE)
        in_range("rate_surge", self.rate_surge, _LOWEST_RATE, _HIGHEST_RATE)
        in_range("every_s", self.every_s, 1e-6, 1e9)
        in_range("length_s", self.length_s, 1e-6, 1e9)
        if self.length_s >= self.every_s:
            what = f"surges of {self.length_s:g} s every {self.every_s:g} s"
            raise InputError("length_s", what, "use shorter surges")
        _check_switches(2.0 / self.every_s / self.rate)

    @property
    def rate(self) -> float:
        """Long-run arrivals per second."""
        share = self.length_s / self.every_s
        return self.rate_surge * share + self.rate_base * (1 - share)

    def _clock(self, duration: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        periods = int(duration / (self.rate * self.every_s)) + 1
        begins = np.arange(periods + 1)
        calm = (self.every_s - self.length_s) * self.rate_base
        times = np.column_stack((begins, begins + 1 - self.length_s / self.every_s)).ravel()
        whole = self.rate * self.every_s * begins
        return times * self.every_s, np.column_stack((whole, whole + calm)).ravel()


def exact_times(seconds: FloatArray) -> ArrivalTimes:
    """Round non-decreasing float seconds to whole microseconds and return them exactly.

    Raises
    ------
    InputError
        If a time is not finite or beyond `MAX_SECONDS`.
    """
    if len(seconds) and not seconds[-1] <= MAX_SECONDS:
        what = f"last at {seconds[-1]:g} s"
        raise InputError("arrivals", what, "raise the rate or ask for fewer requests")
    return ArrivalTimes(np.rint(seconds * TICKS_PER_SECOND).astype(np.int64), TICKS_PER_SECOND)


def _check_switches(per_arrival: float, where: str = "rates") -> None:
    if per_arrival > MAX_SWITCHES_PER_ARRIVAL:
        what = f"the state changes {per_arrival:g} times per arrival"
        raise InputError(where, what, "lengthen the states or raise the rates")


def _count(num_requests: int) -> int:
    return integer(num_requests, "num_requests")
