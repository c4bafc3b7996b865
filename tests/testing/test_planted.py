"""Wrong policies of many kinds, each refuted with a small instance; right ones pass."""

import re
from collections.abc import Callable
from dataclasses import replace
from math import log
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfio.decode.state import DecodeState
from bfio.step.solve import solve_step
from bfio.testing import (
    Refuted,
    arrival_processes,
    check_blind_to_lengths,
    check_conservation,
    check_contract,
    check_improvement,
    check_memory,
    check_no_starvation,
    check_smax_balance,
    check_ties,
    check_work_conserving,
    improvement_ratio,
    levelling_steps,
    make_state,
    rounds,
)
from bfio.testing.balance import C
from bfio.workloads import ArrivalProcess, is_overloaded
from formulations.errors import InputError
from formulations.step import Objective, StepProblem
from tests.processes import python

Answer = list[Any]


def least_tokens(
    state: DecodeState, order: list[int] | None = None, spare: int = 0, count: int | None = None
) -> Answer:
    """Give requests in an order to the least loaded worker with a free slot, ``count`` of them."""
    loads, free = state.loads.tolist(), (state.free_slots + spare).tolist()
    answer: Answer = [None] * state.num_waiting
    for i in (range(state.num_waiting) if order is None else order)[:count]:
        able = [g for g in range(len(free)) if free[g] > 0]
        if able:
            worker = min(able, key=loads.__getitem__)
            answer[i] = worker
            free[worker], loads[worker] = free[worker] - 1, loads[worker] + int(state.sizes[i])
    return answer


def one_slot_too_many(state: DecodeState) -> Answer:
    """Off by one in the free slots."""
    return least_tokens(state, spare=1)


def shortest_predicted(state: DecodeState) -> Answer:
    """Look at how long waiting requests will run."""
    lasts = (state.contributions > 0).sum(axis=1).tolist()
    return least_tokens(state, sorted(range(len(lasts)), key=lasts.__getitem__))


shortest_predicted.horizon = 3  # type: ignore[attr-defined]


def only_small(state: DecodeState) -> Answer:
    """Starve requests above 6 tokens."""
    return least_tokens(state, [i for i, size in enumerate(state.sizes.tolist()) if size <= 6])


def newest_first(state: DecodeState) -> Answer:
    """Starve whoever is overtaken; break ties by the wrong end."""
    return least_tokens(state, list(range(state.num_waiting))[::-1])


def highest_index(state: DecodeState) -> Answer:
    """Break ties of workers by an order that nobody promised."""
    G = state.num_workers
    free, answer = state.free_slots.tolist(), []
    for _ in range(state.num_waiting):
        worker = max(range(G), key=lambda g: (free[g], g))
        answer.append(worker if free[worker] > 0 else None)
        free[worker] -= 1
    return answer


def beyond_memory(state: DecodeState) -> Answer:
    """Heed slots and no memory."""
    return least_tokens(state)


def drops_last(state: DecodeState) -> Answer:
    """Lose a request."""
    return (
        least_tokens(state)[: max(0, state.num_waiting - 1)] if state.num_waiting > 1 else [0][:0]
    )


def twice(state: DecodeState) -> Answer:
    """Answer about a request twice."""
    answer = least_tokens(state)
    return [*answer, *answer[:1]]


def counts_from_one(state: DecodeState) -> Answer:
    """Name workers that are not there."""
    return [None if worker is None else worker + 1 for worker in least_tokens(state)]


def writes(state: DecodeState) -> Answer:
    """Count down the slots of the state itself."""
    answer = least_tokens(state)
    for worker in answer:
        if worker is not None:
            state.free_slots[worker] -= 1
    return answer


def own_chance(state: DecodeState) -> Answer:
    """Draw from a generator of its own."""
    rng = np.random.default_rng()
    return least_tokens(state, rng.permutation(state.num_waiting).tolist())


class Forgets:
    """Remember between steps in a place that all instances share."""

    calls: ClassVar = [0]

    def __call__(self, state: DecodeState) -> Answer:
        """Alternate."""
        self.calls[0] += 1
        return least_tokens(
            state, None if self.calls[0] % 2 else list(range(state.num_waiting))[::-1]
        )


def idles(state: DecodeState) -> Answer:
    """Start one request a step."""
    return least_tokens(state, count=1)


def piles_up(state: DecodeState) -> Answer:
    """Fill one worker after the other."""
    free, answer = state.free_slots.tolist(), []
    for _ in range(state.num_waiting):
        worker = next((g for g in range(len(free)) if free[g] > 0), None)
        answer.append(worker)
        if worker is not None:
            free[worker] -= 1
    return answer


def raises(state: DecodeState) -> Answer:
    """Stumble over an empty queue."""
    return least_tokens(state) if state.sizes[0] else []


PLANTED: list[tuple[Any, Callable[..., None], str]] = [
    (one_slot_too_many, check_contract, "gets 1 requests and has 0 free slots"),
    (one_slot_too_many, check_conservation, "no free slot left"),
    (shortest_predicted, check_blind_to_lengths, "with the other outputs"),
    (only_small, check_conservation, "stalled"),
    (only_small, check_no_starvation, "stalled"),
    (newest_first, check_no_starvation, "request 0 starts at step 4"),
    (newest_first, check_ties, "its equal 0 waits"),
    (highest_index, check_ties, "worker 1 is taken, its equal 0 is not"),
    (beyond_memory, check_memory, "needs 1 and has 0"),
    (drops_last, check_contract, "returned 0 entries for 1 waiting request"),
    (drops_last, check_conservation, "returned 0 entries for 1 waiting request"),
    (twice, check_contract, "returned 2 entries for 1 waiting request"),
    (counts_from_one, check_contract, "there is no worker 1"),
    (writes, check_contract, "changed state.free_slots from [1] to [0]"),
    (writes, check_conservation, "read-only"),
    (own_chance, check_contract, "asked again"),
    (Forgets, check_contract, "asked again"),
    (idles, check_work_conserving, "1 start"),
    (idles, check_smax_balance, "with free slots left"),
    (piles_up, check_smax_balance, "at most"),
    (raises, check_contract, "raised IndexError"),
]


def requests_of(text: str) -> int:
    """Return how many requests the instance of a message has."""
    waiting = re.search(r"instance .*waiting sizes, oldest first: (.*)", text)
    if waiting is None:
        waiting = re.search(r"instance .*requests \(prompt\+output\): ([^;\n]*)", text)
    assert waiting is not None, text
    return 0 if waiting[1] == "none" else waiting[1].count(",") + 1


@pytest.mark.parametrize(("policy", "check", "told"), PLANTED)
def test_a_wrong_policy_is_refuted(policy: Any, check: Callable[..., None], told: str) -> None:
    """Within 200 examples, by an instance of at most five requests, in words."""
    with pytest.raises(Refuted) as caught:
        check(policy, examples=200)
    text = str(caught.value)
    assert told in text
    assert requests_of(text) <= 5
    for word in ("source", "assumes", "instance", "policy", "right"):
        assert f"\n  {word} " in text


NAMES = ("fcfs", "jsq-tokens", "br-0", "br-h", "bf-io")
EVERY = (check_contract, check_conservation, check_work_conserving)
RIGHT = [
    *(
        (name, check)
        for name in ("fcfs", "jsq-tokens", "br-0", "br-h", "bf-io")
        for check in EVERY
    ),
    *((name, check_ties) for name in ("fcfs", "jsq-tokens", "br-0")),
    *((name, check_no_starvation) for name in ("fcfs", "jsq-tokens")),
    *((name, check_blind_to_lengths) for name in ("fcfs", "jsq-tokens", "br-0")),
    *((name, check_memory) for name in ("fcfs", "jsq-tokens", "br-0")),
    ("bf-io", check_smax_balance),
    (least_tokens, check_conservation),
]


@pytest.mark.parametrize(("policy", "check"), RIGHT)
def test_a_right_policy_passes(policy: Any, check: Callable[..., None]) -> None:
    """Where the property holds."""
    check(policy, examples=settings().max_examples)


def test_ends_of_active_requests_may_be_known() -> None:
    """BR-H looks at its window, and at nothing that waits unless this is in the window."""
    check_blind_to_lengths("br-h:horizon=3", may_know="active", examples=10)
    with pytest.raises(Refuted, match="blindness to lengths"):
        check_blind_to_lengths("br-h:horizon=3")


@pytest.mark.parametrize("column", [pytest.param(-1, marks=pytest.mark.deep), 1])
def test_ends_of_running_requests_are_found(column: int) -> None:
    """A policy that looks at them alone is refuted, by its choice of workers or of requests.

    At the next step fewer of them have ended than at the last one that the window shows.
    """

    def least_later(state: DecodeState) -> Answer:
        later = state.projected_loads[:, column]
        return least_tokens(replace(state, loads=later))

    def by_parity(state: DecodeState) -> Answer:
        odd = int(state.projected_running[:, column].sum()) % 2
        return least_tokens(state, list(range(state.num_waiting))[:: -1 if odd else 1])

    for policy in (least_later, by_parity):
        policy.horizon = 3  # type: ignore[attr-defined]
        with pytest.raises(Refuted, match="or with outputs") as caught:
            check_blind_to_lengths(policy)
        assert requests_of(str(caught.value)) <= 5


def test_a_broken_contract_is_told_as_such() -> None:
    """By the name of the contract, whatever is checked; `check_improvement` has it as an error."""
    for check in (check_ties, check_no_starvation, check_blind_to_lengths):
        with pytest.raises(Refuted, match="drops_last breaks the contract of policies"):
            check(drops_last)
    with pytest.raises(InputError, match="returned 1,023 entries for 1,024 waiting"):
        check_improvement(drops_last, rounds=1)


def test_a_policy_that_pauses_or_remembers_keeps_the_contract() -> None:
    """States tell of active requests; memory in a policy's own object is no fault."""
    check_contract("pausing", examples=10)
    check_contract("round-robin", examples=10)


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("fcfs", {"examples": 0}, "examples: 0 is out of range"),
        ("fcfs", {"among": [1]}, "among: a list is not a SearchStrategy"),
        (3, {}, "policy: an int is not a policy"),
        ("bf-io", {"measure": "loads"}, "use one of imbalance, gap"),
    ],
)
def test_wrong_arguments(policy: Any, options: dict[str, Any], message: str) -> None:
    """Each is one line."""
    with pytest.raises(InputError, match=message):
        check_smax_balance(policy, **options)


def test_the_least_gap_is_bounded_too() -> None:
    """The minimiser of the gap, which is not that of the imbalance, keeps the bound on the gap."""

    def least_gap(state: DecodeState) -> Answer:
        problem = StepProblem.from_state(state, objective=Objective.GAP)
        return list(solve_step(problem, method="brute-force").assignment or ())

    check_smax_balance(least_gap, measure="gap", examples=10)
    with pytest.raises(Refuted, match="smax-balance of the gap"):
        check_smax_balance("fcfs", rounds(), measure="gap")


def test_a_check_of_nothing_is_an_error() -> None:
    """A full worker is outside the theorem; passing over all instances does not pass."""
    with pytest.raises(InputError, match="no drawn instance satisfies the hypotheses of smax"):
        check_smax_balance("fcfs", st.just(0).map(lambda _: make_state([0, 9], [0, 1], [3])))


def test_the_improvement_ratio() -> None:
    """FCFS improves on itself by nothing; the bound of Theorem 1 is far below 1 at this size."""
    found = improvement_ratio("fcfs", rounds=2)
    assert found.ratio == 1
    assert found.bound == pytest.approx(C * 2.8722813 / 10 * (16 * log(64)) ** 0.5 * 64 / 63)
    assert improvement_ratio("longest-first", rounds=2).ratio > 10
    check_improvement("br-0", rounds=2)

    def heaviest_together(state: DecodeState) -> Answer:
        order = np.argsort(state.sizes, kind="stable").tolist()
        answer: Answer = [None] * len(order)
        for place, i in enumerate(order):
            answer[i] = place // int(state.free_slots[0])
        return answer

    with pytest.raises(Refuted, match="breaks the improvement ratio"):
        check_improvement(heaviest_together, workers=64, slots=256, rounds=1)
    with pytest.raises(InputError, match="log G >= 4"):
        improvement_ratio("fcfs", workers=8)


@given(arrival_processes(max_rate=20))
def test_arrival_processes_give_times(process: ArrivalProcess) -> None:
    """Each draws non-decreasing times at a positive rate."""
    seconds = process.sample(9, np.random.default_rng(0)).seconds()
    assert 0 < process.rate <= 20
    assert (np.diff(seconds) >= 0).all()


@given(levelling_steps(), rounds())
def test_steps_meet_their_hypotheses(step: DecodeState, dealt: DecodeState) -> None:
    """Definition 1 with a free slot each; a round fills all slots."""
    assert is_overloaded([step.sizes], [int(step.free_slots.sum())])
    assert step.free_slots.min() >= 1
    assert dealt.num_waiting == dealt.free_slots.sum()


def test_hypothesis_is_loaded_for_nobody_else() -> None:
    """Neither by `import bfio` nor by the claims; without it the error names the extra."""
    code = (
        "import sys; sys.modules['hypothesis'] = None; import bfio, bfio.testing.balance\n"
        "import proofs_checks.papers.balance.separation, proofs_checks.papers.balance.theorem1\n"
        "from formulations.errors import InputError\n"
        "try:\n    bfio.testing.check_ties\n"
        "except InputError as error:\n    print(error)"
    )
    done = python("-c", code)
    assert "pip install 'bfio[testing]'" in done.stdout
