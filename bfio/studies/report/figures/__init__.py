"""Figures of a report: one module per kind, found by `FigureKind`."""

from collections.abc import Callable, Sequence
from importlib import import_module

from bfio.studies.report.drawing import Drawing
from bfio.studies.report_plan import Figure, FigureKind
from bfio.studies.row import Row

#: Modules by kind; each has a function ``draw(figure_plan, rows) -> Drawing``.
_MODULES = {
    FigureKind.TRAJECTORY: "trajectory",
    FigureKind.HISTOGRAM: "histogram",
    FigureKind.PERFORMANCE_PROFILE: "performance_profile",
    FigureKind.SCALING: "scaling",
    FigureKind.LINES: "lines",
    FigureKind.HEATMAP: "heatmap",
}


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw a figure of the computed rows that the plan is about.

    Parameters
    ----------
    plan : Figure
        What to draw.
    rows : sequence of Row
        Computed rows, those that are not done among them.

    Raises
    ------
    InputError
        If the plan asks for something these rows cannot show.
    """
    module = import_module(f"{__name__}.{_MODULES[plan.kind]}")
    function: Callable[[Figure, Sequence[Row]], Drawing] = module.draw
    return function(plan, rows)
