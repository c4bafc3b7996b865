"""Worst cases of barrier-synchronised workers: enumeration, symmetry, limits, the adversary."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.options import Dispatch
from bfio.decode.state import DecodeState
from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget, Criterion, Known, adversary
from bfio.worst_cases.search import exhaustive
from formulations.errors import InputError
from formulations.hindsight_makespan import (
    MakespanProblem,
    brute_force,
    objective_value,
    violations,
)
from tests.pairs import pairs
from tests.worst_cases.instances import FCFS, barrier

ROWS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=5)


@pytest.mark.parametrize(("policy", "criterion"), pairs(("fcfs", "br-0", "jsq"), [*Criterion]))
def test_agreement_with_plain_enumeration(policy: str, criterion: str) -> None:
    """Every list of three requests, and its optimum by the oracle; x/0 is above all ratios."""
    dispatch = Dispatch.IMMEDIATE if policy == "jsq" else Dispatch.POOLED
    target = BarrierTarget(policy, dispatch=dispatch)
    space = BarrierSpace(3, prompt=2, output=2, criterion=Criterion(criterion))
    costs = []
    # All arrive at once, so the oracle is asked once about requests listed in any order.
    least: dict[tuple[tuple[int, int], ...], int] = {}
    kinds = [(prompt, output) for prompt in (1, 2) for output in (1, 2)]
    for rows in product(kinds, repeat=3):
        problem = space.problem(rows)
        cost = objective_value(problem, *target.schedule(problem))
        requests = tuple(sorted(rows))
        if requests not in least:
            least[requests] = brute_force(problem)[0]
        costs.append((cost, least[requests]))
    found = exhaustive(target, space).case
    if any(optimum == 0 < cost for cost, optimum in costs):
        assert found.ratio is None
    else:
        assert found.ratio == max(Fraction(c, d) if d else Fraction(1) for c, d in costs)
    assert found.violations() == {}


@given(ROWS, st.integers(2, 3), st.sampled_from([*Criterion]))
def test_who_starts_first_can_be_listed_in_any_order(
    rows: list[tuple[int, int]], workers: int, criterion: Criterion
) -> None:
    """With one slot each, oldest first costs the same however the first G requests are listed."""
    head, tail = rows[:workers], rows[workers:]
    costs = set()
    for first in (head, sorted(head), head[::-1]):
        problem = barrier(workers, criterion, *first, *tail)
        target = BarrierTarget("fcfs")
        costs.add(objective_value(problem, *target.schedule(problem)))
    assert len(costs) == 1


@given(ROWS, st.integers(2, 3), st.sampled_from(["fcfs", "jsq", "br-0", "round-robin"]))
def test_no_ratio_of_peaks_exceeds_the_number_of_workers(
    rows: list[tuple[int, int]], workers: int, policy: str
) -> None:
    """Peaks add up to the work at most, and to a G-th of it at least."""
    problem = barrier(workers, Criterion.PEAKS, *rows)
    cost = objective_value(problem, *BarrierTarget(policy).schedule(problem))
    assert problem.work <= workers * cost <= workers * problem.work


@given(ROWS, st.integers(2, 3))
def test_the_optimum_of_another_order_is_mapped_back(
    rows: list[tuple[int, int]], workers: int
) -> None:
    """One solve serves every order of the same requests."""
    target = BarrierTarget("fcfs")
    for listed in (rows, rows[::-1], sorted(rows)):
        problem = barrier(workers, Criterion.PEAKS, *listed)
        schedule = target.optimum(problem)
        assert violations(problem, *schedule) == {}
        best = objective_value(problem, *schedule)
        assert best == objective_value(
            barrier(workers, Criterion.PEAKS, *rows),
            *target.optimum(barrier(workers, Criterion.PEAKS, *rows)),
        )


@pytest.mark.parametrize("policy", ["fcfs", "br-0", "br-h:horizon=3", "bf-io"])
@pytest.mark.parametrize(("workers", "slots"), [(2, 1), (3, 1), (2, 2)])
def test_the_adversary_of_blind_policies(policy: str, workers: int, slots: int) -> None:
    """G long requests never run together: G·L(L + 1)/2 at least, and a ratio above half of G."""
    length = 12
    space = BarrierSpace(1, workers, slots, output=length)
    found = adversary(BarrierTarget(policy), space).case
    assert found.violations() == {}
    assert found.cost >= workers * length * (length + 1) // 2
    assert found.ratio is not None
    assert workers / 2 < found.ratio < workers


def test_a_policy_that_sees_lengths_escapes() -> None:
    """Known to the end, long requests start together: the theorem needs blindness."""
    space = BarrierSpace(1, 2, 1, output=8)
    blind = adversary(BarrierTarget("bf-io:horizon=8"), space).case
    seeing = adversary(BarrierTarget("bf-io:horizon=8", Known.ALL), space).case
    assert blind.ratio is not None
    assert seeing.ratio is not None
    assert seeing.ratio < blind.ratio


@pytest.mark.parametrize(("problem", "ratio"), [(p, r) for p, r in FCFS if r is not None])
def test_minimal_worst_instances(problem: MakespanProblem, ratio: Fraction) -> None:
    """Kept: the ratio of first come, first served on each is what it was."""
    target = BarrierTarget("fcfs")
    cost = objective_value(problem, *target.schedule(problem))
    least = objective_value(problem, *target.optimum(problem))
    assert Fraction(cost, least) == ratio


def test_a_policy_of_ones_own() -> None:
    """First come, first served on the worker with most free slots: the price of FCFS."""
    space = BarrierSpace(3, prompt=2, output=2)
    for policy in ("fcfs", f"{__file__}:emptiest_first"):
        assert exhaustive(BarrierTarget(policy), space).case.ratio == Fraction(5, 3)

    with pytest.raises(InputError, match=r"policy: .*draws from state\.rng is random"):
        exhaustive(BarrierTarget(f"{__file__}:coin"), space)


def coin(state: DecodeState) -> list[int | None]:
    """Draw a worker for the oldest request."""
    return [int(state.rng.integers(2)), *[None] * (state.num_waiting - 1)]


def emptiest_first(state: DecodeState) -> list[int | None]:
    """Assign the oldest requests one by one to the worker with the most free slots."""
    free = state.free_slots.copy()
    placed: list[int | None] = [None] * state.num_waiting
    for i in range(state.num_admissible):
        placed[i] = int(free.argmax())
        free[placed[i]] -= 1
    return placed
