"""What a kind of row is: what it computes from its arguments, and what its values mean."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bfio.common.metrics import Domain, MetricTable
from bfio.studies.row import Compute, Instance, RowContext, RowResult, Value
from formulations.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_HALF_WIDTH = ".half_width"
#: Prefixes of values over the measured part of a run, and over what was called its steady part.
MEASURED_PART, STEADY = "measured.", "steady."


@dataclass(frozen=True)
class Described:
    """What a value, series or timing of rows is: unit, one line, and the numbers it can be."""

    name: str
    unit: str = ""
    text: str = ""
    domain: Domain = Domain.REAL


@dataclass(frozen=True)
class Planned:
    """A row whose arguments are read and checked.

    Parameters
    ----------
    instance : str
        Digest of the data that the arguments stand for.
    compute : callable
        Computes the row.
    draws : bool
        Whether computing it draws anything from the argument ``seed`` besides those data: False
        only if it is known not to.
    setting : mapping of str to str
        What it is made of, phrases by what they are about; what it leaves out is told by the
        arguments.
    remarks : sequence of str
        What a reader of its values might not expect, a sentence each.
    refuted : sequence of str
        Remarks that other rows may have, and that do not hold of a study with this one.
    meaning : hashable
        What it comes to, however that is spelt: rows of which this is equal are one. None: no
        more is known.
    unread : mapping of str to InputError
        Arguments that the row does not read, with what is wrong: a study refuses those that none
        of its rows reads.
    """

    instance: str
    compute: Callable[[], RowResult | Mapping[str, Value]]
    draws: bool = True
    setting: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    refuted: Sequence[str] = ()
    meaning: Hashable = None
    unread: Mapping[str, InputError] = field(default_factory=dict)


def _no_instance(arguments: Mapping[str, Any], context: RowContext) -> str:
    """Return the digest of arguments that stand for no data but themselves."""
    del arguments, context
    return ""


@dataclass(frozen=True)
class RowKind:
    """What a row computes.

    Parameters
    ----------
    name : str
        What a study file calls it.
    summary : str
        One line for users.
    compute : callable
        Computes a row from its arguments; must not depend on anything else.
    instance : callable
        Checks the arguments, and returns the digest of the data they stand for. It is called once
        per row before any row is computed, so that a slip stops a study at once; slow parts are
        to be cached.
    values : sequence of Described
        Its values, series and timings, for reports and documents.
    metrics : sequence of Described
        Metrics of a simulator among its values, which have documents of their own.
    parts : mapping of str to str
        Prefixes under which it has the same values of something else, e.g. a part of the run, and
        what that is.
    plan : callable, optional
        Does the work of ``compute`` and ``instance`` from arguments that are read once, see
        `planned`.
    """

    name: str
    summary: str
    compute: Compute
    instance: Instance = _no_instance
    values: Sequence[Described] = ()
    metrics: Sequence[Described] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    plan: Callable[[Mapping[str, Any], RowContext], Planned] | None = None

    def planned(self, arguments: Mapping[str, Any], context: RowContext) -> Planned:
        """Return a row with its arguments read and checked.

        Raises
        ------
        InputError
            If an argument is refused.
        """
        if self.plan is not None:
            return self.plan(arguments, context)
        instance = self.instance(arguments, context)
        return Planned(instance, lambda: self.compute(arguments, context))

    def table(self) -> str:
        """Return its values as a table in Markdown."""
        more = [(f"`{part}` and these names", "", text) for part, text in self.parts.items()]
        metrics = [("metrics of the run", "", "every one of its table")] * bool(self.metrics)
        return _table([*metrics, *_rows(self.values), *more])

    def value_names(self) -> list[str]:
        """Return the names of its values, those of parts of runs included."""
        own = [entry.name for entry in (*MEASURED, *self.metrics, *self.values)]
        return [*own, *(f"{part}{name}" for part in self.parts for name in own)]

    def heading(self, name: str) -> str:
        """Return what a table calls a value: one that runs have whole and in part says which."""
        if STEADY not in self.parts:
            return name
        for prefix in (MEASURED_PART, STEADY):
            if name.startswith(prefix):
                return f"{name.removeprefix(prefix)} ({prefix[:-1]} part)"
        once = {entry.name for entry in (*MEASURED, *self.values)}
        # Of runs that are simulated, all but these are metrics, a user's own included.
        return f"{name} (whole run)" if self.metrics and name not in once else name

    def describe(self, name: str) -> Described:
        """Return unit and text of a value by name, with the part of the run it is over."""
        known = {entry.name: entry for entry in (*MEASURED, *self.metrics, *self.values)}
        if name in known:
            return known[name]
        for prefix, part in self.parts.items():
            if name.startswith(prefix):
                inner = self.describe(name.removeprefix(prefix))
                return _within(name, inner, "{}, " + part)
        if name.endswith(_HALF_WIDTH):
            inner = self.describe(name.removesuffix(_HALF_WIDTH))
            return _within(name, inner, "half a 95 % interval by batch means of: {}")
        return Described(name)


def planned_kind(
    name: str,
    summary: str,
    plan: Callable[[Mapping[str, Any], RowContext], Planned],
    values: Sequence[Described],
    parts: Mapping[str, str] | None = None,
    metrics: Sequence[Described] = (),
) -> RowKind:
    """Return a kind of which one function reads the arguments; see `RowKind`."""
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
    """Say what the values of a row function of one's own are."""

    def decorate(function: F) -> F:
        function.row_values = values  # type: ignore[attr-defined]
        return function

    return decorate


def descriptions(text: str) -> list[Described]:
    """Return what a text describes, one value per line: ``name | unit | what it is``.

    Values are 0 or more; the unit of those between 0 and 1 is ``share``.
    """
    lines = (map(str.strip, line.split("|", 2)) for line in text.strip().splitlines())
    return [
        Described(name, "1", what, Domain.SHARE)
        if unit == "share"
        else Described(name, unit, what, Domain.NON_NEGATIVE)
        for name, unit, what in lines
    ]


def described_metrics(table: MetricTable[Any]) -> list[Described]:
    """Return what the metrics of a simulator are."""
    return [Described(entry.name, entry.unit, entry.description, entry.domain) for entry in table]


def described_table(values: Sequence[Described]) -> str:
    """Return values as a table in Markdown."""
    return _table(_rows(values))


def _table(rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [("value", "unit", "meaning"), ("---", "---", "---"), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _rows(values: Sequence[Described]) -> list[tuple[str, str, str]]:
    return [(f"`{value.name}`", _unit_and_domain(value), value.text) for value in values]


def _unit_and_domain(value: Described) -> str:
    return f"{value.unit} ({value.domain})" if value.domain is Domain.SHARE else value.unit


def _within(name: str, inner: Described, sentence: str) -> Described:
    text = sentence.format(inner.text) if inner.text else ""
    return replace(inner, name=name, text=text)


#: What is measured of every row, whatever computes it.
MEASURED = descriptions(
    """
    wall_s | s | wall-clock time of the run, or of the whole row if it times no run
    cpu_s | s | processor time of the row
    peak_memory_bytes | bytes | largest resident memory of the row's process
    solves | | optima asked for
    unproven | | optima asked for that stayed unproven
    attempts | | how often the row was begun
    """
)
