"""Lines of the figure: what is drawn while the engine is idle, and after thinning."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bfio.wait import run as figure
from bfio.wait.arrivals import even_instance
from bfio.wait.registry import build
from bfio.wait.simulation import serve
from formulations.fluid import FluidProblem

#: One request of stages 0 and 1 every 4 s, batches of 1/2 + 1/18 and 1/2 + 2/18 s.
RARE = FluidProblem.from_mapping(
    {
        "classes": [{"rate": "1/4", "prompt": 1, "output": 1}],
        "d0": "1/2",
        "d1": "1/18",
        "memory": 9,
    }
)
#: 1/2 + 1/18 and 1 + 3/18 s after the arrival.
FIRST, SECOND = 5 / 9, 7 / 6


def test_memory_is_nothing_while_the_engine_is_idle() -> None:
    """Requests at 4 and 8 s: each batch has its width, and the last one ends."""
    run = serve(even_instance(RARE, 8), build("fcfs", RARE))
    (memory, queue) = figure.run_figure([run]).axes
    x, y = np.asarray(memory.get_lines()[0].get_data(), dtype=np.float64)
    assert_allclose(x, [0, 4, 4 + FIRST, 4 + SECOND, 8, 8 + FIRST, 8 + SECOND], atol=1e-5)
    assert y.tolist() == [0, 1, 2, 0, 1, 2, 0]
    waiting = np.asarray(queue.get_lines()[0].get_ydata(), dtype=np.float64)
    nothing = np.nan
    assert_allclose(waiting, [nothing, 1, 0, nothing, 1, 0, nothing])


def test_a_run_without_batches() -> None:
    """Nothing is held from the start to the horizon."""
    run = serve(even_instance(RARE, 8), build("fcfs", RARE), horizon_s=3)
    seconds, values = figure.line_of(run, run.batches.memory, 0.0)
    assert (seconds.tolist(), values.tolist()) == ([0, 3], [0, 0])


def test_thinned_lines_keep_peaks_and_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six changes in ten seconds, three parts: from 0, 10/3 and 20/3 s on."""
    monkeypatch.setattr(figure, "_MAX_POINTS", 3)
    seconds = np.array([0.0, 1, 2, 3, 8, 9, 10])
    values = np.array([1.0, 7, 2, 0, 5, 4, 0])
    x, y = figure.thinned(seconds, values)
    assert_allclose(x, [0, 10 / 3, 20 / 3, 10])
    # 7 is the peak of the first part, nothing changes in the second, 5 is held from 8 s on.
    assert y.tolist() == [7, 0, 5, 0]
    few = figure.thinned(seconds[:6], values[:6])
    assert few[1].tolist() == values[:6].tolist()
    gaps = figure.thinned(seconds, np.where(values == 0, np.nan, values))
    assert_allclose(gaps[1], [7, np.nan, 5, np.nan])


def test_the_legend_covers_no_line() -> None:
    """It lies outside the panels."""
    run = serve(even_instance(RARE, 8), build("fcfs", RARE))
    drawn = figure.run_figure([run])
    drawn.draw_without_rendering()
    (legend,) = drawn.legends
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_window_extent()) for axes in drawn.axes)
