"""Performance profile: how often a method is within a factor of the best one.

E. D. Dolan and J. J. Moré, Benchmarking optimization software with performance profiles,
Mathematical Programming 91 (2002): for each method the share of instances on which its value is at
most τ times the best of all methods. A method that has no result is within no factor.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Profile:
    """Factors of one method to the best, one per instance, infinite where it has no result."""

    group: Group[Row]
    factors: Sequence[float]


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw the share of instances on which each group is within a factor of the best.

    Rows of one instance are equal in the arguments that all rows have, groups and panel left out.
    """
    if not has_values(plan, [row for row in rows if row.is_done]):
        return nothing(rows, f"a value {plan.y}")
    names = instance_names(plan, rows)
    parts = panels(plan, rows)
    found = [_profiles(plan, panel, names) for panel in parts]
    grid_of_factors = _grid([profile for profiles in found for profile in profiles])
    bodies, notes = [], _said(plan, rows)
    with framed(plan, parts) as (figure, grid):
        for (axes, panel), profiles in zip(grid, found, strict=True):
            everyone = [row for curve in panel.curves for row in curve.items]
            for index, profile in enumerate(profiles):
                shares = [100 * _share(profile, factor) for factor in grid_of_factors]
                _draw_curve(axes, grid_of_factors, shares, index, profile)
                if profile.group.items:
                    bodies.append(_body(plan, profile, grid_of_factors, everyone, names))
            _label(axes, plan, grid_of_factors[-1])
    return Drawing(figure, DataTable(_columns(plan), bodies), _caption(plan, rows, names), notes)


def instance_names(plan: Figure, rows: Sequence[Row]) -> list[str]:
    """Return the arguments that make an instance: those that vary, but groups and panel."""
    shared = set.intersection(*(set(row.task.arguments) for row in rows))
    return [name for name in varying(rows, [*plan.group, plan.panel]) if name in shared]


def _profiles(plan: Figure, panel: Panel, names: Sequence[str]) -> list[_Profile]:
    values = [_values(plan, curve, names) for curve in panel.curves]
    instances = list(dict.fromkeys(instance for found in values for instance in found))
    best = {instance: _best(plan, [v.get(instance) for v in values]) for instance in instances}
    return [
        _Profile(
            curve, [_factor(plan, found.get(instance), best[instance]) for instance in instances]
        )
        for curve, found in zip(panel.curves, values, strict=True)
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


def _best(plan: Figure, values: Sequence[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return max(known) if plan.best == "max" else min(known)


def _factor(plan: Figure, value: Number | None, best: Number | None) -> float:
    if value is None or best is None:
        return math.inf
    if value == best:
        return 1.0
    worse, better = (best, value) if plan.best == "max" else (value, best)
    # A best of zero or less has no multiples, and a value of zero or less is no part of one.
    return worse / better if worse > 0 and better > 0 else math.inf


def _said(plan: Figure, rows: Sequence[Row]) -> list[Phrase]:
    """Return what is to be said of values that have no ratio."""
    found = [(row, number_of(row, plan.y)) for row in rows if row.is_done]
    keys = keys_of(row for row, value in found if value is not None and value <= 0)
    if not keys:
        return []
    count = counted(keys, plan.y, "not-positive")
    told = "where the best is not, only values equal to it are within a factor"
    return [("Rows whose ", plan.y, " is not positive: ", count, f"; {told}.")]


def _grid(profiles: Sequence[_Profile]) -> list[float]:
    """Return the factors to evaluate at, up to the first that is above all finite ones."""
    finite = [f for profile in profiles for f in profile.factors if f < math.inf]
    largest = max(finite, default=1.0)
    factors = [1.0]
    for exponent in _EXPONENTS:
        factors.append(1 + 10 ** (exponent / 16))
        if factors[-1] >= max(largest, 1.05):
            break
    return factors


def _share(profile: _Profile, factor: float) -> float:
    within = sum(own <= factor * (1 + _SLACK) for own in profile.factors)
    return within / len(profile.factors)


def _draw_curve(
    axes: "Axes", factors: Sequence[float], shares: Sequence[float], index: int, profile: _Profile
) -> None:
    style = Look.of(index)
    axes.step(
        factors,
        shares,
        where="post",
        color=style.colour,
        linestyle=style.dashes,
        label=curve_label(profile.group),
    )


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


def _body(
    plan: Figure,
    profile: _Profile,
    factors: Sequence[float],
    everyone: Sequence[Row],
    names: Sequence[str],
) -> Body:
    keys = key_cells(plan, profile.group.items)
    lines = []
    for factor in factors:
        share = traced_share(_share(profile, factor), "within-percent")
        lines.append(
            Line([*keys, ((f"{factor:.4g}",),), ((share,),)], {"data-factor": repr(factor)})
        )
    attributes = marks(
        profile.group.items,
        value=plan.y,
        baseline_keys=keys_of(everyone),
        instance=" ".join(names),
        best=plan.best,
    )
    return Body(lines, attributes)


def _columns(plan: Figure) -> list[Column]:
    return [*key_columns(plan), Column("factor"), Column("instances within", "%")]


def _caption(plan: Figure, rows: Sequence[Row], names: Sequence[str]) -> str:
    kind = "largest" if plan.best == "max" else "smallest"
    told = f" (one per {', '.join(names)})" if names else ""
    return (
        f"Share of instances{told} on which {drawn_value(plan, rows)} is within a factor τ of the"
        f" best, that is the {kind}, of all curves{per_panel(plan)}. Rows that failed are within"
        " no factor and count. No intervals."
    )
