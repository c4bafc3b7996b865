"""Protection with a cap on the batch, and with the share looked at once per batch."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.policy import Admission, Protection
from bfio.kvcache.replay import violations
from bfio.kvcache.run import CacheVerdict
from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem
from formulations.errors import InputError
from tests.kvcache.instances import instances

#: C: each needs 2, 3 tokens; five need 10 in their first batch.
FIVE = latency_problem(12, [(0, 1, 2)] * 5)


def test_a_cap_by_hand() -> None:
    """Two at a time: rounds 0, 2, 4. Without a cap the share of 12 takes five, 15 > 12: a loop."""
    run = serve(FIVE, "alpha-greedy:alpha=0:cap=2")
    assert run.start.tolist() == [0, 0, 2, 2, 4]
    assert serve(FIVE, "alpha-greedy:alpha=0").verdict is CacheVerdict.LOOP


def test_once_per_batch_by_hand() -> None:
    """α = 1/2: per prompt 6 tokens stop at three requests, per batch all five start at once.

    M = 16, so that five fit (15): the first batch sees an empty worker, whatever α.
    """
    data = latency_problem(16, [(0, 1, 2)] * 5 + [(1, 1, 2)])
    once = serve(data, "alpha-greedy:alpha=0.5:admission=batch")
    # In round 1 the five need 15 > 8, so the sixth waits until they are gone.
    assert once.start.tolist() == [0, 0, 0, 0, 0, 2]
    each = serve(data, "alpha-greedy:alpha=0.5")
    assert each.start.tolist() == [0, 0, 0, 0, 2, 2]


def test_once_per_batch_stops_where_the_memory_is_full() -> None:
    """M = 8: the published rule would start five (10 tokens); four fill the batch."""
    data = latency_problem(8, [(0, 1, 1)] * 5)
    run = serve(data, "alpha-greedy:alpha=0:admission=batch")
    assert run.start.tolist() == [0, 0, 0, 0, 1]
    assert run.batches.memory.tolist() == [8, 2]


@given(
    instances(),
    st.sampled_from(list(Admission)),
    st.integers(1, 4),
    st.fractions(0, Fraction(9, 10)),
)
def test_no_batch_exceeds_cap_or_memory(
    data: CacheInstance, admission: Admission, cap: int, alpha: Fraction
) -> None:
    """Whatever the run's end; the replay rebuilds the memory of every batch."""
    run = serve(data, Protection(alpha, admission=admission, cap=cap))
    assert violations(run) == {}
    assert run.batches.active.max(initial=0) <= cap


@given(instances(), st.fractions(0, Fraction(9, 10)))
def test_a_cap_beyond_all_requests_changes_nothing(data: CacheInstance, alpha: Fraction) -> None:
    """The run is that without one."""
    capped = serve(data, Protection(alpha, cap=10**6))
    assert capped.start.tolist() == serve(data, Protection(alpha)).start.tolist()


@pytest.mark.parametrize("text", ["alpha-greedy:admission=never", "alpha-greedy:cap=-1"])
def test_bad_options_are_refused(text: str) -> None:
    """In one line that names the option."""
    with pytest.raises(InputError, match=r"admission|cap"):
        serve(FIVE, text)
