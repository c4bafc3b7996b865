"""Effects on a run of changes in its workers, times, end, future lengths or seed.

All registered policies and predictors are tested, interpreted and compiled, including added ones.
If a statement does not apply to a policy, `EXCEPT` gives the reason.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from bfio.decode.cluster import Cluster
from bfio.decode.policy_registry import choose, find, names
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.prediction import registry
from bfio.workloads.workload import Workload
from tests.decode.metamorphic import (
    HORIZON,
    Case,
    Renamed,
    changed_future,
    differences,
    drawn,
    drawn_state,
    first_steps,
    renamed,
    renamed_state,
    shifted,
    slowed,
    text_of,
    with_idle_workers,
)
from tests.pairs import pairs

ENGINES = ("reference", "compiled")
#: Draws of each policy.
SEEDS = range(1 if settings().max_examples < 100 else 2)
_INDEX = "its rule goes by the index of workers"
_COUNTS_ALL = "its objective counts a worker that is down as one without load"
#: Policies of which a statement cannot hold, and why.
EXCEPT: dict[str, dict[str, str]] = {
    "idle": {
        "adaptive": "it refuses runs with failures",
        "attention-dp-balance": "it starts requests when every worker can start one",
        "balance-scheduling": "it starts nothing while a worker is down",
        "bf-io": _COUNTS_ALL,
        "br-0": _COUNTS_ALL,
        "consistent-hash": "its ring is one of all workers",
        "pausing": _COUNTS_ALL,
        "rolling-horizon": _COUNTS_ALL,
        "throttled": "its threshold is a share of all workers",
    },
    "names": {
        "consistent-hash": _INDEX,
        "fcfs-by-index": _INDEX,
        "pausing": "it decides about requests that run, of which this state has none",
        "round-robin": _INDEX,
        "throttled": _INDEX,
    },
}
#: Options with which a predictor is quick and learns within a run, and its past.
TEXTS = {"learned": "learned:trees=1:refit=15", "survival": "survival:refit=3"}
#: Predictors that know lengths no further than the window reaches.
KNOW_THE_WINDOW = ("oracle",)
_PAST = Workload(np.array([1, 5, 9, 13] * 10), np.array([1, 3, 7, 2, 9] * 8))


def _made(text: str) -> Any:
    """Return the policy of a text, fresh, with its options."""
    return choose(text).make()


@cache
def _case(policy: str, seed: int, *, timed: bool = False) -> Case:
    fixed: dict[str, Any] = {"arrivals": "timed"} if timed else {}
    return drawn(policy, seed, **fixed)


def _changes(case: Case, other: Case, change: Callable[[str, Any], Any]) -> list[str]:
    """Return what differs between a changed run and the run of changed data, by engine."""
    found = []
    for engine in ENGINES:
        one, two = case.run(engine), other.run(engine)
        if one is not None and two is not None:
            found += [f"{engine}: {name}" for name in differences(one, two, change)]
    return found


@pytest.mark.parametrize("policy", names())
def test_a_later_start_changes_times_alone(policy: str) -> None:
    """Arrivals and all events 1,000 s later: the same steps, 1,000 s later."""
    for seed in SEEDS:
        case = _case(policy, seed, timed=True)
        assert _changes(case, *shifted(case, 1000)) == []


@pytest.mark.parametrize("policy", names())
def test_a_slower_clock_changes_times_alone(policy: str) -> None:
    """All that takes time takes twice as long, and all that comes in time comes at twice it."""
    for seed in SEEDS:
        case = _case(policy, seed, timed=True)
        assert _changes(case, *slowed(case, 2)) == []


@pytest.mark.parametrize("policy", names())
def test_names_of_workers_are_names(policy: str) -> None:
    """The run of workers under other names, by a policy that sees them under their old names.

    So ties go to the same workers. All else is renamed: slots, speeds, memory, events.
    """
    for seed in range(2 * len(SEEDS)):
        case = _case(policy, seed)
        order = np.random.default_rng(seed).permutation(case.cluster.workers)
        other, change = renamed(case, order)
        made = Renamed(_made(case.policy), order)
        run = simulate(other.workload, made, other.cluster, engine="reference", **other.options)
        one = case.run("reference")
        assert one is not None
        assert differences(one, run, change) == []


@pytest.mark.parametrize("policy", sorted(set(names()) - set(EXCEPT["idle"])))
def test_workers_that_are_down_change_nothing(policy: str) -> None:
    """Among two that never run, three others in their order do what they do alone, ties too."""
    for seed in SEEDS:
        case = drawn(policy, seed, features=False)
        case = Case(case.policy, case.workload, Cluster(3, 2, step_overhead_s=1.0), case.options)
        places = np.sort(np.random.default_rng(seed).choice(5, 3, replace=False))
        other, change = with_idle_workers(case, places, 5)
        assert [
            name for name in _changes(case, other, change) if name.partition(": ")[2] in _SEEN
        ] == []


#: What workers that are down do not show in: their loads are least, and their columns are 0.
_SEEN = frozenset((
    "worker", "start_step", "finish_step", "max_load", "total_load", "active", "waiting",
    "start_s", "duration_s",
))  # fmt: skip


@pytest.mark.parametrize(
    "policy", [name for name in names() if name not in EXCEPT["names"] and not find(name).draws]
)
def test_one_request_goes_by_what_workers_hold(policy: str) -> None:
    """Where no two workers agree in anything, their names decide nothing."""
    for seed in range(20):
        state = drawn_state(seed)
        order = np.random.default_rng(seed).permutation(state.num_workers)
        (one,) = _made(text_of(policy))(state)
        (two,) = _made(text_of(policy))(renamed_state(state, order))
        assert one is not None
        assert two == order[one]


@pytest.mark.parametrize("policy", names())
def test_the_first_steps_of_a_long_run_are_the_short_run(policy: str) -> None:
    """Stopped after any number of steps; in engines of which the other one was not stopped."""
    for seed in SEEDS:
        case = _case(policy, seed)
        for engine in ENGINES:
            whole = case.run(engine)
            if whole is None:
                continue
            steps = 1 + int(np.random.default_rng(seed).integers(whole.steps))
            part = case.fresh(engine, steps=steps)
            assert part is not None
            assert part.steps == steps
            assert first_steps(whole, part, steps) == []


def _predictors(*, all_lengths: bool = True) -> list[str]:
    """Return those that are installed; without ``all_lengths`` none that may know every length."""
    found = []
    for name in registry.names():
        spec = registry.find(name)
        knows_all = spec.knows_future and name not in KNOW_THE_WINDOW
        if (all_lengths or not knows_all) and (not spec.needs or find_spec(spec.needs)):
            found.append(name)
    return found


@pytest.mark.parametrize(
    ("policy", "predictor"), pairs(names(), _predictors(all_lengths=False), each=1)
)
def test_lengths_that_nobody_may_know_change_no_decision(policy: str, predictor: str) -> None:
    """Those of requests that have not ended by a step: up to the next one the run is the same.

    With a predictor that knows a window, those of requests that end beyond it.
    """
    knows = registry.find(predictor).knows_future
    text = TEXTS.get(predictor, predictor)
    given = {"predictor": text, "history": _PAST, "overflow": "recompute"}
    case = drawn(policy, len(predictor), features=not knows, **given)
    for engine in ENGINES:
        run = case.run(engine)
        if run is None:
            continue
        for step in np.random.default_rng(7).integers(run.steps, size=2).tolist():
            changed = changed_future(case, run, step, HORIZON + 2 if knows else 0).run(engine)
            assert changed is not None
            # Who ends at the next step is what was redrawn.
            assert set(first_steps(run, changed, step + 2)) <= {"finish_step"}
            assert first_steps(run, changed, step + 1) == []


@pytest.mark.parametrize("policy", names())
def test_the_seed_decides_where_something_draws(policy: str) -> None:
    """Equal seeds give equal runs; different ones differ only with a policy that draws."""
    case = _case(policy, 0)
    for engine in ENGINES:
        runs = [case.fresh(engine, seed=seed) for seed in (5, 5, 6, 7, 8)]
        made = [run for run in runs if run is not None]
        if not made:
            continue
        differ = [bool(differences(made[0], run)) for run in made[1:]]
        assert not differ[0]
        assert any(differ) == find(policy).draws


@pytest.mark.parametrize("predictor", _predictors())
def test_the_seed_decides_where_a_predictor_draws(predictor: str) -> None:
    """Likewise; one that may draw need not."""
    given = {"predictor": TEXTS.get(predictor, predictor), "history": _PAST}
    case = drawn("br-h", 1, features=False, **given)
    runs: list[Run] = []
    for seed in (5, 5, 6, 7):
        run = case.fresh("reference", seed=seed)
        assert run is not None
        runs.append(run)
    differ = [bool(differences(runs[0], run)) for run in runs[1:]]
    assert not differ[0]
    assert registry.find(predictor).draws or not any(differ)


def test_exceptions_are_policies() -> None:
    """Of this registry."""
    for statement in EXCEPT.values():
        assert set(statement) <= set(names())
    assert text_of("br-h") == f"br-h:horizon={HORIZON}"
