"""The figures of a comparison: what they draw, say and keep apart."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bfio.decode.cluster import Cluster
from bfio.decode.comparison import Comparison, compare
from bfio.decode.energy import energy_account
from bfio.decode.plots import idle_fraction_figure, power_figure, trajectory_figure
from bfio.workloads.synthetic_workloads import synthetic

FIGURES = [trajectory_figure, idle_fraction_figure, power_figure]


@pytest.fixture(scope="module")
def repeated() -> Comparison:
    """One policy on two workers; its requests are too few, so that they are repeated."""
    done = compare(synthetic("demo", 20, 0), ["fcfs"], Cluster(2, 2), repeat=3)
    assert done.repeated
    return done


def _texts(figure: Figure) -> list[Any]:
    """Return the texts of a figure outside its legends and ticks."""
    found: list[Any] = [*figure.texts]
    for axes in figure.axes:
        found += [axes.title, axes.xaxis.label, axes.yaxis.label]
    return found


def test_area_below_power_is_the_energy_of_the_legend(repeated: Comparison) -> None:
    """Of all workers together, as in the data frame, in the run of the other figures."""
    (axes,) = power_figure(repeated).axes
    (stairs,) = axes.patches
    power, edges, _ = stairs.get_data()  # type: ignore[attr-defined]
    account = energy_account(repeated.repeated[0], repeated.energy_model)
    assert account is not None
    assert np.diff(edges) @ power == pytest.approx(account.energy_j)
    assert stairs.get_label() == f"fcfs: {account.energy_j / 1e3:,.4g} kJ"
    assert list(repeated.power_to_frame()["power_w"]) == list(power)


@pytest.mark.parametrize("draw", FIGURES)
def test_captions_name_the_repetition(
    draw: Callable[[Comparison], Figure], repeated: Comparison
) -> None:
    """If requests are repeated, and only then."""
    once = replace(repeated, repeated=())
    for comparison, wanted in ((repeated, True), (once, False)):
        told = " ".join(text.get_text() for text in _texts(draw(comparison)))
        assert ("requests repeated 3 times" in " ".join(told.split())) == wanted


@pytest.mark.parametrize("draw", FIGURES)
def test_no_text_is_cut_off(draw: Callable[[Comparison], Figure], repeated: Comparison) -> None:
    """The captions fit the figure of a single policy, the narrowest."""
    figure = draw(repeated)
    figure.draw_without_rendering()
    for text in _texts(figure):
        box = text.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= figure.bbox.x1, text.get_text()


@pytest.mark.parametrize("draw", [idle_fraction_figure, power_figure])
def test_thirteen_policies_differ_in_colour_or_line(
    draw: Callable[[Comparison], Figure], repeated: Comparison
) -> None:
    """Ten colours are not enough; a line is drawn for each policy."""
    labels = tuple(map(str, range(13)))
    many = replace(repeated, labels=labels, runs=repeated.runs * 13, repeated=())
    axes = draw(many).axes[0]
    legend = axes.get_legend()
    assert legend is not None
    handles: list[Any] = legend.legend_handles
    looks = {(handle.get_color(), handle.get_linestyle()) for handle in handles}
    assert len(looks) == len(handles) == 13
