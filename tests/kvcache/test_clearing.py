"""Protection policies, clearing, loops, and predictions that are too short."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.policy import CacheState, Protection
from bfio.kvcache.replay import violations
from bfio.kvcache.run import CacheLimits, CacheVerdict, StayEnd
from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem
from formulations.errors import InputError
from tests.kvcache.instances import instances, noisy_lengths

#: C: two requests that need 2, 3, 4, 5 tokens; together 4, 6, 8, 10.
TWINS = latency_problem(8, [(0, 1, 4), (0, 1, 4)])


class Forgetful(Protection):
    """The same policy without the promise that a repeated state repeats forever."""

    memoryless = False


def test_two_requests_that_always_outgrow_the_memory() -> None:
    """α = 1/4: both start (4 <= 6), need 10 > 8 in their last batch, are cleared, start again.

    The second overflow finds the state of the first: a loop, after 2·3 batches.
    """
    run = serve(TWINS, "alpha-greedy:alpha=0.25")
    assert (run.verdict, run.overflows, run.cleared) == (CacheVerdict.LOOP, 2, 4)
    assert run.batches.memory.tolist() == [4, 6, 8] * 2
    assert (run.total_latency, run.summary()["latency_mean"]) == (None, None)
    assert run.start.tolist() == [-1, -1]
    assert violations(run) == {}


def test_enough_protection_ends_the_loop() -> None:
    """α = 3/5: the limit is 3, so one runs after the other: 4 + 8."""
    assert serve(TWINS, "alpha-greedy:alpha=0.6").total_latency == 12


def test_clearing_by_chance_ends_the_loop() -> None:
    """Sooner or later only one is cleared."""
    run = serve(TWINS, "beta-clearing:alpha=0.25:beta=0.5", seed=3)
    assert run.is_finished
    assert run.cleared > 0
    assert run.completion.tolist() != [-1, -1]


def test_a_loop_is_known_while_requests_are_still_to_come() -> None:
    """The third (5 tokens) blocks the queue in every decision, so who comes later never matters.

    Without it the queue runs dry, a later request could change things, and the run goes on until
    that request is there.
    """
    late = (10**9, 1, 1)
    blocked = latency_problem(8, [(0, 1, 4), (0, 1, 4), (0, 4, 1), late])
    run = serve(blocked, "alpha-greedy:alpha=0.25")
    assert (run.verdict, len(run.batches)) == (CacheVerdict.LOOP, 6)
    dry = latency_problem(8, [(0, 1, 4), (0, 1, 4), late])
    run = serve(dry, "alpha-greedy:alpha=0.25", limits=CacheLimits(fruitless_clearings=50))
    assert (run.verdict, run.overflows) == (CacheVerdict.STOPPED, 50)
    assert run.reason == "too many consecutive overflows without a completion"
    soon = latency_problem(8, [(0, 1, 4), (0, 1, 4), (30, 1, 1)])
    assert serve(soon, "alpha-greedy:alpha=0.25").verdict is CacheVerdict.LOOP


@given(instances())
def test_a_declared_loop_never_completes_anything_more(data: CacheInstance) -> None:
    """Without the detector the run completes no further request within many more overflows."""
    policy = Protection(alpha=Fraction(0))
    run = serve(data, policy, engine="reference")
    assert run.verdict is not CacheVerdict.STOPPED
    if run.verdict is CacheVerdict.LOOP:
        limits = CacheLimits(fruitless_clearings=30)
        longer = serve(data, Forgetful(Fraction(0)), limits=limits)
        assert longer.verdict is CacheVerdict.STOPPED
        assert longer.completed.tolist() == run.completed.tolist()


def test_an_empty_worker_starts_the_oldest_whatever_its_size() -> None:
    """The limit is 4 of 8; the oldest needs 6 and would wait forever. Behind it 2 + 2 fit."""
    run = serve(latency_problem(8, [(0, 5, 2), (1, 1, 1), (1, 1, 1)]), "alpha-greedy:alpha=0.5")
    assert run.start.tolist() == [0, 2, 2]


def test_cleared_requests_keep_their_place() -> None:
    """After the clearing at 3 the twins start again before the one that came in between."""
    data = latency_problem(9, [(0, 1, 4), (0, 1, 4), (1, 7, 1)])
    run = serve(data, "beta-clearing:alpha=0:beta=0.5", seed=0)
    cleared = run.stays.request[run.stays.end == StayEnd.CLEARED]
    assert set(cleared.tolist()) <= {0, 1}
    assert run.start[2] > max(run.start[0], run.start[1])
    assert run.is_finished


def test_time_passes_between_draws_that_free_too_little() -> None:
    """With a pause of 100 rounds each fruitless draw costs 100; batches take 1 each."""
    run = serve(TWINS, "beta-clearing:alpha=0.25:beta=0.1:pause=100", seed=1)
    gaps = np.diff(run.batches.start) - 1
    assert gaps.sum() == 100 * (run.draws - run.overflows)
    assert run.draws > run.overflows


def test_limit_of_batches_keeps_what_was_reached() -> None:
    """Two of four batches of a request: it is still there, and the verdict says so."""
    for engine in ("reference", "compiled"):
        run = serve(
            latency_problem(9, [(0, 1, 4)]), "mc-sf", engine=engine, limits=CacheLimits(batches=2)
        )
        assert (run.verdict, run.reason) == (
            CacheVerdict.STOPPED,
            "the limit on the number of batches was reached",
        )
        assert (run.start.tolist(), run.completion.tolist()) == ([0], [-1])
        assert run.stays.end.tolist() == [StayEnd.OPEN]
        assert violations(run) == {}


@pytest.mark.parametrize("engine", ["auto", "compiled", "reference"])
def test_nothing_starts_with_a_batch_beyond_the_limit(engine: str) -> None:
    """The second request would start with the third batch, which does not run: it has no stay."""
    limits = CacheLimits(batches=2)
    run = serve(latency_problem(3, [(0, 1, 2), (0, 1, 2)]), "mc-sf", engine=engine, limits=limits)
    assert run.verdict is CacheVerdict.STOPPED
    assert (run.start.tolist(), run.completion.tolist()) == ([0, -1], [2, -1])
    assert violations(run) == {}


def test_a_prediction_that_is_too_short() -> None:
    """C, M = 8, two requests of output 4, predicted 2 and 1.

    Both are to end within 2 + 2 and 3 tokens, so both start. From their second and third batch
    on each is believed to end with the coming one; in batch 3 they need 10 > 8 and are cleared,
    believed to need 4 batches both. Now the second starts two batches after the first, where
    4 + 2 and 5 + 3 fit: completions at 3 + 4 and 5 + 4.
    """
    run = serve(TWINS, "mc-sf", predicted=np.array([2, 1]))
    assert run.batches.memory.tolist() == [4, 6, 8, 2, 3, 6, 8, 4, 5]
    assert (run.overflows, run.cleared, run.total_latency) == (1, 2, 7 + 9)


def test_the_margin_must_be_added() -> None:
    """With ``ô + δ`` nothing overflows (4 + 6 rounds); the published ``ô - δ``, here 1, does."""
    run = serve(TWINS, "mc-sf:delta=2", predicted=np.array([2, 2]))
    assert (run.overflows, run.total_latency) == (0, 10)
    assert serve(TWINS, "mc-sf", predicted=np.array([1, 1])).overflows > 0


@given(instances(), st.integers(0, 5), st.integers(0, 2**32))
def test_a_safe_margin_never_overflows(data: CacheInstance, error: int, seed: int) -> None:
    """Predictions off by at most δ, with δ added: no overflow and the memory is kept."""
    predicted = noisy_lengths(data.output, error, np.random.default_rng(seed))
    run = serve(data, f"mc-sf:delta={error}", predicted=predicted)
    assert (run.is_finished, run.overflows) == (True, 0)
    assert violations(run) == {}


@given(instances(), st.sampled_from(["mc-sf", "mc-sf:beta=0.3", "mc-benchmark:scan=continue"]))
def test_short_predictions_end_all_the_same(data: CacheInstance, algorithm: str) -> None:
    """Every overflow lengthens a belief that never exceeds the truth: at most Σ o of them."""
    run = serve(data, algorithm, predicted=np.ones(len(data), dtype=np.int64))
    assert run.is_finished
    assert run.overflows <= int(data.num_batches.sum())
    assert violations(run) == {}


@given(instances(), st.integers(1, 9))
def test_too_long_predictions_only_delay(data: CacheInstance, excess: int) -> None:
    """They are cut to what fits alone, so every request still starts."""
    run = serve(data, "mc-sf", predicted=data.output + excess)
    assert (run.is_finished, run.overflows) == (True, 0)
    assert violations(run) == {}


def test_predictions_are_checked() -> None:
    """One per request, at least 1."""
    with pytest.raises(InputError, match="predicted: 1 predictions for 2 requests"):
        serve(TWINS, "mc-sf", predicted=np.array([1]))
    with pytest.raises(InputError, match=r"predicted\[1\]: 0 is out of range"):
        serve(TWINS, "mc-sf", predicted=np.array([1, 0]))


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(0, 60), st.integers(0, 2**32))
def test_noisy_lengths_stay_within_their_error(outputs: list[int], error: int, seed: int) -> None:
    """At least 1 and never further off than stated."""
    output = np.array(outputs, dtype=np.int64)
    noisy = noisy_lengths(output, error, np.random.default_rng(seed))
    assert np.all(noisy >= 1)
    assert np.all(np.abs(noisy - output) <= error)


def test_a_policy_that_never_starts_anything_is_stopped() -> None:
    """Nothing runs, and the verdict says why."""

    def idle(state: CacheState) -> list[int]:
        return []

    run = serve(TWINS, idle, limits=CacheLimits(idle=20))
    assert (run.verdict, len(run.batches)) == (CacheVerdict.STOPPED, 0)
    assert "started no request" in run.reason
