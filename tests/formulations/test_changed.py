"""Programs whose Pyomo statement was changed by the user, against enumeration."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bfio
from bfio.testing.instances import step_problems
from formulations import CapabilityError, InputError
from formulations.changed import ChangedProgram
from formulations.hindsight_latency import LatencyProblem, brute_force
from formulations.hindsight_latency.program import build as build_latency
from formulations.results import Termination
from formulations.step import StepProblem, StepProgram, add_energy_cap, build, violations
from formulations.step.check import plain_loads
from tests.formulations.test_check import P1


@given(step_problems(max_requests=4).filter(lambda p: p.num_requests > 1), st.data())
def test_added_rows_and_another_objective_match_enumeration(
    problem: StepProblem, data: st.DataObject
) -> None:
    """Two requests apart, a cap on the first peak, one to start, and either objective."""
    first, second = data.draw(st.permutations(range(problem.num_requests)))[:2]
    cap = data.draw(st.integers(0, 60))
    other, served = data.draw(st.booleans()), data.draw(st.booleans())
    model = build(problem)
    model.apart = pyo.Constraint(
        model.workers, rule=lambda m, g: m.x[first, g] + m.x[second, g] <= 1
    )
    model.cap = pyo.Constraint(expr=model.M[0] <= cap)
    if served:
        model.service = pyo.Constraint(expr=sum(model.x[first, g] for g in model.workers) == 1)
    if other:
        model.objective.deactivate()
        model.mine = pyo.Objective(expr=sum(i * model.x[i, g] for i, g in model.x))
    choices = product([None, *range(problem.num_workers)], repeat=problem.num_requests)
    values = [
        sum(i for i, g in enumerate(a) if g is not None) if other else problem.objective_value(a)
        for a in choices
        if not violations(problem, a)
        and (a[first] is None or a[first] != a[second])
        and not (served and a[first] is None)
        and (problem.loads(a) * problem.time_weights[:, None]).max(axis=0)[0] <= cap
    ]
    if problem.num_admitted == 0:
        return
    result = bfio.solve_step(problem, model=model, method="cp-sat", time_limit=10.0)
    if not values:
        assert result.termination is Termination.INFEASIBLE
    else:
        assert result.is_optimal
        assert result.objective == min(values)
        assert not violations(problem, result.required_solution())


def plain_energy(
    problem: StepProblem, assignment: Sequence[int | None], idle_power: int, max_power: int
) -> int:
    """Return the energy of the window under an assignment, by `add_energy_cap`."""
    loads = plain_loads(problem, assignment)
    speeds = problem.time_weights.tolist()
    total = 0
    for h in range(problem.num_steps):
        times = [speed * load[h] for speed, load in zip(speeds, loads, strict=True)]
        total += sum(max_power * time + idle_power * (max(times) - time) for time in times)
    return total


@given(
    step_problems(max_requests=4, max_workers=3).filter(lambda p: p.num_admitted > 0),
    st.sampled_from([("cp-sat", 0, 1), ("highs", 1, 4)]),
    st.data(),
)
def test_caps_on_energy_and_the_longest_wait_match_enumeration(
    problem: StepProblem, case: tuple[str, int, int], data: st.DataObject
) -> None:
    """Both options together; the exact method knows the wait, and refuses the energy."""
    method, idle, most = case
    waits = st.integers(0, 3)
    waited = data.draw(
        st.lists(waits, min_size=problem.num_requests, max_size=problem.num_requests)
    )
    limit = data.draw(waits)
    served = problem.with_longest_wait(waited, limit)
    flags = [] if problem.required is None else problem.required.tolist()
    before = {i for i, flag in enumerate(flags) if flag}
    feasible = [
        a
        for a in product([None, *range(problem.num_workers)], repeat=problem.num_requests)
        if not violations(problem, a) and _serves(waited, limit, before, a)
    ]
    plain = bfio.solve_step(served)
    values = [problem.objective_value(a) for a in feasible]
    assert plain.objective == min(values, default=None)
    energies = sorted({plain_energy(problem, a, idle, most) for a in feasible}) or [0]
    cap = data.draw(st.sampled_from([max(0, energies[0] - 1), *energies]))
    model = add_energy_cap(build(served), served, cap, idle_power=idle, max_power=most)
    values = [
        value
        for value, a in zip(values, feasible, strict=True)
        if plain_energy(problem, a, idle, most) <= cap
    ]
    result = bfio.solve_step(served, model=model, method=method, time_limit=10.0)
    if values:
        assert result.objective == min(values)
        assert plain_energy(problem, result.required_solution(), idle, most) <= cap
        assert result.violations == {}
    else:
        assert result.assignment is None
    with pytest.raises(CapabilityError, match="exact solves the original problem"):
        bfio.solve_step(served, model=model)


@pytest.mark.parametrize("method", ["cp-sat", "highs"])
def test_a_cap_that_no_assignment_changes_is_infeasible(method: str) -> None:
    """A worker of load 1 and a request of none: energy 1 whatever starts, and a cap of 0."""
    problem = StepProblem(np.array([1]), np.array([[1]]), np.array([[0]]))
    model = add_energy_cap(build(problem), problem, 0, idle_power=0, max_power=1)
    result = bfio.solve_step(problem, model=model, method=method)
    assert result.termination is Termination.INFEASIBLE


def _serves(
    waited: list[int], limit: int, before: set[int], assignment: tuple[int | None, ...]
) -> bool:
    """Return whether no overdue request waits while one that is less urgent starts."""
    urgency = [
        (i in before, waited[i] >= limit, waited[i] if waited[i] >= limit else 0, -i)
        for i in range(len(waited))
    ]
    started = [urgency[i] for i, g in enumerate(assignment) if g is not None]
    left = [
        urgency[i]
        for i, g in enumerate(assignment)
        if g is None and (i in before or waited[i] >= limit)
    ]
    return not left or not started or max(left) < min(started)


def test_the_longest_wait_in_a_file() -> None:
    """Waits 5, 7, 7, a limit of 6 and one slot: request 1, the older of the two, must start."""
    document = {"capacity": [1], "base": [[0]], "contribution": [[1], [2], [3]]}
    late = {"waited": [5, 7, 7], "longest_wait": 6}
    problem = StepProblem.from_mapping(document | late)
    assert problem.required is not None
    assert problem.required.tolist() == [False, True, False]
    assert bfio.solve_step(problem).assignment == (None, 0, None)
    again = StepProblem.from_mapping(problem.to_mapping())
    assert again.to_mapping() == problem.to_mapping()
    for broken, message in (
        ({"waited": [1, 2, 3]}, "longest_wait"),
        ({"waited": [1], "longest_wait": 1}, "waited"),
        ({"waited": [1, 2, 3], "longest_wait": -1}, "longest_wait"),
    ):
        with pytest.raises(InputError, match=message):
            StepProblem.from_mapping(document | broken)


def test_an_added_row_that_a_solution_breaks_is_named() -> None:
    """The checker evaluates added rows, not only those of the original program."""
    model = build(P1)
    model.apart = pyo.Constraint(model.workers, rule=lambda m, g: m.x[1, g] + m.x[4, g] <= 1)
    changed = ChangedProgram(StepProgram(P1), model)
    form = changed.standard_form
    together = {"x[1,1]": 1.0, "x[4,1]": 1.0, "x[0,0]": 1.0, "M[0]": 60.0}
    found = changed.solution_at(np.array([together.get(n, 0.0) for n in form.column_names]))
    assert changed.violations(found) == {"apart[1]": 1}


@pytest.mark.parametrize("change", ["dropped", "loosened", "bound"])
def test_a_model_without_a_row_of_the_program_is_refused(change: str) -> None:
    """Else the checker of the program would refuse valid solutions of the model."""
    model = build(P1)
    if change == "dropped":
        model.capacity[0].deactivate()
    elif change == "loosened":
        model.capacity[0].set_value(model.capacity[0].body <= 5)
    else:
        model.M[0].setub(10**6)
    with pytest.raises(InputError, match=r"model\.(capacity\[0\]|M\[0\]): .*loosened"):
        bfio.solve_step(P1, model=model, method="cp-sat")


def test_a_maximised_objective_is_refused() -> None:
    """The compiled form minimises the negative, whose value would be reported."""
    model = build(P1)
    model.objective.set_sense(pyo.maximize)
    for method in ("cp-sat", "highs", "pyomo", "lp"):
        with pytest.raises(InputError, match=r"model\.objective: is maximised"):
            bfio.solve_step(P1, model=model, method=method)
    with pytest.raises(InputError, match="cannot be compiled"):
        bfio.solve_step(P1, model=5, method="cp-sat")


def test_one_objective_is_active_and_no_variable_fixed() -> None:
    """A fixed variable is none for the compiler, so that rows seem to be missing."""
    model = build(P1)
    model.second = pyo.Objective(expr=model.x[0, 0])
    with pytest.raises(InputError, match="model: 2 active objectives; deactivate all but one"):
        bfio.solve_step(P1, model=model, method="cp-sat")
    with pytest.raises(InputError, match="model: 0 active objectives; activate one"):
        bfio.solve_step(P1, model=pyo.ConcreteModel(), method="cp-sat")
    model.second.deactivate()
    model.x[0, 0].fix(0)
    with pytest.raises(InputError, match=r"model\.x\[0,0\]: is fixed; use setlb and setub"):
        bfio.solve_step(P1, model=model, method="cp-sat")
    model.x[0, 0].unfix()
    model.x[0, 0].setub(0)
    assert bfio.solve_step(P1, model=model, method="cp-sat").required_solution()[0] != 0


def test_fractional_objectives_and_own_methods_are_refused() -> None:
    """Optimality is proven in integers, and our own methods read no rows."""
    model = build(P1)
    model.objective.set_value(0.5 * model.M[0])
    with pytest.raises(InputError, match="fractional"):
        bfio.solve_step(P1, model=model, method="cp-sat")
    with pytest.raises(CapabilityError, match="exact solves the original problem"):
        bfio.solve_step(P1, model=build(P1))


def test_a_hindsight_program_takes_rows_too() -> None:
    """Request 2 starts at round 4 at the earliest, by hand one round later than it could."""
    problem = LatencyProblem(10, *np.array([[0, 0, 1], [3, 2, 2], [3, 4, 2]]))
    model = build_latency(problem, aggregate=True)
    free = bfio.solve(problem, method="cp-sat", model=model)
    assert free.objective == brute_force(problem)[0]
    late = [model.x[key] for key in model.x if key[0] == 2 and key[1] < 4]
    model.late = pyo.Constraint(expr=sum(late) == 0)
    held = bfio.solve(problem, method="cp-sat", model=model)
    assert held.is_optimal
    assert held.starts is not None
    assert held.starts[2] >= 4
    assert held.objective > free.objective


@given(step_problems(max_requests=4))
def test_the_relaxation_is_a_bound_without_a_solution(problem: StepProblem) -> None:
    """It lies between the combinatorial bound and the optimum."""
    relaxed = bfio.solve(problem, method="lp")
    best = StepProgram(problem).brute_force()
    if relaxed.termination is Termination.RELAXED and best is not None:
        assert relaxed.assignment is None
        assert StepProgram(problem).lower_bound() <= relaxed.bound <= best[0]


def test_solve_names_the_kinds_it_takes() -> None:
    """One line, for a problem of another kind."""
    with pytest.raises(InputError, match="an int is none of StepProblem"):
        bfio.solve(3)
    assert bfio.solve(P1).is_optimal
