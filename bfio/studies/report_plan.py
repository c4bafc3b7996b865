"""Define the tables and figures that a study file plans, and validate them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bfio.studies import kinds
from bfio.studies.row import Row, admits
from bfio.studies.row_kind import MEASURED
from formulations.errors import InputError, did_you_mean, use_one_of

#: Prefix of an argument name that stands for the logarithm of the argument.
LOGARITHM = "ln "


class FigureKind(StrEnum):
    """Kinds of figures, each with the question it answers."""

    TRAJECTORY = "trajectory"  # how does a value evolve? a series of each group over its index
    HISTOGRAM = "histogram"  # how is a series distributed? (gaps per step)
    PERFORMANCE_PROFILE = "performance-profile"  # how often is a method near the best?
    SCALING = "scaling"  # how does a value grow? log-log axes with a fitted power law
    LINES = "lines"  # how does a value depend on an argument? means with intervals
    HEATMAP = "heatmap"  # how does a value depend on two arguments?


class Statistic(StrEnum):
    """Statistics that combine the values of several rows into one number."""

    MEAN = "mean"
    MEDIAN = "median"
    MINIMUM = "min"
    P95 = "p95"
    P99 = "p99"
    MAXIMUM = "max"
    SUM = "sum"


class Shown(StrEnum):
    """Numbers that a Markdown table shows for each value."""

    ALL = "all"
    VALUE = "value"
    RATIO = "ratio"


@dataclass(frozen=True)
class Table:
    """A planned table: one line per combination of ``rows``, one column per value.

    Parameters
    ----------
    title : str
        Its heading.
    rows : sequence of str
        Arguments whose combinations are the lines. Rows that differ in other arguments are
        averaged.
    values : sequence of str
        Values shown, with an interval where a line has several rows.
    statistic : Statistic
        How the values of a line's rows are combined into one number.
    baseline : mapping
        Arguments of the baseline lines, e.g. ``{policy = "fcfs"}``. Ratios are taken between rows
        that are equal in all other arguments (paired), then averaged.
    published : sequence of mapping
        Figures from a publication: arguments of a line, values, and ``source``; nothing else.
    note : str
        A sentence below the table.
    where : mapping
        Arguments that a row must have to be included: a value, or a list of accepted values.
    name : str
        Name of the table's marks in a README; the title by default.
    across : str
        Only in Markdown: the argument of ``rows`` whose values are columns; empty for none.
    show : Shown
        Only in Markdown: whether to show values, ratios to the baseline, or both.
    labels : mapping
        Only in Markdown: labels for arguments, argument values and names of values.
    ratios : sequence of str
        Values whose ratio to the baseline is shown; all by default.
    against : str
        An argument, or ``ln`` and an argument. Cells then show the exponent of a power law of the
        value in this argument in place of a statistic.
    beside : sequence of str
        Further arguments of the same regression. Their exponents are not shown.
    """

    title: str
    rows: Sequence[str]
    values: Sequence[str]
    statistic: Statistic = Statistic.MEAN
    baseline: Mapping[str, Any] = field(default_factory=dict)
    published: Sequence[Mapping[str, Any]] = ()
    note: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    across: str = ""
    show: Shown = Shown.ALL
    labels: Mapping[str, Any] = field(default_factory=dict)
    ratios: Sequence[str] = ()
    against: str = ""
    beside: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the plan as far as this is possible without computed rows."""
        if not self.rows or not self.values:
            raise InputError(self.place, "no rows or no values", "name at least one of each")
        if self.against:
            self._check_exponents()
        if self.show is Shown.RATIO and not self.baseline:
            what = "the table has no baseline for its ratios"
            raise InputError(self.place, what, "name a baseline")
        wrong = "{!r} is not among the values of the table"
        _refuse_unknown(f"{self.place}: ratios", self.ratios, self.values, wrong)
        if self.ratios and not self.baseline:
            raise InputError(f"{self.place}: ratios", "ratios need a baseline", "name a baseline")

    def check_rows(self) -> None:
        """Reject a baseline, ``across`` or published figure that is not among the rows."""
        across = [self.across] if self.across else []
        for what, names in (("baseline", self.baseline), ("across", across)):
            wrong = f"{what} argument {{}} is not among its rows"
            _refuse_unknown(self.place, names, self.rows, wrong)
        known = [*self.rows, *self.values, "source"]
        wrong = "{!r} is neither in rows nor in values"
        for entry in self.published:
            _refuse_unknown(f"{self.place}: published", entry, known, wrong)

    def _check_exponents(self) -> None:
        if taken := [name for _, name in self._fitted() if name in self.rows]:
            what, remedy = f"against = {taken[0]} is also in rows", "remove it from rows"
        elif self.baseline or self.statistic is not Statistic.MEAN:
            what, remedy = "against cannot be combined with statistic or baseline", "remove them"
        else:
            return
        raise InputError(self.place, what, remedy)

    def _fitted(self) -> Iterator[tuple[str, str]]:
        """Yield each regression argument with the field that names it."""
        if self.against:
            yield "against", self.against.removeprefix(LOGARITHM)
        for name in self.beside:
            yield "beside", name.removeprefix(LOGARITHM)

    @property
    def divided(self) -> Sequence[str]:
        """Values shown with a ratio to the baseline."""
        return (self.ratios or self.values) if self.baseline else ()

    @property
    def statistic_name(self) -> str:
        """Name of the statistic in the table cells."""
        return "exponent" if self.against else self.statistic.value

    @property
    def key(self) -> str:
        """Name of the table in the marks of a README."""
        return self.name or self.title

    @property
    def place(self) -> str:
        """Name of the table for error messages."""
        return f"report table {self.title!r}"

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Yield pairs: a field that names arguments of rows, and one argument name in it."""
        for field_name in ("rows", "baseline", "where"):
            for name in getattr(self, field_name):
                yield field_name, name
        yield from self._fitted()


@dataclass(frozen=True)
class Figure:
    """A planned figure.

    Parameters
    ----------
    title : str
        Its heading, as the question that the figure answers.
    kind : FigureKind
        The kind of plot.
    y : str
        The value drawn; for `TRAJECTORY` and `HISTOGRAM` the name of a series.
    x : str
        The argument along the horizontal axis (lines, scaling; heatmap: columns). For `TRAJECTORY`
        the meaning of the series index, e.g. ``"step"``.
    group : sequence of str
        Arguments whose combinations are the curves (heatmap: the lines).
    panel : str
        Argument with one panel per value; empty for one panel.
    log : str
        Which axes are logarithmic: ``""``, ``"x"``, ``"y"`` or ``"xy"``.
    best : str
        For `PERFORMANCE_PROFILE`: whether the best y is the ``"min"`` or the ``"max"``.
    note : str
        A sentence below the figure.
    where : mapping
        Arguments that a row must have to be included: a value, or a list of accepted values.
    """

    title: str
    kind: FigureKind
    y: str
    x: str = ""
    group: Sequence[str] = ()
    panel: str = ""
    log: str = ""
    best: str = "min"
    note: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needs_x = {FigureKind.SCALING, FigureKind.LINES, FigureKind.HEATMAP}
        if self.kind in needs_x and not self.x:
            raise InputError(self.place, f"{self.kind} needs x", "name an argument")
        if self.kind in _NEEDS_GROUP and not self.group:
            raise InputError(self.place, f"a {self.kind} needs group", _NEEDS_GROUP[self.kind])
        if self.log not in ("", "x", "y", "xy"):
            raise InputError(self.place, f"log = {self.log!r}", "use x, y or xy")
        if self.best not in ("min", "max"):
            raise InputError(self.place, f"best = {self.best!r}", "use min or max")

    @property
    def place(self) -> str:
        """Name of the figure for error messages."""
        return f"report figure {self.title!r}"

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Yield pairs: a field that names arguments of rows, and one argument name in it."""
        # For series, x is only a label of the index.
        if self.x and self.kind not in (FigureKind.TRAJECTORY, FigureKind.HISTOGRAM):
            yield "x", self.x
        yield from (("group", name) for name in self.group)
        if self.panel:
            yield "panel", self.panel
        yield from (("where", name) for name in self.where)


_NEEDS_GROUP = {
    FigureKind.HEATMAP: "name the argument of its lines",
    FigureKind.PERFORMANCE_PROFILE: "name the arguments that identify a method",
}


@dataclass(frozen=True)
class ReportPlan:
    """The tables and figures of a study, in order."""

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()

    @property
    def plans(self) -> "list[Table | Figure]":
        """Tables and figures in report order."""
        return [*self.tables, *self.figures]


#: Largest number of argument values listed in an error message.
_MAX_LISTED = 12


def check_names(report: ReportPlan, names: Collection[str]) -> None:
    """Reject tables and figures that name an argument which no row has.

    Parameters
    ----------
    report : ReportPlan
        The tables and figures.
    names : collection of str
        Arguments of rows in the small and the full study.

    Raises
    ------
    InputError
        With the title, the wrong name, and the nearest known argument.
    """
    for asked in report.plans:
        for place, name in asked.arguments():
            where, wrong = f"{asked.place}: {place}", "no row has an argument {!r}"
            _refuse_unknown(where, [name], sorted(names), wrong)
    # After the names of rows: a misspelt row would otherwise be suggested as the right name.
    for table in report.tables:
        table.check_rows()


def _refuse_unknown(place: str, names: Collection[str], known: Collection[str], what: str) -> None:
    """Raise an error for the first name that is not known; ``what`` has a place for the name."""
    for name in names:
        if name not in known:
            raise InputError(place, what.format(name), use_one_of(name, known))


def check_values(report: ReportPlan, computes: str) -> None:
    """Reject tables and figures that name a value which a built-in row kind does not have.

    The values of users' own kinds are unknown until a row is computed; see `check_present`.

    Raises
    ------
    InputError
        With the title, the wrong name, and the nearest known value.
    """
    if computes not in kinds.names():
        return
    kind = kinds.find(computes)
    asked = [(f"{table.place}: values", name) for table in report.tables for name in table.values]
    asked += [(f"{figure.place}: y", figure.y) for figure in report.figures]
    for place, name in asked:
        if not kind.describe(name).text:
            close = did_you_mean(name, kind.value_names())
            remedy = f"{close}`bfio study kinds {computes}` shows the values"
            raise InputError(place, f"rows of kind {computes} have no value {name!r}", remedy)


def check_present(place: str, names: Sequence[str], rows: Sequence[Row]) -> None:
    """Reject names of values that no computed row has and the row kind does not describe.

    Raises
    ------
    InputError
        With the wrong name and the nearest known one.
    """
    if not rows:
        return
    held = {name for row in rows for name in (*row.values, *row.timings, *row.series)}
    measured = {entry.name for entry in MEASURED}
    for name in names:
        known = name in held or name in measured
        if not known and not kinds.describe(rows[0].task.computes, name).text:
            remedy = use_one_of(name, sorted(held))
            raise InputError(place, f"no successful row has a value {name!r}", remedy)


def check_conditions(report: ReportPlan, values: Mapping[str, Sequence[Any]]) -> None:
    """Reject tables and figures whose conditions match no row.

    Parameters
    ----------
    report : ReportPlan
        The tables and figures.
    values : mapping
        Values of each argument over all rows of the small and the full study.

    Raises
    ------
    InputError
        With the title, the argument, and the values it takes.
    """
    for plan in report.plans:
        for name, wanted in plan.where.items():
            known = values.get(name, [])
            choices = wanted if isinstance(wanted, list | tuple) else [wanted]
            absent = [choice for choice in choices if not any(admits(choice, v) for v in known)]
            # Every word in a list must occur. A list of numbers, such as seeds, may contain others
            # too.
            slips = [choice for choice in absent if isinstance(choice, str)]
            if slips or len(absent) == len(choices):
                wrong = (slips or absent)[0]
                what = f"no row has {name} = {wrong!r}"
                raise InputError(f"{plan.place}: where", what, _nearest(wrong, known))


def _nearest(wanted: Any, values: Sequence[Any]) -> str:
    """Return the remedy for a condition on a value that an argument does not have."""
    words = [value for value in values if isinstance(value, str) and value != wanted]
    close = did_you_mean(wanted, words) if isinstance(wanted, str) else ""
    known = list(dict.fromkeys(values))
    listed = [repr(value) for value in known[:_MAX_LISTED]]
    if len(known) > _MAX_LISTED:
        listed.append(f"… {known[-1]!r}")
    return f"{close}use one of {', '.join(listed)}"


def check_baselines(report: ReportPlan, grids: Sequence[Mapping[str, Sequence[Any]]]) -> None:
    """Reject a table whose baseline matches no row of the study.

    Parameters
    ----------
    report : ReportPlan
        The tables.
    grids : sequence of mapping
        Values of each argument per grid, fixed arguments included.

    Raises
    ------
    InputError
        With the title, the argument, and the values it takes.
    """
    for table in report.tables:
        names = {**table.baseline, **table.where} if table.baseline else {}
        # A grid is a product: if every argument has a matching value, one cell has all of them.
        if any(all(_fitting(grid, table, name) for name in names) for grid in grids):
            continue
        place = f"{table.place}: baseline"
        for name, wanted in table.baseline.items():
            if not any(_fitting(grid, table, name) for grid in grids):
                values = [value for grid in grids for value in grid.get(name, [None])]
                what = f"no row of the table has {name} = {wanted!r}"
                raise InputError(place, what, _nearest(wanted, values))
        what = f"no row has {' and '.join(f'{n} = {v!r}' for n, v in names.items())}"
        raise InputError(place, what, "name values that occur together in one grid")


def _fitting(grid: Mapping[str, Sequence[Any]], table: Table, name: str) -> list[Any]:
    """Return the values of an argument in a grid for which both baseline and where can hold."""
    wanted = [entries[name] for entries in (table.baseline, table.where) if name in entries]
    taken = grid.get(name, [None])
    return [value for value in taken if all(admits(choice, value) for choice in wanted)]
