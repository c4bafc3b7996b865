"""The hindsight makespan program as sparse arrays, written directly.

`formulations.hindsight_makespan.program` stays the statement: a test compiles it and compares
every row, column and coefficient with what is built here.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array, csr_array

from formulations.arrays import FloatArray, IntArray
from formulations.errors import CapabilityError
from formulations.hindsight_makespan.kinds import Kind, kinds, lanes
from formulations.hindsight_makespan.problem import MakespanProblem, Objective
from formulations.hindsight_makespan.program import largest_load
from formulations.standard_form import EXACT_LIMIT, StandardForm

#: Most nonzeros written; beyond, no solver would return anyway.
MAX_NONZEROS = 20_000_000


@dataclass
class _Rows:
    """Rows gathered family by family."""

    names: list[str] = field(default_factory=list)
    row: list[IntArray] = field(default_factory=list)
    column: list[IntArray] = field(default_factory=list)
    value: list[FloatArray] = field(default_factory=list)
    lower: list[FloatArray] = field(default_factory=list)
    upper: list[FloatArray] = field(default_factory=list)

    def begin(self, names: list[str], lower: FloatArray, upper: FloatArray) -> int:
        """Open a family and return its first row."""
        first = len(self.names)
        self.names += names
        self.lower.append(lower)
        self.upper.append(upper)
        return first

    def add(self, row: IntArray, column: IntArray, value: FloatArray | float) -> None:
        """Add entries."""
        self.row.append(row)
        self.column.append(column)
        self.value.append(np.broadcast_to(np.asarray(value, dtype=np.float64), row.shape))


@dataclass(frozen=True)
class _Columns:
    """The columns: starts first, then the variables of steps."""

    kind: IntArray
    lane: IntArray
    start: IntArray
    steps: IntArray
    full_steps: IntArray
    has_busy: bool
    has_peak: bool

    @property
    def num_starts(self) -> int:
        return len(self.kind)

    @property
    def peak(self) -> int:
        return self.num_starts

    @property
    def busy(self) -> int:
        return self.peak + self.has_peak * len(self.steps)

    @property
    def full(self) -> int:
        return self.busy + self.has_busy * len(self.steps)

    @property
    def total(self) -> int:
        return self.full + len(self.full_steps)


def build_standard_form(problem: MakespanProblem, *, aggregate: bool = True) -> StandardForm:
    """Write the standard form of a problem with at least one request.

    Columns are ``x[c,g,k]`` (c slow, k fast), then ``peak``, ``busy`` and ``full`` where they
    exist; rows follow the numbering of the statement.

    Raises
    ------
    CapabilityError
        If there would be more than `MAX_NONZEROS` nonzeros, or a cost that float64 rounds.
    """
    _check_costs(problem)
    groups = kinds(problem, aggregate=aggregate)
    _check_size(problem, groups)
    columns = _columns(problem, groups)
    rows = _Rows()
    sizes = np.array([len(kind.members) for kind in groups], dtype=np.float64)
    first = rows.begin([f"start_once[{c}]" for c in range(len(groups))], sizes, sizes)
    rows.add(first + columns.kind, np.arange(columns.num_starts), 1.0)
    _add_lane_rows(rows, problem, groups, columns)
    if problem.work_conserving:
        _add_conserving_rows(rows, problem, groups, columns)
    elif columns.has_busy:
        _add_gapless_rows(rows, columns)
    return _form(problem, sizes, columns, rows)


def _check_costs(problem: MakespanProblem) -> None:
    names = ("step_overhead", "token_time")
    for name, cost in zip(names, problem.rates, strict=True):
        if problem.objective is Objective.WALL_CLOCK and cost >= EXACT_LIMIT:
            raise CapabilityError(
                name,
                f"at least 2^{cost.bit_length() - 1} units of 1/scale s; beyond 2^53 float64 "
                "rounds integers",
                "write both times with fewer digits, or use --method exact",
            )


def _check_size(problem: MakespanProblem, groups: tuple[Kind, ...]) -> None:
    nonzeros = 0
    for kind in groups:
        width = len(kind.starts)
        nonzeros += kind.lanes * width * (2 * kind.output + 1)
        if problem.work_conserving:
            nonzeros += kind.lanes * width * (kind.output + width // 2)
    if nonzeros > MAX_NONZEROS:
        raise CapabilityError(
            "problem",
            f"about {nonzeros} nonzeros are more than {MAX_NONZEROS}",
            "use fewer requests or shorter outputs, or --method exact",
        )


def _columns(problem: MakespanProblem, groups: tuple[Kind, ...]) -> _Columns:
    windows = [np.arange(k.first_start, k.last_start + 1, dtype=np.int64) for k in groups]
    pairs = list(zip(groups, windows, strict=True))
    kind = np.repeat(np.arange(len(groups)), [g.lanes * len(w) for g, w in pairs])
    lane = np.concatenate([np.repeat(np.arange(g.lanes), len(w)) for g, w in pairs])
    start = np.concatenate([np.tile(w, g.lanes) for g, w in pairs])
    ends = [np.arange(k.first_start, k.last_start + k.output) for k in groups]
    waits = [np.arange(k.first_start, k.last_start) for k in groups]
    conserves = bool(problem.work_conserving)
    per_step, per_token = problem.rates
    return _Columns(
        kind=kind,
        lane=lane,
        start=start,
        steps=np.unique(np.concatenate(ends)),
        full_steps=np.unique(np.concatenate(waits)) if conserves else np.zeros(0, dtype=np.int64),
        has_busy=per_step > 0,
        has_peak=per_token > 0,
    )


def _occupied(groups: tuple[Kind, ...], columns: _Columns) -> tuple[IntArray, IntArray, IntArray]:
    """Return column, step and load of every step of every start."""
    outputs = np.array([kind.output for kind in groups], dtype=np.int64)[columns.kind]
    prompts = np.array([kind.prompt for kind in groups], dtype=np.int64)[columns.kind]
    column = np.repeat(np.arange(columns.num_starts), outputs)
    age = np.arange(len(column)) - np.repeat(outputs.cumsum() - outputs, outputs)
    return column, columns.start[column] + age, prompts[column] + age


def _add_lane_rows(
    rows: _Rows, problem: MakespanProblem, groups: tuple[Kind, ...], columns: _Columns
) -> None:
    """(2) and (3): one row per lane and step at which something may run."""
    column, step, load = _occupied(groups, columns)
    place = np.searchsorted(columns.steps, step)
    cells, row = np.unique(columns.lane[column] * len(columns.steps) + place, return_inverse=True)
    lane, of_cell = np.divmod(cells, len(columns.steps))
    places = zip(lane.tolist(), columns.steps[of_cell].tolist(), strict=True)
    labels = [f"{g},{k}" for g, k in places]
    capacity = float(lanes(problem)[1])
    open_side, zero = np.full(len(cells), -np.inf), np.zeros(len(cells))
    most = zero if columns.has_busy else zero + capacity
    first = rows.begin([f"slots[{label}]" for label in labels], open_side, most)
    rows.add(first + row, column, 1.0)
    if columns.has_busy:
        rows.add(first + np.arange(len(cells)), columns.busy + of_cell, -capacity)
    if columns.has_peak:
        first = rows.begin([f"barrier[{label}]" for label in labels], open_side, zero)
        rows.add(first + row, column, load.astype(np.float64))
        rows.add(first + np.arange(len(cells)), columns.peak + of_cell, -1.0)


def _add_conserving_rows(
    rows: _Rows, problem: MakespanProblem, groups: tuple[Kind, ...], columns: _Columns
) -> None:
    """(4) and (5)."""
    steps = columns.full_steps
    each = np.arange(len(steps))
    # Pyomo writes the row as m full[k] - (running) <= 0.
    first = rows.begin(
        [f"filled[{k}]" for k in steps.tolist()],
        np.full(len(steps), -np.inf),
        np.zeros(len(steps)),
    )
    column, step, _ = _occupied(groups, columns)
    known = np.isin(step, steps)
    rows.add(first + np.searchsorted(steps, step[known]), column[known], -1.0)
    rows.add(first + each, columns.full + each, float(problem.total_slots))
    offset = 0
    for c, kind in enumerate(groups):
        width, size = len(kind.starts), float(len(kind.members))
        waits = np.arange(kind.first_start, kind.last_start)
        first = rows.begin(
            [f"waiting[{c},{k}]" for k in waits.tolist()],
            np.full(len(waits), size),
            np.full(len(waits), np.inf),
        )
        late, early = np.tril_indices(len(waits))
        for lane in range(kind.lanes):
            rows.add(first + late, offset + lane * width + early, 1.0)
        full = columns.full + np.searchsorted(steps, waits)
        rows.add(first + np.arange(len(waits)), full, size)
        offset += kind.lanes * width


def _add_gapless_rows(rows: _Rows, columns: _Columns) -> None:
    """(6)."""
    count = len(columns.steps) - 1
    names = [f"gapless[{k}]" for k in columns.steps[:-1].tolist()]
    # Pyomo writes the row as busy[k+1] - busy[k] <= 0.
    first = rows.begin(names, np.full(count, -np.inf), np.zeros(count))
    rows.add(first + np.arange(count), columns.busy + np.arange(count), -1.0)
    rows.add(first + np.arange(count), columns.busy + np.arange(count) + 1, 1.0)


def _form(
    problem: MakespanProblem, sizes: FloatArray, columns: _Columns, rows: _Rows
) -> StandardForm:
    per_step, per_token = problem.rates
    objective, upper = np.zeros(columns.total), np.ones(columns.total)
    upper[: columns.num_starts] = sizes[columns.kind]
    upper[columns.peak : columns.busy] = float(largest_load(problem))
    objective[columns.peak : columns.busy] = float(per_token)
    objective[columns.busy : columns.full] = float(per_step)
    offset = problem.offset
    if problem.objective is Objective.LATENCY:
        objective[: columns.num_starts] = columns.start
        offset = sum(problem.output.tolist()) - sum(problem.arrival.tolist())
    entries = (
        np.concatenate(rows.value),
        (np.concatenate(rows.row), np.concatenate(rows.column)),
    )
    matrix = coo_array(entries, shape=(len(rows.names), columns.total))
    return StandardForm(
        objective=objective,
        offset=float(offset),
        matrix=csr_array(matrix),
        row_lower=np.concatenate(rows.lower),
        row_upper=np.concatenate(rows.upper),
        lower=np.zeros(columns.total),
        upper=upper,
        integral=np.ones(columns.total, dtype=np.bool_),
        row_names=tuple(rows.names),
        column_names=_names(columns),
    )


def _names(columns: _Columns) -> tuple[str, ...]:
    keys = zip(columns.kind.tolist(), columns.lane.tolist(), columns.start.tolist(), strict=True)
    steps = columns.steps.tolist()
    return (
        *(f"x[{c},{g},{k}]" for c, g, k in keys),
        *(f"peak[{k}]" for k in steps if columns.has_peak),
        *(f"busy[{k}]" for k in steps if columns.has_busy),
        *(f"full[{k}]" for k in columns.full_steps.tolist()),
    )
