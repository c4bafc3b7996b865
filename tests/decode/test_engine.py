"""Hand traces, limits, misbehaving policies and options of the engine."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.observers import ProgressObserver, StepView, TrajectoryObserver
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.prediction.predictors.oracles import NoPredictor
from bfio.testing.runs import Scenario, scenarios
from bfio.workloads import synthetic
from formulations.arrays import IntArray
from formulations.errors import InputError
from tests.decode.cases import EXACT, build, first_come, nobody, workload

NAN = float("nan")
HAND = workload([3, 1, 4], [2, 3, 1])


def to_worker_0(state: DecodeState) -> list[int | None]:
    """Bind every request to worker 0."""
    return [0] * state.num_waiting


def test_hand_trace() -> None:
    """Three requests on two workers of one slot; step time 1 + max load / 2.

    Step 0: r0 -> w0, r1 -> w1: loads 3, 1, lasts 2.5 s, r2 waits.
    Step 1: loads 4, 2, lasts 3 s; r0 has its 2 tokens and leaves.
    Step 2: r2 -> w0: loads 4, 3, lasts 3 s; both leave.
    """
    run = simulate(HAND, first_come, EXACT)
    assert run.loads is not None
    assert run.running is not None
    assert run.loads.tolist() == [[3, 1], [4, 2], [4, 3]]
    assert run.running.tolist() == [[1, 1], [1, 1], [1, 1]]
    assert run.duration_s.tolist() == [2.5, 3.0, 3.0]
    assert run.start_s.tolist() == [0.0, 2.5, 5.5]
    assert run.waiting.tolist() == [1, 1, 0]
    assert run.admitted.tolist() == [2, 0, 1]
    assert run.start_step.tolist() == [0, 0, 2]
    assert run.finish_step.tolist() == [1, 2, 2]
    assert run.worker.tolist() == [0, 1, 0]
    assert (run.completed, run.partial, run.tokens) == (3, 0, 6)
    assert run.policy == "first_come"


def test_step_limit_keeps_partial_requests() -> None:
    """After one step nothing is complete and r2 has no record of a start."""
    run = simulate(HAND, first_come, EXACT, steps=1)
    assert (run.steps, run.completed, run.partial, run.tokens) == (1, 0, 2, 2)
    assert run.finish_step.tolist() == [-1, -1, -1]
    assert run.start_step.tolist() == [0, 0, -1]
    assert run.reveal_step.tolist() == [0, 0, 0]
    assert not run.is_drained


@pytest.mark.parametrize(("pool", "revealed"), [(1, [0, 1, 2]), (2, [0, 0, 1]), (3, [0, 0, 0])])
def test_pool_reveals_up_to_its_target(pool: int, revealed: list[int]) -> None:
    """The pool is filled to R before each step, in trace order.

    One worker, one slot, one token each, so that one request leaves per step. R = 1: r1 is
    revealed when r0 has left the pool, at step 1, and so on. R = 2: r0 and r1 at step 0, r2 when
    r0 has started.
    """
    cluster = Cluster(workers=1, slots=1)
    run = simulate(workload([1, 1, 1], [1, 1, 1]), first_come, cluster, pool=pool)
    assert run.reveal_step.tolist() == revealed


def test_timed_arrivals_jump_over_idle_time() -> None:
    """One slot, steps of 1 s, arrivals at 0.5, 0.75 and 10 s.

    Idle 0.5 s; r0 runs 0.5-2.5 (two steps), r1 is revealed at 1.5 and runs 2.5-3.5; idle 6.5 s;
    r2 runs 10-11.
    """
    cluster = Cluster(workers=1, slots=1, step_overhead_s=1.0, token_time_s=0.0)
    load = workload([5, 5, 5], [2, 1, 1], ["0.5", "0.75", "10"])
    run = simulate(load, first_come, cluster, arrivals="timed")
    assert run.start_s.tolist() == [0.5, 1.5, 2.5, 10.0]
    assert run.idle_before_s.tolist() == [0.5, 0.0, 0.0, 6.5]
    assert run.reveal_step.tolist() == [0, 1, 3]
    assert run.reveal_s.tolist() == [0.5, 1.5, 10.0]
    # At twice the rate the arrivals are 0.25, 0.375 and 5 s: steps at 0.25, 1.25, 2.25, 5.
    fast = simulate(load, first_come, cluster, arrivals="timed", rate_scale=2)
    assert fast.start_s.tolist() == [0.25, 1.25, 2.25, 5.0]
    assert fast.idle_before_s.tolist() == [0.25, 0.0, 0.0, 1.75]


def test_arrival_at_the_very_start_of_a_step_is_revealed() -> None:
    """The comparison is arrival <= clock: r1 arrives at 1 s, when step 1 starts."""
    cluster = Cluster(workers=1, slots=2, step_overhead_s=1.0, token_time_s=0.0)
    load = workload([5, 5], [2, 1], ["0", "1"])
    run = simulate(load, first_come, cluster, arrivals="timed")
    assert run.start_step.tolist() == [0, 1]


def test_rates_are_divided_before_rounding() -> None:
    """0.3 s at rate 3 is the float nearest 1/10, which 0.3/3.0 in floats is not."""
    load = workload([5], [1], ["0.3"])
    run = simulate(load, first_come, EXACT, arrivals="timed", rate_scale=Fraction(3))
    assert run.start_s[0] == 0.1 != 0.3 / 3


def test_waiting_for_more_arrivals_is_allowed_while_some_come() -> None:
    """A policy that wants two requests at once waits idle for the second, after two jumps."""

    def in_pairs(state: DecodeState) -> list[int | None]:
        return first_come(state) if state.num_waiting == 2 else nobody(state)

    load = workload([5, 5], [1, 1], ["1", "4"])
    run = simulate(load, in_pairs, EXACT, arrivals="timed")
    assert run.start_s.tolist() == [4.0]
    assert run.idle_before_s.tolist() == [4.0]
    assert run.reveal_s.tolist() == [1.0, 4.0]
    assert run.reveal_step.tolist() == [0, 0]


@pytest.mark.parametrize("arrivals", ["pool", "timed"])
def test_refusing_for_ever_is_an_error(arrivals: str) -> None:
    """Nothing runs, nothing can arrive, nothing was admitted: stalled, not a hang."""
    load = workload([5, 5], [1, 1], ["0", "4"])
    with pytest.raises(InputError, match=r"policy nobody, step 0: stalled.* 2 requests wait"):
        simulate(load, nobody, EXACT, arrivals=arrivals)


@given(prompt=st.integers(1, 10**12), output=st.integers(1, 200), delta=st.integers(0, 3))
def test_one_slot_has_a_closed_form(prompt: int, output: int, delta: int) -> None:
    """G = B = 1: step j has load s + δ(j-1), and the work is o·s + δ·o(o-1)/2."""
    cluster = Cluster(workers=1, slots=1)
    run = simulate(workload([prompt], [output]), first_come, cluster, drift=Drift((delta,)))
    assert run.total_load.tolist() == [prompt + delta * j for j in range(output)]
    assert sum(run.total_load.tolist()) == output * prompt + delta * output * (output - 1) // 2
    assert run.max_load.tolist() == run.min_load.tolist() == run.total_load.tolist()


@given(
    prompt=st.integers(1, 1000),
    output=st.integers(1, 9),
    workers=st.integers(1, 4),
    slots=st.integers(1, 4),
    rounds=st.integers(1, 4),
)
def test_homogeneous_requests_run_in_full_rounds(
    prompt: int, output: int, workers: int, slots: int, rounds: int
) -> None:
    """Equal requests fill all slots in rounds of o steps; at step j every load is B(s + j)."""
    n = workers * slots * rounds
    cluster = Cluster(workers=workers, slots=slots)
    run = simulate(workload([prompt] * n, [output] * n), first_come, cluster, pool=n)
    expected = [slots * (prompt + j) for j in range(output)] * rounds
    assert run.max_load.tolist() == run.min_load.tolist() == expected
    assert run.active.tolist() == [workers * slots] * (output * rounds)


def test_global_step_drift_differs_from_age_drift() -> None:
    """Increments 1, 0 repeated; r1 starts at step 1.

    One slot, outputs 1 then 3, prompts 10. By age r1 has 10, 11, 11; by global step the increment
    after step 1 is δ_1 = 0 and after step 2 is δ_2 = 1: 10, 10, 11.
    """
    cluster = Cluster(workers=1, slots=1)
    load = workload([10, 10], [1, 3])
    age = simulate(load, first_come, cluster, drift=Drift((1, 0)))
    step = simulate(load, first_come, cluster, drift=Drift((1, 0), DriftReading.GLOBAL_STEP))
    assert age.total_load.tolist() == [10, 10, 11, 11]
    assert step.total_load.tolist() == [10, 10, 10, 11]


def test_no_requests_give_a_run_without_steps() -> None:
    """An empty workload is drained at once."""
    run = simulate(workload([], []), first_come, EXACT)
    assert (run.steps, run.completed, run.tokens) == (0, 0, 0)
    assert run.is_drained
    assert run.loads is not None
    assert run.loads.shape == (0, 2)
    assert run.steady_mask() is None


def test_immediate_dispatch_queues_at_the_chosen_worker() -> None:
    """All bound to worker 0 with one slot: they run one after another, worker 1 stays empty.

    Outputs 2, 3, 1: starts at steps 0, 2, 5; six steps. Pooled, two run at once.
    """
    run = simulate(HAND, to_worker_0, EXACT, dispatch="immediate")
    assert run.start_step.tolist() == [0, 2, 5]
    assert run.waiting.tolist() == [2, 2, 1, 1, 1, 0]
    assert run.min_load.tolist() == [0] * 6
    assert run.worker.tolist() == [0, 0, 0]


def test_immediate_dispatch_shows_queues_and_any_worker() -> None:
    """At step 0 the second request sees the first one queued, and every worker open."""
    seen: list[DecodeState] = []

    def watcher(state: DecodeState) -> list[int | None]:
        seen.append(state)
        return [1]

    simulate(HAND, watcher, EXACT, dispatch="immediate")
    assert [s.queued.tolist() for s in seen] == [[0, 0], [0, 1], [0, 2]]
    assert [s.queued_tokens.tolist() for s in seen] == [[0, 0], [0, 3], [0, 4]]
    assert all(s.free_slots.tolist() == [1, 1] and s.num_waiting == 1 for s in seen)


def test_ages_count_steps_since_the_reveal() -> None:
    """r2 of the hand trace waits from step 0 to its start at step 2; it is asked about twice."""
    ages = []

    def watcher(state: DecodeState) -> list[int | None]:
        ages.append(state.ages.tolist())
        return first_come(state)

    simulate(HAND, watcher, EXACT)
    assert ages == [[0, 0, 0], [2]]


BAD_ANSWERS: list[tuple[Any, str]] = [
    (None, r"policy bad, step 0: returned None"),
    (7, r"returned 7"),
    ("01", r"returned '01'"),
    ({0: 1}, r"returned \{0: 1\}"),
    ([0], r"step 0: returned 1 entry for 3 waiting"),
    ([0, 1, None, None], r"returned 4 entries for 3 waiting"),
    ([0, 0, None], r"step 0, request 1: worker 0 has no free slot left"),
    ([0, 2, None], r"request 1: there is no worker 2; use 0..1"),
    ([None, None, -1], r"request 2: there is no worker -1"),
    ([True, None, None], r"request 0: True is not a worker"),
    ([0.0, None, None], r"request 0: 0.0 is not a worker"),
    (["0", None, None], r"request 0: '0' is not a worker"),
    ([[0], None, None], r"request 0: \[0\] is not a worker"),
    (np.array([0.0, 1.0, 1.0]), r"request 0: 0.0 is not a worker"),
    ([0, 10**30, None], r"there is no worker 10000"),
]


@pytest.mark.parametrize(("answer", "message"), BAD_ANSWERS)
def test_bad_answers_are_named(answer: Any, message: str) -> None:
    """Every malformed decision ends in an error with policy, step and index."""

    def bad(state: DecodeState) -> Any:
        return answer

    with pytest.raises(InputError, match=message):
        simulate(HAND, bad, EXACT)


def test_none_in_immediate_dispatch_is_an_error() -> None:
    """A request must be bound when it is revealed."""
    with pytest.raises(InputError, match="returned None in immediate dispatch"):
        simulate(HAND, nobody, EXACT, dispatch="immediate")


@pytest.mark.parametrize("kind", [tuple, np.array, lambda a: [np.int32(w) for w in a]])
def test_other_sequences_are_answers_too(kind: Any) -> None:
    """A tuple, an integer array and numpy integers are accepted."""
    load = workload([3, 1], [2, 3])
    run = simulate(load, lambda state: kind([1, 0]), EXACT)
    assert run.worker.tolist() == [1, 0]


@given(scenario=scenarios())
def test_a_policy_cannot_corrupt_the_run(scenario: Scenario) -> None:
    """Even a policy that lifts the write protection changes only its own copies."""

    def vandal(state: DecodeState) -> list[int | None]:
        answer = first_come(state)
        for name in ("loads", "free_slots", "running", "sizes", "ages", "contributions"):
            array = getattr(state, name)
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 1
            array.flags.writeable = True
            array[...] = 0
        return answer

    run, honest = scenario.simulate(vandal), scenario.simulate(first_come)
    assert np.array_equal(run.total_load, honest.total_load)
    assert np.array_equal(run.worker, honest.worker)


@given(scenario=scenarios())
def test_same_seed_same_trajectory(scenario: Scenario) -> None:
    """A random policy draws from the run's generator alone."""
    policy = scenario.erratic_policy()
    first, second = scenario.simulate(policy), scenario.simulate(policy)
    for name in ("worker", "start_step", "max_load", "duration_s"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


def test_other_seed_other_trajectory() -> None:
    """The seed reaches the policy: 64 coin flips differ between two seeds."""

    def coin(state: DecodeState) -> list[int | None]:
        return [int(w) for w in state.rng.integers(2, size=state.num_waiting)]

    load, cluster = workload([1] * 64, [1] * 64), Cluster(workers=2, slots=64)
    runs = [simulate(load, coin, cluster, seed=seed) for seed in (0, 1)]
    assert runs[0].worker.tolist() != runs[1].worker.tolist()


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"arrivals": "stream"}, "arrivals: 'stream' is unknown; use one of pool, timed"),
    ({"dispatch": "late"}, "dispatch: 'late' is unknown"),
    ({"projection": "flat"}, "projection: 'flat' is unknown"),
    ({"predictor": "oracel"}, "predictor: 'oracel' is unknown; did you mean oracle"),
    ({"pool": 0}, "pool: 0 is out of range"),
    ({"horizon": -1}, "horizon: -1 is out of range"),
    ({"horizon": 2.0}, "horizon: expected an integer"),
    ({"steps": -1}, "steps: -1"),
    ({"seed": -1}, "seed: -1"),
    ({"rate_scale": 2}, "rate_scale: changes nothing without arrivals=timed"),
    ({"rate_scale": 0, "arrivals": "timed"}, "rate_scale: 0 is out of range"),
    ({"rate_scale": NAN, "arrivals": "timed"}, "rate_scale: nan is not a number"),
    ({"rate_scale": float("inf"), "arrivals": "timed"}, "rate_scale: inf is not a number"),
    ({"rate_scale": "fast", "arrivals": "timed"}, "rate_scale: 'fast' is not a number"),
    ({"arrivals": "timed"}, "no arrival times"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    """Each option out of its domain is an error that names it."""
    with pytest.raises(InputError, match=message):
        simulate(HAND, first_come, EXACT, **options)


def test_loads_that_would_overflow_are_refused() -> None:
    """A request of up to 1e12 + 1e6·1e12 tokens: four fit below 2^62 = 4.6e18, five do not."""
    load, drift = workload([10**12], [10**12]), Drift((10**6,))
    four, five = Cluster(workers=4, slots=1), Cluster(workers=5, slots=1)
    assert simulate(load, first_come, four, drift=drift, steps=1).steps == 1
    with pytest.raises(InputError, match="5 slots of up to 1000001000000000000 tokens overflow"):
        simulate(load, first_come, five, drift=drift, steps=1)


class Ahead:
    """First come first served with a name, a horizon and statistics of its own."""

    name = "ahead"
    horizon = 3

    def __init__(self) -> None:
        self.widths: list[int] = []

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Note how far the state looks ahead."""
        self.widths.append(state.contributions.shape[1])
        return first_come(state)

    def statistics(self) -> dict[str, object]:
        """Say how often it was asked."""
        return {"asked": len(self.widths)}


@pytest.mark.parametrize(("horizon", "width"), [(0, 4), (2, 4), (5, 6)])
def test_policy_attributes_reach_the_run(horizon: int, width: int) -> None:
    """The longer of the two horizons is used; name and statistics are recorded."""
    policy = Ahead()
    run = simulate(HAND, policy, EXACT, horizon=horizon)
    assert set(policy.widths) == {width}
    assert run.policy_options == {"horizon": width - 1}
    assert run.policy == "ahead"
    assert run.statistics == {"asked": 2}
    assert 0.0 <= run.decide_s <= run.wall_s


def test_predictor_learns_when_requests_finish() -> None:
    """A predictor object is told of each finished request, in the order of the steps."""

    class Listener(NoPredictor):
        heard: list[tuple[int, int]]

        def finished(self, requests: IntArray, outputs: IntArray) -> None:
            self.heard += zip(requests.tolist(), outputs.tolist(), strict=True)

    listener = Listener()
    listener.heard = []
    simulate(HAND, first_come, EXACT, predictor=listener)
    assert listener.heard == [(0, 2), (1, 3), (2, 1)]


def test_an_error_of_a_policy_that_learns_names_its_line() -> None:
    """As an error of its decisions does."""

    class Learner:
        def __call__(self, state: DecodeState) -> Any:
            return first_come(state)

        def finished(self, requests: IntArray) -> None:
            """Take too few arguments."""

    with pytest.raises(InputError, match=r"policy Learner: finished: raised TypeError.*correct"):
        simulate(HAND, Learner(), EXACT)


def test_observers_see_each_step() -> None:
    """Observers get the same numbers as the record, with the decision where there was one."""
    views: list[StepView] = []

    class Watch:
        def on_step(self, view: StepView) -> None:
            views.append(view)

    trajectory, reports = TrajectoryObserver(), list[int]()
    progress = ProgressObserver(lambda view: reports.append(view.completed), every=2)
    run = simulate(
        HAND, first_come, EXACT, observers=(Watch(), trajectory, progress), keep_trajectory=False
    )
    assert run.loads is None
    assert run.running is None
    assert trajectory.loads(2).tolist() == [[3, 1], [4, 2], [4, 3]]
    assert trajectory.running(2).tolist() == [[1, 1]] * 3
    assert reports == [1]
    assert [v.decision for v in views] == [(0, 1, None), None, (0,)]
    assert [v.finished.tolist() for v in views] == [[], [0], [1, 2]]
    assert [v.admitted.tolist() for v in views] == [[0, 1], [], [2]]
    assert [v.state is None for v in views] == [False, True, False]
    with pytest.raises(ValueError, match="read-only"):
        views[0].loads[0] = 9


def test_steady_starts_when_every_slot_is_full() -> None:
    """One request more than the hand trace, shown at step 1: full and waiting at steps 0 and 1."""
    requests = workload([3, 1, 4, 2], [2, 3, 1, 1])
    steady = simulate(requests, first_come, EXACT, pool=3).steady_mask()
    assert steady is not None
    assert steady.tolist() == [True, True, False, False]


def test_steady_keeps_later_steps_that_are_not_full() -> None:
    """Once steady, a step with waiting requests counts even if a slot stays empty.

    Both slots start with r0 and r1; from then on the policy admits only into an empty cluster.
    r0 leaves after step 0, r1 after step 1: step 1 is not full, r2 waits: steady. It also reveals
    the last request.
    """

    def only_when_empty(state: DecodeState) -> list[int | None]:
        return nobody(state) if state.running.any() else first_come(state)

    requests = workload([1] * 5, [1, 2, 1, 1, 1])
    run = simulate(requests, only_when_empty, EXACT, pool=3)
    steady = run.steady_mask()
    assert run.active.tolist() == [2, 1, 2, 1]
    assert steady is not None
    assert steady.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    "policy",
    [pytest.param(first_come, id="pool-empty"), pytest.param(to_worker_0, id="never-full")],
)
def test_no_steady_part(policy: Any) -> None:
    """Full slots and waiting requests must come together for a steady part."""
    if policy is first_come:
        run = simulate(workload([1, 1], [1, 1]), policy, EXACT)
        assert run.active.tolist() == [2]
    else:
        run = simulate(HAND, policy, EXACT, dispatch="immediate")
        assert run.waiting[0] == 2
    assert run.steady_mask() is None


def test_a_random_policy_does_not_know_the_requests() -> None:
    """Workload and run of one seed draw from different streams: prompts and workers do not mix."""
    requests = synthetic("geometric", 2000, seed=0)
    run = simulate(requests, build("random"), Cluster(16, 8), dispatch="immediate", seed=0)
    correlation = np.corrcoef(requests.prompt_tokens, run.worker)[0, 1]
    # The standard error of 2,000 independent pairs is 0.022.
    assert abs(correlation) < 0.1
