"""Each compiled baseline makes the same decisions as the readable policy, at every step."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.machine.moves import new_start_order, put_in_order, take_from_order
from bfio.decode.policy import binds_together
from bfio.decode.policy_registry import find
from bfio.decode.replay import run_violations
from bfio.testing.runs import Scenario
from bfio.workloads.workload import Workload
from tests.decode.cases import compiled_scenarios, workload
from tests.decode.machine.equality import GREEDY, assert_same_run
from tests.pairs import pairs


def lengths(num_requests: int, seed: int) -> Workload:
    """Lognormal prompts, geometric outputs, arrivals a tenth of a second apart on average."""
    rng = np.random.default_rng(seed)
    gaps = rng.integers(0, 200, size=num_requests)
    times = tuple(Fraction(int(t), 1000) for t in np.cumsum(gaps))
    prompts = np.maximum(1, rng.lognormal(4.0, 1.0, num_requests)).astype(np.int64)
    return Workload(prompts, rng.geometric(1 / 40, num_requests).astype(np.int64), times)


@st.composite
def policy_options(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the options that baselines read."""
    return dict(
        choices=draw(st.integers(1, 6)),
        cap_threshold=draw(st.none() | st.integers(1, 60) | st.just(10**12)),
        report_every=draw(st.none() | st.integers(1, 9)),
        timeout_steps=draw(st.integers(0, 9) | st.just(50)),
        batching_steps=draw(st.integers(0, 4) | st.just(10)),
        max_load_skew=draw(
            st.none() | st.sampled_from([Fraction(0), Fraction(1), Fraction(5, 3)])
        ),
        key_blocks=draw(st.integers(1, 3)),
        virtual_nodes=draw(st.integers(1, 4)),
    )


def supported(scenario: Scenario, name: str) -> dict[str, Any]:
    """Return the options of a scenario, with pooled dispatch where no other is compiled."""
    if is_compiled_for_queues(name):
        return scenario.options
    return scenario.options | {"dispatch": "pooled", "margin": None}


def is_compiled_for_queues(name: str) -> bool:
    """Whether runs with immediate dispatch are compiled: not of policies asked about many."""
    spec = find(name)
    return len(spec.dispatch) == 2 and not binds_together(spec.factory(spec.options))


def assert_same_in(scenario: Scenario, name: str, options: dict[str, Any], keep: bool) -> None:
    """Assert that both engines give the same run, with a dispatch that the policy knows."""
    run_options = supported(scenario, name)
    assert_same_run(
        scenario.workload, name, scenario.cluster, options, keep_trajectory=keep, **run_options
    )


@given(
    compiled_scenarios(),
    st.sampled_from(GREEDY),
    policy_options(),
    st.booleans(),
)
def test_every_decision_is_the_same(
    scenario: Scenario, name: str, options: dict[str, Any], keep: bool
) -> None:
    """Any baseline on any small machine with any options gives the reference run, bit by bit."""
    assert_same_in(scenario, name, options, keep)


@pytest.mark.deep
@pytest.mark.parametrize("name", GREEDY)
@given(compiled_scenarios(), policy_options())
def test_thousands_of_runs_of_each_are_the_same(
    name: str, scenario: Scenario, options: dict[str, Any]
) -> None:
    """As above, with the whole budget of examples for each baseline."""
    assert_same_in(scenario, name, options, keep=True)


@pytest.mark.parametrize(("name", "arrivals"), pairs(GREEDY, ("pool", "timed"), each=1))
def test_a_longer_run_is_the_same(name: str, arrivals: str) -> None:
    """120 requests on 7 workers: the same run, and the replay finds nothing wrong with it."""
    requests, cluster = lengths(120, seed=3), Cluster(workers=7, slots=9, mean_time_s=1e-8)
    pool: dict[str, Any] = {"pool": 25} if arrivals == "pool" else {}
    run = assert_same_run(requests, name, cluster, arrivals=arrivals, seed=11, **pool)
    assert run_violations(run, requests, cluster) == {}
    assert run.is_drained


@pytest.mark.parametrize("name", [n for n in GREEDY if is_compiled_for_queues(n)])
def test_a_longer_run_with_queues_is_the_same(name: str) -> None:
    """The same with immediate dispatch: every worker has a queue of its own."""
    requests, cluster = lengths(120, seed=4), Cluster(workers=5, slots=6)
    run = assert_same_run(
        requests,
        name,
        cluster,
        dict(choices=3),
        pool=40,
        dispatch="immediate",
        seed=2**63 - 1,
    )
    assert run_violations(run, requests, cluster) == {}


def test_hand_traced_ties() -> None:
    """Equal sizes go in order of age, equal workers in order of index.

    Two workers of one slot, sizes 5, 7, 5, 7, outputs 1. `min-min` starts requests 0 and 2 (the
    two of size 5) on workers 0 and 1, then 1 and 3; `max-min` the sizes 7 first; `longest-first`
    takes the two oldest, 7 before 5.
    """
    requests, cluster = workload([5, 7, 5, 7], [1, 1, 1, 1]), Cluster(workers=2, slots=1)
    expected = {
        "min-min": ([0, 1, 0, 1], [0, 0, 1, 1]),
        "max-min": ([1, 0, 1, 0], [0, 0, 1, 1]),
        "longest-first": ([0, 0, 1, 1], [1, 0, 1, 0]),
        "fcfs": ([0, 0, 1, 1], [0, 1, 0, 1]),
    }
    for name, (starts, workers) in expected.items():
        run = assert_same_run(requests, name, cluster)
        assert (run.start_step.tolist(), run.worker.tolist()) == (starts, workers)


@pytest.mark.parametrize("choices", [1, 2, 3, 7, 59, 60, 61, 1000])
def test_samples_draw_from_the_generator_as_numpy_does(choices: int) -> None:
    """`power-of-2` with any d on 60 workers: the stream of random numbers never drifts apart."""
    assert_same_run(
        lengths(400, seed=5),
        "power-of-2",
        Cluster(workers=60, slots=3),
        dict(choices=choices),
    )


def test_throttled_leaves_slots_idle() -> None:
    """A threshold below every prompt: one request at a time, and the run ends."""
    run = assert_same_run(
        workload([9, 9, 9], [2, 1, 1]),
        "throttled",
        Cluster(workers=1, slots=2),
        dict(cap_threshold=1),
    )
    # 0 tokens are under 1, 9 are not: only the idle worker admits, one request at a time.
    assert run.active.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("delay", [1, 4])
def test_the_share_of_throttled_counts_those_on_their_way(delay: int) -> None:
    """Their slots are held and their tokens are to come, compiled as interpreted."""
    run = assert_same_run(
        lengths(60, seed=delay), "throttled", Cluster(workers=3, slots=4), pool=20, delay=delay
    )
    assert run.completed == 60


@pytest.mark.parametrize("name", ["min-min", "max-min", "longest-first"])
def test_delayed_decisions_take_effect_in_order_of_arrival(name: str) -> None:
    """Served by size, and where memory is gone by then it matters whose turn comes first."""
    requests = workload([10, 8, 21, 10, 10, 21, 28, 28, 13, 8], [7, 2, 6, 3, 10, 3, 7, 3, 11, 11])
    assert_same_run(requests, name, Cluster(2, 4, memory=50), delay=1, pool=9)
    assert_same_run(requests, name, Cluster(2, 4), delay=1, pool=9)


@given(compiled_scenarios(), st.sampled_from(["min-min", "max-min", "longest-first"]))
def test_delayed_decisions_by_size_are_the_same_where_memory_is_limited(
    scenario: Scenario, name: str
) -> None:
    """With room for the largest request and little more, so that some find it gone."""
    work = scenario.workload
    if len(work) == 0:
        return
    peak = int((work.prompt_tokens + work.output_tokens).max())
    cluster = Cluster(2, 3, memory=(peak + 5, 2 * peak))
    for delay, overflow in ((1, "recompute"), (3, "swap"), (2, "reserve")):
        given_options: dict[str, Any] = {"delay": delay, "overflow": overflow, "pool": 7}
        assert_same_run(
            Workload(work.prompt_tokens, work.output_tokens), name, cluster, **given_options
        )


@given(
    moves=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 3), st.booleans()),
        max_size=40,
    )
)
def test_it_is_a_sorted_list(moves: list[tuple[int, int, int, bool]]) -> None:
    """Whoever comes, leaves, or comes back with the start it had, the youngest stands first."""
    order, start = new_start_order(3, 8, is_on=True), np.full(8, -1)
    runs: dict[int, int] = {}
    for request, worker, passed, keeps in moves:
        if request in runs:
            take_from_order(order, request, runs.pop(request))
        else:
            if not keeps or start[request] < 0:
                start[request] = start.max() + passed if start.max() >= 0 else passed
            put_in_order(order, start, request, worker)
            runs[request] = worker
        for g in range(3):
            found, who = [], int(order.youngest[g])
            while who >= 0:
                found.append(who)
                who = int(order.older[who])
            mine = [r for r, on in runs.items() if on == g]
            assert found == sorted(mine, key=lambda r: (-start[r], -r))


def test_nothing_is_kept_where_memory_does_not_overflow() -> None:
    """Long runs of many requests would feel the arrays."""
    order = new_start_order(3, 10**6, is_on=False)
    assert len(order.older) == len(order.younger) == 0
