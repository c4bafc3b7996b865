"""The hindsight makespan program with its verbs: write it as arrays, read points, solve it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from formulations.arrays import FloatArray, IntArray
from formulations.errors import CapabilityError
from formulations.formulation import Formulation
from formulations.hindsight_makespan.bound import lower_bound
from formulations.hindsight_makespan.check import (
    brute_force,
    objective_value,
    trajectory,
    violations,
)
from formulations.hindsight_makespan.kinds import kinds, lanes
from formulations.hindsight_makespan.problem import (
    WORDS,
    MakespanObjective,
    MakespanProblem,
    MakespanResult,
    Schedule,
)
from formulations.request_table import RequestKind
from formulations.results import Termination
from formulations.standard_form import EXACT_LIMIT, FormWriter, StandardForm
from formulations.words import listed

#: Most nonzeros written; beyond, no solver would return anyway.
MAX_NONZEROS = 20_000_000


@dataclass(frozen=True)
class _Starts:
    """The columns ``x[c,g,k]``, c slow and k fast, and what they occupy.

    ``kind``, ``lane`` and ``start`` have one entry per column; ``column``, ``step`` and ``load``
    one per step of every start.
    """

    kind: IntArray
    lane: IntArray
    start: IntArray
    column: IntArray
    step: IntArray
    load: IntArray

    @staticmethod
    def of(groups: tuple[RequestKind, ...]) -> "_Starts":
        """Return the starts of some kinds."""
        windows = [(group.lanes, np.array(group.starts)) for group in groups]
        kind = np.repeat(np.arange(len(groups)), [lanes * len(w) for lanes, w in windows])
        lane = np.concatenate([np.repeat(np.arange(lanes), len(w)) for lanes, w in windows])
        start = np.concatenate([np.tile(w, lanes) for lanes, w in windows])
        outputs = np.array([group.output for group in groups])[kind]
        prompts = np.array([group.prompt for group in groups])[kind]
        column = np.repeat(np.arange(len(kind)), outputs)
        age = np.arange(len(column)) - np.repeat(outputs.cumsum() - outputs, outputs)
        return _Starts(kind, lane, start, column, start[column] + age, prompts[column] + age)


def build_standard_form(problem: MakespanProblem, groups: tuple[RequestKind, ...]) -> StandardForm:
    """Write the standard form of a problem with at least one request.

    Columns are ``x[c,g,k]`` (c slow, k fast), then ``peak``, ``busy`` and ``full`` where they
    exist; rows follow the numbering of the statement.

    Raises
    ------
    CapabilityError
        If there would be more than `MAX_NONZEROS` nonzeros, or a cost that float64 rounds.
    """
    _check_costs(problem)
    _check_size(problem, groups)
    starts = _Starts.of(groups)
    sizes = np.array([len(kind.members) for kind in groups])
    latency = problem.objective is MakespanObjective.LATENCY
    writer = FormWriter()
    cells = zip(starts.kind.tolist(), starts.lane.tolist(), starts.start.tolist(), strict=True)
    writer.columns(
        (f"x[{c},{g},{k}]" for c, g, k in cells),
        upper=sizes[starts.kind],
        cost=starts.start if latency else 0,
    )
    names = (f"start_once[{c}]" for c in range(len(groups)))
    first = writer.rows(names, lower=sizes, upper=sizes)
    writer.add(first + starts.kind, np.arange(len(starts.kind)), 1)
    steps = np.unique(starts.step)
    busy = _add_lane_rows(writer, problem, starts, steps)
    if problem.work_conserving:
        _add_conserving_rows(writer, problem, groups, starts)
    elif busy is not None:
        _add_gapless_rows(writer, steps, busy)
    if problem.memory is not None:
        _add_memory_rows(writer, problem.memory, starts, steps)
    completions = sum(problem.output.tolist()) - sum(problem.arrival.tolist())
    return writer.form(completions if latency else problem.offset)


def _check_costs(problem: MakespanProblem) -> None:
    names = ("step_overhead", "token_time")
    for name, cost in zip(names, problem.rates, strict=True):
        if problem.objective is MakespanObjective.WALL_CLOCK and cost >= EXACT_LIMIT:
            raise CapabilityError(
                name,
                f"at least 2^{cost.bit_length() - 1} units of 1/scale s; beyond 2^53 float64 "
                "rounds integers",
                "write both times with fewer digits, or use --method exact",
            )


def _check_size(problem: MakespanProblem, groups: tuple[RequestKind, ...]) -> None:
    nonzeros = 0
    for kind in groups:
        width = len(kind.starts)
        rows = 2 if problem.memory is None else 3
        nonzeros += kind.lanes * width * (rows * kind.output + 1)
        if problem.work_conserving:
            nonzeros += kind.lanes * width * (kind.output + width // 2)
    if nonzeros > MAX_NONZEROS:
        raise CapabilityError(
            "problem",
            f"about {nonzeros} nonzeros are more than {MAX_NONZEROS}",
            "use fewer requests or shorter outputs, or --method exact",
        )


def _add_lane_rows(
    writer: FormWriter, problem: MakespanProblem, starts: _Starts, steps: IntArray
) -> int | None:
    """(2) and (3): one row per lane and step at which something may run.

    Returns the first column of the busy steps, if they have a cost.
    """
    per_step, per_token = problem.rates
    lane, place = starts.lane[starts.column], np.searchsorted(steps, starts.step)
    cells, row = np.unique(lane * len(steps) + place, return_inverse=True)
    each, of_cell = np.arange(len(cells)), cells % len(steps)
    places = zip((cells // len(steps)).tolist(), steps[of_cell].tolist(), strict=True)
    labels = [f"{g},{k}" for g, k in places]
    capacity, busy = lanes(problem)[1], None
    if per_token:
        peak = writer.columns(
            (f"peak[{k}]" for k in steps.tolist()), upper=problem.largest_load, cost=per_token
        )
    first = writer.rows((f"slots[{label}]" for label in labels), upper=0 if per_step else capacity)
    writer.add(first + row, starts.column, 1)
    if per_step:
        busy = writer.columns((f"busy[{k}]" for k in steps.tolist()), cost=per_step)
        writer.add(first + each, busy + of_cell, -capacity)
    if per_token:
        first = writer.rows((f"barrier[{label}]" for label in labels), upper=0)
        writer.add(first + row, starts.column, starts.load)
        writer.add(first + each, peak + of_cell, -1)
    return busy


def _add_memory_rows(
    writer: FormWriter, memory: IntArray, starts: _Starts, steps: IntArray
) -> None:
    """(7)."""
    place = np.searchsorted(steps, starts.step)
    cells, row = np.unique(starts.lane[starts.column] * len(steps) + place, return_inverse=True)
    lane, of_cell = cells // len(steps), cells % len(steps)
    places = zip(lane.tolist(), steps[of_cell].tolist(), strict=True)
    first = writer.rows((f"memory[{g},{k}]" for g, k in places), upper=memory[lane])
    writer.add(first + row, starts.column, starts.load)


def _add_conserving_rows(
    writer: FormWriter, problem: MakespanProblem, groups: tuple[RequestKind, ...], starts: _Starts
) -> None:
    """(4) and (5)."""
    waits = [np.array(kind.starts[:-1], dtype=np.int64) for kind in groups]
    steps = np.unique(np.concatenate(waits))
    full = writer.columns(f"full[{k}]" for k in steps.tolist())
    # Pyomo writes the row as m full[k] - (running) <= 0.
    first = writer.rows((f"filled[{k}]" for k in steps.tolist()), upper=0)
    known = np.isin(starts.step, steps)
    row = np.searchsorted(steps, starts.step[known])
    writer.add(first + row, starts.column[known], -1)
    each = np.arange(len(steps))
    writer.add(first + each, full + each, problem.total_slots)
    offset = 0
    for c, (kind, wait) in enumerate(zip(groups, waits, strict=True)):
        width, size = len(kind.starts), len(kind.members)
        first = writer.rows((f"waiting[{c},{k}]" for k in wait.tolist()), lower=size)
        late, early = np.tril_indices(len(wait))
        for lane in range(kind.lanes):
            writer.add(first + late, offset + lane * width + early, 1)
        writer.add(first + np.arange(len(wait)), full + np.searchsorted(steps, wait), size)
        offset += kind.lanes * width


def _add_gapless_rows(writer: FormWriter, steps: IntArray, busy: int) -> None:
    """(6)."""
    each = np.arange(len(steps) - 1)
    # Pyomo writes the row as busy[k+1] - busy[k] <= 0.
    first = writer.rows((f"gapless[{k}]" for k in steps[:-1].tolist()), upper=0)
    writer.add(first + each, busy + each, -1)
    writer.add(first + each, busy + each + 1, 1)


def schedule_of(
    problem: MakespanProblem, groups: tuple[RequestKind, ...], values: FloatArray
) -> Schedule:
    """Read starts and workers off a point; members of a kind start in order."""
    counts = np.maximum(np.round(values), 0).astype(np.int64)
    starts, workers = problem.arrival.tolist(), [0] * problem.num_requests
    offset = 0
    for kind in groups:
        size = kind.lanes * len(kind.starts)
        chosen = np.repeat(np.arange(size), counts[offset : offset + size])
        lane, place = np.divmod(chosen, len(kind.starts))
        order = np.lexsort((lane, place))
        # A point that starts too few or too many of a kind is caught by its bound or objective.
        for member, j in zip(kind.members, order.tolist(), strict=False):
            starts[member], workers[member] = kind.first_start + int(place[j]), int(lane[j])
        offset += size
    if problem.objective is MakespanObjective.LATENCY and problem.memory is None:
        workers = spread_over_workers(problem, starts)
    return tuple(starts), tuple(workers)


def point_of(
    problem: MakespanProblem,
    groups: tuple[RequestKind, ...],
    index: Mapping[str, int],
    starts: Sequence[int],
    workers: Sequence[int],
) -> FloatArray | None:
    """Write a feasible schedule as a point; None if it is not within the kinds' windows.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    groups : tuple of RequestKind
        Its kinds.
    index : mapping
        Position of each column by name.
    starts, workers : sequence of int
        The schedule.
    """
    values = np.zeros(len(index))
    lane = _first_uses(problem, groups, workers)
    # Free wall-clock windows begin at the last arrival; what starts earlier is moved there whole.
    shift = max((kind.first_start - starts[i] for kind in groups for i in kind.members), default=0)
    shift = max(shift, 0)
    for c, kind in enumerate(groups):
        for i in kind.members:
            column = index.get(f"x[{c},{lane[i]},{starts[i] + shift}]")
            if column is None:
                return None
            values[column] += 1.0
    path = trajectory(problem, [start + shift for start in starts], workers)
    for step, peak in zip(path.steps.tolist(), path.peaks.tolist(), strict=True):
        for name, value in ((f"peak[{step}]", peak), (f"busy[{step}]", 1.0)):
            if (column := index.get(name)) is not None:
                values[column] = value
    used = np.zeros(int(path.steps.max()) + 2, dtype=np.int64)
    for start, output in zip(starts, problem.output.tolist(), strict=True):
        used[start + shift : start + shift + output] += 1
    for step in np.flatnonzero(used == problem.total_slots).tolist():
        if (column := index.get(f"full[{step}]")) is not None:
            values[column] = 1.0
    return values


def spread_over_workers(problem: MakespanProblem, starts: Sequence[int]) -> list[int]:
    """Give each request a worker with a free slot; the workers do not matter for latency."""
    outputs = problem.output.tolist()
    workers = [0] * len(outputs)
    ends: list[list[int]] = [[] for _ in range(problem.workers)]
    for i in sorted(range(len(outputs)), key=lambda i: (starts[i], i)):
        ends = [[end for end in worker if end > starts[i]] for worker in ends]
        workers[i] = min(range(problem.workers), key=lambda g: len(ends[g]))
        ends[workers[i]].append(starts[i] + outputs[i])
    return workers


def _first_uses(
    problem: MakespanProblem, groups: tuple[RequestKind, ...], workers: Sequence[int]
) -> list[int]:
    """Renumber equal workers in the order in which the kinds' members first use them."""
    if lanes(problem)[0] == 1:
        return [0] * problem.num_requests
    if not problem.is_symmetric:
        return list(workers)
    number: dict[int, int] = {}
    for kind in groups:
        for i in kind.members:
            number.setdefault(workers[i], len(number))
    return [number[worker] for worker in workers]


class MakespanProgram(Formulation[MakespanProblem, Schedule, MakespanResult]):
    """The program of one `MakespanProblem`.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether requests alike form one kind of integer variables.
    """

    result = MakespanResult
    words = WORDS
    # A list schedule is always feasible.
    always_feasible = True

    def __init__(self, problem: MakespanProblem, *, aggregate: bool = True) -> None:
        super().__init__(problem)
        self.aggregate = aggregate

    @cached_property
    def kinds(self) -> tuple[RequestKind, ...]:
        """The kinds of requests."""
        return kinds(self.problem, aggregate=self.aggregate)

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.hindsight_makespan.program import build

        return build(self.problem, aggregate=self.aggregate)

    def write(self) -> StandardForm:
        """Return the standard form, written without Pyomo."""
        return build_standard_form(self.problem, self.kinds)

    def lower_bound(self) -> int:
        """Return the bound by packing, peaks and completions."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Schedule) -> int:
        """Return the objective in integers."""
        return objective_value(self.problem, *solution)

    def violations(self, solution: Schedule, objective: int | None = None) -> dict[str, int]:
        """Return every violated constraint and by how much."""
        return violations(self.problem, *solution, objective)

    def brute_force(self) -> tuple[int, Schedule]:
        """Return the optimum and the smallest schedule that reaches it."""
        objective, starts, workers = brute_force(self.problem)
        return objective, (tuple(starts), tuple(workers))

    def settled(self, method: str) -> MakespanResult | None:
        """Answer a problem without requests."""
        if self.problem.num_requests:
            return None
        return self.answer(((), ()), Termination.OPTIMAL, 0, method=method)

    def details(self) -> dict[str, Any]:
        """Return the scale of the objective."""
        return {"scale": self.problem.scale}

    def groups(self) -> list[str]:
        """Return the requests of each kind, in words."""
        return [listed(kind.members) for kind in self.kinds]

    def solution_at(self, values: FloatArray) -> Schedule:
        """Read starts and workers off a point; members of a kind start in order."""
        return schedule_of(self.problem, self.kinds, values)

    def point_of(self, solution: Schedule) -> FloatArray | None:
        """Write a feasible schedule as a point; None if it is not within the windows."""
        return point_of(self.problem, self.kinds, self.standard_form.column_index(), *solution)


solve = MakespanProgram.solve
solve_by_enumeration = MakespanProgram.solve_by_enumeration
