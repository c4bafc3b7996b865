"""Fit the step-time model ``C + t_l·max load + t_m·mean load`` to measured steps.

With several workers, overhead and time per token of each worker (its *line*) can be fitted too. A
step takes ``max_g (C_g + τ_g·L_g) + t_m·mean``. So its duration depends only on the *critical*
worker, which attains the maximum; for all other workers it gives an upper bound. The critical
worker depends on the unknown constants. Two operations alternate: each step is assigned to the
worker that is critical under the present lines, and the line of each worker is fitted to its
steps (A. Magnani and S. Boyd, Convex piecewise-linear fitting, 2009). This ends in a local
optimum, not a proven global one. The first lines come from a smooth fit.

In the smooth fit the maximum over workers is replaced by ``T·log Σ_g exp(· / T)``, to which every
worker contributes, and fitted by the Levenberg-Marquardt method while the temperature T falls. So
a worker whose line starts too low to be critical is still fitted to the steps nearest to it; fits
of the maximum itself would ignore that worker. A small ridge keeps undetermined constants at their
initial values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.calibration.measurements import MeasuredSteps
from bfio.common.regression import (
    Loss,
    Regression,
    are_independent,
    huber_weights,
    noise_of,
    regress,
)
from bfio.common.statistics import evenly_spaced
from bfio.common.text import number
from bfio.decode.cluster import MIN_TIME_S, Cluster
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.errors import InputError, check_kind
from formulations.problem_data import member
from formulations.results import html_paragraphs, html_table
from formulations.scalars import percent
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.common.figure_style import ShownFigure
    from formulations.arrays import IntArray

#: First and last temperature, in units of the median duration, and their number.
_HOT, _COLD, _TEMPERATURES = 0.2, 1e-3, 120
_MOVES = 3
_RIDGE = 1e-6
#: Maximum number of steps in the smooth fit, evenly spaced; all steps are used later.
_ANNEALED_STEPS = 4000
#: Factor by which the damping changes, and its range.
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 5.0, 1e-9, 1e3


@dataclass(frozen=True)
class _Smooth:
    """Durations and loads in units of their typical size; ``mean`` has 0 or 1 columns."""

    values: FloatArray
    loads: FloatArray
    mean: FloatArray

    def fit(self, point: FloatArray, temperature: float) -> tuple[FloatArray, FloatArray]:
        """Return residuals and their negative derivatives at a point, shapes (n,), (n, p)."""
        number = self.loads.shape[1]
        parts = point[:number] + point[number : 2 * number] * self.loads
        peak = parts.max(axis=1, keepdims=True)
        shares = np.exp((parts - peak) / temperature)
        total = shares.sum(axis=1, keepdims=True)
        shares = shares / total
        found = (peak + temperature * np.log(total))[:, 0] + self.mean @ point[2 * number :]
        return self.values - found, np.hstack([shares, shares * self.loads, self.mean])


def annealed_lines(
    duration: FloatArray, loads: FloatArray, mean: FloatArray | None, start: FloatArray
) -> tuple[FloatArray, float]:
    """Return overhead and time per token of workers, (G, 2), and the coefficient of the mean load.

    Parameters
    ----------
    duration : FloatArray
        Shape (K,) [s].
    loads : FloatArray
        Shape (K, G) [tokens].
    mean : FloatArray, optional
        Shape (K,): mean load [tokens]; None if the model has no term for it.
    start : FloatArray
        Shape (3,): overhead, time per token and coefficient of the mean for equal workers.
    """
    number = loads.shape[1]
    rows = evenly_spaced(len(duration), _ANNEALED_STEPS)
    unit, token = float(np.median(duration)), float(loads[rows].max(axis=1).mean())
    means = np.zeros((len(duration), 0)) if mean is None else mean[:, None] / token
    smooth = _Smooth(duration[rows] / unit, loads[rows] / token, means[rows])
    units = np.repeat([unit, unit / token], [number, number + means.shape[1]])
    first = np.repeat(start, [number, number, means.shape[1]]) / units
    found = _cooled(smooth, first) * units
    lines = np.column_stack([found[:number], found[number : 2 * number]])
    return lines, 0.0 if mean is None else float(found[-1])


def _cooled(smooth: _Smooth, first: FloatArray) -> FloatArray:
    """Return the parameters after the temperature has been lowered step by step."""
    point, damping = first, 1e-2
    for temperature in np.geomspace(_HOT, _COLD, _TEMPERATURES):
        residuals, slopes = smooth.fit(point, temperature)
        for _ in range(_MOVES):
            noise = noise_of(residuals, smooth.values)
            move = _move(residuals, slopes, noise, first - point, damping)
            tried = smooth.fit(point + move, temperature)
            if _cost(tried[0], noise, point + move - first) < _cost(
                residuals, noise, point - first
            ):
                point, (residuals, slopes) = point + move, tried
                damping = max(damping / _DAMPING, _LEAST_DAMPING)
            else:
                damping = min(damping * _DAMPING, _MOST_DAMPING)
    return point


def _move(
    residuals: FloatArray, slopes: FloatArray, noise: float, back: FloatArray, damping: float
) -> FloatArray:
    weighted = huber_weights(residuals, noise)[:, None] * slopes / len(residuals)
    curvature = slopes.T @ weighted + _RIDGE * np.eye(len(back))
    damped = curvature + damping * np.diag(np.diag(curvature))
    pull = weighted.T @ residuals + _RIDGE * back
    return np.asarray(np.linalg.solve(damped, pull), dtype=np.float64)


def _cost(residuals: FloatArray, noise: float, off: FloatArray) -> float:
    """Return Huber's loss per step plus the ridge."""
    weights = huber_weights(residuals, noise)
    # For residuals above the threshold, weight·r² is bend·|r|, and the loss bend·(|r| - bend/2).
    squares = weights * residuals**2
    loss = np.where(weights < 1, squares - (weights * residuals) ** 2 / 2, squares / 2)
    return float(loss.mean() + _RIDGE * (off @ off) / 2)


#: Minimum number of steps in which a worker must be critical for its line to be fitted.
LEAST_CRITICAL = 10
_MAX_ROUNDS, _LAST_ROUNDS = 50, 4
#: Maximum number of steps, evenly spaced, in all rounds except the last ones.
_MOST_STEPS = 20_000


@dataclass(frozen=True)
class WorkerLines:
    """Fitted lines (overhead and time per token) of the workers that are often critical.

    Parameters
    ----------
    fitted : tuple of int
        Workers with a line, in increasing order.
    critical : IntArray
        Shape (K,): the critical worker of each step, fitted or not.
    used : BoolArray
        Shape (K,): whether a step is used in the fit: its critical worker has a line.
    regression : Regression
        Regression over the used steps. Columns: overhead and time per token of each fitted worker,
        then the coefficient of the mean load, if the model has this term. Intervals assume that
        the critical workers are known.
    """

    fitted: tuple[int, ...]
    critical: IntArray
    used: BoolArray
    regression: Regression


@dataclass(frozen=True)
class _Steps:
    duration: FloatArray
    loads: FloatArray
    mean: FloatArray | None
    loss: Loss


def fit_lines(
    duration: FloatArray,
    loads: FloatArray,
    mean: FloatArray | None,
    start: FloatArray,
    loss: Loss,
) -> WorkerLines | None:
    """Fit overhead and time per token of each worker that is critical often enough.

    Parameters
    ----------
    duration : FloatArray
        Shape (K,) [s].
    loads : FloatArray
        Shape (K, G) [tokens].
    mean : FloatArray, optional
        Shape (K,): mean load [tokens]; None if the model has no term for it.
    start : FloatArray
        Shape (3,): overhead [s], time per token and coefficient of the mean [s/token] for equal
        workers.
    loss : Loss
        Loss to minimise.

    Returns
    -------
    WorkerLines or None
        None if no worker is critical in `LEAST_CRITICAL` steps of different loads.
    """
    lines, mean_time = annealed_lines(duration, loads, mean, start)
    rows = evenly_spaced(len(duration), _MOST_STEPS)
    some = _Steps(duration[rows], loads[rows], None if mean is None else mean[rows], loss)
    _alternate(some, lines, mean_time, _MAX_ROUNDS)
    every = _Steps(duration, loads, mean, loss)
    best = _alternate(every, lines, mean_time, _LAST_ROUNDS)
    return None if best is None else _fitted_line(every, best.critical, intervals=True)


def _alternate(
    steps: _Steps, lines: FloatArray, mean_time: float, most_rounds: int
) -> WorkerLines | None:
    """Alternate between critical workers and fits of their lines; return the best fit.

    Its lines are written to ``lines``, shape (G, 2); a worker that is not fitted keeps its line.
    """
    best: tuple[float, WorkerLines, FloatArray] | None = None
    seen: set[bytes] = set()
    for _ in range(most_rounds):
        critical = (lines[:, 0] + lines[:, 1] * steps.loads).argmax(axis=1)
        found = None if critical.tobytes() in seen else _fitted_line(steps, critical)
        if found is None:
            break
        seen.add(critical.tobytes())
        times = found.regression.coefficients
        lines[list(found.fitted)] = times[: 2 * len(found.fitted)].reshape(-1, 2)
        mean_time = mean_time if steps.mean is None else float(times[-1])
        size = _misfit(steps, lines, mean_time)
        if best is None or size < best[0]:
            best = size, found, lines.copy()
    if best is None:
        return None
    lines[:] = best[2]
    return best[1]


def _fitted_line(
    steps: _Steps, critical: IntArray, *, intervals: bool = False
) -> WorkerLines | None:
    """Fit the lines of given critical workers; None if no worker can be fitted."""
    own = [np.flatnonzero(critical == g) for g in range(steps.loads.shape[1])]
    fitted = tuple(g for g, rows in enumerate(own) if _is_enough(steps.loads[rows, g]))
    used = np.isin(critical, fitted)
    columns = np.zeros((len(critical), 2 * len(fitted)))
    for place, g in enumerate(fitted):
        columns[own[g], 2 * place] = 1
        columns[own[g], 2 * place + 1] = steps.loads[own[g], g]
    if steps.mean is not None:
        columns = np.column_stack([columns, steps.mean])
    if not fitted or not are_independent(columns[used]):
        return None
    duration = steps.duration[used]
    regression = regress(columns[used], duration, steps.loss, intervals=intervals)
    return WorkerLines(fitted, critical, used, regression)


def _is_enough(loads: FloatArray) -> bool:
    return len(loads) >= LEAST_CRITICAL and bool(np.ptp(loads) > 0)


def _misfit(steps: _Steps, lines: FloatArray, mean_time: float) -> float:
    """Return the mean absolute (Huber) or mean squared error of the model over all steps."""
    found = (lines[:, 0] + lines[:, 1] * steps.loads).max(axis=1)
    if steps.mean is not None:
        found = found + mean_time * steps.mean
    off = np.abs(steps.duration - found)
    return float((off if steps.loss is Loss.HUBER else off**2).mean())


@dataclass(frozen=True)
class Constant:
    """A fitted constant with its 95 % interval.

    Parameters
    ----------
    value : float
        The estimate.
    lower, upper : float, optional
        Ends of the interval; None if there is none.
    """

    value: float
    lower: float | None = None
    upper: float | None = None

    def __str__(self) -> str:
        if self.lower is None or self.upper is None:
            return number(self.value, 5)
        return f"{number(self.value, 5)} ({number(self.lower, 5)} to {number(self.upper, 5)})"


@dataclass(frozen=True)
class Goodness:
    """How well a fit explains the steps.

    Parameters
    ----------
    r_squared : float, optional
        Explained share of the variance of durations; None if all durations are equal.
    median_relative_error : float
        Median of ``|measured - fitted| / measured``.
    outliers : int
        Steps with residuals above the threshold of Huber's loss, which get less weight (0 with
        least squares).
    total_ratio : float
        Measured time of all steps divided by the fitted time.
    """

    r_squared: float | None
    median_relative_error: float
    outliers: int
    total_ratio: float


@dataclass(frozen=True)
class WorkerConstants:
    """Fitted constants of one worker.

    Parameters
    ----------
    worker : int
        Number of the worker.
    critical_steps : int
        Number of steps in which the worker was the slowest.
    overhead, token_time : Constant, optional
        ``C_g`` [s] and ``τ_g`` [s/token]; None if the worker was critical too rarely.
    """

    worker: int
    critical_steps: int
    overhead: Constant | None
    token_time: Constant | None


@dataclass(frozen=True)
class WorkerFit:
    """Constants of each worker, ``max_g (C_g + τ_g·L_g) + t_m·mean``.

    Parameters
    ----------
    workers : sequence of WorkerConstants
        One per worker.
    mean_time : Constant
        ``t_m`` [s/token].
    goodness : Goodness
        Goodness over the steps whose critical worker has constants.
    critical : IntArray
        Shape (K,): the critical worker of each step.
    fitted_s : FloatArray
        Shape (K,): fitted durations [s]; NaN for steps whose critical worker has no constants.
    """

    workers: Sequence[WorkerConstants]
    mean_time: Constant
    goodness: Goodness
    critical: IntArray
    fitted_s: FloatArray

    @property
    def flags(self) -> str | None:
        """Command-line arguments with all constants; None if a constant is unknown or negative."""
        times = self._times()
        if times is None:
            return None
        overheads, token_times = (",".join(map(repr, each)) for each in times)
        return (
            f"--workers {len(self.workers)} --step-overhead {overheads} "
            f"--token-time {token_times} --mean-time {self.mean_time.value!r}"
        )

    def cluster(self, slots: int | tuple[int, ...]) -> Cluster:
        """Return a cluster whose workers have these constants.

        Raises
        ------
        InputError
            If the constants of a worker are unknown or negative.
        """
        times = self._times()
        if times is None:
            what = "the overhead or time per token of some worker is unknown or negative"
            remedy = "for each worker, measure steps in which it is the slowest"
            raise InputError("cluster", what, remedy)
        overheads, token_times = times
        return Cluster(
            workers=len(self.workers),
            slots=slots,
            step_overhead_s=overheads,
            token_time_s=token_times,
            mean_time_s=self.mean_time.value,
        )

    def _times(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Return overhead and time per token of each worker, or None if one cannot be used."""
        known = [
            (worker.overhead.value, worker.token_time.value)
            for worker in self.workers
            if worker.overhead is not None and worker.token_time is not None
        ]
        if len(known) < len(self.workers) or min(map(min, known)) < 0:
            return None
        overheads, token_times = zip(*known, strict=True)
        return overheads, token_times

    def to_mapping(self) -> dict[str, Any]:
        """Return the fit as a JSON object."""
        return {
            "workers": [asdict(worker) for worker in self.workers],
            "mean_time": asdict(self.mean_time),
            **asdict(self.goodness),
            "flags": self.flags,
        }


@dataclass(frozen=True, repr=False)
class StepTimeFit:
    """Constants of the step time, ``C + t_l·max load + t_m·mean load``, from measured steps.

    Parameters
    ----------
    steps : MeasuredSteps
        The K steps.
    loss : Loss
        Loss that was minimised.
    step_overhead, token_time, mean_time : Constant
        ``C`` [s], ``t_l`` and ``t_m`` [s/token]; a constant that was not fitted is 0.
    goodness : Goodness
        Goodness of the fit.
    correlation : float, optional
        Correlation of peak and mean; None if the mean is unknown or constant.
    fitted_s : FloatArray
        Shape (K,): fitted durations [s].
    notes : sequence of str
        Remarks on the fit, one sentence each.
    own : WorkerFit, optional
        Constants of each worker, if requested.
    """

    steps: MeasuredSteps
    loss: Loss
    step_overhead: Constant
    token_time: Constant
    mean_time: Constant
    goodness: Goodness
    correlation: float | None
    fitted_s: FloatArray
    notes: Sequence[str]
    own: WorkerFit | None = None

    def __repr__(self) -> str:
        return f"<StepTimeFit of {counted(len(self.steps), 'step')}: {self.flags}>"

    @property
    def constants(self) -> dict[str, Constant]:
        """The three constants, by their names in commands and studies."""
        return {name: getattr(self, name) for name in _NAMES}

    @property
    def flags(self) -> str:
        """Command-line arguments that set these constants."""
        return " ".join(
            f"--{name.replace('_', '-')} {constant.value!r}"
            for name, constant in self.constants.items()
        )

    def cluster(self, workers: int, slots: int) -> Cluster:
        """Return a cluster with these constants."""
        return Cluster(
            workers=workers,
            slots=slots,
            step_overhead_s=self.step_overhead.value,
            token_time_s=self.token_time.value,
            mean_time_s=self.mean_time.value,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the fit as a JSON object."""
        constants = {name: asdict(constant) for name, constant in self.constants.items()}
        return {
            "steps": len(self.steps),
            "workers": self.steps.workers,
            "loss": str(self.loss),
            "constants": constants,
            **asdict(self.goodness),
            "correlation": self.correlation,
            "flags": self.flags,
            "own": None if self.own is None else self.own.to_mapping(),
            "notes": list(self.notes),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return constants and goodness as rows of a table."""
        units = {"step_overhead": "s", "token_time": "s/token", "mean_time": "s/token"}
        constants = [(f"{name} [{units[name]}]", str(c)) for name, c in self.constants.items()]
        return constants + goodness_rows(self.goodness)

    def plot(self) -> ShownFigure:
        """Draw durations and residuals against the peak load, with the fitted line."""
        from bfio.calibration.plots import fit_figure

        return fit_figure(self)

    def _repr_html_(self) -> str:
        """Return the constants as HTML for notebooks."""
        title = counted(len(self.steps), "step")
        return html_table((title, "estimate (95 %)"), self.rows()) + html_paragraphs(self.notes)


def goodness_rows(goodness: Goodness) -> list[tuple[str, str]]:
    """Return the goodness of a fit as rows of a table."""
    return [
        ("R²", number(goodness.r_squared, 5)),
        ("median relative error", percent(goodness.median_relative_error)),
        ("outliers with reduced weight", f"{goodness.outliers:,}"),
        ("measured time / fitted time", number(goodness.total_ratio, 5)),
    ]


#: Maximum number of workers with their own constants.
MAX_OWN = 256
#: Correlation of peak and mean above which their coefficients are hard to separate.
_CLOSE = 0.99
#: Relative difference of total measured and fitted time above which a note is added.
_LEFT_OUT = 0.01
#: Bins of the peak for the test of residuals, and the relative deviation that counts as large.
_BINS, _BENT = 5, 0.02
#: A deviation of a bin is noted above this many standard errors of a median. For normal noise, a
#: standard error is 1.858 median absolute deviations over the root of the number of steps.
_SURE = 4 * 1.858
_NAMES = ("step_overhead", "token_time", "mean_time")


def fit_step_time(
    steps: MeasuredSteps,
    *,
    loss: Loss | str = Loss.HUBER,
    with_mean: bool = True,
    per_worker: bool = False,
) -> StepTimeFit:
    """Fit the constants of the step time to measured steps.

    Parameters
    ----------
    steps : MeasuredSteps
        At least as many steps as constants, in the order of measurement.
    loss : Loss
        ``huber`` (slow outliers have little weight) or ``squares`` (the total time is preserved
        unless ``step_overhead`` is set to 0).
    with_mean : bool
        Whether the mean load has its own term; BF-IO has none.
    per_worker : bool
        Whether each worker's own constants are fitted too.

    Raises
    ------
    InputError
        If there are too few or only equal steps, or the loads of workers are required and unknown.
    """
    check_kind(steps, MeasuredSteps, "steps", "fit_step_time(MeasuredSteps.from_run(run))")
    loss = member(Loss, loss, "loss")
    which, regression, negative = _fitted(steps, _columns(steps, with_mean), loss)
    found = dict(zip(which, _constants(regression), strict=True))
    overhead, token_time, mean_time = (found.get(k, Constant(0.0)) for k in range(len(_NAMES)))
    fitted = steps.duration_s - regression.residuals
    goodness = _goodness(steps.duration_s, fitted, regression)
    start = np.array([overhead.value, token_time.value, mean_time.value])
    own = _own(steps, start, loss) if per_worker else None
    correlation = _correlation(steps)
    notes = (
        *(_notes_on_mean(steps, which, correlation) if with_mean else ()),
        *negative,
        *_notes_on_fit(goodness, regression),
        *_bend(steps, fitted if own is None else own.fitted_s, are_equal=own is None),
        *(() if own is None else _notes_on_workers(own)),
    )
    return StepTimeFit(
        steps, loss, overhead, token_time, mean_time, goodness, correlation, fitted, notes, own
    )


def _columns(steps: MeasuredSteps, with_mean: bool) -> dict[int, FloatArray]:
    """Return the columns of the constants that can be fitted, by index in `_NAMES`."""
    columns = {0: np.ones(len(steps)), 1: steps.max_load}
    if with_mean and steps.mean_load is not None and _tells_mean(steps):
        columns[2] = steps.mean_load
    if len(steps) < len(columns):
        what = f"{counted(len(steps), 'step')} for {len(columns)} constants"
        raise InputError("steps", what, "measure more steps, at many loads")
    if not are_independent(np.column_stack([columns[0], columns[1]])):
        what = f"peaks from {steps.max_load.min():.17g} to {steps.max_load.max():.17g} tokens"
        raise InputError("max_load", what, "measure steps whose loads differ more")
    return columns


def _tells_mean(steps: MeasuredSteps) -> bool:
    """Return whether mean load, peak and constant are linearly independent over the steps."""
    if steps.mean_load is None:
        return False
    table = np.column_stack([np.ones(len(steps)), steps.max_load, steps.mean_load])
    return len(steps) < table.shape[1] or are_independent(table)


def _fitted(
    steps: MeasuredSteps, columns: dict[int, FloatArray], loss: Loss
) -> tuple[tuple[int, ...], Regression, list[str]]:
    """Fit the constants; a negative one is set to 0, as no machine is faster with more load."""
    notes: list[str] = []
    while True:
        which = tuple(columns)
        table = np.column_stack(list(columns.values()))
        found = regress(table, steps.duration_s, loss)
        sizes = found.coefficients * np.abs(table).mean(axis=0)
        least = int(sizes.argmin())
        if len(which) == 1 or found.coefficients[least] >= MIN_TIME_S:
            return which, found, notes
        if found.coefficients[least] <= -MIN_TIME_S:
            notes.append(_negative(_NAMES[which[least]], _constants(found)[least]))
        del columns[which[least]]


def _negative(name: str, constant: Constant) -> str:
    note = f"the fitted {name} is negative, {constant}, and is set to 0"
    if constant.upper is not None and constant.upper < 0:
        note += "; its interval is below 0, so the model does not hold for these steps"
    return note


def _constants(found: Regression) -> list[Constant]:
    # Values below every real time are rounding errors.
    values = [v if abs(v) >= MIN_TIME_S else 0.0 for v in found.coefficients.tolist()]
    if found.half_widths is None:
        return [Constant(value) for value in values]
    halves = found.half_widths.tolist()
    return [Constant(v, v - half, v + half) for v, half in zip(values, halves, strict=True)]


def _goodness(duration: FloatArray, fitted: FloatArray, found: Regression) -> Goodness:
    off = duration - fitted
    varies = bool(np.ptp(duration) > 0)
    spread = float(((duration - duration.mean()) ** 2).sum())
    return Goodness(
        r_squared=1 - float(off @ off) / spread if varies else None,
        median_relative_error=float(np.median(np.abs(off) / duration)),
        outliers=int(np.count_nonzero(found.weights < 1)),
        total_ratio=float(duration.sum() / fitted.sum()),
    )


def _correlation(steps: MeasuredSteps) -> float | None:
    if steps.mean_load is None or np.ptp(steps.mean_load) == 0:
        return None
    return float(np.corrcoef(steps.max_load, steps.mean_load)[0, 1])


def _notes_on_mean(
    steps: MeasuredSteps, which: Sequence[int], correlation: float | None
) -> Iterator[str]:
    if steps.mean_load is None:
        yield "the mean load is unknown, so mean_time is not fitted"
    elif not _tells_mean(steps):
        yield (
            "peak and mean load are linearly dependent, so their coefficients cannot be "
            "separated: mean_time is not fitted; the other constants include its effect"
        )
    elif 2 in which and correlation is not None and abs(correlation) > _CLOSE:
        yield (
            f"peak and mean have correlation {correlation:.4f}, so their coefficients are hard "
            f"to separate: intervals are {number((1 - correlation**2) ** -0.5, 2)} times as wide "
            "as without this correlation; measure steps of unequal loads"
        )


def _notes_on_fit(goodness: Goodness, regression: Regression) -> Iterator[str]:
    if regression.half_widths is None:
        yield "no intervals, because there are as many constants as steps"
    if abs(goodness.total_ratio - 1) > _LEFT_OUT:
        yield (
            f"all steps together took {percent(goodness.total_ratio - 1)} more than the fit "
            'gives, because slow outliers have little weight (loss="squares" keeps the total, '
            "unless it sets step_overhead to 0)"
        )


def _bend(steps: MeasuredSteps, fitted: FloatArray, *, are_equal: bool) -> Iterator[str]:
    """Yield a note if the typical durations at some loads deviate from the fit beyond noise."""
    order = np.argsort(steps.max_load, kind="stable")
    order = order[~np.isnan(fitted[order])]
    off = steps.duration_s[order] / fitted[order] - 1
    # A tail of slow steps shifts the fit relative to typical steps at all loads.
    off = off - np.median(off)
    edges = np.arange(_BINS + 1) * len(off) // _BINS
    found = []
    for first, end in pairwise(edges.tolist()):
        middle = float(np.median(off[first:end])) if end - first > 1 else 0.0
        noise = np.median(np.abs(off[first:end] - middle)) if end > first else 0.0
        if abs(middle) > max(_BENT, _SURE * noise / max(end - first, 1) ** 0.5):
            found.append((middle, steps.max_load[order[first]], steps.max_load[order[end - 1]]))
    if found:
        middle, least, most = max(found, key=lambda entry: abs(entry[0]))
        workers = (
            " or workers differ (per_worker=True)" if are_equal and steps.workers != 1 else ""
        )
        yield (
            f"durations are not linear in the load{workers}: for peak loads of {least:,.0f} to "
            f"{most:,.0f} tokens they typically differ by {percent(middle)} from the fit"
        )


def _own(steps: MeasuredSteps, equal: FloatArray, loss: Loss) -> WorkerFit:
    """Fit the constants of each worker separately."""
    if steps.loads is None or steps.workers is None:
        what = "the load of each worker is unknown"
        raise InputError("loads", what, "give columns load_0, load_1, ...")
    if steps.workers > MAX_OWN:
        what = f"{steps.workers} workers are more than {MAX_OWN}"
        raise InputError("loads", what, "fit fewer workers")
    # Include the mean only if the fit for equal workers found a positive coefficient.
    mean = steps.mean_load if equal[2] > 0 else None
    found = fit_lines(steps.duration_s, steps.loads, mean, equal, loss)
    if found is not None and mean is not None and found.regression.coefficients[-1] < MIN_TIME_S:
        mean = None
        found = fit_lines(steps.duration_s, steps.loads, mean, equal, loss)
    if found is None:
        what = f"no worker is the slowest in {LEAST_CRITICAL} steps of different loads"
        raise InputError("steps", what, "measure more steps")
    return _worker_fit(steps, found, has_mean=mean is not None)


def _worker_fit(steps: MeasuredSteps, found: WorkerLines, *, has_mean: bool) -> WorkerFit:
    constants = _constants(found.regression)
    counts = np.bincount(found.critical, minlength=steps.workers or 0).tolist()
    own = {g: constants[2 * k : 2 * k + 2] for k, g in enumerate(found.fitted)}
    fitted = np.full(len(steps), np.nan)
    fitted[found.used] = steps.duration_s[found.used] - found.regression.residuals
    used = found.used
    return WorkerFit(
        workers=tuple(
            WorkerConstants(g, count, *own.get(g, (None, None))) for g, count in enumerate(counts)
        ),
        mean_time=constants[-1] if has_mean else Constant(0.0),
        goodness=_goodness(steps.duration_s[used], fitted[used], found.regression),
        critical=found.critical,
        fitted_s=fitted,
    )


def _notes_on_workers(own: WorkerFit) -> Iterator[str]:
    never = [w.worker for w in own.workers if w.critical_steps == 0]
    if never:
        yield (
            f"{_listed(never)}: never the slowest in these steps, so their constants are "
            "unknown, except for an upper bound"
        )
    rarely = [w.worker for w in own.workers if w.overhead is None and w.critical_steps]
    if rarely:
        yield (
            f"{_listed(rarely)}: the slowest in too few steps (fewer than {LEAST_CRITICAL}, or "
            "all of one load) to estimate the constants"
        )
    for worker in own.workers:
        for name in ("overhead", "token_time"):
            constant = getattr(worker, name)
            if constant is not None and constant.value < 0:
                yield (
                    f"worker {worker.worker}: the fitted {name} is negative, {constant}, because "
                    "the steps of this worker do not determine it; measure more loads"
                )


def _listed(workers: Sequence[int]) -> str:
    """Return worker numbers as text, with ranges for consecutive numbers."""
    runs: list[list[int]] = []
    for g in workers:
        if runs and g == runs[-1][1] + 1:
            runs[-1][1] = g
        else:
            runs.append([g, g])
    words = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return f"worker{'s' * (len(workers) > 1)} {', '.join(words)}"
