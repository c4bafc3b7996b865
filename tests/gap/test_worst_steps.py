"""Steps extracted from a run are the problems on which its gap was measured."""

import json
from fractions import Fraction
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.cli import so_far
from bfio.decode.cluster import Cluster
from bfio.gap import GapObserver, KeptStep, StepRegret, keep_worst, measure_gap
from bfio.step.solve import solve_step
from bfio.testing.instances import step_problem
from bfio.workloads import synthetic
from formulations.errors import InputError
from formulations.step import Objective, StepProblem
from tests.cli.conftest import Bfio, bfio

__all__ = ["bfio"]
ANY = step_problem([1], [[3]], [[2]])


@given(
    regrets=st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=12),
    count=st.integers(0, 5),
)
def test_the_worst_are_kept_by_the_rule(regrets: list[int | None], count: int) -> None:
    """As if all were sorted at the end: unbounded first, then the largest, of equals the first."""
    worst: list[KeptStep] = []
    for step, regret in enumerate(regrets):
        bound = None if regret is None else 3 - regret
        row = StepRegret(
            step, 1, 0, 3, optimum=None, bound=bound, full_use_optimum=None, seconds=0
        )
        keep_worst(worst, KeptStep(ANY, (None,), row), count)
    sizes = [inf if regret is None else regret for regret in regrets]
    ranked = sorted(range(len(regrets)), key=lambda k: -sizes[k])
    assert [kept.row.step for kept in worst] == ranked[:count]
    assert len(worst) == min(count, len(regrets))


@pytest.mark.parametrize("objective", list(Objective))
def test_kept_problems_have_the_optimum_of_the_gap(objective: Objective) -> None:
    """Also written and read again, with look-ahead, discount, and fewer admitted than fit."""
    observer = GapObserver(
        method="brute-force", horizon=1, gamma=Fraction(9, 10), objective=objective, keep=4
    )
    workload = synthetic("demo", 16, seed=3)
    report = measure_gap(workload, "throttled", Cluster(2, 3), observer=observer, pool=4)
    assert len(observer.worst) == 4
    by_step = {row.step: row for row in report.rows}
    for kept in observer.worst:
        again = StepProblem.from_json(json.dumps(kept.problem.to_mapping()))
        assert again.digest() == kept.problem.digest()
        assert again.objective_value(kept.decision) == kept.row.objective
        assert (
            solve_step(again, method="brute-force").objective
            == by_step[kept.row.step].optimum
            == kept.row.optimum
        )
    largest = max(row.regret_at_most for row in report.rows if row.regret_at_most is not None)
    assert observer.worst[0].row.regret_at_most == largest


def test_a_run_without_time_keeps_what_is_unproven() -> None:
    """Unproven steps rank by what their regret may be."""
    observer = GapObserver(time_limit=1e-9, keep=2)
    report = measure_gap(
        synthetic("demo", 80, seed=1), "fcfs", Cluster(4, 4), observer=observer, pool=12
    )
    at_most = sorted(r.regret_at_most for r in report.rows if r.regret_at_most is not None)
    assert [kept.row.regret_at_most for kept in observer.worst] == at_most[:-3:-1]


def test_dumped_steps_are_solved_to_the_same_optimum(bfio: Bfio, tmp_path: Path) -> None:
    """``bfio solve`` reads what ``bfio gap`` writes, and provenance says where it comes from."""
    run = "gap --policy fcfs --requests 40 --workers 2 --slots 3 --pool 6 --gap-horizon 1"
    done = bfio(*f"{run} --gamma 1/2 --dump-steps 2 --output steps --no-plots --json".split())
    dumped = done.json["dumped"]
    rows = {row["step"]: row for row in done.json["rows"]}
    assert len(dumped) == 2
    assert sorted(path.name for path in (tmp_path / "steps").iterdir()) == sorted(
        Path(step["file"]).name for step in dumped
    )
    for rank, step in enumerate(dumped, 1):
        document = json.loads(Path(step["file"]).read_text())
        origin = document["provenance"]
        assert (origin["policy"], origin["rank"], origin["step"]) == ("fcfs", rank, step["step"])
        assert "2x3 (workers x slots)" in origin["settings"]
        assert origin["workload"] == done.json["workload"]
        answer = bfio("solve", step["file"], "--json").json
        assert answer["objective"] == rows[step["step"]]["optimum"] == origin["optimum"]
        assert origin["objective"] - origin["optimum"] == rows[step["step"]]["regret"]
    assert dumped[0]["regret_at_most"] == max(row["regret"] for row in rows.values())
    told = bfio("gap", "--requests", "60", "--dump-steps", "-1")
    assert (told.status, "--dump-steps" in told.err) == (2, True)


def test_only_the_worst_of_all_steps_are_written(
    bfio: Bfio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what were the worst when, on the way, an answer was kept for a signal."""
    monkeypatch.setattr(so_far, "_EVERY_S", 0.0)
    shown: list[float] = []
    monkeypatch.setattr(so_far, "_tell", lambda *said: shown.append(len(said)))
    run = "gap --policy fcfs --requests 30 --workers 2 --slots 3 --pool 6 --no-plots --json"
    dumped = bfio(*run.split(), "--dump-steps", "2", "--output", "steps").json["dumped"]
    assert len(shown) > 2
    assert {path.name for path in (tmp_path / "steps").iterdir()} == {
        Path(step["file"]).name for step in dumped
    }


def test_provenance_is_an_object_that_is_not_read() -> None:
    """Any provenance gives the same problem; other keys stay unknown."""
    document = ANY.to_mapping()
    assert StepProblem.from_mapping(document | {"provenance": {"a": 1}}).digest() == ANY.digest()
    with pytest.raises(InputError, match="unknown"):
        StepProblem.from_mapping(document | {"origin": {}})
