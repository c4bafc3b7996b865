"""Performance profile: how often a method is within a factor of the best one.

E. D. Dolan and J. J. Moré, Benchmarking optimization software with performance profiles,
Mathematical Programming 91 (2002): for each method the share of instances on which its value is at
most τ times the best of all methods. A method that has no result is within no factor.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from bfio.studies.matching import identity
from bfio.studies.report.drawing import Drawing
from bfio.studies.report.figures.common import (
    Look,
    Panel,
    curve_label,
    drawn_value,
    framed,
    key_cells,
    key_columns,
    marks,
    nothing,
    panels,
    per_panel,
    plain,
    refuse,
    short_number,
)
from bfio.studies.report.figures.points import has_values
from bfio.studies.report.selection import Group, keys_of, number_of, varying
from bfio.studies.report.statistics import Number
from bfio.studies.report.traced import Body, Column, DataTable, Line, Phrase, counted, traced_share
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Instance = tuple[Hashable, ...]
#: Factors at which profiles are evaluated: 1, and 1 + 10^(k/16).
_EXPONENTS = range(-32, 81)
#: Relative slack below which values count as equal: that of recomputing them in another order.
_SLACK = 1e-9


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw the share of instances on which each group is within a factor of the best.

    Rows of one instance are equal in the arguments that all rows have, groups and panel left out.
    """
    done = [row for row in rows if row.is_done]
    if not has_values(plan, done):
        return nothing(rows, f"a value {plan.y}")
    names = instance_names(plan, rows)
    parts = panels(plan, rows)
    found = [_factors(plan, panel, names) for panel in parts]
    bounds = _bounds([factor for curves in found for factors in curves for factor in factors])
    bodies = []
    with framed(plan, parts) as (figure, grid):
        for (axes, panel), curves in zip(grid, found, strict=True):
            everyone = keys_of(row for curve in panel.curves for row in curve.items)
            for index, (curve, factors) in enumerate(zip(panel.curves, curves, strict=True)):
                shares = [_share(factors, bound) for bound in bounds]
                heights = [100 * share for share in shares]
                name = curve_label(curve)
                axes.step(bounds, heights, where="post", label=name, **Look.of(index).line)
                if not curve.items:
                    continue
                lines = []
                for bound, share in zip(bounds, shares, strict=True):
                    cell = traced_share(share, "within-percent")
                    cells = [*key_cells(plan, curve.items), ((f"{bound:.4g}",),), ((cell,),)]
                    lines.append(Line(cells, {"data-factor": repr(bound)}))
                more = {"instance": " ".join(names), "best": plan.best}
                origin = marks(curve.items, value=plan.y, baseline_keys=everyone, **more)
                bodies.append(Body(lines, origin))
            _label(axes, plan, bounds[-1])
    columns = [*key_columns(plan), Column("factor"), Column("instances within", "%")]
    told = f" (one per {', '.join(names)})" if names else ""
    caption = (
        f"Share of instances{told} on which {drawn_value(plan, rows)} is within a factor τ of the"
        f" best, that is the {'largest' if plan.best == 'max' else 'smallest'}, of all curves"
        f"{per_panel(plan)}. Rows that failed are within no factor and count. No intervals."
    )
    notes: list[Phrase] = []
    values = [(row, number_of(row, plan.y)) for row in done]
    if keys := keys_of(row for row, value in values if value is not None and value <= 0):
        count = counted(keys, plan.y, "not-positive")
        why = "where the best is not, only values equal to it are within a factor"
        notes.append(("Rows whose ", plan.y, " is not positive: ", count, f"; {why}."))
    return Drawing(figure, DataTable(columns, bodies), caption, notes)


def instance_names(plan: Figure, rows: Sequence[Row]) -> list[str]:
    """Return the arguments that make an instance: those that vary, but groups and panel."""
    shared = set.intersection(*(set(row.task.arguments) for row in rows))
    return [name for name in varying(rows, [*plan.group, plan.panel]) if name in shared]


def _factors(plan: Figure, panel: Panel, names: Sequence[str]) -> list[list[float]]:
    """Return for each curve how many times the best each of its instances is."""
    values = [_values(plan, curve, names) for curve in panel.curves]
    instances = list(dict.fromkeys(instance for found in values for instance in found))
    choose = max if plan.best == "max" else min
    best = {
        instance: choose(known)
        for instance in instances
        if (known := [v for found in values if (v := found.get(instance)) is not None])
    }
    return [
        [_factor(plan, found.get(instance), best.get(instance)) for instance in instances]
        for found in values
    ]


def _values(
    plan: Figure, curve: Group[Row], names: Sequence[str]
) -> Mapping[_Instance, Number | None]:
    found: dict[_Instance, Number | None] = {}
    for row in curve.items:
        instance = tuple(identity(row.task.arguments[name]) for name in names)
        if instance in found:
            raise refuse(
                plan,
                f"{curve.label} has several rows for one instance",
                "name the argument they differ in in group, panel or where",
            )
        found[instance] = number_of(row, plan.y) if row.is_done else None
    return found


def _factor(plan: Figure, value: Number | None, best: Number | None) -> float:
    if value is None or best is None:
        return math.inf
    if value == best:
        return 1.0
    worse, better = (best, value) if plan.best == "max" else (value, best)
    # A best of zero or less has no multiples, and a value of zero or less is no part of one.
    return worse / better if worse > 0 and better > 0 else math.inf


def _bounds(found: Sequence[float]) -> list[float]:
    """Return the factors to evaluate at, up to the first that is above all finite ones."""
    largest = max((factor for factor in found if factor < math.inf), default=1.0)
    factors = [1.0]
    for exponent in _EXPONENTS:
        factors.append(1 + 10 ** (exponent / 16))
        if factors[-1] >= max(largest, 1.05):
            break
    return factors


def _share(factors: Sequence[float], bound: float) -> float:
    return sum(own <= bound * (1 + _SLACK) for own in factors) / len(factors)


def _label(axes: "Axes", plan: Figure, largest: float) -> None:
    axes.set_ylim(0, 103)
    axes.set_ylabel("instances within the factor [%]")
    axes.set_xlabel(f"factor τ of the best {plain(plan.y)}")
    if "x" in plan.log or largest > 3:
        axes.set_xscale("log")
        ticks = [
            t for t in (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 1e3, 1e4, 1e5) if t <= largest
        ]
        chosen = ticks if largest <= 5 else [t for t in ticks if t not in (1.1, 1.2, 1.5)]
        axes.set_xticks(chosen, [short_number(tick) for tick in chosen])
        axes.minorticks_off()
