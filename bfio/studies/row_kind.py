"""Define kinds of rows: the function that computes a row, and descriptions of its values."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bfio.common.metrics import Domain, MetricTable
from bfio.common.text import TextTable
from bfio.studies.row import Compute, Instance, RowContext, RowResult, Value
from formulations.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_HALF_WIDTH = ".half_width"
#: Prefixes of values over the measured part and over the steady part of a run.
MEASURED_PART, STEADY = "measured.", "steady."


@dataclass(frozen=True)
class Described:
    """Description of a value, series or timing: name, unit, one-line meaning, and domain."""

    name: str
    unit: str = ""
    text: str = ""
    domain: Domain = Domain.REAL


@dataclass(frozen=True)
class Planned:
    """A planned row whose arguments have been read and checked.

    Parameters
    ----------
    instance : str
        Digest of the data that the arguments select.
    compute : callable
        Function that computes the row.
    draws : bool
        Whether the row may draw random numbers from the argument ``seed``, apart from its data.
    setting : mapping of str to str
        Settings of the row for reports, a phrase per name. If empty, the arguments are shown.
    remarks : sequence of str
        Remarks for the reader of a report, one sentence each.
    refuted : sequence of str
        Remarks that reports omit, even if other rows have them, because this row contradicts them.
    meaning : hashable
        Value that is equal for rows that differ only in the spelling of arguments. None if
        unknown.
    unread : mapping of str to InputError
        Arguments that the row does not read, with the error for each. A study rejects an argument
        that none of its rows reads.
    """

    instance: str
    compute: Callable[[], RowResult | Mapping[str, Value]]
    draws: bool = True
    setting: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    refuted: Sequence[str] = ()
    meaning: Hashable = None
    unread: Mapping[str, InputError] = field(default_factory=dict)


@dataclass(frozen=True)
class RowKind:
    """A kind of row: its function and the descriptions of its values.

    Parameters
    ----------
    name : str
        Name in study files.
    summary : str
        One line for users.
    compute : callable
        Computes a row from its arguments. It must not depend on anything else.
    instance : callable
        Checks the arguments and returns the digest of the data that they select. It is called once
        per row before any row is computed, so that an error stops a study at once. Slow parts
        should be cached.
    values : sequence of Described
        Its values, series and timings, for reports and documentation.
    metrics : sequence of Described
        Metrics of a simulator that are also values of the row. They are documented separately.
    parts : mapping of str to str
        Prefixes of value names, each with a description. A prefix denotes the same values for a
        part of the run, for example ``steady.``.
    plan : callable, optional
        Replaces ``compute`` and ``instance`` by one function that reads the arguments once, see
        `planned`.
    """

    name: str
    summary: str
    compute: Compute
    instance: Instance = lambda arguments, context: ""
    values: Sequence[Described] = ()
    metrics: Sequence[Described] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    plan: Callable[[Mapping[str, Any], RowContext], Planned] | None = None

    def planned(self, arguments: Mapping[str, Any], context: RowContext) -> Planned:
        """Return a planned row, with its arguments read and checked.

        Raises
        ------
        InputError
            If an argument is invalid.
        """
        if self.plan is not None:
            return self.plan(arguments, context)
        instance = self.instance(arguments, context)
        return Planned(instance, lambda: self.compute(arguments, context))

    def table(self) -> str:
        """Return the values of the kind as a Markdown table."""
        more = [
            (f"`{part}` and a name of this table", "", text) for part, text in self.parts.items()
        ]
        metrics = [("metrics of the run", "", "each metric of its table")] * bool(self.metrics)
        return _table([*metrics, *_rows(self.values), *more])

    def value_names(self) -> list[str]:
        """Return the names of the kind's values, including those of parts of runs."""
        own = [entry.name for entry in (*MEASURED, *self.metrics, *self.values)]
        return [*own, *(f"{part}{name}" for part in self.parts for name in own)]

    def heading(self, name: str) -> str:
        """Return the table heading of a value, with the part of the run if runs have parts."""
        if STEADY not in self.parts:
            return name
        for prefix in (MEASURED_PART, STEADY):
            if name.startswith(prefix):
                return f"{name.removeprefix(prefix)} ({prefix[:-1]} part)"
        once = {entry.name for entry in (*MEASURED, *self.values)}
        # In simulated runs, all values except these are metrics, including users' own.
        return f"{name} (whole run)" if self.metrics and name not in once else name

    def describe(self, name: str) -> Described:
        """Return the description of a value by name, including values of parts of runs."""
        known = {entry.name: entry for entry in (*MEASURED, *self.metrics, *self.values)}
        if name in known:
            return known[name]
        for prefix, part in self.parts.items():
            if name.startswith(prefix):
                inner = self.describe(name.removeprefix(prefix))
                return _within(name, inner, "{}, " + part)
        if name.endswith(_HALF_WIDTH):
            inner = self.describe(name.removesuffix(_HALF_WIDTH))
            return _within(name, inner, "half the width of the 95 % interval (batch means) of: {}")
        return Described(name)


def planned_kind(
    name: str,
    summary: str,
    plan: Callable[[Mapping[str, Any], RowContext], Planned],
    values: Sequence[Described],
    parts: Mapping[str, str] | None = None,
    metrics: Sequence[Described] = (),
) -> RowKind:
    """Return a row kind whose function ``plan`` reads the arguments; see `RowKind`."""
    return RowKind(
        name,
        summary,
        compute=lambda arguments, context: plan(arguments, context).compute(),
        instance=lambda arguments, context: plan(arguments, context).instance,
        values=values,
        metrics=metrics,
        parts=parts or {},
        plan=plan,
    )


def described(*values: Described) -> Callable[[F], F]:
    """Decorate a user's row function with descriptions of its values."""

    def decorate(function: F) -> F:
        function.row_values = values  # type: ignore[attr-defined]
        return function

    return decorate


def descriptions(text: str) -> list[Described]:
    """Parse descriptions of values, one per line: ``name | unit | meaning``.

    Values are >= 0. The unit ``share`` stands for values between 0 and 1.
    """
    lines = (map(str.strip, line.split("|", 2)) for line in text.strip().splitlines())
    return [
        Described(name, "1", what, Domain.SHARE)
        if unit == "share"
        else Described(name, unit, what, Domain.NON_NEGATIVE)
        for name, unit, what in lines
    ]


def described_metrics(table: MetricTable[Any]) -> list[Described]:
    """Return the descriptions of the metrics of a simulator, as row values."""
    return [Described(entry.name, entry.unit, entry.description, entry.domain) for entry in table]


def described_table(values: Sequence[Described]) -> str:
    """Return descriptions as a Markdown table."""
    return _table(_rows(values))


def _table(rows: Sequence[tuple[str, str, str]]) -> str:
    return TextTable("", ("value", "unit", "meaning"), rows, words=3).markdown()


def _rows(values: Sequence[Described]) -> list[tuple[str, str, str]]:
    return [(f"`{value.name}`", _unit_and_domain(value), value.text) for value in values]


def _unit_and_domain(value: Described) -> str:
    return f"{value.unit} ({value.domain})" if value.domain is Domain.SHARE else value.unit


def _within(name: str, inner: Described, sentence: str) -> Described:
    text = sentence.format(inner.text) if inner.text else ""
    return replace(inner, name=name, text=text)


#: Quantities measured for every kind of row.
MEASURED = descriptions(
    """
    wall_s | s | wall-clock time of the run; of the whole row if no run is timed
    cpu_s | s | processor time of the row
    peak_memory_bytes | bytes | largest resident memory of the row's process
    solves | | number of requested optima
    unproven | | number of requested optima that were not proven
    attempts | | number of attempts at the row
    """
)
