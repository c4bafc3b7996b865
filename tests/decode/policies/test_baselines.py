"""Each baseline against a simple implementation of its rule, written from the papers."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.options import Dispatch
from bfio.decode.policy_registry import names, specs
from bfio.decode.state import DecodeState
from bfio.testing.balance import imbalance
from bfio.testing.instances import decode_states
from bfio.testing.states import contract_violation, loads_after, make_state
from formulations.arrays import IntArray
from tests.decode.cases import build

#: Golden step problem P1: capacity (1, 2, 0), loads 40, 25, 60.
P1 = make_state([40, 25, 60], [1, 2, 0], [18, 9, 30, 22, 5])

#: Loads and counts of one worker as the plain statements see them: (free, requests, tokens).
Worker = tuple[int, int, int]


def plainly(
    decode_state: DecodeState, order: list[int], prefer: Callable[[Worker, int], object]
) -> list[int | None]:
    """Give each request in turn to the worker for which ``prefer`` is least; lowest index wins."""
    G = decode_state.num_workers
    free = decode_state.free_slots.tolist()
    requests = [int(decode_state.running[g] + decode_state.queued[g]) for g in range(G)]
    tokens = [int(decode_state.loads[g] + decode_state.queued_tokens[g]) for g in range(G)]
    answer: list[int | None] = [None] * decode_state.num_waiting
    for i in order:
        open_workers = [g for g in range(G) if free[g] > 0]
        if not open_workers:
            break
        keys = [prefer((free[g], requests[g], tokens[g]), g) for g in open_workers]
        g = open_workers[keys.index(min(keys))]  # type: ignore[type-var]
        answer[i] = g
        free[g] -= 1
        requests[g] += 1
        tokens[g] += int(decode_state.sizes[i])
    return answer


def by_age(decode_state: DecodeState) -> list[int]:
    """List the waiting requests, oldest first."""
    return list(range(decode_state.num_waiting))


@given(decode_states())
def test_fcfs(s: DecodeState) -> None:
    """Pop the oldest; the worker with most free slots takes it (BF-IO, Algorithm 2)."""
    assert build("fcfs")(s) == plainly(s, by_age(s), lambda worker, g: -worker[0])


@given(decode_states())
def test_fcfs_by_index(s: DecodeState) -> None:
    """Workers are filled in increasing index (BF-IO, text of appendix B)."""
    assert build("fcfs-by-index")(s) == plainly(s, by_age(s), lambda worker, g: g)


@given(decode_states())
def test_jsq_counts_requests(s: DecodeState) -> None:
    """The oldest request joins the worker with fewest requests."""
    assert build("jsq")(s) == plainly(s, by_age(s), lambda worker, g: worker[1])


@given(decode_states())
def test_jsq_tokens_counts_tokens(s: DecodeState) -> None:
    """The oldest request joins the worker with fewest tokens."""
    assert build("jsq-tokens")(s) == plainly(s, by_age(s), lambda worker, g: worker[2])


@given(decode_states())
def test_router_weighs_waiting_four_times(s: DecodeState) -> None:
    """The score is 4·waiting + running, and new admissions run."""

    def key(worker: Worker, g: int) -> int:
        waiting = int(s.queued[g])
        return 4 * waiting + (worker[1] - waiting)

    assert build("router")(s) == plainly(s, by_age(s), key)


@given(decode_states())
def test_longest_first(s: DecodeState) -> None:
    """The requests FCFS would admit, largest first, each to the least loaded worker."""
    admitted = sorted(range(s.num_admissible), key=lambda i: (-int(s.sizes[i]), i))
    assert build("longest-first")(s) == plainly(s, admitted, lambda worker, g: worker[2])


@given(decode_states(), st.sampled_from(["min-min", "max-min"]))
def test_min_min_and_max_min_follow_the_completion_time_table(s: DecodeState, name: str) -> None:
    """Rebuild the whole ECT table before each pick, as the definition says."""
    free, tokens = s.free_slots.tolist(), (s.loads + s.queued_tokens).tolist()
    answer: list[int | None] = [None] * s.num_waiting
    while None in answer and sum(free) > 0:
        best: list[tuple[int, int, int]] = []
        for i in range(s.num_waiting):
            if answer[i] is None:
                row = [(tokens[g] + int(s.sizes[i]), g) for g in range(len(free)) if free[g] > 0]
                best.append((min(row)[0], i, min(row)[1]))
        sign = 1 if name == "min-min" else -1
        _, i, g = min(best, key=lambda entry: (sign * entry[0], entry[1]))
        answer[i] = g
        free[g] -= 1
        tokens[g] += int(s.sizes[i])
    assert build(name)(s) == answer


@given(st.lists(decode_states(max_workers=4), min_size=1, max_size=4))
def test_round_robin_cycles_across_steps(run: list[DecodeState]) -> None:
    """The next worker after the last one used, skipping full ones; the place is remembered."""
    G = min(s.num_workers for s in run)
    policy, place = build("round-robin"), -1
    for s in run:
        step = make_state(s.loads[:G].tolist(), s.free_slots[:G].tolist(), s.sizes.tolist())
        free, answer = step.free_slots.tolist(), [None] * step.num_waiting
        expected: list[int | None] = list(answer)
        for i in range(step.num_admissible):
            place = next((place + k) % G for k in range(1, G + 1) if free[(place + k) % G] > 0)
            expected[i] = place
            free[place] -= 1
        assert policy(step) == expected


def test_round_robin_sends_every_gth_request_to_one_worker() -> None:
    """BF-IO's bad instance: request i goes to worker i mod G."""
    assert build("round-robin")(make_state([0] * 3, [4] * 3, [1] * 7)) == [0, 1, 2, 0, 1, 2, 0]


@given(decode_states())
def test_random_takes_any_open_worker(s: DecodeState) -> None:
    """The oldest are admitted, and the draw is made by the state's own generator."""
    twin = make_state(
        s.loads.tolist(), s.free_slots.tolist(), s.sizes.tolist(), running=s.running.tolist()
    )
    again = make_state(
        s.loads.tolist(), s.free_slots.tolist(), s.sizes.tolist(), running=s.running.tolist()
    )
    first = build("random")(twin)
    assert first == build("random")(again)
    assert [g is not None for g in first] == [i < s.num_admissible for i in range(s.num_waiting)]


def test_random_is_uniform_over_open_workers() -> None:
    """3,000 draws over three open workers: each within 5 standard deviations of 1,000."""
    s = make_state([0] * 4, [3000, 0, 3000, 3000], [1] * 3000)
    answer = build("random")(s)
    for worker in (0, 2, 3):
        assert abs(answer.count(worker) - 1000) < 5 * (3000 * 2 / 9) ** 0.5
    assert 1 not in answer


@given(decode_states(), st.integers(1, 6))
def test_power_of_d_never_takes_the_fullest(s: DecodeState, choices: int) -> None:
    """Of n open workers with d sampled, no worker among the d − 1 fullest can win."""
    answer = build("power-of-2", choices=choices)(s)
    requests, free = (s.running + s.queued).tolist(), s.free_slots.tolist()
    for g in [worker for worker in answer if worker is not None]:
        open_workers = [h for h in range(len(free)) if free[h] > 0]
        behind = [h for h in open_workers if (requests[h], h) > (requests[g], g)]
        assert len(behind) >= min(choices, len(open_workers)) - 1
        requests[g] += 1
        free[g] -= 1


@given(decode_states())
def test_power_of_all_is_jsq(s: DecodeState) -> None:
    """With d at least the number of workers the sample is everybody."""
    everyone = build("power-of-2", choices=s.num_workers)
    assert everyone(s) == build("jsq")(s)


def test_power_of_two_prefers_the_emptier_half() -> None:
    """With d = 2 of 4 the emptiest wins unless unsampled: chance 1/2; the fullest never wins."""
    wins = [0] * 4
    for seed in range(400):
        s = make_state([0] * 4, [1] * 4, [1], running=[3, 1, 2, 0], seed=seed)
        worker = build("power-of-2")(s)[0]
        assert worker is not None
        wins[worker] += 1
    # Chances 0, 2/6, 1/6, 3/6 of 400; five standard deviations are at most 50.
    assert wins[0] == 0
    assert abs(wins[1] - 133) < 50
    assert abs(wins[2] - 67) < 50
    assert abs(wins[3] - 200) < 50


@given(decode_states(), st.none() | st.integers(1, 40))
def test_throttled(s: DecodeState, threshold: int | None) -> None:
    """First open worker with less than Θ tokens; otherwise everyone else waits."""
    limit = threshold
    if limit is None:
        total = s.loads.sum() + s.queued_tokens.sum() + s.sizes[: s.num_admissible].sum()
        limit = -(-int(total) // s.num_workers)
    free, tokens = s.free_slots.tolist(), (s.loads + s.queued_tokens).tolist()
    expected: list[int | None] = [None] * s.num_waiting
    for i in range(s.num_waiting):
        under = [g for g in range(len(free)) if free[g] > 0 and tokens[g] < limit]
        if not under and i == 0 and not s.running.any():
            under = [g for g in range(len(free)) if free[g] > 0]
        if not under:
            break
        expected[i] = under[0]
        free[under[0]] -= 1
        tokens[under[0]] += int(s.sizes[i])
    assert build("throttled", cap_threshold=threshold)(s) == expected


def test_throttled_waits_above_the_threshold_but_never_stalls() -> None:
    """Loads 9 and 12 against Θ = 10: one is admitted; with Θ = 1 one only if nothing runs."""
    busy = make_state([9, 12], [5, 5], [4, 4], running=[1, 1])
    assert build("throttled", cap_threshold=10)(busy) == [0, None]
    assert build("throttled", cap_threshold=1)(busy) == [None, None]
    idle = make_state([9, 12], [0, 5], [4, 4])
    assert build("throttled", cap_threshold=1)(idle) == [1, None]


#: Those that leave slots idle on purpose.
HOLDING = ("attention-dp-balance", "balance-scheduling", "throttled")


@given(
    decode_states(),
    st.sampled_from([n for n in names() if n not in (*HOLDING, "bf-io", "pausing")]),
)
def test_all_admit_as_many_as_they_can(s: DecodeState, name: str) -> None:
    """Work conservation: min(N, free slots) requests start."""
    answer = build(name)(s)
    assert contract_violation(s, answer) is None
    assert sum(worker is not None for worker in answer) == s.num_admissible


@given(decode_states())
def test_throttled_is_admissible(s: DecodeState) -> None:
    """Throttled never exceeds slots either, and admits somebody when nothing runs."""
    answer = build("throttled")(s)
    assert contract_violation(s, answer) is None
    if s.num_admissible and not s.running.any():
        assert answer[0] is not None


@pytest.mark.parametrize(
    ("name", "expected", "objective"),
    [
        # Loads 40+9, 25+18+30, 60 = 49, 73, 60: 24 + 0 + 13 = 37.
        ("fcfs", [1, 0, 1, None, None], 37),
        # Loads 58, 64, 60: 6 + 0 + 4 = 10.
        ("fcfs-by-index", [0, 1, 1, None, None], 10),
        # 25 < 40; then 43 > 40; then worker 0 is full: as FCFS.
        ("jsq-tokens", [1, 0, 1, None, None], 37),
        # Counts all 0: workers 0, 1, 1: as by index.
        ("jsq", [0, 1, 1, None, None], 10),
        # Sizes 5, 9, 18: to 25 -> 30 -> 39, then 40 > 39 but worker 1 is full: 58, 39, 60.
        ("min-min", [0, 1, None, None, 1], 23),
        # Sizes 30, 22, 18: worker 1 (55), worker 0 (62), worker 1 (73): 62, 73, 60 = 11 + 13.
        ("max-min", [1, None, 1, 0, None], 24),
        # Oldest three by size 30, 18, 9: 55; 58; 64: 58, 64, 60 = 6 + 4.
        ("longest-first", [0, 1, 1, None, None], 10),
    ],
)
def test_golden_p1(name: str, expected: list[int | None], objective: int) -> None:
    """Step problem P1 by hand."""
    answer = build(name)(P1)
    assert list(answer) == expected
    assert imbalance(loads_after(P1, answer)) == objective


@pytest.mark.parametrize(
    "name", [spec.name for spec in specs() if Dispatch.IMMEDIATE in spec.dispatch]
)
def test_immediate_dispatch_always_names_a_worker(name: str) -> None:
    """One request, all workers open: the answer is a worker, the least one where the rule says."""
    s = make_state(
        [50, 10, 30, 20],
        [1, 1, 1, 1],
        [7],
        running=[5, 6, 4, 6],
        queued=[0, 2, 4, 1],
        queued_tokens=[0, 30, 0, 5],
    )
    worker = build(name)(s)[0]
    # Requests 5, 8, 8, 7; tokens 50, 40, 30, 25; router 5, 14, 20, 10 (more in test_practice).
    fixed = {"jsq": 0, "jsq-tokens": 3, "router": 0, "round-robin": 0}
    assert worker in range(4)
    assert worker == fixed.get(name, worker)


def test_immediate_policies_are_the_documented_ones() -> None:
    """All but six, and each of these says why."""
    pooled = {spec.name: spec.why_pooled for spec in specs() if len(spec.dispatch) == 1}
    assert set(pooled) == {
        "adaptive", "attention-dp-balance", "balance-scheduling", "olb-lbmm", "pausing",
        "rolling-horizon",
    }  # fmt: skip
    assert all(pooled.values())
    assert not any(spec.why_pooled for spec in specs() if spec.name not in pooled)


@given(decode_states(), st.sampled_from([n for n in names() if n not in ("bf-io", "pausing")]))
def test_policies_are_made_afresh_and_repeat(s: DecodeState, name: str) -> None:
    """Two runs share nothing: a fresh object with an equal generator gives an equal answer."""
    answers = []
    for _ in range(2):
        policy = build(name)
        fresh = make_state(
            s.loads.tolist(),
            s.free_slots.tolist(),
            s.sizes.tolist(),
            running=s.running.tolist(),
            projected=s.projected_loads.tolist(),
            contributions=s.contributions.tolist(),
            seed=7,
        )
        answers.append((list(policy(fresh)), list(policy(fresh))))
    assert answers[0] == answers[1]


@given(decode_states(), st.sampled_from([n for n in names() if n not in ("bf-io", "pausing")]))
def test_policies_leave_the_state_alone(s: DecodeState, name: str) -> None:
    """No array of the state is written to."""
    arrays = {key: value for key, value in vars(s).items() if hasattr(value, "flags")}
    for array in arrays.values():
        array.flags.writeable = False
    before = {key: value.tolist() for key, value in arrays.items()}
    build(name)(s)
    assert before == {key: value.tolist() for key, value in arrays.items()}


@given(decode_states(memory=True) | decode_states())
def test_olb_lbmm_moves_one_request_at_a_time(s: DecodeState) -> None:
    """As its sources say, from loads added up anew before each move."""
    answer = build("jsq")(s)
    started = [i for i, g in enumerate(answer) if g is not None]

    def holds(g: int, of: IntArray) -> int:
        return sum(int(of[i]) for i in started if answer[i] == g)

    while started:
        loads = [
            int(s.loads[g] + s.queued_tokens[g]) + holds(g, s.sizes) for g in range(s.num_workers)
        ]
        full = max({answer[i] for i in started}, key=lambda g: (loads[g], -g))
        least = min((i for i in started if answer[i] == full), key=lambda i: (s.sizes[i], i))
        open_ = [
            (loads[g], g)
            for g in range(s.num_workers)
            if g != full
            and answer.count(g) < s.free_slots[g]
            and holds(g, s.needs) + s.needs[least] <= s.room[g]
        ]
        if not open_ or min(open_)[0] + s.sizes[least] >= loads[full]:
            break
        answer[least] = min(open_)[1]
    assert build("olb-lbmm")(s) == answer


def test_olb_lbmm_by_hand() -> None:
    """The size of a request matters only when the smallest one moves.

    Loads 0 and 3 with 0 and 1 running: 9 goes to worker 0, 1 to worker 0 (a tie at one request),
    5 to worker 1. Loads 10 and 8: the smallest new one of worker 0, 1, moves: 9 and 9.
    """
    s = make_state([0, 3], [2, 3], [9, 1, 5], running=[0, 1])
    assert build("jsq")(s) == [0, 0, 1]
    assert build("olb-lbmm")(s) == [0, 1, 1]
