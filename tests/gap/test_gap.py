"""Regret per step: against enumeration, with fewer admissions, and with unproven steps apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.observers import StepView
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.gap import GapObserver, GapReport, StepRegret, measure_gap
from bfio.workloads import Workload, synthetic
from formulations.errors import InputError
from formulations.step import StepProblem, solve_by_enumeration


@st.composite
def _workloads(draw: st.DrawFn) -> Workload:
    n = draw(st.integers(1, 12))
    prompts = draw(st.lists(st.integers(1, 20), min_size=n, max_size=n))
    outputs = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    return Workload(np.array(prompts), np.array(outputs))


class _Enumerated:
    """Collects the regret of every decision by enumeration, without `bfio.gap`."""

    def __init__(self) -> None:
        self.regrets: list[int] = []

    def on_step(self, view: StepView) -> None:
        """Enumerate the step's assignments of equally many requests."""
        if view.state is None or view.decision is None:
            return
        admitted = sum(w is not None for w in view.decision)
        problem = StepProblem.from_state(view.state, admit=admitted)
        best = solve_by_enumeration(problem).objective
        assert best is not None
        self.regrets.append(problem.objective_value(view.decision) - best)


@given(_workloads(), st.sampled_from(["fcfs", "br-0", "throttled", "bf-io", "random"]))
def test_regret_is_that_of_enumeration(workload: Workload, policy: str) -> None:
    """Every decision of every policy, throttled with fewer admissions included."""
    cluster = Cluster(workers=3, slots=2)
    oracle = _Enumerated()
    simulate(workload, policy, cluster, pool=4, observers=[oracle])
    report = measure_gap(workload, policy, cluster, pool=4)
    assert report.regrets() == oracle.regrets
    assert len(report.rows) == report.num_decisions
    if policy == "bf-io":
        assert set(report.regrets()) <= {0}


@given(
    _workloads(),
    st.sampled_from(["fcfs", "br-0"]),
    st.sampled_from([(1.0, 1.0, 1.001), (2.0, 2.0, 2.002)]),
)
def test_the_unit_is_a_token_of_the_fastest_worker(
    workload: Workload, policy: str, speeds: tuple[float, ...]
) -> None:
    """Whatever integers stand for the speeds: these are equal or equal when rounded."""
    equal, rounded = (
        measure_gap(
            workload, policy, Cluster(workers=3, slots=2, speed=speed), pool=4
        ).to_mapping()
        for speed in ((1.0, 1.0, 1.0), speeds)
    )
    for name in ("objective_mean", "optimum_mean", "regret_per_step"):
        assert equal[name] == rounded[name]


@given(_workloads(), st.integers(1, 30), st.booleans())
def test_decisions_by_reports_are_measured_on_the_true_state(
    workload: Workload, delay: int, fits_one: bool
) -> None:
    """As if the same requests were started at the same steps by one who sees everything.

    With the memory of the largest request many are sent to workers that have no room for them.
    """
    largest = int((workload.prompt_tokens + workload.output_tokens).max())
    cluster = Cluster(workers=3, slots=2, memory=largest if fits_one else None)
    given = {"pool": 4, "overflow": "reserve"} if fits_one else {"pool": 4}
    run = simulate(workload, "br-0", cluster, **given, telemetry=f"delay={delay}")
    report = measure_gap(workload, "br-0", cluster, **given, telemetry=f"delay={delay}")

    def again(state: DecodeState) -> list[int | None]:
        waiting = np.flatnonzero(run.start_step >= state.step)[: state.num_waiting].tolist()
        return [int(run.worker[i]) if run.start_step[i] == state.step else None for i in waiting]

    assert report.regrets() == measure_gap(workload, again, cluster, **given).regrets()


@given(_workloads(), st.sampled_from(["rotating", "random"]))
def test_a_window_of_the_program_alone_repeats_the_decisions(
    workload: Workload, ties: str
) -> None:
    """Loads are constant, so that two steps count twice as much as one: ties are broken once."""
    cluster = Cluster(workers=3, slots=2)
    now, window = (
        measure_gap(workload, "jsq", cluster, pool=4, ties=ties, horizon=horizon).regrets()
        for horizon in (0, 1)
    )
    assert window == [2 * regret for regret in now]


def _admit_one(state: DecodeState) -> list[int | None]:
    """Start only the oldest request, however many slots are free."""
    worker = int(state.free_slots.argmax())
    return [worker] + [None] * (state.num_waiting - 1)


def test_refusing_to_admit_is_measured_against_full_use_too() -> None:
    """Two workers, two requests of 5: starting one costs 5, the least for one; both cost 0."""
    workload = Workload(np.array([5, 5]), np.array([1, 1]))
    report = measure_gap(workload, _admit_one, Cluster(workers=2, slots=1))
    first = report.rows[0]
    assert (first.objective, first.optimum, first.full_use_optimum) == (5, 5, 0)
    assert (first.regret, first.full_use_regret) == (0, 5)


def test_unproven_steps_are_counted_apart() -> None:
    """One proven step of regret 3, one unproven with a bound 10 below the objective."""
    report = GapReport(
        (
            StepRegret(0, 4, 2, 13, 10, 10, 10, 0.1),
            StepRegret(1, 4, 2, 30, None, 20, None, 1.0),
        ),
        num_decisions=2,
    )
    document = report.to_mapping()
    assert (document["proven"], document["unproven"], document["proven_share"]) == (1, 1, 0.5)
    assert document["regret_per_step"]["max"] == 3
    assert document["unproven_regret_at_most"]["max"] == 10
    assert document["worst_step"] == 0


def test_every_step_has_a_certified_gap() -> None:
    """Without any work nothing is searched: bounds come for free, and some decisions meet them."""
    observer = GapObserver(horizon=5, work_limit=0)
    report = measure_gap(
        synthetic("demo", 150, seed=1),
        "br-0",
        Cluster(workers=4, slots=4),
        observer=observer,
        projection="growing",
        pool=24,
    )
    document = report.to_mapping()
    assert 0 < document["unproven"] < document["solved"]
    gaps = [row["certified_gap"] for row in document["rows"]]
    assert document["certified_gap_per_step"]["count"] == len(gaps) == document["solved"]
    assert min(gaps) == 0
    assert document["certified_gap_per_step"]["max"] == max(gaps) > 0
    for row in document["rows"]:
        assert row["certified_gap"] == row["objective"] - row["bound"]
        assert (row["optimum"] is None) == (row["regret"] is None)
        assert row["regret"] in (None, row["certified_gap"])
    total = sum(row["objective"] for row in document["rows"])
    assert document["relative_certified_gap"] == sum(gaps) / total


def test_an_empty_report_has_no_numbers() -> None:
    """None, not 0 and not NaN."""
    document = GapReport((), 0).to_mapping()
    assert document["proven_share"] is None
    assert document["regret_per_step"]["mean"] is None
    assert document["worst_step"] is None


def test_every_nth_decision() -> None:
    """Of n decisions every third is solved, the first included."""
    workload = synthetic("demo", 100, seed=2)
    cluster = Cluster(workers=4, slots=4)
    whole = measure_gap(workload, "br-0", cluster)
    part = measure_gap(workload, "br-0", cluster, observer=GapObserver(every=3))
    assert [r.step for r in part.rows] == [r.step for r in whole.rows[::3]]
    assert part.num_decisions == whole.num_decisions


@pytest.mark.parametrize("horizon", [0, 4])
def test_bf_io_has_no_regret_on_its_own_horizon(horizon: int) -> None:
    """Replayed with the program it solves, the exact policy is optimal at every step."""
    report = measure_gap(
        synthetic("demo", 60, seed=3),
        f"bf-io:horizon={horizon}",
        Cluster(workers=3, slots=4),
        observer=GapObserver(horizon=horizon),
        projection="growing",
        pool=12,
    )
    assert set(report.regrets()) == {0}


def test_immediate_dispatch_has_no_gap() -> None:
    """It binds requests before they start: there would be no decision to measure."""
    with pytest.raises(InputError, match="dispatch: immediate dispatch assigns requests"):
        measure_gap(synthetic("demo", 9, seed=0), "br-0", Cluster(2, 3), dispatch="immediate")
