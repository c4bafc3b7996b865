"""Immediate dispatch: virtual loads, in-flight caps, and the program of arriving requests."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.replay import run_violations
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.testing.instances import decode_states
from formulations.errors import InputError
from tests.decode.cases import EXACT, build, workload
from tests.decode.machine.equality import assert_same_run


@pytest.mark.parametrize("policy", ["br-0", "br-h:horizon=0:beta=2"])
def test_hand_worked_virtual_loads(policy: str) -> None:
    """BalanceRoute, D.6 with F = s - 2·max(0, s - m): two workers of one slot, margin 1.

    r0 = 5: m = 0, 0, F = -5, -5: worker 0. r1 = 3 on virtual loads 5, 0: F = -3, 3: worker 1.
    r2 = 4 on 5, 3: F = -4, 0: worker 1. r3 = 2 on 5, 7: F = 2, -2: worker 0. Both caps of 2 are
    reached: r4 waits in the pool, and goes to worker 1 at step 1, where r1 has ended.
    """
    requests = workload([5, 3, 4, 2, 1], [2, 1, 1, 1, 1])
    run = simulate(requests, policy, EXACT, dispatch="immediate", margin=1)
    assert run.worker.tolist() == [0, 1, 1, 0, 1]
    assert run.bound_step.tolist() == [0, 0, 0, 0, 1]
    assert run.start_step.tolist() == [0, 0, 1, 2, 2]
    assert run.loads is not None
    assert run.loads.tolist() == [[5, 3], [6, 4], [2, 1]]
    assert run.waiting.tolist() == [3, 2, 0]
    assert run_violations(run, requests, EXACT) == {}
    assert_same_run(requests, policy, EXACT, dispatch="immediate", margin=1)


def test_a_larger_margin_binds_at_once() -> None:
    """The same five with room for three each: r4 = 1 on 7, 7 goes to the lower of equals."""
    requests = workload([5, 3, 4, 2, 1], [2, 1, 1, 1, 1])
    run = assert_same_run(requests, "br-0", EXACT, dispatch="immediate", margin=2)
    assert run.bound_step.tolist() == [0] * 5
    assert run.worker.tolist() == [0, 1, 1, 0, 0]


def bound_to(state: DecodeState) -> DecodeState:
    """Let a state be one of immediate dispatch, its queues of constant weight."""
    columns = state.projected_loads.shape[1]
    virtual = np.repeat(state.queued_tokens[:, None], columns, axis=1)
    return replace(state, binds=True, bound_loads=virtual)


def first_only(state: DecodeState) -> DecodeState:
    """Let only the oldest request wait."""
    one = slice(0, 1)
    return replace(
        state,
        sizes=state.sizes[one],
        ages=state.ages[one],
        contributions=state.contributions[one],
        needs=state.needs[one],
    )


@given(decode_states().filter(lambda s: s.num_waiting > 0 and s.free_slots.any()))
def test_br_0_raises_the_imbalance_least(s: DecodeState) -> None:
    """Against the definition: F is minus the change of the imbalance of virtual loads."""
    s = first_only(bound_to(s))
    loads = (s.loads + s.queued_tokens).tolist()

    def rank(worker: int) -> tuple[int, int, int, int]:
        after = loads.copy()
        after[worker] += int(s.sizes[0])
        imbalance = len(after) * max(after) - sum(after)
        return -imbalance, int(s.free_slots[worker]), -loads[worker], -worker

    best = max(np.flatnonzero(s.free_slots).tolist(), key=rank)
    assert build("br-0")(s) == [best]


@given(
    decode_states().filter(lambda s: s.num_waiting > 0 and s.free_slots.any()),
    st.sampled_from([("1/2", 1), ("1", 43), ("1", 2)]),
)
def test_br_h_has_the_highest_score(s: DecodeState, factors: tuple[str, int]) -> None:
    """Against equation 2: reward and overflow summed over the discounted window."""
    s = first_only(bound_to(s))
    gamma, beta = factors
    policy = build("br-h", horizon=3, gamma=gamma, beta=beta)
    (chosen,) = policy(s)
    assert chosen is not None
    assert s.bound_loads is not None
    columns = s.projected_loads.shape[1]
    loads = (s.projected_loads + s.bound_loads).astype(object)
    margins, added = loads.max(axis=0) - loads, s.contributions[0].astype(object)
    weights = np.array([8, 4, 2, 1] if gamma == "1/2" else [1] * 4, dtype=object)[:columns]
    scores = (added - beta * np.maximum(added - margins, 0)) @ weights
    assert scores[chosen] == max(scores[s.free_slots > 0])


@given(decode_states(max_workers=3, max_waiting=4).filter(lambda s: s.num_waiting > 0))
def test_bf_io_solves_the_program_of_those_that_arrive(s: DecodeState) -> None:
    """Against all assignments: imbalance of what is projected and bound, slots as caps."""
    s = bound_to(s)
    loads = s.loads + s.queued_tokens
    most = min(s.num_waiting, int(s.free_slots.sum()))

    def imbalance(answer: tuple[int, ...]) -> int | None:
        after, counts = loads.tolist(), [0] * s.num_workers
        for size, worker in zip(s.sizes.tolist(), answer, strict=True):
            if worker >= 0:
                after[worker] += size
                counts[worker] += 1
        if sum(counts) != most or any(np.array(counts) > s.free_slots):
            return None
        return int(len(after) * max(after) - sum(after))

    found = imbalance(tuple(-1 if w is None else w for w in build("bf-io")(s)))
    every = product(range(-1, s.num_workers), repeat=s.num_waiting)
    values = [value for answer in every if (value := imbalance(answer)) is not None]
    assert found == min(values)


def test_hand_worked_program_of_one_step() -> None:
    """Sizes 3, 3, 6 arrive together: 3 + 3 and 6, where one by one gives 3 + 6 and 3."""
    requests = workload([3, 3, 6], [1, 1, 2])
    together = simulate(requests, "bf-io", EXACT, dispatch="immediate")
    assert together.worker.tolist() in ([0, 0, 1], [1, 1, 0])
    assert together.bound_step.tolist() == [0] * 3
    assert together.start_step.tolist() == [0, 1, 0]
    one_by_one = simulate(requests, "jsq-tokens", EXACT, dispatch="immediate")
    assert one_by_one.worker.tolist() == [0, 1, 0]
    largest_first = simulate(requests, "max-min", EXACT, dispatch="immediate")
    assert largest_first.worker.tolist() == [1, 1, 0]


def test_throttled_leaves_those_in_the_pool_that_are_too_many() -> None:
    """Θ = 5 [tokens]: r0 = 5 and r1 = 5 fill both workers, r2 is bound when one has ended."""
    requests = workload([5, 5, 5], [2, 1, 1])
    run = simulate(requests, "throttled:cap_threshold=5", EXACT, dispatch="immediate")
    assert run.worker.tolist() == [0, 1, 1]
    assert run.bound_step.tolist() == [0, 0, 1]


def test_who_fits_no_open_worker_waits_and_holds_up_nobody() -> None:
    """r1 = 9 fits worker 0 only, which may be sent no more: r2 passes it."""
    cluster = Cluster(2, 1, memory=(20, 6), step_overhead_s=1.0, token_time_s=0.5)
    requests = workload([5, 9, 2], [2, 1, 1])
    run = assert_same_run(requests, "fcfs", cluster, dispatch="immediate", margin=0)
    assert run.worker.tolist() == [0, 0, 1]
    assert run.bound_step.tolist() == [0, 2, 0]
    assert run_violations(run, requests, cluster) == {}


def test_the_replay_sees_more_in_flight_than_allowed() -> None:
    """A run with margin 2 breaks the cap of margin 1: three on worker 0 for two steps."""
    requests = workload([5, 3, 4, 2, 1], [2, 1, 1, 1, 1])
    run = simulate(requests, "br-0", EXACT, dispatch="immediate", margin=2)
    tighter = replace(run, options=replace(run.options, margin=1))
    assert run_violations(tighter, requests, EXACT) == {"in-flight": 2}
    early = replace(run, bound_step=run.bound_step - 1)
    assert "bound" in run_violations(early, requests, EXACT)


DELAYED = workload([5, 3, 4, 1], [5, 1, 1, 1])


def test_hand_worked_delay() -> None:
    """A decision takes effect two steps later, and holds its slot meanwhile.

    Nothing runs before step 0, so that r0 and r1 start at once. r1 has ended at step 1: r2 is sent
    to worker 1 and starts at step 3; r3 finds no slot before step 4, and starts at step 5 instead
    of 6, since nothing runs any more.
    """
    run = simulate(DELAYED, "fcfs", EXACT, delay=2)
    assert run.bound_step.tolist() == [0, 0, 1, 4]
    assert run.start_step.tolist() == [0, 0, 3, 5]
    assert run.loads is not None
    assert run.loads.tolist() == [[5, 3], [6, 0], [7, 0], [8, 4], [9, 0], [0, 1]]
    assert run_violations(run, DELAYED, EXACT) == {}
    late = replace(run, options=replace(run.options, delay=1))
    assert run_violations(late, DELAYED, EXACT) == {"bound": 1}
    early = replace(run, options=replace(run.options, delay=3))
    assert run_violations(early, DELAYED, EXACT) == {"bound": 1}


def test_a_worker_that_fails_sends_back_who_is_on_the_way() -> None:
    """r2, sent to worker 1 at step 1 [3.5 s], waits again as that fails; worker 0 is free at 5."""
    events = ((5.0, 1, "fail"), (500.0, 1, "recover"))
    run = simulate(DELAYED, "fcfs", EXACT, delay=2, failures=events)
    assert run.worker.tolist() == [0, 1, 0, 0]
    assert run.start_step.tolist() == [0, 0, 5, 6]
    assert run_violations(run, DELAYED, EXACT) == {}


def test_who_finds_its_memory_gone_waits_again() -> None:
    """Memory 8 [tokens]: r1 = 3 fits beside r0 = 4 when it is sent, and not two steps later."""
    cluster = Cluster(1, 2, memory=8, step_overhead_s=1.0, token_time_s=0.5)
    requests = workload([4, 3], [4, 1], ["0", "2"])
    run = simulate(requests, "fcfs", cluster, delay=2, arrivals="timed")
    assert run.bound_step.tolist() == [0, 4]
    assert run.start_step.tolist() == [0, 4]
    assert run_violations(run, requests, cluster) == {}


@pytest.mark.parametrize("policy", ["br-0", "br-h", "jsq", "jsq-tokens"])
def test_policies_count_who_is_on_the_way(policy: str) -> None:
    """Two equal requests that arrive at two steps go to two workers: the first is seen coming."""
    cluster = Cluster(3, 2, step_overhead_s=1.0, token_time_s=0.5)
    requests = workload([9, 6, 6], [9, 3, 3], ["0", "1", "6"])
    run = simulate(requests, policy, cluster, delay=3, arrivals="timed", engine="reference")
    assert sorted(run.worker.tolist()) == [0, 1, 2]
    assert run_violations(run, requests, cluster) == {}


def test_adaptive_refuses_delay() -> None:
    """Its books are of requests that start when it says so."""
    with pytest.raises(InputError, match="start at once, but with a delay they start later"):
        simulate(DELAYED, "adaptive", EXACT, delay=1)


def test_only_immediate_dispatch_has_a_margin() -> None:
    """One line that says so; nothing above the largest either."""
    with pytest.raises(InputError, match="margin: changes nothing without dispatch=immediate"):
        simulate(workload([1], [1]), "jsq", EXACT, margin=1)
    with pytest.raises(InputError, match="margin"):
        simulate(workload([1], [1]), "jsq", EXACT, dispatch="immediate", margin=-1)
