"""Invariants of every path: cohorts, memory, durations, queues between segments, probabilities."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.arrivals import poisson_instance
from bfio.wait.chains import Chain, ThresholdPolicy, nested_policy, queue_lengths
from bfio.wait.policy import StageInstance
from bfio.wait.registry import build
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.arrays import IntArray
from formulations.fluid import FluidProblem
from formulations.thresholds import NestedProblem, drift_exponent, safety_buffer
from tests.wait.cases import FOUR_LENGTHS, I0, instance, instances, nested_policies, wait_policies

BOTH = ["reference", "compiled"]


def full_batch(chain: Chain, prompt: int) -> int:
    """Return ``Σ n_i Σ_k (l + k)``, the tokens of a full batch of a chain."""
    return sum(
        threshold * sum(prompt + stage for stage in range(entry, end + 1))
        for entry, end, threshold in chain.segments
    )


def largest_prompts(data: StageInstance, policy: ThresholdPolicy) -> dict[int, int]:
    """Return the largest prompt in each chain that is used."""
    chain_of = policy.chain_of(data)
    return {c: int(data.prompt[chain_of == c].max()) for c in set(chain_of.tolist())}


def policy_memory(data: StageInstance, policy: ThresholdPolicy) -> int:
    """Return ``M(n)``, the full batches of all chains that are used."""
    prompts = largest_prompts(data, policy)
    return sum(full_batch(policy.chains[c], prompt) for c, prompt in prompts.items())


def stage_counts(run: StageRun, chain: IntArray) -> dict[tuple[int, int, int], int]:
    """Return how many events each (batch, chain, stage) has."""
    events = run.log.events()
    rows = np.column_stack((events.batch, chain[events.request], events.stage))
    keys, counts = np.unique(rows, axis=0, return_counts=True)
    return {tuple(key): count for key, count in zip(keys.tolist(), counts.tolist(), strict=True)}


@given(st.data())
def test_cohorts_of_wait_move_in_lockstep(data: st.DataObject) -> None:
    """Section 3.3 a to c: n_j at each stage or none, memory <= M(n), batch time <= ΔT(n)."""
    drawn: StageInstance = data.draw(instances(max_requests=24))
    policy = data.draw(wait_policies(drawn))
    run = serve(drawn, policy, drain=False, engine=data.draw(st.sampled_from(BOTH)))
    for (_, chain, _), count in stage_counts(run, policy.chain_of(drawn)).items():
        assert count == policy.chains[chain].thresholds[0]
    most = policy_memory(drawn, policy)
    assert run.peak_memory <= most
    assert run.batches.duration.max(initial=0) <= drawn.clock.duration(most)
    per_class = np.bincount(policy.chain_of(drawn), minlength=len(policy.chains))
    most_batches = sum(
        int(n) // chain.thresholds[0] for n, chain in zip(per_class, policy.chains, strict=True)
    )
    assert len(run.batches) <= most_batches


def test_lockstep_ends_where_a_run_drains() -> None:
    """While it drains, a cohort of one of two passes as well: the facts above need drain=False."""
    data = instance(9, [(0, 1, 1)])
    policy = nested_policy([1], [2])
    drained = serve(data, policy)
    assert set(stage_counts(drained, policy.chain_of(data)).values()) == {1}


@given(st.data())
def test_every_batch_of_nested_wait_has_n_1_fresh_prompts(data: st.DataObject) -> None:
    """Section 4.2; where segments end with outputs, later stages have n_i or none as well."""
    drawn: StageInstance = data.draw(instances(max_requests=24))
    ends = sorted({int(o) for o in drawn.output} | {int(drawn.output.max(initial=0)) + 1})
    thresholds = data.draw(st.lists(st.integers(1, 4), min_size=len(ends), max_size=len(ends)))
    policy = nested_policy(ends, thresholds)
    run = serve(drawn, policy, drain=False, engine=data.draw(st.sampled_from(BOTH)))
    counts = stage_counts(run, policy.chain_of(drawn))
    assert all(counts[k, 0, 0] == thresholds[0] for k in range(len(run.batches)))
    of_stage = {
        stage: threshold
        for entry, end, threshold in policy.chains[0].segments
        for stage in range(entry, end + 1)
    }
    assert all(count == of_stage[stage] for (_, _, stage), count in counts.items())


@given(st.data())
def test_the_memory_of_nested_wait(data: st.DataObject) -> None:
    """Section 4.5: at most ``M(n) + Σ_k W_k (l + b_{k−1})`` in every batch, whatever thresholds.

    W is what waits before a segment after the decision, as of the last batch that served the
    segment before it. The bound holds path by path with the exact M(n), for several chains too;
    where prompts of a chain differ, l is the largest.
    """
    drawn: StageInstance = data.draw(instances(max_requests=24))
    policy = data.draw(nested_policies(drawn))
    run = serve(drawn, policy, drain=False, engine=data.draw(st.sampled_from(BOTH)))
    assert np.all(run.batches.memory <= memory_bound(run, policy))


def memory_bound(run: StageRun, policy: ThresholdPolicy) -> IntArray:
    """Return the bound for each batch, shape (K,)."""
    recorded = queue_lengths(run, policy).recorded
    prompts = largest_prompts(run.instance, policy)
    bound = np.full(len(run.batches), policy_memory(run.instance, policy))
    column = 0
    for c, chain in enumerate(policy.chains):
        for entry, _, _ in chain.segments:
            if entry > 0 and c in prompts:
                bound += recorded[:, column] * (prompts[c] + entry - 1)
            column += 1
    return bound


def test_the_bound_is_attained_and_needs_the_queues() -> None:
    """On I0 with (4, 3): some batch meets it exactly, and M(n) = 21 alone does not suffice."""
    policy = build("nested-wait:thresholds=4,3:segments=1,2", I0)
    assert isinstance(policy, ThresholdPolicy)
    run = serve(poisson_instance(I0, 4000, seed=3), policy, horizon_s=4000)
    slack = memory_bound(run, policy) - run.batches.memory
    assert slack.min() == 0
    assert policy_memory(run.instance, policy) == 21
    assert run.peak_memory > 21


def test_queues_by_hand() -> None:
    """Segments 0 and 1 with thresholds (2, 3); six requests of output 1, two at a time.

    Batches at 0, 1 and 2 take two each. Two wait for stage 1 after the first, four after the
    second: the third takes three of these with its own two, one is left, and two come.
    """
    policy = nested_policy([0, 1], [2, 3])
    run = serve(instance(99, [(k // 2, 1, 1) for k in range(6)]), policy, drain=False)
    queues = queue_lengths(run, policy)
    assert queues.waiting.tolist() == [[0, 0], [0, 2], [0, 1]]
    assert queues.served.tolist() == [[True, False], [True, False], [True, True]]
    assert queues.moved.tolist() == [[0, 2], [0, 2], [0, 2]]
    assert queues.is_first.tolist() == [True, False]
    assert queues.transfers(1).tolist() == [2, 2, 2]


def test_a_queue_keeps_its_value_while_the_segment_before_pauses() -> None:
    """Three segments of one stage: the third's queue is looked at where the second is served."""
    policy = nested_policy([0, 1, 2], [1, 2, 9])
    run = serve(instance(99, [(k, 1, 2) for k in range(4)]), policy, drain=False)
    queues = queue_lengths(run, policy)
    assert queues.served[:, 1].tolist() == [False, False, True, False]
    assert queues.waiting[:, 2].tolist() == [0, 0, 0, 2]
    assert queues.recorded[:, 2].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("segment", [1, 2, 3])
def test_transfers_are_binomial(segment: int) -> None:
    """Who goes on to segment k: independent, ``Binomial(n_{k−1}, P_k)``; within 4 deviations.

    Mean, variance and the covariance of successive ones, on 20,000 s of the four lengths.
    """
    nested = NestedProblem.single_from_fluid(FOUR_LENGTHS)
    policy = nested_policy(nested.group.ends, [4, 4, 4, 3])
    run = serve(poisson_instance(FOUR_LENGTHS, 20_000, seed=7), policy, horizon_s=20_000)
    entry, end, trials = policy.chains[0].segments[segment - 1]
    # The first cohort of a segment reaches its last stage after so many batches.
    moved = queue_lengths(run, policy).transfers(segment)[end - entry :]
    share = float(nested.group.chain.passing[segment - 1])
    mean, variance = trials * share, trials * share * (1 - share)
    fourth = variance * (1 + 3 * (trials - 2) * share * (1 - share))
    num = len(moved)
    deviations = moved - mean
    assert num > 10_000
    assert abs(deviations.mean()) < 4 * (variance / num) ** 0.5
    assert abs((deviations**2).mean() - variance) < 4 * ((fourth - variance**2) / num) ** 0.5
    assert abs((deviations[1:] * deviations[:-1]).mean()) < 4 * variance / num**0.5


def test_queues_stay_within_kingman_and_doob() -> None:
    """Appendix C on I0 with (4, 3): means at most 10.5 and 3.5, tails ``exp(−θ (c − 3))``.

    Segment 1: ``2·4 + (10/3)/(2 (4 − 10/3))``, as ``ΔT = 1/2 + 21/18 = 5/3`` brings 10/3. Segment
    2: ``3 + 4 P (1 − P)/(2 (3 − 4 P))`` with P = 1/2. Frequencies over 16 runs.
    """
    policy = nested_policy([1, 2], [4, 3])
    theta = drift_exponent(4, 3, Fraction(1, 2))
    queues = [
        queue_lengths(
            serve(poisson_instance(I0, 4000, seed=seed), policy, horizon_s=4000), policy
        ).waiting
        for seed in range(16)
    ]
    means = np.array([queue.mean(axis=0) for queue in queues])
    assert np.all(means.mean(axis=0) + 4 * means.std(axis=0, ddof=1) / 4 < [10.5, 3.5])
    for level in range(3, 8):
        shares = np.array([(queue[:, 1] >= level).mean() for queue in queues])
        assert shares.mean() <= np.exp(-theta * (level - 3)) + 4 * shares.std(ddof=1) / 4


@pytest.mark.parametrize(
    ("horizon", "seeds"), [(500, 20), pytest.param(4000, 200, marks=pytest.mark.deep)]
)
def test_overflows_are_as_rare_as_the_buffer_promises(horizon: int, seeds: int) -> None:
    """(12): memory suffices in all but a share δ of the runs; M(n) alone hardly ever does."""
    nested = NestedProblem.single_from_fluid(FOUR_LENGTHS)
    buffer = safety_buffer(nested, (4, 4, 4, 3), duration=horizon, probability="0.05")
    assert buffer.total is not None
    peaks = np.array(
        [
            serve(
                poisson_instance(FOUR_LENGTHS, horizon, seed=seed),
                nested_policy(nested.group.ends, (4, 4, 4, 3)),
                horizon_s=horizon,
            ).peak_memory
            for seed in range(seeds)
        ]
    )
    assert np.mean(peaks > buffer.total) <= 0.05
    assert np.mean(peaks > buffer.policy_memory) > 0.5


def test_one_segment_is_wait() -> None:
    """Nested WAIT for one length is WAIT: the same run."""
    (kind, _) = I0.classes
    one = FluidProblem((replace(kind, rate=Fraction(3, 2)),), I0.workers)
    data = poisson_instance(one, 500, seed=2)
    runs = [
        serve(data, build(text, one), horizon_s=500)
        for text in ("wait:thresholds=3", "nested-wait:thresholds=3")
    ]
    assert np.array_equal(runs[0].completion, runs[1].completion)
    assert np.array_equal(runs[0].batches.start, runs[1].batches.start)
    assert runs[0].is_completed.any()
