"""Constants of the step time: exact recovery, and the messages for poor files."""

import re
from dataclasses import replace

import numpy as np
import pytest

import bfio
from bfio.calibration.fit import fit_step_time
from bfio.calibration.measurements import MeasuredSteps
from bfio.common.regression import Loss
from formulations.arrays import FloatArray
from formulations.errors import InputError
from tests.calibration.cases import TRUE, drawn_loads, exact_steps


def _constants(steps: MeasuredSteps, **options: object) -> list[float]:
    found = fit_step_time(steps, **options)  # type: ignore[arg-type]
    return [constant.value for constant in found.constants.values()]


@pytest.mark.parametrize("loss", list(Loss))
def test_exact_steps_give_the_constants_back(loss: Loss) -> None:
    """To 1e-9, with nothing to remark."""
    fit = fit_step_time(exact_steps(), loss=loss)
    values = [constant.value for constant in fit.constants.values()]
    assert values == pytest.approx(TRUE, rel=1e-9)
    assert fit.goodness.r_squared == pytest.approx(1)
    assert (fit.goodness.outliers, fit.notes) == (0, ())
    assert fit.cluster(16, 72).token_time_s == values[1]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("mean_time", [0.0, 3e-8])
def test_a_run_gives_its_constants_back(keep: bool, mean_time: float) -> None:
    """Loads of each worker kept or not; without a mean term it is 0, and exactly so."""
    machine = bfio.Cluster(workers=3, slots=4, mean_time_s=mean_time)
    run = bfio.simulate(bfio.synthetic("demo", 120, seed=1), "fcfs", machine, keep_trajectory=keep)
    fit = fit_step_time(MeasuredSteps.from_run(run))
    machine_again = fit.cluster(3, 4)
    assert machine_again.step_overhead_s == pytest.approx(machine.step_overhead_s, rel=1e-9)
    assert machine_again.token_time_s == pytest.approx(machine.token_time_s, rel=1e-9)
    assert machine_again.mean_time_s == pytest.approx(mean_time, rel=1e-9)
    assert fit.notes == ()


def test_flags_are_the_constants() -> None:
    """What is printed for the next command reads back as the same numbers."""
    fit = fit_step_time(exact_steps())
    values = [float(text) for text in fit.flags.split()[1::2]]
    assert values == [constant.value for constant in fit.constants.values()]
    assert fit.flags.split()[::2] == ["--step-overhead", "--token-time", "--mean-time"]


def _steps(durations: FloatArray | list[float], peaks: FloatArray | list[float]) -> MeasuredSteps:
    return MeasuredSteps(np.array(durations, dtype=float), np.array(peaks, dtype=float))


def test_without_a_mean_there_is_none() -> None:
    """Two points: 1 ms + 2 µs per token; no interval. ``with_mean=False`` says nothing of it."""
    fit = fit_step_time(_steps([0.003, 0.005], [1000, 2000]))
    assert [c.value for c in fit.constants.values()] == pytest.approx([0.001, 2e-6, 0])
    assert fit.token_time.lower is None
    unknown, no_intervals = fit.notes
    assert unknown == "the mean load is unknown, so mean_time is not fitted"
    assert no_intervals.startswith("no intervals")
    only_intervals = fit_step_time(_steps([0.003, 0.005], [1000, 2000]), with_mean=False).notes
    assert ["no intervals" in note for note in only_intervals] == [True]


def test_one_worker_cannot_tell_peak_from_mean() -> None:
    """Its mean is its peak: one term holds both times, and that is said."""
    fit = fit_step_time(exact_steps(workers=1))
    assert fit.token_time.value == pytest.approx(TRUE[1] + TRUE[2], rel=1e-9)
    (note,) = fit.notes
    assert note.startswith("peak and mean load are linearly dependent")
    assert fit_step_time(exact_steps(workers=1), with_mean=False).notes == ()


def test_nearly_collinear_loads_are_told() -> None:
    """Peak and mean move together but for a thousandth: both are fitted, with the warning."""
    steps = exact_steps()
    assert steps.mean_load is not None
    level = np.linspace(1, 3, len(steps))
    close = replace(
        steps, max_load=steps.max_load * level, mean_load=steps.mean_load * level, loads=None
    )
    (note,) = fit_step_time(replace(close, duration_s=_lasting(close))).notes
    assert "peak and mean have correlation 0.99" in note


def _lasting(steps: MeasuredSteps) -> FloatArray:
    assert steps.mean_load is not None
    found: FloatArray = TRUE[0] + TRUE[1] * steps.max_load + TRUE[2] * steps.mean_load
    return found


def test_a_negative_constant_is_set_to_zero() -> None:
    """Steps that get shorter with the load: the note says that the model does not hold."""
    rng = np.random.default_rng(0)
    peaks = rng.uniform(1e4, 2e4, 200)
    fit = fit_step_time(_steps(0.01 - 1e-7 * peaks + 1e-5 * rng.normal(size=200), peaks))
    assert fit.token_time.value == 0
    assert fit.step_overhead.value == pytest.approx(0.0085, rel=0.01)
    assert any("the fitted token_time is negative" in note for note in fit.notes)
    assert any("the model does not hold" in note for note in fit.notes)


def test_rounding_is_no_constant() -> None:
    """Steps without overhead: it is 0, for all workers together and for each, and no remark."""
    loads = np.random.default_rng(0).uniform(0, 1e5, (60, 3))
    fit = fit_step_time(
        MeasuredSteps.from_loads(1e-7 * loads.max(axis=1), loads), with_mean=False, per_worker=True
    )
    assert fit.own is not None
    assert fit.step_overhead.value == 0
    assert [w.overhead and w.overhead.value for w in fit.own.workers] == [0, 0, 0]
    assert fit.notes == ()


def test_steps_that_never_vary() -> None:
    """All last 10 ms: that is the overhead, and there is no variance to explain."""
    fit = fit_step_time(_steps(np.full(60, 0.01), np.arange(60.0)))
    assert [c.value for c in fit.constants.values()] == pytest.approx([0.01, 0, 0])
    assert fit.goodness.r_squared is None


def test_a_tail_that_is_left_out_is_told() -> None:
    """One step in ten takes twice as long: 10 % of the time, and least squares keep it."""
    steps = exact_steps()
    slow = steps.duration_s * np.where(np.arange(len(steps)) % 10 == 5, 2, 1)
    slow_steps = replace(steps, duration_s=slow)
    fit = fit_step_time(slow_steps)
    assert fit.goodness.total_ratio == pytest.approx(1.1, abs=0.002)
    assert any(note.startswith("all steps together took 10.") for note in fit.notes)
    assert fit.goodness.outliers == 30
    assert fit_step_time(slow_steps, loss="squares").goodness.total_ratio == pytest.approx(1)


def test_durations_that_bend_are_told() -> None:
    """A floor of 10 ms up to 50,000 tokens; 0.1 µs per token above."""
    peaks = np.random.default_rng(0).uniform(0, 1e5, 400)
    (note,) = fit_step_time(
        _steps(np.maximum(0.01, 0.005 + 1e-7 * peaks), peaks), with_mean=False
    ).notes
    assert note.startswith("durations are not linear in the load")


def _two_generations(noise: float) -> tuple[MeasuredSteps, FloatArray, FloatArray]:
    """Workers 0 and 1, and 2 and 3 half as fast; worker 4 hardly has any load."""
    rng = np.random.default_rng(2)
    loads = drawn_loads(rng, 400, 5) / np.array([1, 1, 2.2, 2.2, 10])
    overhead = np.array([5e-3, 5e-3, 6e-3, 6e-3, 5e-3])
    token_time = np.array([1e-7, 1e-7, 2e-7, 2e-7, 1e-7])
    peak = (overhead + token_time * loads).max(axis=1)
    lasting = (peak + TRUE[2] * loads.mean(axis=1)) * (1 + noise * rng.normal(size=400))
    return MeasuredSteps.from_loads(lasting, loads), overhead, token_time


def test_each_worker_has_its_own_constants() -> None:
    """Exact steps: to 1e-9; of the worker that is never the slowest nothing is said."""
    steps, overhead, token_time = _two_generations(0)
    fit = fit_step_time(steps, per_worker=True)
    assert fit.own is not None
    *known, last = fit.own.workers
    for worker in known:
        assert worker.overhead is not None
        assert worker.token_time is not None
        assert worker.overhead.value == pytest.approx(overhead[worker.worker], rel=1e-9)
        assert worker.token_time.value == pytest.approx(token_time[worker.worker], rel=1e-9)
    assert fit.own.mean_time.value == pytest.approx(TRUE[2], rel=1e-9)
    assert (last.critical_steps, last.overhead, last.token_time) == (0, None, None)
    assert any(note.startswith("worker 4: never the slowest") for note in fit.notes)
    assert steps.loads is not None
    assert fit.own.flags is None
    with pytest.raises(InputError, match="time per token of some worker is unknown or negative"):
        fit.own.cluster(4)
    slowest = (overhead + token_time * steps.loads).argmax(axis=1)
    assert np.array_equal(fit.own.critical, slowest)


def test_a_run_of_unequal_workers_gives_each_its_constants_back() -> None:
    """Two generations of accelerators, simulated: what is fitted is the machine that ran."""
    machine = bfio.Cluster(
        workers=2, slots=4, step_overhead_s=(5e-3, 4e-3), token_time_s=(1e-7, 3e-7)
    )
    run = bfio.simulate(bfio.synthetic("demo", 150, seed=1), "fcfs", machine)
    fit = fit_step_time(MeasuredSteps.from_run(run), with_mean=False, per_worker=True)
    assert fit.own is not None
    found = fit.own.cluster(4)
    for name in ("step_overhead_s", "token_time_s"):
        assert getattr(found, name) == pytest.approx(getattr(machine, name), rel=1e-9)
    assert fit.own.flags is not None
    words = fit.own.flags.split()
    assert words[:3] == ["--workers", "2", "--step-overhead"]
    again = bfio.Cluster(workers=2, slots=4, step_overhead_s=words[3], token_time_s=words[5])  # type: ignore[arg-type]
    assert again == found


def test_own_constants_through_noise() -> None:
    """One percent of noise: the slow half is told from the fast one, and the fit is better."""
    steps, _, token_time = _two_generations(0.01)
    fit = fit_step_time(steps, per_worker=True)
    assert fit.own is not None
    for worker in fit.own.workers[:4]:
        assert worker.token_time is not None
        assert worker.token_time.value == pytest.approx(token_time[worker.worker], rel=0.25)
    assert fit.own.goodness.median_relative_error < 0.8 * fit.goodness.median_relative_error


def test_a_worker_that_is_rarely_the_slowest_has_no_number() -> None:
    """Worker 1 is the slowest in five steps."""
    rng = np.random.default_rng(0)
    loads = np.column_stack([rng.uniform(1e4, 2e4, 100), rng.uniform(0, 5e3, 100)])
    loads[:5, 1] += 3e4
    steps = MeasuredSteps.from_loads(1e-3 + 1e-7 * loads.max(axis=1), loads)
    fit = fit_step_time(steps, with_mean=False, per_worker=True)
    assert fit.own is not None
    assert fit.own.workers[1] == type(fit.own.workers[1])(1, 5, None, None)
    assert any(note.startswith("worker 1: the slowest in too few") for note in fit.notes)
    assert fit.own.workers[0].token_time is not None


def test_figures() -> None:
    """Both fits, residuals of rounding and of a tail."""
    steps, *_ = _two_generations(0.01)
    for fit in (fit_step_time(steps, per_worker=True), fit_step_time(exact_steps())):
        figure = fit.plot()
        above, below = figure.axes
        assert above.get_ylabel() == "step without the mean-load term [ms]"
        assert below.get_ylabel() == "measured − fitted [%]"
        assert "token_time" in fit._repr_html_()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_figure_says_what_it_shows() -> None:
    """Colours in a legend, outliers in words, and no residual on the edge."""
    loads = np.array([[1e4, 2e4], [3e4, 2e4], [2e4, 4e4], [5e4, 3e4]] * 10)
    durations = 1e-3 + 1e-7 * loads.max(axis=1)
    durations[7] *= 3
    figure = fit_step_time(MeasuredSteps.from_loads(durations, loads), per_worker=True).plot()
    above, below = figure.axes
    assert above.get_title(loc="right") == "1 step above the plot"
    (legend,) = figure.legends
    told = [text.get_text() for text in legend.get_texts()]
    assert told == ["worker 0 slowest", "worker 1 slowest", "fit for equal workers"]
    drawn = np.concatenate([line.get_ydata() for line in below.get_lines()])
    assert below.get_ylim()[0] < np.nanmin(drawn) < np.nanmax(drawn) < below.get_ylim()[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _steps([], []), "steps: no step is given; measure steps"),
        (lambda: _steps([1, -1], [1, 2]), "duration_s[1]: -1, but a duration is > 0"),
        (lambda: _steps([1, np.nan], [1, 2]), "duration_s[1]: nan, but"),
        (lambda: _steps([1, 1], [1, -2]), "max_load[1]: -2, but a load is >= 0"),
        (lambda: _steps([1, 2], [7, 7]), "max_load: every step has a peak of 7 tokens"),
        (
            lambda: replace(_steps([1, 1], [7, 9]), mean_load=np.array([8.0, 8.0])),
            "mean_load[0]: 8 exceeds the peak load of 7",
        ),
        (
            lambda: fit_step_time(exact_steps(steps=2)),
            "steps: 2 steps for 3 constants; measure more steps",
        ),
        (
            lambda: fit_step_time(_steps([1, 2], [1, 2]), per_worker=True),
            "loads: the load of each worker is unknown; give columns load_0",
        ),
        (
            lambda: fit_step_time(exact_steps(steps=5), per_worker=True),
            "no worker is the slowest in 10 steps",
        ),
        (lambda: fit_step_time([1, 2]), "steps: a list is not a MeasuredSteps"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_fitted(make: object, message: str) -> None:
    """One line each."""
    with pytest.raises(InputError, match=re.escape(message)):
        make()  # type: ignore[operator]
