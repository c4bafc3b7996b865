"""Rules of serving engines: instances by hand, and simple implementations from their sources."""

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.state import ActiveRequests, DecodeState
from bfio.testing.instances import decode_states
from bfio.testing.states import contract_violation, make_state
from tests.decode.cases import build
from tests.decode.policies.test_baselines import by_age, plainly

#: One request, four workers: requests 5, 8, 8, 7; tokens held 50, 10, 30, 20; queued 0, 30, 0, 5.
QUEUES = make_state(
    [50, 10, 30, 20],
    [1, 1, 1, 1],
    [7],
    running=[5, 6, 4, 6],
    queued=[0, 2, 4, 1],
    queued_tokens=[0, 30, 0, 5],
)


@pytest.mark.parametrize(
    ("name", "worker"),
    [
        # 4·waiting + running tokens: 50, 130, 30, 40.
        ("token-score", 2),
        # Only what is in the cache: 50, 10, 30, 20.
        ("least-kv", 1),
        # Reports are new: 50, 40, 30, 25.
        ("minimum-tokens", 3),
        ("total-tokens", 3),
        # Nothing to prefill on workers 0 and 2, which have 5 and 8 requests.
        ("pending-prefill", 0),
    ],
)
def test_one_request_by_hand(name: str, worker: int) -> None:
    """Each score leads to another worker."""
    assert build(name)(QUEUES) == [worker]


@given(decode_states())
def test_token_score_weighs_waiting_tokens_four_times(s: DecodeState) -> None:
    """The score of the source, request by request; what was just assigned runs."""

    def key(worker: tuple[int, int, int], g: int) -> int:
        waiting = int(s.queued_tokens[g])
        return 4 * waiting + (worker[2] - waiting)

    assert build("token-score")(s) == plainly(s, by_age(s), key)


@given(decode_states())
def test_least_kv_looks_at_the_cache(s: DecodeState) -> None:
    """Queued prompts are not in it."""

    def key(worker: tuple[int, int, int], g: int) -> int:
        return worker[2] - int(s.queued_tokens[g])

    assert build("least-kv")(s) == plainly(s, by_age(s), key)


@given(st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_adp_router_is_the_sources_heap(most: int, seed: int, all_full: bool) -> None:
    """Against a heap of ranks that leave it at the cap, as the source has it: equal ranks."""
    rng = np.random.default_rng(seed)
    G = int(rng.integers(1, 5))
    held = rng.integers(most * all_full, most + 1, G)
    worker = np.repeat(np.arange(G), held)
    prompt, emitted = rng.integers(1, 6, (2, len(worker)))
    none = np.zeros_like(worker)
    active = ActiveRequests(np.arange(len(worker)), worker, prompt + emitted, none, prompt)
    loads = np.bincount(worker, prompt + emitted, G).astype(int).tolist()
    sizes = rng.integers(1, 6, rng.integers(0, 9)).tolist()
    s = replace(
        make_state(loads, (most - held).tolist(), sizes, running=held.tolist()),
        holdings=lambda: active,
    )
    taken = sizes[: s.num_admissible]
    cap = min(max(math.ceil((sum(held) + len(taken)) / G), *held, 0), most)
    tokens = [int(prompt[worker == g].sum()) for g in range(G)]
    heap = [(tokens[g], int(held[g]), g) for g in range(G) if held[g] < cap]
    heapq.heapify(heap)
    expected: list[int | None] = [None] * len(sizes)
    for size, i in sorted(((size, i) for i, size in enumerate(taken)), key=lambda e: -e[0]):
        load, requests, g = heapq.heappop(heap)
        expected[i] = g
        if requests + 1 < cap:
            heapq.heappush(heap, (load + size, requests + 1, g))
    assert build("adp-router")(s) == expected


def test_adp_router_by_hand() -> None:
    """Prompts of 9 and of 2 tokens, loads 9 and 53: the 4 goes to worker 1, the 2 to worker 0.

    Three active and two new requests over two workers: at most three each. Worker 1 has two, so it
    takes one more, though it still has fewer prompt tokens and a free slot.
    """
    active = ActiveRequests(*np.array([[0, 1, 2], [0, 1, 1], [9, 51, 2], [0] * 3, [9, 1, 1]]))
    s = replace(make_state([9, 53], [3, 2], [2, 4], running=[1, 2]), holdings=lambda: active)
    assert build("adp-router")(s) == [0, 1]


def test_balance_scheduling_by_hand() -> None:
    """Worker 0 is full: nobody starts, though worker 1 has room. Then both fill up.

    Requests 3 and 2, one slot and two free: worker 1 (2 < 3), worker 0 (a tie), worker 1.
    """
    sizes = [5, 5, 5, 5]
    held = make_state([9, 9], [0, 2], sizes, running=[4, 2])
    assert build("balance-scheduling")(held) == [None] * 4
    open_again = make_state([9, 9], [1, 2], sizes, running=[3, 2])
    assert build("balance-scheduling")(open_again) == [1, 0, 1, None]


@given(decode_states())
def test_balance_scheduling_is_all_or_nothing(s: DecodeState) -> None:
    """As jsq if every worker has a free slot; otherwise nobody starts."""
    expected = build("jsq")(s) if all(s.free_slots > 0) else [None] * s.num_waiting
    assert build("balance-scheduling")(s) == expected


def _answers(states_: list[DecodeState], **options: int) -> list[int]:
    """Return how many requests start at each decision of one run."""
    policy = build("attention-dp-balance", **options)
    return [sum(worker is not None for worker in policy(s)) for s in states_]


def test_attention_dp_balance_by_hand() -> None:
    """Two workers that run requests: wait for both, gather, start; or give up waiting."""
    one_full = make_state([5, 5], [0, 2], [1, 1], running=[2, 1])
    both_free = make_state([5, 5], [1, 1], [1, 1], running=[1, 1])
    too_few = make_state([5, 5], [1, 1], [1], running=[1, 1])
    idle = make_state([5, 0], [1, 2], [1], running=[1, 0])
    limits = {"timeout_steps": 3, "batching_steps": 2}
    # Held twice; the third time it has waited long enough; then all over again.
    assert _answers([one_full] * 6, **limits) == [0, 0, 2, 0, 0, 2]
    # A request for each of two workers is gathered twice before both start.
    assert _answers([both_free] * 6, **limits) == [0, 0, 2, 0, 0, 2]
    # One request for two workers waits as if one were full; gathering ends the waiting.
    assert _answers([too_few, too_few, both_free, too_few, too_few, too_few], **limits) == [
        0, 0, 0, 0, 0, 1,
    ]  # fmt: skip
    # A worker without any request has nothing to be held up by.
    assert _answers([idle, idle], **limits) == [1, 1]
    assert _answers([both_free, one_full], timeout_steps=0, batching_steps=0) == [2, 2]


@given(st.lists(decode_states(max_workers=3), min_size=1, max_size=12), st.integers(0, 3))
def test_attention_dp_balance_waits_a_bounded_time(run: list[DecodeState], limit: int) -> None:
    """What starts is what jsq starts, and never are more decisions held back than the limits."""
    policy = build("attention-dp-balance", timeout_steps=limit, batching_steps=limit)
    held = 0
    for s in run:
        answer = policy(s)
        assert contract_violation(s, answer) is None
        if answer == build("jsq")(s):
            held = 0
            continue
        assert set(answer) == {None}
        held += 1
        # Waiting and gathering may take turns, each bounded.
        assert held <= (limit + 1) ** 2


def _at(step: int, loads: list[int], running: list[int], size: int) -> DecodeState:
    return replace(make_state(loads, [1, 1], [size], running=running), step=step)


def test_reports_that_lag_by_hand() -> None:
    """A report at steps 0 and 3. Worker 0 is known to hold 10 tokens, worker 1 12.

    The request of 1 goes to worker 0, which then is believed to hold 11. At step 1 it does hold
    200, which no report says: it takes the next one, 11 < 12, unless its six requests count a
    token each, 17 > 12. At step 3 a report tells of the 200.
    """
    run = [_at(0, [10, 12], [5, 0], 1), _at(1, [200, 12], [6, 0], 1), _at(3, [200, 12], [7, 0], 1)]
    for name, expected in (("minimum-tokens", [0, 0, 1]), ("total-tokens", [0, 1, 1])):
        policy = build(name, report_every=3)
        assert [policy(s)[0] for s in run] == expected


def test_what_was_sent_since_the_report_counts() -> None:
    """Requests of 6 tokens, believed loads 0 and 10: two go to worker 0, then one to worker 1."""
    policy = build("minimum-tokens")
    answers = [policy(_at(step, [0, 10], [0, 0], 6))[0] for step in range(4)]
    assert answers == [0, 0, 1, 0]


@given(st.lists(decode_states(max_workers=3), min_size=1, max_size=5))
def test_reports_at_every_step_are_least_tokens(run: list[DecodeState]) -> None:
    """Both rules are `jsq-tokens` then."""
    G = run[0].num_workers
    policies = [build(n, report_every=1) for n in ("minimum-tokens", "total-tokens")]
    for step, s in enumerate(s for s in run if s.num_workers == G):
        now = replace(s, step=step)
        assert [policy(now) for policy in policies] == [build("jsq-tokens")(now)] * 2


def test_pending_prefill_by_hand() -> None:
    """Sizes 8, 3, 3: the first is prefill to do on its worker, so the others go elsewhere.

    All have two requests. Worker 1 sees one end in a step, worker 2 in two steps, worker 0 none:
    the first request goes to worker 1, the second to worker 2; the third to worker 0, which has
    nothing to prefill.
    """
    s = replace(
        make_state([1, 2, 3], [2, 2, 2], [8, 3, 3], running=[2, 2, 2]),
        projected_running=np.array([[2, 2, 2], [2, 1, 1], [2, 2, 1]]),
    )
    assert build("pending-prefill")(s) == [1, 2, 0]
    # Without a predictor no end is seen, and ties go to the lowest index.
    assert build("pending-prefill")(make_state([1, 2, 3], [2] * 3, [8, 3, 3])) == [0, 1, 2]
