"""Secondary objective among the optima of a step: our own search, and proofs.

Requests are exchanged at random in a few annealing rounds, each starting from the best assignment
so far. The temperature decreases from round to round, to 0 in the last one. A unit of the second
objective has a small weight compared with the change of the first objective by an exchange, so
rounds end within the limit.

`one_program` states a step and its window as one step program, in which the first objective has
weight K.

If both objectives are of the same kind and on the same loads, ``K·J + J'`` is the objective of a
step program with other weights, which our exact method solves. Let B be a lower bound on it. For
every K, each assignment with ``J <= J_most`` has

    J' >= B - K·J_most.

Let x be an assignment within the limit and J'_low a lower bound on J'. If ``K > J'(x) - J'_low``,
no assignment with a larger J is better than x in K·J + J'. If in addition J_most is the least
first objective, the optimum of K·J + J' has the least second objective, and the bound is tight.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, next_random
from bfio.step.exact import solve_exact
from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.windows.anneal import (
    Exchange,
    Placement,
    added_excess,
    is_refused,
    make,
    placed,
    placed_objective,
    set_change,
    set_peaks,
)
from bfio.step.exact.windows.model import Goal, Requests, StepModel, Workers, step_model
from bfio.step.interval_bound import interval_bound
from formulations.arrays import IntArray
from formulations.backends import backend
from formulations.deadline import OPERATIONS, Deadline, TimeLimit, checked_work_limit
from formulations.errors import CapabilityError, InputError
from formulations.formulation import COMBINATORIAL
from formulations.results import BoundKind, Termination, TieRule, own_solver
from formulations.second import (
    Second,
    SecondProblem,
    SecondProgram,
    SecondResult,
    second_problem,
    second_value,
    solve,
    violations,
    without_idle_steps,
)
from formulations.second.solver import lower_bound
from formulations.step import StepProgram, StepResult
from formulations.step import violations as step_violations
from formulations.step.certificate import Certificate
from formulations.step.problem import Assignment, StepProblem
from formulations.step.share_bound import MAX_VALUE, largest_objective


def one_program(problem: SecondProblem, factor: int) -> StepProblem | None:
    """Return the step program for ``factor`` times the first objective plus the second.

    Return None if there is no equivalent program: different loads or kinds of objective, costs,
    token capacities over fewer steps than the window, or numbers that are too large.
    """
    step, window = problem.step, problem.window
    if window is None or problem.costs.any() or not _is_alike(step, window):
        return None
    longer = window if window.num_steps > step.num_steps else step
    weights = [0] * longer.num_steps
    for h, w in enumerate(step.weights):
        weights[h] += factor * w
    for h, w in enumerate(window.weights):
        weights[h] += w
    try:
        return replace(
            step,
            base=longer.base,
            contribution=longer.contribution,
            weights=tuple(weights),
            scale=1,
        )
    except InputError:
        return None


def _is_alike(step: StepProblem, window: StepProblem) -> bool:
    columns = min(step.num_steps, window.num_steps)
    ends_before = step.num_steps < window.num_steps
    return (
        step.objective is window.objective
        and not (step.token_capacity is not None and ends_before)
        and np.array_equal(step.time_weights, window.time_weights)
        and np.array_equal(step.base[:, :columns], window.base[:, :columns])
        and np.array_equal(step.contribution[:, :columns], window.contribution[:, :columns])
    )


#: Half of the exchange partners are at most this far away in the order of sizes.
_NEAR = 8
#: Random bits per choice; their value times the largest number of requests fits in 64 bits.
_BITS = 20
_MASK = np.uint64((1 << _BITS) - 1)
#: Operations counted per tried exchange, in addition to those per look-ahead step.
_LOOK = 60


class Program(NamedTuple):
    """Loads and objective of a step or of a window; see `bfio.step.exact.windows.model`."""

    requests: Requests
    workers: Workers
    goal: Goal


@compilable
def _drawn(word: np.uint64, held: IntArray, placement: Placement, partners: int) -> Exchange:
    """Return a random admitted request and a partner; worker −1 if this is not an exchange."""
    first = int(held[((word & _MASK) * np.uint64(len(held))) >> np.uint64(_BITS)])
    draw = (word >> np.uint64(_BITS)) & _MASK
    if word >> np.uint64(63):
        second = int(np.int64((draw * np.uint64(partners)) >> np.uint64(_BITS)))
    else:
        second = first + int(np.int64(draw % np.uint64(2 * _NEAR + 1))) - _NEAR
    N = len(placement.owner)
    nothing = Exchange(first, second, -1, -1)
    if second < 0 or second >= partners:
        return nothing
    if second >= N and (partners == N or placement.free[second - N] == 0):
        return nothing
    worker = int(placement.owner[first])
    other = int(placement.owner[second]) if second < N else second - N
    return nothing if worker == other else Exchange(first, second, worker, other)


@compilable
def _cost_change(exchange: Exchange, cost: IntArray) -> int:
    """Return the change of the admitted requests' cost by an exchange with the pool."""
    if exchange.other >= 0 or exchange.second >= len(cost):
        return 0
    return int(cost[exchange.second] - cost[exchange.first])


@entry_point
def anneal_second(
    step: Program,
    window: Program,
    cost: IntArray,
    most: int,
    price: float,
    temperature: float,
    turns: int,
    move: bool,
    owner: IntArray,
    state: RandomState,
    spent: IntArray,
) -> int:
    """Exchange requests between workers and the pool, starting within the limit.

    At least one request must be admitted. The function is long because each exchange updates both
    objectives.

    Parameters
    ----------
    step, window : Program
        First objective, and the part of the second that depends on loads; both use the positions
        of the first.
    cost : IntArray
        Shape (N,): the other part of the second objective, per admitted position.
    most : int
        Limit on the first objective.
    price : float
        Weight of a unit of the second objective, relative to a unit of excess of the first
        objective above the limit.
    temperature : float
        Initial temperature: an increase of the weighted sum by this much is accepted with
        probability 1/e. The temperature decreases to 0.
    turns : int
        Number of random exchanges.
    move : bool
        Whether requests may also move to free slots.
    owner : IntArray
        Shape (N,): worker of each position or -1; overwritten with the best placement found.
    state : RandomState
        Shape (1,): state of the random generator; updated.
    spent : IntArray
        Shape (1,): number of operations (`bfio.step.exact.effort`); increased.

    Returns
    -------
    int
        Second objective of the best placement within the limit.
    """
    first = placed(step.requests, step.workers, step.goal, owner)
    second = placed(window.requests, window.workers, window.goal, owner.copy())
    value = placed_objective(first, step.workers, step.goal)
    costs = placed_objective(second, window.workers, window.goal)
    for i in range(len(owner)):
        if owner[i] >= 0:
            costs += cost[i]
    held = np.flatnonzero(owner >= 0)
    best_costs = costs
    best = owner.copy()
    partners = len(owner) + len(step.workers.slots) if move else len(owner)
    look = _LOOK + 4 * (len(first.peaks) + len(second.peaks))
    for turn in range(turns):
        state[0] = next_random(state[0])
        exchange = _drawn(state[0], held, first, partners)
        if exchange.worker < 0:
            continue
        if exchange.other < 0 and step.requests.required[exchange.first]:
            continue
        changes, gain = set_change(exchange, step.requests, step.workers, step.goal, first.change)
        other_changes, other_gain = set_change(
            exchange, window.requests, window.workers, window.goal, second.change
        )
        added = _cost_change(exchange, cost)
        if not changes and not other_changes and added == 0:
            continue
        spent[0] += look
        if added_excess(exchange, first, step.workers) > 0:
            continue
        new_value = value - gain + set_peaks(exchange, first, step.workers, step.goal)
        new_costs = costs + added - other_gain
        new_costs += set_peaks(exchange, second, window.workers, window.goal)
        # The first objective counts only above the limit; exchanges below it are free.
        rise = price * float(new_costs - costs)
        rise += float(max(0, new_value - most) - max(0, value - most))
        if is_refused(rise, temperature * (1.0 - turn / turns), state[0]):
            continue
        make(exchange, first)
        make(exchange, second)
        # In an exchange with the pool the partner becomes the admitted request.
        if exchange.other < 0:
            held[((state[0] & _MASK) * np.uint64(len(held))) >> np.uint64(_BITS)] = exchange.second
        value, costs = new_value, new_costs
        if value <= most and costs < best_costs:
            best_costs = costs
            copy_to(best, owner)
    copy_to(owner, best)
    return int(best_costs)


#: Temperatures of the rounds, in typical changes of the first objective.
_TEMPERATURES = (0.03, 0.01, 0.003, 0.0)
#: Weight of a typical change of the second objective, in typical changes of the first.
_PRICE = 0.001
#: Exchanges tried in each round, per possible exchange, and limits on their total number.
_LOOKS = 4
_FEWEST, _MOST = 1_000, 10_000


def improved(
    problem: SecondProblem, start: Sequence[int | None], effort: Effort, target: int = 0
) -> Assignment:
    """Return an assignment within the limit whose second objective is at most that of ``start``.

    The result is deterministic: the random seed and the number of exchanges are fixed, unless a
    limit of ``effort`` is reached between two rounds.

    Parameters
    ----------
    problem : SecondProblem
        Data.
    start : sequence of int or None
        An assignment within the limit.
    effort : Effort
        Limits.
    target : int
        Stop before the next round when the second objective is at most this.
    """
    window = _idle(problem.step) if problem.window is None else problem.window
    largest = max(largest_objective(problem.step), largest_objective(window))
    if largest > MAX_VALUE or problem.step.num_admitted == 0:
        return tuple(start)
    search = _Search(problem, window)
    owner = search.model.owner_of(start)
    state = np.ones(1, dtype=np.uint64)
    for temperature in _TEMPERATURES:
        if effort.is_over:
            break
        effort.spend(CALL)
        if search.run_round(owner, temperature, state, effort.spent) <= target:
            break
    return search.model.assignment(owner)


@cache
def prepare_second() -> None:
    """Compile the kernel or load it from Numba's cache, once per process."""
    ensure_compiled("second")
    step = StepProblem(np.array([1, 1]), np.array([[3], [4]]), np.array([[2], [1], [2]]))
    problem = second_problem(step, 10, "age")
    start = (0, None, 1)
    if violations(problem, start) or second_value(problem, improved(problem, start, Effort())) > 2:
        raise AssertionError("the search made an assignment worse")


def settled(problem: SecondProblem, assignment: Sequence[int | None]) -> Assignment:
    """Return an equivalent assignment in which interchangeable requests are in canonical order.

    Among requests with equal loads the cheapest start (ties: oldest), in order of worker index.
    """
    step = problem.step
    columns = [step.contribution]
    if problem.window is not None:
        columns.append(problem.window.contribution)
    if step.required is not None:
        columns.append(step.required[:, None].astype(np.int64))
    _, kind = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    answer: list[int | None] = [None] * len(assignment)
    workers: dict[int, list[int]] = {}
    for k, g in zip(kind.tolist(), assignment, strict=True):
        if g is not None:
            workers.setdefault(k, []).append(g)
    for k, taken in workers.items():
        members = np.flatnonzero(kind == k)
        members = members[np.argsort(problem.costs[members], kind="stable")]
        for i, g in zip(members.tolist(), sorted(taken), strict=False):
            answer[i] = g
    return tuple(answer)


class _Search:
    """A problem in the kernel's form, with the scales of its objectives."""

    def __init__(self, problem: SecondProblem, window: StepProblem) -> None:
        self.model = step_model(problem.step)
        order = self.model.order
        self._most = problem.most
        self._cost = np.ascontiguousarray(problem.costs[order])
        self._first = _program(self.model)
        self._second = _program(step_model(window, order))
        exchanges = problem.step.num_admitted * problem.step.num_requests
        self._turns = min(max(_LOOKS * exchanges, _FEWEST), _MOST)
        self._unit = _typical_change(problem.step)
        second = _typical_change(window) + _mean_difference(problem.costs)
        self._price = _PRICE * self._unit / max(1.0, second)

    def run_round(
        self, owner: IntArray, temperature: float, state: RandomState, spent: IntArray
    ) -> int:
        """Improve a placement in place; return its second objective."""
        return anneal_second(
            self._first,
            self._second,
            self._cost,
            self._most,
            self._price,
            temperature * self._unit,
            self._turns,
            not self.model.fills,
            owner,
            state,
            spent,
        )


def _program(model: StepModel) -> Program:
    return Program(model.requests, model.workers, model.goal)


def _typical_change(step: StepProblem) -> float:
    """Return the mean change of an objective by exchanging two requests of neighbouring sizes."""
    sizes = np.sort(step.contribution, axis=0)
    mean = (sizes[-1] - sizes[0]) / max(1, len(sizes) - 1)
    # Requests of equal size count as one token apart, so that only an idle window gives 0.
    return float((np.maximum(mean, 1.0) * np.array(step.weights)).sum()) * step.num_workers


def _mean_difference(costs: IntArray) -> float:
    return float(np.abs(costs - np.roll(costs, len(costs) // 2)).mean())


def _idle(step: StepProblem) -> StepProblem:
    """Return a window without weight."""
    return StepProblem(
        step.capacity,
        np.zeros_like(step.base[:, :1]),
        np.zeros_like(step.contribution[:, :1]),
        weights=(0,),
        admit=step.num_admitted,
    )


#: Largest factor for our own method; larger ones could overflow 64 bits.
_MOST_FACTOR = 1 << 40


@dataclass(frozen=True)
class Proof:
    """Proof of a second bound: a certificate of the step program ``problem``.

    The second bound is the certificate's less ``factor`` times the limit on the first objective
    (`one_program`).
    """

    problem: StepProblem
    certificate: Certificate
    factor: int


@dataclass(frozen=True, kw_only=True)
class Chosen(SecondResult):
    """The result of a second program, and its proof.

    Parameters
    ----------
    certified : Proof, optional
        Proof of the bound, if our own method found it.
    stopped_by_time : bool
        Whether the time limit stopped a part, so that the answer may depend on the machine.
    """

    certified: Proof | None = None
    stopped_by_time: bool = False


def solve_second(
    problem: SecondProblem,
    start: Sequence[int | None],
    *,
    prove: bool = True,
    time_limit: TimeLimit = None,
    work_limit: int | None = None,
) -> Chosen:
    """Minimise the second objective of a step within a limit of the first.

    Our search runs first. If both objectives form one step program, our exact method follows.
    CP-SAT closes a remaining gap. The answer is deterministic unless the time limit is reached.
    Ties between interchangeable requests: the cheapest start, then the oldest, in order of worker
    index. Other ties in the second objective depend on the search order, which has a fixed seed.

    Parameters
    ----------
    problem : SecondProblem
        The second program of a step.
    start : sequence of int or None
        A feasible assignment within the limit.
    prove : bool
        Whether CP-SAT may close a remaining gap.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    work_limit : int, optional
        Ticks (`formulations.deadline`).

    Returns
    -------
    Chosen
        Objective and bound are of the second objective; optimal only with a proof in integers.
    """
    effort = Effort(time_limit, checked_work_limit(work_limit))
    with effort.clock.stopped():
        prepare_second()
    began = time.perf_counter()
    effort.spend(CALL)
    state = _State(problem, tuple(start), effort)
    state.search()
    state.solve_as_one()
    if prove:
        state.ask_cp_sat()
    return state.answer(time.perf_counter() - began)


class _State:
    """The best assignment and bound so far."""

    def __init__(self, problem: SecondProblem, start: Assignment, effort: Effort) -> None:
        self._problem = problem
        self._lean = without_idle_steps(problem)
        self._effort = effort
        self._has_slack = problem.step.objective_value(start) < problem.most
        self._take(start)
        self._bound = lower_bound(problem)
        if problem.window is not None:
            alone = replace(problem, window=None)
            self._bound = max(self._bound, lower_bound(alone) + interval_bound(problem.window))
        self._method, self._proof = "search", COMBINATORIAL
        self._certified: Proof | None = None
        self._loading = 0.0

    @property
    def _is_open(self) -> bool:
        return self._value > self._bound and not self._effort.is_over

    def _take(self, assignment: Assignment) -> None:
        self._assignment = settled(self._lean, assignment)
        self._value = second_value(self._problem, self._assignment)

    def _offer(self, assignment: Assignment | None) -> None:
        """Keep an assignment if it is feasible and better."""
        if assignment is None or violations(self._problem, assignment):
            return
        if second_value(self._problem, assignment) < self._value:
            self._take(assignment)

    def search(self) -> None:
        """Improve the assignment by random exchanges."""
        if self._is_open:
            self._offer(improved(self._lean, self._assignment, self._effort, self._bound))

    def solve_as_one(self) -> None:
        """Solve both objectives as one step program, if they form one.

        Skipped if the first objective has slack below the limit: the optimum of one program would
        then not have the least second objective.
        """
        factor = self._value - self._bound + 1
        if self._has_slack or not self._is_open or factor > _MOST_FACTOR:
            return
        one = one_program(self._problem, factor)
        if one is None:
            return
        found = solve_exact(
            one,
            time_limit=self._effort.clock,
            work_limit=self._effort.ticks_left,
            hint=self._assignment,
            fallback=None,
        )
        self._effort.spend(found.ticks * OPERATIONS)
        self._effort.stopped_by_time |= found.stopped_by_time
        self._effort.stopped_by_work |= found.stopped_by_work
        self._offer(found.assignment)
        if found.bound is None or found.bound - factor * self._problem.most <= self._bound:
            return
        self._bound = found.bound - factor * self._problem.most
        self._method, self._proof = "exact", "the bound of one program for both objectives"
        if found.certificate is not None and found.certificate.bound == found.bound:
            self._certified = Proof(one, found.certificate, factor)

    def ask_cp_sat(self) -> None:
        """Close a remaining gap with CP-SAT."""
        if not self._is_open:
            return
        began = time.perf_counter()
        with self._effort.clock.stopped():
            backend("cp-sat").load()
        self._loading = time.perf_counter() - began
        try:
            found = solve(
                self._lean,
                time_limit=self._effort.clock,
                work_limit=self._effort.ticks_left,
                hint=self._assignment,
            )
        except CapabilityError:
            # The numbers are too large for CP-SAT: keep our own answer.
            return
        self._effort.spend((found.ticks or 0) * OPERATIONS)
        self._effort.stopped_by_time |= found.termination is Termination.TIME_LIMIT
        self._effort.stopped_by_work |= found.termination is Termination.WORK_LIMIT
        self._offer(found.assignment)
        if found.bound is None or found.bound_kind is not BoundKind.INTEGER:
            return
        if found.bound > self._bound:
            self._bound = found.bound
            self._method, self._proof = "cp-sat", "the bound of CP-SAT, derived in integers"
            self._certified = None

    def answer(self, seconds: float) -> Chosen:
        """Return the best assignment as a checked result."""
        said = Termination.FEASIBLE
        if self._effort.stopped_by_time:
            said = Termination.TIME_LIMIT
        elif self._effort.stopped_by_work:
            said = Termination.WORK_LIMIT
        checked = SecondProgram(self._problem).answer(
            self._assignment,
            said,
            self._bound,
            method=self._method,
            seconds=seconds - self._loading,
            solver=own_solver(),
            proof=self._proof,
            ticks=self._effort.ticks,
        )
        return Chosen(
            **vars(checked),
            certified=self._certified,
            stopped_by_time=self._effort.stopped_by_time,
        )


@dataclass(frozen=True, kw_only=True)
class ChosenResult(StepResult):
    """Results of a step and of its second program.

    Parameters
    ----------
    second : Second
        The second objective.
    slack : int
        ε, in units of the first objective.
    chosen : Chosen, optional
        The result of the second program; None if the step has no assignment.
    first_proven : bool
        Whether the first objective, to which ε is added, is proven to be the least.
    """

    second: Second
    slack: int
    chosen: Chosen | None = None
    first_proven: bool = False

    @property
    def second_proven(self) -> bool:
        """Whether the second objective is proven to be the least, with both proofs in integers."""
        return self.first_proven and self.chosen is not None and self.chosen.is_optimal

    def to_mapping(self) -> dict[str, object]:
        """Return the JSON document ``bfio solve --second`` prints."""
        part: dict[str, object] = {
            "name": self.second.value,
            "slack": self.slack,
            "proven": self.second_proven,
        }
        if (chosen := self.chosen) is not None:
            part |= {
                "value": chosen.objective,
                "bound": chosen.bound,
                "method": chosen.method,
                "termination": chosen.termination.value,
                "seconds": chosen.seconds,
                "ticks": chosen.ticks,
                "proof": chosen.proof if self.second_proven else None,
            }
        return super().to_mapping() | {"second": part}

    def summary(self) -> str:
        """Return the summary of the step, and a line about the second objective."""
        if (chosen := self.chosen) is None:
            return super().summary()
        proof = f"proven by {chosen.proof}" if self.second_proven else "not proven"
        above = f" within {self.slack} of the optimum" if self.slack else ""
        return (
            f"{super().summary()}\nsecond objective {self.second}{above}: {chosen.objective}, "
            f"bound {chosen.bound}; {chosen.seconds * 1e3:.1f} ms; {proof}"
        )


def chosen_result(
    problem: StepProblem,
    first: StepResult,
    second: Second,
    slack: int,
    deadline: Deadline,
    work_limit: int | None,
) -> ChosenResult:
    """Minimise the second objective among assignments within ε of the first result.

    Parameters
    ----------
    problem : StepProblem
        The step.
    first : StepResult
        Its result.
    second : Second
        The second objective.
    slack : int
        ε, in units of the first objective.
    deadline : Deadline
        The time limit, whose clock is already running.
    work_limit : int, optional
        Ticks for the second objective.
    """
    as_it_is = ChosenResult(**vars(first), second=second, slack=slack)
    if first.assignment is None or step_violations(problem, first.assignment):
        return as_it_is
    assert first.objective is not None
    most = first.objective + slack * problem.scale
    deadline.found(lambda: as_it_is)
    chosen = solve_second(
        second_problem(problem, most, second),
        first.assignment,
        time_limit=deadline.mapped(lambda _: as_it_is),
        work_limit=work_limit,
    )
    assert chosen.assignment is not None
    proven = first.is_optimal and chosen.is_optimal
    step = StepProgram(problem).answer(
        chosen.assignment,
        first.termination,
        first.bound,
        first.bound_kind,
        method=first.method,
        seconds=first.seconds,
        compile_seconds=first.compile_seconds,
        solver=first.solver,
        proof=first.proof or COMBINATORIAL,
        ticks=first.ticks,
        tie_rule=TieRule.SECOND if proven else TieRule.BACKEND,
    )
    return ChosenResult(
        **vars(step), second=second, slack=slack, chosen=chosen, first_proven=first.is_optimal
    )
