"""The hindsight makespan program as a standard form, and its solver."""

from collections.abc import Sequence
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
from formulations.standard_form import EXACT_LIMIT, FormWriter, StandardForm, check_size
from formulations.words import listed


def build_standard_form(problem: MakespanProblem, groups: tuple[RequestKind, ...]) -> StandardForm:
    """Write the standard form of a problem with at least one request.

    Columns are ``x[c,g,k]`` (c slow, k fast), then ``peak``, ``busy`` and ``full`` if they exist.
    Rows follow the numbering of the statement.

    Raises
    ------
    CapabilityError
        If the standard form would have too many nonzeros, or a cost that float64 rounds.
    """
    per_step, per_token = problem.rates
    for name, cost in zip(("step_overhead", "token_time"), problem.rates, strict=True):
        if problem.objective is MakespanObjective.WALL_CLOCK and cost >= EXACT_LIMIT:
            raise CapabilityError(
                name,
                f"at least 2^{cost.bit_length() - 1} units of 1/scale s; beyond 2^53 float64 "
                "rounds integers",
                'write both times with fewer digits, or use method="exact"',
            )
    nonzeros = 0
    for group in groups:
        width = len(group.starts)
        per_start = (2 if problem.memory is None else 3) * group.output + 1
        if problem.work_conserving:
            per_start += group.output + width // 2
        nonzeros += group.lanes * width * per_start
    remedy = 'use fewer requests or shorter outputs, or method="exact"'
    check_size(nonzeros, "problem", remedy)
    # Kind, lane and start of each column ``x[c,g,k]``.
    windows = [(group.lanes, np.array(group.starts)) for group in groups]
    kind = np.repeat(np.arange(len(groups)), [count * len(w) for count, w in windows])
    lane = np.concatenate([np.repeat(np.arange(count), len(w)) for count, w in windows])
    start = np.concatenate([np.tile(w, count) for count, w in windows])
    sizes = np.array([len(group.members) for group in groups])
    latency = problem.objective is MakespanObjective.LATENCY
    writer = FormWriter()
    cells = zip(kind.tolist(), lane.tolist(), start.tolist(), strict=True)
    writer.columns(
        (f"x[{c},{g},{k}]" for c, g, k in cells),
        upper=sizes[kind],
        cost=start if latency else 0,
    )
    names = (f"start_once[{c}]" for c in range(len(groups)))
    writer.constraints(names, kind, np.arange(len(kind)), 1, lower=sizes, upper=sizes)
    # One entry per step that a start occupies: its column, step and load.
    outputs = np.array([group.output for group in groups])[kind]
    column = np.repeat(np.arange(len(kind)), outputs)
    age = np.arange(len(column)) - np.repeat(outputs.cumsum() - outputs, outputs)
    step = start[column] + age
    load = np.array([group.prompt for group in groups])[kind][column] + age
    # One row per lane and step at which a request may run.
    steps, place = np.unique(step, return_inverse=True)
    occupied, row = np.unique(lane[column] * len(steps) + place, return_inverse=True)
    each, (of_lane, of_step) = np.arange(len(occupied)), np.divmod(occupied, len(steps))
    places = zip(of_lane.tolist(), steps[of_step].tolist(), strict=True)
    labels = [f"{g},{k}" for g, k in places]
    capacity, listed_steps = lanes(problem)[1], steps.tolist()
    if per_token:
        peak = writer.columns(
            (f"peak[{k}]" for k in listed_steps), upper=problem.largest_load, cost=per_token
        )
    names = (f"slots[{label}]" for label in labels)
    first = writer.constraints(names, row, column, 1, upper=0 if per_step else capacity)
    if per_step:
        busy = writer.columns((f"busy[{k}]" for k in listed_steps), cost=per_step)
        writer.add(first + each, busy + of_step, -capacity)
    if per_token:
        names = (f"barrier[{label}]" for label in labels)
        first = writer.constraints(names, row, column, load, upper=0)
        writer.add(first + each, peak + of_step, -1)
    if problem.work_conserving:
        _add_conserving_rows(writer, problem, groups, step, column)
    elif per_step:
        # Pyomo writes the row as busy[k+1] - busy[k] <= 0.
        names = (f"gapless[{k}]" for k in listed_steps[:-1])
        pairs = np.arange(len(steps) - 1)
        first = writer.constraints(names, pairs, busy + pairs, -1, upper=0)
        writer.add(first + pairs, busy + pairs + 1, 1)
    if problem.memory is not None:
        names = (f"memory[{label}]" for label in labels)
        writer.constraints(names, row, column, load, upper=problem.memory[of_lane])
    completions = sum(problem.output.tolist()) - sum(problem.arrival.tolist())
    return writer.form(completions if latency else problem.offset)


def _add_conserving_rows(
    writer: FormWriter,
    problem: MakespanProblem,
    groups: tuple[RequestKind, ...],
    step: IntArray,
    column: IntArray,
) -> None:
    """Add the rows (4) and (5), which state work conservation."""
    waits = [np.array(kind.starts[:-1], dtype=np.int64) for kind in groups]
    steps = np.unique(np.concatenate(waits))
    full = writer.columns(f"full[{k}]" for k in steps.tolist())
    # Pyomo writes the row as m full[k] - (running) <= 0.
    known, each = np.isin(step, steps), np.arange(len(steps))
    row, names = np.searchsorted(steps, step[known]), (f"filled[{k}]" for k in steps.tolist())
    first = writer.constraints(names, row, column[known], -1, upper=0)
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


def spread_over_workers(problem: MakespanProblem, starts: Sequence[int]) -> list[int]:
    """Assign each request to a worker with a free slot; latency does not depend on workers."""
    outputs = problem.output.tolist()
    workers = [0] * len(outputs)
    ends: list[list[int]] = [[] for _ in range(problem.workers)]
    for i in sorted(range(len(outputs)), key=lambda i: (starts[i], i)):
        ends = [[end for end in worker if end > starts[i]] for worker in ends]
        workers[i] = min(range(problem.workers), key=lambda g: len(ends[g]))
        ends[workers[i]].append(starts[i] + outputs[i])
    return workers


class MakespanProgram(Formulation[MakespanProblem, Schedule, MakespanResult]):
    """The program of one `MakespanProblem`.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether interchangeable requests form one kind of integer variables.
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
        """Return the lower bound on the objective of `bound.lower_bound`."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Schedule) -> int:
        """Return the integer objective of a schedule."""
        return objective_value(self.problem, *solution)

    def violations(self, solution: Schedule, objective: int | None = None) -> dict[str, int]:
        """Return each violated constraint of a schedule and the amount."""
        return violations(self.problem, *solution, objective)

    def brute_force(self) -> tuple[int, Schedule]:
        """Return the optimum and the lexicographically smallest optimal schedule."""
        objective, starts, workers = brute_force(self.problem)
        return objective, (tuple(starts), tuple(workers))

    def settled(self, method: str) -> MakespanResult | None:
        """Return the empty schedule for a problem without requests, else None."""
        if self.problem.num_requests:
            return None
        return self.answer(((), ()), Termination.OPTIMAL, 0, method=method)

    def groups(self) -> list[str]:
        """Return one text per request kind, which lists its requests."""
        return [listed(kind.members) for kind in self.kinds]

    def solution_at(self, values: FloatArray) -> Schedule:
        """Return starts and workers at a point; members of a kind start in order."""
        problem = self.problem
        counts = np.maximum(np.round(values), 0).astype(np.int64)
        starts, workers = problem.arrival.tolist(), [0] * problem.num_requests
        offset = 0
        for kind in self.kinds:
            size = kind.lanes * len(kind.starts)
            chosen = np.repeat(np.arange(size), counts[offset : offset + size])
            lane, place = np.divmod(chosen, len(kind.starts))
            order = np.lexsort((lane, place))
            # If a point starts too few or too many of a kind, bound or objective will not match.
            for member, j in zip(kind.members, order.tolist(), strict=False):
                starts[member], workers[member] = kind.first_start + int(place[j]), int(lane[j])
            offset += size
        if problem.objective is MakespanObjective.LATENCY and problem.memory is None:
            workers = spread_over_workers(problem, starts)
        return tuple(starts), tuple(workers)

    def point_of(self, solution: Schedule) -> FloatArray | None:
        """Return the point of the standard form for a schedule; None if there is none."""
        starts, workers = solution
        problem, index = self.problem, self.standard_form.column_index()
        values = np.zeros(len(index))
        lane = list(workers)
        if lanes(problem)[0] == 1:
            lane = [0] * problem.num_requests
        elif problem.is_symmetric:
            # Number equal workers in the order of first use by the members of the kinds.
            used = dict.fromkeys(workers[i] for kind in self.kinds for i in kind.members)
            number = {worker: place for place, worker in enumerate(used)}
            lane = [number[worker] for worker in workers]
        # Without work conservation, wall-clock windows begin at the last arrival: shift to it.
        shift = max((k.first_start - starts[i] for k in self.kinds for i in k.members), default=0)
        starts = tuple(start + max(shift, 0) for start in starts)
        for c, kind in enumerate(self.kinds):
            for i in kind.members:
                column = index.get(f"x[{c},{lane[i]},{starts[i]}]")
                if column is None:
                    return None
                values[column] += 1.0
        path = trajectory(problem, starts, workers)
        others: dict[str, float] = {}
        for step, peak in zip(path.steps.tolist(), path.peaks.tolist(), strict=True):
            others |= {f"peak[{step}]": peak, f"busy[{step}]": 1.0}
        running = np.zeros(int(path.steps.max()) + 2, dtype=np.int64)
        for start, output in zip(starts, problem.output.tolist(), strict=True):
            running[start : start + output] += 1
        full = np.flatnonzero(running == problem.total_slots).tolist()
        others |= {f"full[{step}]": 1.0 for step in full}
        for name, value in others.items():
            if name in index:
                values[index[name]] = value
        return values


solve = MakespanProgram.solve
solve_by_enumeration = MakespanProgram.solve_by_enumeration
