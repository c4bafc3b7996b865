"""Runs of the engine as schedules: the same loads, the same cost, and never below the bound."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift
from bfio.decode.options import ArrivalMode, RunOptions
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.hindsight.makespan import hindsight_of_run, solve_makespan
from bfio.hindsight.makespan.from_run import Revealed, clocked_schedule
from bfio.workloads.workload import Workload
from formulations import InputError
from formulations.hindsight_makespan import MakespanObjective, lower_bound, trajectory
from tests.decode.cases import build


def _workload(seed: int, size: int, *, timed: bool = False) -> Workload:
    rng = np.random.default_rng(seed)
    times = tuple(Fraction(int(t), 10) for t in np.sort(rng.integers(0, 400, size)))
    return Workload(rng.integers(1, 30, size), rng.integers(1, 9, size), times if timed else None)


def _first_free(state: object) -> list[int | None]:
    """Fill free slots in order."""
    free = list(state.free_slots)  # type: ignore[attr-defined]
    answer: list[int | None] = [None] * state.num_waiting  # type: ignore[attr-defined]
    for i in range(len(answer)):
        worker = next((g for g in range(len(free)) if free[g]), None)
        if worker is not None:
            answer[i] = worker
            free[worker] -= 1
    return answer


def _lazy(state: object) -> list[int | None]:
    """Start one request at a time."""
    busy = int(state.running.sum()) > 0  # type: ignore[attr-defined]
    return [None if busy or i else 0 for i in range(state.num_waiting)]  # type: ignore[attr-defined]


def _engine_total(run: Run, objective: MakespanObjective) -> float:
    if objective is MakespanObjective.WALL_CLOCK:
        return float(run.duration_s.sum())
    G = run.cluster.workers
    return float((G * run.max_load - run.total_load).sum())


@given(
    st.integers(0, 10**6),
    st.sampled_from((MakespanObjective.WALL_CLOCK, MakespanObjective.IMBALANCE)),
    st.booleans(),
)
def test_the_schedule_costs_what_the_engine_says(
    seed: int, objective: MakespanObjective, timed: bool
) -> None:
    """Loads step by step, totals, and the bound of hindsight below them."""
    workload = _workload(seed, 25, timed=timed)
    cluster = Cluster(3, 2, step_overhead_s=0.5, token_time_s=0.125)
    options = RunOptions(arrivals=ArrivalMode.TIMED) if timed else RunOptions(pool=12)
    run = simulate(workload, _first_free, cluster, options=options)
    seen = hindsight_of_run(run, workload, objective=objective, revealed=Revealed.AS_SEEN)
    assert seen.value == pytest.approx(_engine_total(run, objective), rel=1e-12)
    path = trajectory(seen.problem, seen.starts, seen.workers)
    assert run.loads is not None
    assert np.array_equal(path.loads, run.loads)
    assert np.array_equal(path.steps, np.arange(run.steps))
    at_once = hindsight_of_run(run, workload, work_conserving=False)
    assert lower_bound(at_once.problem) <= at_once.objective


def test_price_of_myopia_by_hand() -> None:
    """First come pairs 5 with 1 and leaves 5: 4 + 5 = 9; hindsight pairs the fives: 0 + 1."""
    workload = Workload(np.array([5, 1, 5]), np.array([1, 1, 1]))
    run = simulate(workload, build("fcfs"), Cluster(2, 1), pool=3)
    seen = hindsight_of_run(run, workload, objective=MakespanObjective.IMBALANCE)
    best = solve_makespan(seen.problem)
    assert (seen.objective, best.objective, best.is_optimal) == (9, 1, True)
    assert seen.price_of_myopia(1) == 9.0
    assert seen.price_of_myopia(0) is None


def test_default_times_are_the_decimals_of_the_machine() -> None:
    """What the float prints as, exactly; others can be given."""
    workload = Workload(np.array([5]), np.array([2]))
    run = simulate(workload, _first_free, Cluster(1, 1))
    problem = hindsight_of_run(run, workload).problem
    assert float(problem.step_overhead) == run.cluster.step_overhead_s
    assert float(problem.token_time) == run.cluster.token_time_s
    tokens = hindsight_of_run(run, workload, step_overhead=Fraction(48620), token_time=Fraction(1))
    # Loads 5 and 6 in two steps.
    assert tokens.objective == 2 * 48620 + 11


def test_what_is_no_schedule_is_refused() -> None:
    """Runs cut short, other workloads, other drifts and costs, and slots left idle."""
    workload = _workload(1, 6)
    cluster = Cluster(2, 2)
    with pytest.raises(InputError, match="did not drain"):
        hindsight_of_run(simulate(workload, _first_free, cluster, steps=2), workload)
    run = simulate(workload, _first_free, cluster)
    with pytest.raises(InputError, match="requests"):
        hindsight_of_run(run, _workload(1, 5))
    drift = simulate(workload, _first_free, cluster, drift=Drift((0,)))
    with pytest.raises(InputError, match="grow"):
        hindsight_of_run(drift, workload)
    mean = simulate(workload, _first_free, Cluster(2, 2, mean_time_s=1e-3))
    with pytest.raises(InputError, match="mean"):
        hindsight_of_run(mean, workload)
    outage = ((1.5, 0, "fail"), (9.0, 0, "recover"))
    failed = simulate(workload, _first_free, Cluster(2, 2, 1.0, 0.0), failures=outage)
    with pytest.raises(InputError, match="interrupted; simulate without failures"):
        hindsight_of_run(failed, workload)
    budget = simulate(workload, build("fcfs"), Cluster(2, 2, token_budget=40))
    with pytest.raises(InputError, match="simulate without token_budget"):
        hindsight_of_run(budget, workload)
    lazy = simulate(workload, _lazy, cluster)
    with pytest.raises(InputError, match="work_conserving"):
        hindsight_of_run(lazy, workload, objective=MakespanObjective.IMBALANCE)
    assert hindsight_of_run(lazy, workload).value > 0


def test_a_run_by_the_clock_counts_steps_in_which_nothing_runs() -> None:
    """Arrivals at 0, 0 and 9, two outputs of 2 on one slot: starts 0, 2 and, after idling, 9."""
    times = (Fraction(0), Fraction(0), Fraction(9))
    workload = Workload(np.array([3, 4, 5]), np.array([2, 2, 1]), times)
    policy = build("fcfs")
    run = simulate(workload, policy, Cluster(1, 1, 1.0, 0.0), arrivals="timed")
    assert clocked_schedule(run, workload) == ((0, 2, 9), (0, 0, 0))
    # The busy steps alone are 0, 2 and 4.
    assert run.start_step.tolist() == [0, 2, 4]


def test_a_clock_that_counts_no_steps_is_refused() -> None:
    """Steps of another length, and arrivals between the seconds."""
    workload = _workload(1, 5)
    run = simulate(workload, build("fcfs"), Cluster(2, 2))
    with pytest.raises(InputError, match="event times are not step numbers"):
        clocked_schedule(run, workload)
    between = Workload(np.array([3]), np.array([2]), (Fraction(1, 2),))
    late = simulate(between, build("fcfs"), Cluster(1, 1, 1.0, 0.0), arrivals="timed")
    with pytest.raises(InputError, match="whole arrival times"):
        clocked_schedule(late, between)
