"""Workers with a KV memory: enumeration, the program, lists, bounds and the search."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.hindsight.makespan import solve_makespan
from bfio.testing.instances import makespan_problem, memories
from formulations import InputError
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    brute_force,
    list_schedule,
    lower_bound,
    objective_value,
    solve,
    trajectory,
    violations,
)
from formulations.hindsight_makespan.problem import fits, most_at_once


def drawn(seed: int, most: int = 4) -> MakespanProblem:
    """Draw a problem with a memory that binds, of both objectives that know one."""
    rng = np.random.default_rng(seed)
    n, workers = int(rng.integers(1, most + 1)), int(rng.integers(1, 4))
    columns = (rng.integers(0, 3, n), rng.integers(1, 8, n), rng.integers(1, 4, n))
    least = int((columns[1] + columns[2]).max()) - 1
    memory = np.full(workers, least + int(rng.integers(0, 6)))
    if rng.random() < 0.5:
        memory[:-1] = rng.integers(1, least + 6, workers - 1)
    return makespan_problem(
        workers,
        int(rng.integers(1, 4)),
        list(zip(*(c.tolist() for c in columns), strict=True)),
        step_overhead=Fraction(int(rng.integers(0, 12))),
        objective=list(MakespanObjective)[int(rng.integers(2)) * 2],
        memory=rng.permutation(memory),
    )


def agree(seed: int) -> int:
    """Compare enumeration, CP-SAT and our own; return what the memory costs."""
    problem = drawn(seed)
    best, starts, workers = brute_force(problem)
    assert violations(problem, starts, workers, best) == {}
    assert problem.memory is not None
    path = trajectory(problem, starts, workers)
    assert (path.loads <= problem.memory).all()
    # Without a limit the search proves alone; workers of unequal memory are left to CP-SAT.
    own = solve_makespan(problem, time_limit=None if problem.is_symmetric else 20)
    assert (own.objective, own.bound, own.is_optimal) == (best, best, True)
    other = solve(problem)
    assert (other.objective, other.is_optimal) == (best, True)
    assert lower_bound(problem) <= best
    return best


def test_equals_enumeration() -> None:
    """Both objectives, equal and unequal memories."""
    for seed in range(24):
        agree(seed)


@pytest.mark.deep
@pytest.mark.parametrize("chunk", range(10))
def test_equals_enumeration_deep(chunk: int) -> None:
    """300 problems and more."""
    for seed in range(100 + 35 * chunk, 100 + 35 * chunk + 35):
        agree(seed)


@given(st.data())
def test_list_schedules_keep_it(data: st.DataObject) -> None:
    """Any order of priority gives a feasible schedule, in which nothing waits for nothing."""
    number = st.integers(1, 6)
    requests = data.draw(st.lists(st.tuples(st.integers(0, 4), number, number), max_size=12))
    workers = data.draw(st.integers(1, 3))
    memory = data.draw(memories(workers, requests))
    slots = data.draw(st.integers(1, 4))
    problem = makespan_problem(workers, slots, requests, memory=memory)
    order = data.draw(st.permutations(range(len(requests))))
    starts, on = list_schedule(problem, order)
    assert violations(problem, starts, on) == {}
    if requests:
        assert lower_bound(problem) <= objective_value(problem, starts, on)


def test_a_small_worker_by_hand() -> None:
    """Worker 1 holds 3 of the 5 tokens that both need: one after the other, 4 + 5 + 4 + 5."""
    problem = makespan_problem(2, 1, [(0, 4, 2), (0, 4, 2)], memory=[5, 3])
    result = solve_makespan(problem, time_limit=20)
    assert (result.objective, result.workers, result.is_optimal) == (18, (0, 0), True)
    equal = makespan_problem(2, 1, [(0, 4, 2), (0, 4, 2)], memory=5)
    assert solve_makespan(equal).objective == 4 + 5


def test_what_fits_beside_what() -> None:
    """Loads 4, 5, 6 of one that began a step ago, and a new one of 3, 4: 5 + 3, then 6 + 4."""
    running = [(3, 4)]  # 3 + k at k = 1, 2, 3: started at 1 with 4
    assert fits(running, (1, 4), 10)  # 3 at k = 2, 4 at k = 3
    assert not fits(running, (1, 4), 9)
    assert fits(running, (1, 3), 9)  # gone before the last step


def test_how_many_run_at_once() -> None:
    """Of prompts 2, 3, 5 a memory of 5 holds two, one of 4 one, one of 10 all; slots cap them."""
    prompts = np.array([5, 2, 3])
    assert most_at_once(prompts, 3, np.array([5, 4, 10])) == 2 + 1 + 3
    assert most_at_once(prompts, 2, np.array([5, 4, 10])) == 2 + 1 + 2


def test_the_checker_names_the_worst_step() -> None:
    """Two requests of 4, 5 in 9 tokens: 10 at step 1; and not at step 0."""
    problem = makespan_problem(1, 2, [(0, 4, 2), (0, 4, 2)], memory=9)
    assert violations(problem, [0, 0], [0, 0]) == {"memory[0,1]": 1}
    assert violations(problem, [0, 1], [0, 0]) == {}


def test_memory_beyond_all_loads_changes_nothing() -> None:
    """The same optimum and the same bound as without one."""
    rows = [(0, 1 + (7 * i) % 5, 1 + (5 * i) % 4) for i in range(6)]
    for objective in (MakespanObjective.WALL_CLOCK, MakespanObjective.LATENCY):
        free = makespan_problem(2, 2, rows, objective=objective, step_overhead=Fraction(3))
        wide = makespan_problem(
            2, 2, rows, objective=objective, step_overhead=Fraction(3), memory=[10**6, 10**6]
        )
        assert solve_makespan(wide).objective == solve_makespan(free).objective
        assert lower_bound(wide) == lower_bound(free)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"memory": 4}, r"requests\[0\]: its peak of 5 tokens exceeds the largest memory, 4"),
        ({"memory": [9]}, "memory: 1 entry for 2 workers"),
        ({"memory": [9, 0]}, r"memory\[1\]"),
        ({"memory": "9"}, "memory: expected a list"),
        ({"memory": True}, "memory"),
        (
            {"memory": 9, "work_conserving": True},
            "memory: a memory limit is not allowed with work",
        ),
        (
            {"memory": 9, "objective": "imbalance"},
            "memory: a memory limit is not allowed with work",
        ),
    ],
)
def test_bad_memory(options: dict[str, object], error: str) -> None:
    """One line says where and what."""
    document = {"workers": 2, "slots": 2, "requests": [{"prompt": 4, "output": 2}]}
    with pytest.raises(InputError, match=error):
        MakespanProblem.from_mapping(document | options)


def test_documents_hold_it() -> None:
    """One number, or one each; read back as written."""
    document = {"workers": 2, "slots": 2, "requests": [{"prompt": 4, "output": 2}], "memory": 9}
    problem = MakespanProblem.from_mapping(document)
    assert problem.to_mapping()["memory"] == [9, 9]
    again = MakespanProblem.from_mapping(problem.to_mapping())
    assert again.to_mapping() == problem.to_mapping()
    del document["memory"]
    assert "memory" not in MakespanProblem.from_mapping(document).to_mapping()
