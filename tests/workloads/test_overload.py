"""Definition 1 of BF-IO: the guarantee holds under hostile policies, and the checker checks."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.workloads import (
    Geometric,
    Homogeneous,
    LengthDistribution,
    Uniform,
    Workload,
    is_overloaded,
    overload_violations,
    overloaded,
    overloaded_steps,
)
from formulations.errors import InputError

Request = tuple[int, int]
Chooser = Callable[[list[Request], int, np.random.Generator], list[Request]]
Checker = Callable[[Sequence[int], int], int]


def _shortest_first(pool: list[Request], free: int, rng: np.random.Generator) -> list[Request]:
    del rng
    return sorted(pool, key=lambda request: request[1])[:free]


def _spare_the_largest_class(
    pool: list[Request], free: int, rng: np.random.Generator
) -> list[Request]:
    # The worst for Definition 1: whatever is taken leaves the largest class untouched.
    del rng
    if not pool:
        return []
    largest, _ = Counter(prompt for prompt, _ in pool).most_common(1)[0]
    return sorted(pool, key=lambda request: (request[0] == largest, request[1]))[:free]


def _random_and_idle(pool: list[Request], free: int, rng: np.random.Generator) -> list[Request]:
    taken = int(rng.integers(free + 1))
    return [pool[i] for i in rng.permutation(len(pool))[:taken]]


CHOOSERS: list[Chooser] = [_shortest_first, _spare_the_largest_class, _random_and_idle]


def _replay(
    workload: Workload, total_slots: int, steps: int, choose: Chooser
) -> tuple[list[list[int]], list[int]]:
    """Run the pool for ``steps`` steps; workers do not matter for Definition 1."""
    lengths = zip(workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), strict=True)
    pool, running = list(lengths), [0] * 0
    pending, free_slots = [], []
    rng = np.random.default_rng(0)
    for _ in range(steps):
        free = total_slots - len(running)
        pending.append([prompt for prompt, _ in pool])
        free_slots.append(free)
        for request in choose(pool, free, rng):
            pool.remove(request)
            running.append(request[1])
        running = [left - 1 for left in running if left > 1]
    return pending, free_slots


LAWS = st.tuples(
    st.sampled_from([Uniform(1, 2), Uniform(1, 30)]),
    st.sampled_from([Geometric(1), Geometric(4), Homogeneous(3), Uniform(1, 9)]),
)


@given(
    st.integers(1, 8), st.integers(1, 6), LAWS, st.integers(0, 2**32), st.sampled_from(CHOOSERS)
)
def test_overloaded_under_every_policy(
    steps: int,
    total_slots: int,
    laws: tuple[LengthDistribution, LengthDistribution],
    seed: int,
    choose: Chooser,
) -> None:
    """The generated instance satisfies Definition 1 at every promised step."""
    workload = overloaded(steps, total_slots, *laws, rng=np.random.default_rng(seed))
    assert overloaded_steps(workload, total_slots) >= steps
    pending, free = _replay(workload, total_slots, steps, choose)
    assert overload_violations(pending, free) == {}
    assert is_overloaded(pending, free)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=40),
    st.integers(1, 4),
)
def test_certificate(requests: list[Request], total_slots: int) -> None:
    """Whatever instance: for the certified number of steps no policy here breaks Definition 1."""
    array = np.array(requests, dtype=np.int64)
    workload = Workload(array[:, 0], array[:, 1])
    steps = overloaded_steps(workload, total_slots)
    for choose in CHOOSERS:
        assert is_overloaded(*_replay(workload, total_slots, steps, choose))


def test_certificate_by_hand() -> None:
    """Prompts 1 1 1 2 2 2, outputs 2, two slots.

    Without the largest class 3 remain, one more than the 2 slots. The 2 smallest outputs sum to
    4, which does not fit into 2·(K - 1) for K <= 2: two steps are certified. Sparing class 1, a
    policy takes 2 2 at step 0, which run for steps 0 and 1; at step 2 only one is left outside
    class 1 for two free slots.
    """
    workload = Workload(np.array([1, 1, 1, 2, 2, 2]), np.array([2] * 6))
    assert overloaded_steps(workload, 2) == 2
    pending, free = _replay(workload, 2, 3, _spare_the_largest_class)
    assert free == [2, 0, 2]
    assert overload_violations(pending, free) == {2: 1}
    assert not is_overloaded(pending, free)


def test_certificate_of_too_few() -> None:
    """One class only, or fewer requests than slots: not even the first step."""
    assert overloaded_steps(Workload(np.array([5] * 9), np.array([1] * 9)), 1) == 0
    assert overloaded_steps(Workload(np.array([5, 6]), np.array([1, 1])), 2) == 0


# Pools with the number that Definition 1 misses, counted by hand.
POOLS = [
    ([], 0, 0),
    ([], 2, 2),
    ([4, 4, 4], 0, 0),
    ([4, 4, 4], 1, 1),
    ([4, 4, 9], 1, 0),
    ([4, 4, 9], 2, 1),
    ([1, 2, 3, 4], 3, 0),
    ([1, 2, 3, 4], 4, 1),
    ([7, 7, 7, 8, 8, 9], 3, 0),
    ([7, 7, 7, 8, 8, 9], 5, 2),
]


def _real(pool: Sequence[int], free: int) -> int:
    return overload_violations([pool], [free]).get(0, 0)


def _forgets_the_class(pool: Sequence[int], free: int) -> int:
    return max(0, free - len(pool))


def _removes_the_smallest_class(pool: Sequence[int], free: int) -> int:
    return max(0, free - len(pool) + min(Counter(pool).values(), default=0))


def _counts_classes(pool: Sequence[int], free: int) -> int:
    return max(0, free - max(len(set(pool)) - 1, 0))


def _strict(pool: Sequence[int], free: int) -> int:
    return max(0, free + 1 - len(pool) + max(Counter(pool).values(), default=0))


def _passes(checker: Checker) -> bool:
    return all(checker(pool, free) == missing for pool, free, missing in POOLS)


def test_checker_by_hand() -> None:
    """The checker gives the shortfall counted by hand on every pool."""
    assert _passes(_real)


@pytest.mark.parametrize(
    "mutant", [_forgets_the_class, _removes_the_smallest_class, _counts_classes, _strict]
)
def test_wrong_checkers_are_caught(mutant: Checker) -> None:
    """Each plausible misreading of Definition 1 fails on some of these pools."""
    assert not _passes(mutant)


def test_undersized_instance_is_caught() -> None:
    """A generator that forgot the finished requests (n - max n_l >= G·B only) would be caught."""
    workload = Workload(np.array([1, 2] * 4), np.array([1] * 8))
    # 4 outside the largest class cover the 4 slots of step 0, but not those of step 1.
    pending, free = _replay(workload, 4, 2, _spare_the_largest_class)
    assert overload_violations(pending, free) == {1: 4}


def test_bad_arguments() -> None:
    """A law with one length cannot overload; sizes are checked; records are equally long."""
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="one length makes up nearly all prompts"):
        overloaded(2, 3, Homogeneous(5), Geometric(2), rng=rng)
    with pytest.raises(InputError, match="steps"):
        overloaded(0, 3, Uniform(1, 2), Geometric(2), rng=rng)
    with pytest.raises(InputError, match="slots need too many requests"):
        overloaded(10**6, 10**6, Uniform(1, 2), Geometric(2), rng=rng)
    with pytest.raises(InputError, match=r"free_slots\[0\]: expected an integer, found null"):
        is_overloaded([[1, 2]], [])
    with pytest.raises(InputError, match=r"pending\[0\]\[1\]"):
        is_overloaded([[1, 0]], [0])
