"""Define the result of a fit of the step-time model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bfio.common.text import number
from bfio.decode.cluster import Cluster
from formulations.errors import InputError
from formulations.results import html_paragraphs, html_table
from formulations.scalars import percent

if TYPE_CHECKING:
    from bfio.calibration.measurements import MeasuredSteps
    from bfio.common.figure_style import ShownFigure
    from bfio.common.regression import Loss
    from formulations.arrays import FloatArray, IntArray


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
        Number of steps in which it was the slowest.
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
            what = "some workers have no usable constants"
            raise InputError("cluster", what, "measure steps in which each worker is the slowest")
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
        return f"<StepTimeFit of {len(self.steps):,} steps: {self.flags}>"

    @property
    def constants(self) -> dict[str, Constant]:
        """The three constants, by their names in commands and studies."""
        return {
            "step_overhead": self.step_overhead,
            "token_time": self.token_time,
            "mean_time": self.mean_time,
        }

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
        title = f"{len(self.steps):,} steps"
        return html_table((title, "estimate (95 %)"), self.rows()) + html_paragraphs(self.notes)


def goodness_rows(goodness: Goodness) -> list[tuple[str, str]]:
    """Return the goodness of a fit as rows of a table."""
    return [
        ("R²", number(goodness.r_squared, 5)),
        ("median relative error", percent(goodness.median_relative_error)),
        ("outliers with reduced weight", f"{goodness.outliers:,}"),
        ("measured time / fitted time", number(goodness.total_ratio, 5)),
    ]
