"""Policies that follow prefixes: instances by hand, the ring of hashes, worth and balance."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.policies.sticky import first_nodes, is_overloaded, positions, ring
from bfio.decode.policy_registry import choose
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.testing.states import make_state
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError
from tests.decode.cases import build


@dataclass(frozen=True)
class Known:
    """Prefixes as given."""

    cached_tokens: IntArray
    all_keys: IntArray

    def keys(self, num_blocks: int) -> IntArray:
        """Return the keys, whatever they are made from."""
        del num_blocks
        return self.all_keys


def with_prefixes(
    s: DecodeState, cached: list[list[int]], keys: list[int] | None = None
) -> DecodeState:
    """Return a state whose workers have cached so much of each prompt."""
    return replace(s, prefixes=Known(np.array(cached), np.array(keys or [0] * len(cached))))


def answer(s: DecodeState, name: str, **options: Any) -> list[int | None]:
    """Ask a new policy once."""
    return list(build(name, **options)(s))


@pytest.mark.parametrize(
    ("loads", "skew", "worker"),
    [
        # Most is cached on 0 and 2; of these 2 has fewer tokens.
        ([50, 10, 30], "3/2", 2),
        ([50, 10, 60], "0", 0),
        # The mean is 40: from 60 tokens on a worker would be passed over, so far none is.
        ([50, 10, 60], "3/2", 0),
        ([50, 10, 61], "1", 1),
        # All that take it are overloaded or not: the match decides again.
        ([20, 20, 20], "1/2", 0),
    ],
)
def test_the_longest_match_within_the_guard(loads: list[int], skew: str, worker: int) -> None:
    """One request of which workers 0 and 2 have 512 tokens."""
    s = with_prefixes(make_state(loads, [1, 1, 1], [7]), [[512, 0, 512]])
    assert answer(s, "prefix-affinity", max_load_skew=skew) == [worker]


def test_what_was_just_assigned_counts_as_load() -> None:
    """The first request brings worker 0 to 100 of 100 tokens, so the second goes to worker 1."""
    s = with_prefixes(make_state([0, 0], [2, 2], [100, 5]), [[512, 0], [512, 0]])
    assert answer(s, "prefix-affinity") == [0, 1]
    assert answer(s, "prefix-affinity", max_load_skew=0) == [0, 0]


def test_without_prefixes_it_is_least_tokens() -> None:
    """As `jsq-tokens`, request by request."""
    s = make_state([50, 10, 30], [2, 1, 2], [7, 7, 50])
    assert answer(s, "prefix-affinity") == answer(s, "jsq-tokens")


@given(
    tokens=st.integers(0, 2**61),
    others=st.integers(0, 2**61),
    workers=st.integers(1, 10**4),
    skew=st.fractions(0, 10**6, max_denominator=10**6),
)
def test_the_guard_is_exact(tokens: int, others: int, workers: int, skew: Fraction) -> None:
    """Against fractions, and within 64 bits."""
    skew = Fraction(min(skew.numerator, 10**6), skew.denominator)
    total = tokens + others
    expected = skew > 0 and tokens * workers > max(total, workers) * skew
    found = is_overloaded(tokens, total, workers, skew.numerator, skew.denominator)
    assert found == expected


def _mixed(key: int) -> int:
    """Return SplitMix64's output of a key, in integers of any size."""
    full = 2**64
    bits = (key + 0x9E3779B97F4A7C15) % full
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % full
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % full
    return (bits ^ (bits >> 31)) >> 1


def test_positions_are_those_of_the_source() -> None:
    """SplitMix64 from 0 begins with e220a8397b1dcdaf; negative keys are two's complements."""
    assert _mixed(0) == 0xE220A8397B1DCDAF >> 1
    keys = [0, 1, -1, 2**62, -(2**63)]
    assert positions(np.array(keys)).tolist() == [_mixed(key) for key in keys]


def test_the_ring_is_walked_from_the_key() -> None:
    """Each of 40 keys goes to the worker of the first place at or behind it, plainly found."""
    nodes = sorted((_mixed(_mixed(node)), node // 3) for node in range(12))
    for key in range(40):
        behind = [g for place, g in nodes if place >= _mixed(key)] + [g for _, g in nodes]
        order = list(dict.fromkeys(behind))
        s = with_prefixes(make_state([9, 0, 7, 3], [1] * 4, [5]), [[0] * 4], [key])
        assert answer(s, "consistent-hash", virtual_nodes=3) == [order[0]]
        free = [int(g != order[0]) for g in range(4)]
        full = with_prefixes(make_state([9, 0, 7, 3], free, [5]), [[0] * 4], [key])
        assert answer(full, "consistent-hash", virtual_nodes=3) == [order[1]]
        loads = [100 if g in order[:2] else 0 for g in range(4)]
        heavy = with_prefixes(make_state(loads, [1] * 4, [5]), [[0] * 4], [key])
        guarded = {"virtual_nodes": 3, "max_load_skew": "3/2"}
        assert answer(heavy, "consistent-hash", **guarded) == [order[2]]


def test_a_worker_more_moves_few_keys() -> None:
    """Keys go to the new worker or stay where they were."""
    keys = np.arange(2000)
    before, after = (
        workers[first_nodes(places, keys)] for places, workers in (ring(7, 160), ring(8, 160))
    )
    moved = before != after
    assert set(after[moved].tolist()) == {7}
    assert 1 / 16 < moved.mean() < 1 / 4


@pytest.mark.parametrize("name", ["br-0", "br-h", "bf-io"])
def test_who_is_cached_where_decides_between_equals(name: str) -> None:
    """Two requests of 5 tokens, two empty workers: worker 0 takes the one that it has."""
    s = with_prefixes(make_state([0, 0], [1, 1], [5, 5]), [[0, 3], [3, 0]])
    assert answer(s, name, benefit=1) == [1, 0]
    assert answer(s, name) == [0, 1]
    # A third of a token is none.
    assert answer(s, name, benefit="1/4") == [0, 1]


@pytest.mark.parametrize("token_time", [None, [1, 1], [100, 100]])
@pytest.mark.parametrize(
    ("benefit", "expected"), [("3/100", [1, 0]), ("4/100", [1, 0]), ("5/100", [0, 1])]
)
def test_worth_is_weighed_against_imbalance(
    benefit: str, expected: list[int], token_time: list[int] | None
) -> None:
    """Loads 14 and 10, sizes 4 and 2; worker 0 has 100 tokens of request 0.

    Request 0 on worker 1 gives loads 16 and 14, on worker 0 18 and 12: 4 tokens of imbalance more.
    """
    s = with_prefixes(make_state([14, 10], [1, 1], [4, 2]), [[100, 0], [0, 0]])
    assert answer(_paced(s, token_time), "bf-io", benefit=benefit) == expected


@pytest.mark.parametrize("token_time", [None, [1, 1], [100, 100]])
@pytest.mark.parametrize(("benefit", "expected"), [("2/100", [1, 0]), ("3/100", [0, 1])])
def test_worth_is_added_to_the_score(
    benefit: str, expected: list[int], token_time: list[int] | None
) -> None:
    """The same step; BR-0 lets worker 1 choose, 4 below the other, which has 100 of request 1.

    The scores there are 4 and 2, to which the worth of request 1 is added.
    """
    s = with_prefixes(make_state([14, 10], [1, 1], [4, 2]), [[0, 0], [0, 100]])
    assert answer(_paced(s, token_time), "br-0", benefit=benefit) == expected


def _paced(state: DecodeState, token_time: list[int] | None) -> DecodeState:
    """Return the state with times per token, of which only the proportion may matter."""
    return state if token_time is None else replace(state, token_time=np.array(token_time))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"benefit": -1}, "benefit: -1 is out of range"),
        ({"benefit": 10**7}, "benefit: 10000000 is out of range"),
        ({"max_load_skew": "1/10000000"}, "max_load_skew: 1/10000000 is out of range"),
        ({"key_blocks": 0}, "key_blocks: 0 is out of range"),
        ({"virtual_nodes": 0}, "virtual_nodes: 0 is out of range"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    """One line."""
    able = [name for name in ("br-0", "consistent-hash") if {*options} <= {*choose(name).table}]
    with pytest.raises(InputError, match=message):
        choose(able[0], options)


def test_a_benefit_without_caches_is_refused() -> None:
    """It would change nothing."""
    load = Workload([5], [1], block_hashes=[[1]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="benefit: changes nothing without prefix_cache"):
        simulate(load, "br-0:benefit=1", Cluster(1, 1))
    kept = Cluster(1, 1, prefix_cache=512)
    with pytest.raises(InputError, match="the compiled engine cannot run"):
        simulate(load, "br-0:benefit=1", kept, engine="compiled")


def test_policies_see_what_is_cached_while_they_decide() -> None:
    """Before each step, of each prompt and worker; later it is too late to ask."""
    seen: list[DecodeState] = []
    shown: list[list[list[int]]] = []
    keys: list[list[int]] = []

    def in_turn(s: DecodeState) -> list[int | None]:
        seen.append(s)
        shown.append(s.cached_tokens.tolist())
        keys.append(s.routing_keys(2).tolist())
        return [s.step % 2] + [None] * (s.num_waiting - 1)

    def silent(s: DecodeState) -> list[int | None]:
        seen.append(s)
        return [0] + [None] * (s.num_waiting - 1)

    load = Workload([600, 512, 600], [1, 1, 1], block_hashes=[[4, 5], [4], [4, 6]])  # type: ignore[arg-type]
    cluster = Cluster(2, 1, prefix_cache=5000)
    simulate(load, in_turn, cluster)
    assert shown == [[[0, 0]] * 3, [[512, 0], [512, 0]], [[512, 512]]]
    assert keys == [[5, 4, 6], [4, 6], [6]]
    simulate(load, silent, cluster)
    with pytest.raises(InputError, match="is read after the step for which it is valid"):
        _ = seen[-1].cached_tokens
