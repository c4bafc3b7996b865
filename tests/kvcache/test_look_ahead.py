"""Algorithms 1 and 2 (MC-SF) and MC-Benchmark."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.kvcache.policy import CacheState, LookAhead, Scan, Waiting, fits, memory_after
from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem, latency_problems
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem, violations
from tests.kvcache import oracles


def starts(data: LatencyProblem, algorithm: str) -> list[int]:
    """Return the start rounds of an algorithm."""
    found: list[int] = serve(data, algorithm).start.tolist()
    return found


@pytest.mark.parametrize(
    ("convention", "memory", "outputs", "expected", "total"),
    [
        ("A", 4, (1, 1, 2, 2), [0, 0, 2, 4], 12),
        ("B", 4, (2, 2, 3, 3), [0, 0, 2, 4], 16),
        ("C", 5, (1, 1, 3, 3), [0, 0, 1, 4], 13),
    ],
)
def test_counterexamples_to_theorem_4_2(
    convention: str, memory: int, outputs: tuple[int, ...], expected: list[int], total: int
) -> None:
    """Algorithm 1 on the smallest instances on which it is not optimal: one round too many."""
    data = latency_problem(memory, [(0, 1, o) for o in outputs], Convention(convention))
    run = serve(data, "semi-online")
    assert (run.start.tolist(), run.total_latency) == (expected, total)
    assert oracles.optimum(data) == total - 1


def test_a_request_that_fits_only_later() -> None:
    """C, M = 6, s = 1: the second request waits for the round in which it fits.

    Alone the first holds 2, 3, 4, 5 tokens in rounds 1..4. Started at p, the second holds 2, 3 in
    p+1, p+2: at p = 1 that makes 3 + 2, then 4 + 3 > 6; at p = 2: 4 + 2, then 5 + 3 > 6; at p = 3:
    5 + 2 > 6; at p = 4 the first is gone.
    """
    assert starts(latency_problem(6, [(0, 1, 4), (1, 1, 2)]), "mc-sf") == [0, 4]
    assert starts(latency_problem(7, [(0, 1, 4), (1, 1, 2)]), "mc-sf") == [0, 1]


@given(latency_problems(max_requests=8, max_memory=24, max_output=24))
def test_engine_agrees_with_the_round_by_round_oracle(data: LatencyProblem) -> None:
    """Checkpoints, event jumps and states give what testing every round gives."""
    for name, order in (("mc-sf", oracles.shortest), ("mc-benchmark", oracles.oldest)):
        assert starts(data, name) == oracles.schedule(data, oracles.greedy(order))
        expected = oracles.schedule(data, oracles.greedy(order, keep_scanning=True))
        assert starts(data, f"{name}:scan=continue") == expected


@given(latency_problems(all_at_once=True, max_requests=8, max_memory=24, max_output=24))
def test_algorithm_1_is_algorithm_2_without_later_arrivals(data: LatencyProblem) -> None:
    """They are one rule; the first refuses instances that it does not cover."""
    assert starts(data, "semi-online") == starts(data, "mc-sf")


def test_algorithm_1_refuses_later_arrivals() -> None:
    """It has all requests at the start."""
    with pytest.raises(
        InputError, match=r"requests\[1\].arrival: 3, but semi-online .*; set every arrival to 0"
    ):
        serve(latency_problem(9, [(0, 1, 1), (3, 1, 1)]), "semi-online")


@given(latency_problems(common_prompt=True, max_requests=6, max_memory=24, max_output=24))
def test_greedy_starts_as_many_as_possible(data: LatencyProblem) -> None:
    """T1: with a common prompt the greedy choice solves Equation (2) in every round."""
    choose = oracles.greedy(oracles.shortest)

    def watched(
        data: LatencyProblem, started: dict[int, int], waiting: list[int], now: int
    ) -> list[int]:
        chosen = choose(data, started, waiting, now)
        assert len(chosen) == oracles.largest_safe_subset(data, started, waiting, now)
        return chosen

    assert starts(data, "mc-sf") == oracles.schedule(data, watched)


@given(latency_problems(common_prompt=True, max_requests=8, max_memory=24, max_output=24))
def test_scanning_on_adds_nothing_with_a_common_prompt(data: LatencyProblem) -> None:
    """What comes after a request that does not fit needs at least as much."""
    assert starts(data, "mc-sf") == starts(data, "mc-sf:scan=continue")


def test_mixed_prompts_break_both() -> None:
    """C, M = 8: a short output with a long prompt (s 6, o 1) stands in the way.

    T1 fails: MC-SF starts it alone (7 tokens), where the two others fit together (2·3). In the
    second instance it arrives at 1, when (1, 3) needs 3 tokens: 3 + 7 > 8 stops the scan before
    (1, 2), which would fit with 3 + 2 and 4 + 3.
    """
    first = latency_problem(8, [(0, 6, 1), (0, 1, 2), (0, 1, 2)])
    assert starts(first, "mc-sf") == [0, 1, 1]
    assert oracles.largest_safe_subset(first, {}, [0, 1, 2], 0) == 2
    second = latency_problem(8, [(0, 1, 3), (1, 6, 1), (1, 1, 2)])
    assert starts(second, "mc-sf") == [0, 3, 4]
    assert starts(second, "mc-sf:scan=continue")[2] == 1


def test_search_finds_violations_of_t1_with_mixed_prompts() -> None:
    """Companion of T1: without the common prompt a random search refutes it within 200 states."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        memory = int(rng.integers(6, 16))
        prompts = rng.integers(1, memory, size=4)
        data = latency_problem(
            memory, [(0, int(s), int(rng.integers(1, memory - s + 1))) for s in prompts]
        )
        chosen = oracles.greedy(oracles.shortest)(data, {}, [0, 1, 2, 3], 0)
        found += len(chosen) < oracles.largest_safe_subset(data, {}, [0, 1, 2, 3], 0)
    assert found > 10


LOADS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), max_size=6)


@given(LOADS, st.integers(1, 60))
def test_checkpoints_suffice(loads: list[tuple[int, int]], memory: int) -> None:
    """T2: the memory is within M at every batch if it is in the last batch of each request."""
    longest = max((batches for _, batches in loads), default=0)
    everywhere = all(memory_after(loads, k) <= memory for k in range(longest))
    assert fits(loads, memory) == everywhere


def test_the_printed_checkpoints_do_not_suffice() -> None:
    """Without the candidate's own completion an empty worker would accept anything."""
    loads, candidate = [(2, 1)], (3, 4)
    checkpoints = [batches - 1 for _, batches in loads]
    assert all(memory_after([*loads, candidate], k) <= 5 for k in checkpoints)
    assert not fits([*loads, candidate], 5)


@given(latency_problems(max_requests=8, max_memory=24, max_output=24))
def test_the_memory_is_never_exceeded(data: LatencyProblem) -> None:
    """T3, any prompts: the independent checker finds nothing, and nobody is ever cleared."""
    for name in ("mc-sf", "mc-sf:scan=continue", "mc-benchmark"):
        run = serve(data, name)
        assert run.is_finished
        assert run.overflows == 0
        assert violations(data, run.start.tolist(), run.total_latency) == {}


@given(latency_problems(max_requests=8, max_memory=24, max_output=24))
def test_an_empty_worker_starts_something(data: LatencyProblem) -> None:
    """T4: whenever requests wait, a batch runs in every round."""
    run = serve(data, "mc-sf")
    ends = run.batches.start + run.batches.duration
    idle_until = run.batches.start[1:][ends[:-1] < run.batches.start[1:]]
    assert set(idle_until.tolist()) <= set(data.arrival.tolist())
    assert not np.any(run.batches.active == 0)


@given(
    latency_problems(
        max_requests=3, max_memory=7, common_prompt=True, all_at_once=True, max_output=24
    )
)
def test_optimal_up_to_three_requests(data: LatencyProblem) -> None:
    """P1: with at most three requests and a common prompt Algorithm 1 is optimal."""
    assert serve(data, "semi-online").total_latency == oracles.optimum(data)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 6))
def test_optimal_for_equal_outputs(num: int, prompt: int, output: int, extra: int) -> None:
    """So it is for four requests with equal outputs up to 3; longer ones break it."""
    for convention in Convention:
        data = latency_problem(prompt + output + extra, [(0, prompt, output)] * num, convention)
        assert serve(data, "semi-online").total_latency == oracles.optimum(data)


def test_not_optimal_for_four_equal_requests() -> None:
    """Four requests that hold 1 to 6 tokens each, at their ages 0 to 5, under a memory of 11.

    Algorithm 1 starts them at 0, 1, 6, 7 and they end 5 later: 5 + 6 + 11 + 12 = 34. With starts
    0, 2, 5, 6 the sum is 5 + 7 + 10 + 11 = 33.
    """
    data = latency_problem(11, [(0, 1, 5)] * 4, Convention.CLOSED)
    assert serve(data, "semi-online").total_latency == 34
    assert oracles.optimum(data) == 33


def test_not_optimal_for_five_equal_requests() -> None:
    """Five requests that hold 1, 2, 3 tokens under a memory of 6.

    Two at once need 3 + 3 tokens in their third round, so nothing fits beside them: Algorithm 1
    starts pairs whenever they fit, and 20 is reached by starting one in each round.
    """
    data = latency_problem(6, [(0, 1, 2)] * 5, Convention.CLOSED)
    assert serve(data, "semi-online").total_latency == 22
    assert oracles.optimum(data) == 20


@given(latency_problems(max_requests=8, max_memory=24, max_output=24))
def test_conventions_are_one_rule(data: LatencyProblem) -> None:
    """A(s, o) starts as B(s, o + 1), and C(s, o) as B(s + 1, o)."""
    assume(data.num_requests > 0)
    columns = (data.arrival, data.prompt, data.output)
    memory = int((data.prompt + data.output).max()) + data.memory // 2
    closed = LatencyProblem(memory, *columns, Convention.CLOSED)
    half_open = LatencyProblem(memory, *columns, Convention.HALF_OPEN)
    arrival, prompt, output = columns
    longer = LatencyProblem(memory, arrival, prompt, output + 1, Convention.PRINTED)
    larger = LatencyProblem(memory, arrival, prompt + 1, output, Convention.PRINTED)
    for name in ("mc-sf", "mc-sf:scan=continue", "mc-benchmark"):
        assert starts(closed, name) == starts(longer, name)
        assert starts(half_open, name) == starts(larger, name)


def test_ties_go_to_the_earlier_arrival_then_the_lower_index() -> None:
    """One slot for three requests of equal length: arrivals 1, 0, 0."""
    data = latency_problem(5, [(1, 2, 2), (0, 2, 2), (0, 2, 2)])
    assert starts(data, "mc-sf") == [4, 0, 2]


def test_no_request_is_a_valid_instance() -> None:
    """Nothing to serve: finished, total latency 0."""
    run = serve(latency_problem(5, []), "mc-sf")
    assert (run.is_finished, run.total_latency, len(run.batches)) == (True, 0, 0)


def test_the_policy_alone_on_a_state() -> None:
    """It is a function of the state: 6 of 10 tokens used for one more batch, then 4 free."""

    def state(need: list[int], left: list[int], first: list[int], length: list[int]) -> CacheState:
        arrays = [np.array(x, dtype=np.int64) for x in (need, left, first, length)]
        numbers = np.arange(len(first), dtype=np.int64)
        waiting = Waiting(numbers, numbers * 0, arrays[2], arrays[3])
        rng = np.random.default_rng(0)
        return CacheState(0, 10, waiting, arrays[0] * 0, arrays[0], arrays[1], rng)

    assert LookAhead()(state([6], [1], [4, 5, 2], [7, 1, 2])) == []
    assert LookAhead(scan=Scan.CONTINUE)(state([6], [1], [4, 5, 2], [7, 1, 2])) == [2]
    assert LookAhead()(state([], [], [4, 5, 2], [7, 1, 2])) == [1, 2]
