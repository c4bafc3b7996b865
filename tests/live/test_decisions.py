"""The decisions of the router's table equal those of the simulator, step by step."""

from dataclasses import fields, replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bfio import Cluster, Workload, simulate
from bfio.decode.observers import StepView
from bfio.decode.options import Projection, RunOptions
from bfio.decode.policy_registry import choose, specs
from bfio.decode.run import Run
from bfio.decode.state import DecodeState
from bfio.live.decisions import RUNNING, Decisions
from bfio.prediction import registry as predictors
from formulations.errors import InputError

POLICIES = [spec.name for spec in specs() if not spec.pauses and spec.interruptible]
PREDICTORS = (
    "none",
    "oracle",
    "noisy-oracle:0.5",
    "noisy-classifier:auc=0.8",
    "survival:refresh=3:refit=2",
    "survival:refresh=1:refit=1:anchor=decrement",
    "exact-match:refresh=2:refit=3",
    "learned:refresh=4:refit=8:trees=3",
)


def last_worker(state: DecodeState) -> list[int | None]:
    """Admit the youngest requests first, to the last worker with a free slot."""
    free = state.free_slots.tolist()
    answer: list[int | None] = [None] * state.num_waiting
    for i in reversed(range(state.num_waiting)):
        open_workers = [g for g, slots in enumerate(free) if slots > 0]
        if open_workers:
            answer[i] = open_workers[-1]
            free[open_workers[-1]] -= 1
    return answer


class Steps:
    """Keeps the views of all steps."""

    def __init__(self) -> None:
        self.views: list[StepView] = []

    def on_step(self, view: StepView) -> None:
        """Keep one view."""
        self.views.append(view)


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a workload, a machine and options of a run."""
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    keys = rng.integers(0, 5, n)
    workload = Workload(rng.integers(1, 40, n), rng.integers(1, 15, n), prompt_keys=keys)
    return {
        "workload": workload,
        "cluster": Cluster(
            workers=draw(st.integers(1, 4)),
            slots=draw(st.integers(1, 4)),
        ),
        "options": {
            "pool": draw(st.integers(1, 12)),
            "projection": draw(st.sampled_from(("constant", "growing"))),
            "window_knows": draw(st.sampled_from(("active", "all"))),
            "seed": draw(st.integers(0, 3)),
        },
    }


def replayed(run: Run, views: list[StepView], table: Decisions, outputs: Any) -> None:
    """Drive the table by the events of a run, and compare states and decisions."""
    prompts = run.prompt_tokens
    for step in range(run.steps):
        table.end_step() if step else None
        for row in run.interruptions[run.interruptions[:, 3] == step, 0].tolist():
            table.again(row)
        for row in np.flatnonzero(run.reveal_step == step).tolist():
            assert table.arrive(int(prompts[row]), int(outputs[row]), KEYS[row]) == row
        taken = table.decide()
        admitted = dict(pair for each in taken for pair in each.admitted)
        if views[step].state is not None:
            (only,) = taken
            same_state(only.state, views[step].state)
        if table.immediate:
            bound = np.flatnonzero(run.bound_step == step).tolist()
            assert admitted == {row: int(run.worker[row]) for row in bound}
            for row in np.flatnonzero(run.start_step == step).tolist():
                table.start(row)
        else:
            assert sorted(admitted) == sorted(views[step].admitted.tolist())
        assert np.array_equal(table.loads(), views[step].loads)
        for row in table.rows_of(RUNNING).tolist():
            table.emit(row, 1)
        for row in np.flatnonzero(run.finish_step == step).tolist():
            table.leave(row, finished=True)


KEYS: list[int] = []


def same_state(live: DecodeState, simulated: DecodeState | None) -> None:
    """Compare every field of two states."""
    for each in fields(DecodeState):
        mine, other = getattr(live, each.name), getattr(simulated, each.name)
        if each.name in ("endings", "rng", "holdings", "prefixes", "step_units"):
            continue
        assert np.array_equal(mine, other), each.name


def compare(case: dict[str, Any], policy: Any, **options: Any) -> None:
    """Run the simulator, then drive the table with its events."""
    workload, cluster = case["workload"], case["cluster"]
    asked = RunOptions(**case["options"], **options)
    keeper = Steps()
    run = simulate(
        workload, policy, cluster, options=asked, observers=[keeper], engine="reference"
    )
    predictor = None
    if asked.predictor not in ("none", "oracle"):
        predictor = predictors.build(str(asked.predictor), workload, asked.seed)
    KEYS[:] = workload.prompt_keys.tolist()
    table = Decisions(choose(policy), cluster, asked, rows=len(workload), predictor=predictor)
    replayed(run, keeper.views, table, workload.output_tokens)


#: Some requests end in their first step, before a learner trains again.
_SHORT: dict[str, Any] = {
    "workload": Workload(
        np.array([37, 5, 33, 28, 4, 27, 24, 24, 12, 21, 7, 26, 16]),
        np.array([9, 6, 10, 7, 1, 11, 7, 3, 13, 11, 5, 1, 7]),
        prompt_keys=np.array([4, 4, 0, 0, 3, 2, 3, 2, 4, 2, 1, 4, 3]),
    ),
    "cluster": Cluster(2, 2),
    "options": {"pool": 1, "projection": "constant", "window_knows": "active", "seed": 0},
}


@pytest.mark.parametrize("policy", [*POLICIES, last_worker])
@example(case=_SHORT, predictor="learned:refresh=4:refit=8:trees=3", memory=None, speeds=False)
@given(
    case=runs(),
    predictor=st.sampled_from(PREDICTORS),
    memory=st.none() | st.integers(55, 120),
    speeds=st.booleans(),
)
@settings(max_examples=settings().max_examples // 2)
def test_pooled_decisions_equal_the_simulators(
    policy: Any, case: Any, predictor: str, memory: int | None, speeds: bool
) -> None:
    """Every policy sees the same states and admits the same requests, with limited memory too."""
    speed = tuple(1.0 + g for g in range(case["cluster"].workers)) if speeds else 1.0
    case |= {"cluster": replace(case["cluster"], memory=memory, speed=speed)}
    compare(case, policy, predictor=predictor)


@pytest.mark.parametrize("policy", [p for p in POLICIES if not choose(p).spec.why_pooled])
@given(case=runs(), margin=st.none() | st.integers(0, 3), predictor=st.sampled_from(PREDICTORS))
@settings(max_examples=4)
def test_bound_requests_equal_the_simulators(
    policy: str, case: Any, margin: int | None, predictor: str
) -> None:
    """So it is with immediate dispatch, where at most B + M requests are on a worker."""
    compare(case, policy, dispatch="immediate", margin=margin, predictor=predictor)


@pytest.mark.parametrize("ties", ["rotating", "random"])
@given(case=runs())
def test_ties_equal_the_simulators(ties: str, case: Any) -> None:
    """Workers are permuted as in the simulator."""
    compare(case, "br-h", ties=ties, predictor="oracle")


def loaded() -> Decisions:
    """Return a table of 32 workers with 72 slots, 8 of them free, and 128 waiting requests."""
    rng, cluster = np.random.default_rng(0), Cluster(workers=32, slots=72)
    table = Decisions(
        choose("br-h:horizon=20"),
        cluster,
        RunOptions(predictor="oracle", projection=Projection.GROWING),
    )
    for row in range(32 * 72 - 8):
        assert table.arrive(int(rng.integers(1, 4000)), int(rng.integers(1, 1000))) == row
        table.worker[row] = row % 32
        table.start(row)
    for _ in range(128):
        table.arrive(int(rng.integers(1, 4000)), 100)
    return table


def test_a_decision_takes_milliseconds() -> None:
    """32 workers of 72 slots, 128 waiting, H = 20: far below a decode step."""
    times = []
    for _ in range(40):
        table = loaded()
        began = perf_counter()
        table.end_step()
        (taken,) = table.decide()
        times.append(perf_counter() - began)
        assert len(taken.admitted) == 8
    # A bound that only another complexity breaks, on any machine.
    assert median(times) < 0.1


@pytest.mark.parametrize(
    ("policy", "options", "what"),
    [
        ("pausing", {}, "pauses requests"),
        ("adaptive", {}, "assumes that requests"),
        ("br-0", {"drift": "constant"}, "grow by one token per step"),
        ("br-0", {"predictor": "noisy-oracle:0.5"}, "live requests are unknown in advance"),
    ],
)
def test_what_cannot_be_live_is_refused(policy: str, options: Any, what: str) -> None:
    """With the reason."""
    with pytest.raises(InputError, match=what):
        Decisions(choose(policy), Cluster(workers=2), RunOptions(**options))
