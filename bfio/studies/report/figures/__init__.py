"""Figures of a report: one module per kind, called like it, with a function ``draw``."""

from collections.abc import Callable, Sequence
from importlib import import_module

from bfio.studies.report.drawing import Drawing
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row


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
    module = import_module(f"{__name__}.{plan.kind.replace('-', '_')}")
    function: Callable[[Figure, Sequence[Row]], Drawing] = module.draw
    return function(plan, rows)
