"""Functions behind the claims of the fluid paper, against brute force and by hand."""

from fractions import Fraction
from itertools import product
from math import comb, exp, isclose, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.chains import nested_policy, queue_lengths
from formulations.fluid import equilibrium
from formulations.thresholds import drift_exponent
from proofs_checks.papers.fluid.equilibrium import Case, stage_sum
from proofs_checks.papers.fluid.memory import TwoSegments, closed_form, full_batch
from proofs_checks.papers.fluid.nested_runs import Load, unanswered_are_bounded
from proofs_checks.papers.fluid.nested_theorems import merged_case
from proofs_checks.papers.fluid.propositions import ReservingCoins, least_backlog, work_left
from proofs_checks.papers.fluid.queues import (
    binomial_law,
    poisson_law,
    positive_part,
    queue_laws,
    queue_path,
    reflected_laws,
    reflected_path,
    tail,
)
from proofs_checks.papers.fluid.runs import (
    Setting,
    canonical,
    exponent_estimate,
    instance_of,
    random_setting,
    reference,
    wait_replicas,
    waiting_at,
)
from proofs_checks.papers.fluid.segments import cumulant
from proofs_checks.papers.fluid.stability import best_admission
from proofs_checks.papers.fluid.theorem1 import agrees_with_engine
from proofs_checks.papers.fluid.theorem1_proof import SingleClass, mean_queues
from proofs_checks.papers.fluid.thresholds import trace
from proofs_checks.search import plain

rows = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 10**4)),
    min_size=1,
    max_size=4,
)


def test_the_equilibrium_of_the_papers_instance() -> None:
    """I0 with d1 = 1/18 and d0 = 1: twice K = d0/(1 − 9·d1) = 2 of everything."""
    case = Case(((1, 1, 1), (1, 1, 2)), 1, 18)
    # n = (2K, 3K), M = 9K with K = 1/(1 − 9/18) = 2.
    assert case.counts == [4, 6]
    assert case.memory(case.counts) == 18
    assert case.time == 2


@given(rows, st.integers(1, 10**6), st.integers(1, 10**6))
def test_elimination_gives_the_closed_form(
    classes: list[tuple[int, int, int]], fixed: int, more: int
) -> None:
    """The balance solved as a system, against (6) as the toolkit has it."""
    case = Case(tuple(classes), fixed, Case(tuple(classes), 1, 1).work_rate + more)
    state = equilibrium(case.classes, case.worker())
    assert tuple(case.counts) == state.active
    assert Case.of(plain(case)) == case


@pytest.mark.parametrize(
    "data",
    [
        {"rows": [[1, 1, 1]], "fixed": 1, "inverse": 3},
        {"rows": [], "fixed": 1, "inverse": 3},
        {"rows": [[1, 0, 1]], "fixed": 1, "inverse": 30},
        {"rows": [[1, 1, 1]], "fixed": 0, "inverse": 30},
    ],
)
def test_data_of_no_stable_case_are_refused(data: dict[str, object]) -> None:
    """Load 1 (A = 3, d1 = 1/3), no class, a length of 0, no fixed time."""
    assert Case.of(data) is None


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(1, 4))
def test_laws_follow_the_paths(arrivals: list[int], service: int) -> None:
    """With certain arrivals a law has all its weight where the path is."""
    certain = [np.eye(5)[x] for x in arrivals]
    queue = [int(law.argmax()) for law in queue_laws(certain, service)]
    assert queue == queue_path(arrivals, service)
    walk = [int(law.argmax()) for law in reflected_laws(certain, service)]
    assert walk == reflected_path(arrivals, service, 0)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 7))
def test_laws_of_queues_are_those_of_all_sequences(
    before: int, service: int, eighths: int
) -> None:
    """Binomial transfers over three steps, each sequence weighed."""
    law = binomial_law(before, eighths / 8)
    expected = np.zeros(3 * before + 1)
    for moved in product(range(before + 1), repeat=3):
        expected[queue_path(moved, service)[-1]] += prod(float(law[y]) for y in moved)
    (*_, last) = queue_laws([law] * 3, service)
    assert np.allclose(last, expected[: len(last)])
    assert np.allclose(tail(last)[0], 1)


def test_arrival_laws() -> None:
    """Binomial(3, 1/4) and Poisson(2) at a few values."""
    assert np.allclose(binomial_law(3, 0.25), [27 / 64, 27 / 64, 9 / 64, 1 / 64])
    law = poisson_law(2.0)
    assert isclose(law[3], exp(-2) * 8 / 6)
    assert isclose(law.sum(), 1, abs_tol=1e-12)


def test_the_mean_of_the_largest_partial_sum() -> None:
    """Spitzer's sum at λ = 3: 12.7993 after 100 steps, as computed elsewhere by simulation."""
    assert isclose(sum(positive_part(3, k) / k for k in range(1, 101)), 12.7993, abs_tol=1e-4)
    # E[(X − 1)^+] for X Poisson(1) is P(X = 0) = 1/e.
    assert isclose(positive_part(1, 1), exp(-1))


def test_the_critical_queue_of_one_class() -> None:
    """L = l' = 1, n = 1, d0 = d1 = 1: batches of 2 and then ΔT = 1 + (1 + 2) = 4, λ = 1/4."""
    single = SingleClass(1, 1, 1, 1, 1)
    assert [single.duration(s) for s in (1, 2, 3)] == [2, 4, 4]
    # 1/2 come on average in the first; E[max(X, 1) − 1] = 1/2 − 1 + P(X = 0); then 1 comes.
    assert np.allclose(mean_queues(single, 2), [0.5, 0.5 + exp(-0.5)])


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(0, 10**6))
def test_mean_queues_are_those_of_runs(output: int, threshold: int, fixed: int, seed: int) -> None:
    """With arrivals as drawn: batches of the engine last as `SingleClass.duration` says."""
    single = SingleClass(2, output, threshold, fixed, 1)
    times = np.sort(np.random.default_rng(seed).integers(0, 40, 12)).tolist()
    instance = instance_of([(t, 2, output) for t in times], fixed, 1)
    run = reference(instance, Setting(((2, output),), (), fixed, 1).wait([threshold]), 10**4)
    lengths = run.batches.duration.tolist()
    assert lengths == [single.duration(s) for s in range(1, len(lengths) + 1)]
    assert max(lengths, default=0) <= single.longest


@given(st.integers(2, 60), st.integers(1, 60), st.integers(1, 99))
def test_the_cumulant_vanishes_at_the_exponent(
    before: int, threshold: int, hundredths: int
) -> None:
    """g(θ) = 0 up to rounding, from an expression of its own."""
    share = Fraction(hundredths, 100)
    if before > threshold > before * share:
        theta = drift_exponent(before, threshold, share)
        assert abs(cumulant((before, threshold, share), theta)) < 1e-6 * (1 + theta * before)


def test_full_batches_by_hand() -> None:
    """With l = 1, l' = (1, 2), n = (4, 3): 4·(1 + 2) + 3·3 = 21; the paper's example: 135,000."""
    assert full_batch(1, (1, 2), (4, 3)) == 21 == closed_form(1, (1, 2), (4, 3))
    assert full_batch(10, (20, 40, 80, 160), (15, 14, 12, 8)) == 135_000
    assert stage_sum(3, 2) == 3 + 4 + 5


def test_overflow_chances_by_enumeration() -> None:
    """P(W_2 > limit) over all transfers of 5 batches, n = (2, 1), P_2 = 1/3."""
    for width in (1, 2):
        case = TwoSegments(1, 1, width, (2, 1), ((2, 1),), 7, 10)
        for limit in range(-1, 4):
            left = full = 0.0
            for moved in product(range(3), repeat=5):
                chance = prod(comb(2, y) * (1 / 3) ** y * (2 / 3) ** (2 - y) for y in moved)
                path = queue_path(moved, 1)
                left += chance * any(w > limit for w in path)
                # Segment 2 is served where W + Y >= 1, and full from its width-th service on.
                served = [
                    w for before, y, w in zip(path, moved, path[1:], strict=False) if before + y
                ]
                full += chance * any(w > limit for w in served[width - 1 :])
            if limit >= 0:
                assert isclose(case.exceeds(limit, when_full=False), left, abs_tol=1e-12)
            assert isclose(case.exceeds(limit, when_full=True), full, abs_tol=1e-12)


def test_overflow_chances_with_rates_in_turns() -> None:
    """With nothing in the second turn, the chance of seven batches is that of fourteen."""
    one = TwoSegments(1, 1, 1, (2, 1), ((2, 1),), 9, 10)
    both = TwoSegments(1, 1, 1, (2, 1), ((2, 1), (10**9, 1)), 16, 10)
    for limit in range(3):
        first, second = (c.exceeds(limit, when_full=False) for c in (one, both))
        assert isclose(first, second, abs_tol=1e-6)


@given(st.lists(st.sampled_from((2, 4)), min_size=12, max_size=45))
def test_merged_segments_are_full_when_warm(outputs: list[int]) -> None:
    """L = 1, l'_j = j ≤ 4, n = (3, 2), types 2 and 4 only: 36 tokens and 3 for each that waits."""
    case = merged_case(1, 2, (3, 2), 5)
    assert case.full == 3 * (1 + 2 + 3) + 2 * (4 + 5) == 36
    policy = nested_policy((2, 4), (3, 2))
    requests = [(1000 * (i // 3), 1, output) for i, output in enumerate(outputs)]
    run = reference(instance_of(requests, 3, 1), policy, 10**6)
    queues = queue_lengths(run, policy)
    # Segment 2 is full from its second batch on: its width is 2.
    warm = np.flatnonzero(queues.served[:, 1])[1:]
    assert (run.batches.memory[warm] == 36 + 3 * queues.waiting[warm, 1]).all()


def test_runs_as_arrays_are_the_engines() -> None:
    """Completion by completion, on the paper's instance with three pairs of thresholds."""
    for thresholds in ((1, 1), (2, 1), (3, 2)):
        replicas = wait_replicas(canonical(), thresholds, 40, 3, np.random.default_rng(7))
        assert agrees_with_engine(replicas, 3, 40).tally.failed == 0


def test_late_cohorts_would_be_noticed() -> None:
    """One batch that ends a clock unit later no longer agrees with the engine."""
    replicas = wait_replicas(canonical(), (1, 1), 30, 1, np.random.default_rng(3))
    replicas.ends[0][0, 4] += 1
    assert agrees_with_engine(replicas, 1, 30).tally.failed == 1


def test_a_power_has_its_exponent() -> None:
    """Means 5·T^(−1/2) give −1/2 with no width."""
    horizons = [10, 100, 1000]
    values = np.tile([5 * h**-0.5 for h in horizons], (8, 1))
    estimate = exponent_estimate("x", horizons, values, 4, "any", lambda low, high: low <= high)
    assert isclose(estimate.low, -0.5, abs_tol=1e-9)
    assert isclose(estimate.high, -0.5, abs_tol=1e-9)


def test_the_least_backlog_by_hand() -> None:
    """Works 3 at 0 and 6 at 2, rate 2, at time 4: 6 − 2·2 = 2 beats 9 − 2·4 = 1."""
    assert least_backlog([0, 2], [3, 6], Fraction(2), 4) == 2
    assert least_backlog([0], [3], Fraction(2), 4) == 0


def test_the_work_left_by_hand() -> None:
    """One prompt of l = 1, l' = 2 (work 1 + 2 + 3) after its first batch of three: 5 are left."""
    instance = instance_of([(0, 1, 2)], fixed=10, per_token=0)
    run = reference(instance, lambda state: [*state.held, *state.waiting], 11)
    # Two batches have begun, [0, 10] and [10, 20]; one has ended by 11.
    assert work_left(run) == 5


@given(st.integers(0, 10**6))
def test_coins_that_reserve_never_overflow(seed: int) -> None:
    """Whatever they toss, what runs could all be at its longest."""
    setting = random_setting(np.random.default_rng(seed), 12)
    policy = ReservingCoins(12, np.random.default_rng(seed))
    run = reference(setting.instance(12), policy, setting.requests[-1][0] + 40)
    assert run.overflows == 0


def test_waiting_between_stages() -> None:
    """WAIT with n = 1, two prompts 100 apart: one waits for stage 1 until the other comes."""
    requests = [(0, 1, 1), (100, 1, 1)]
    setting = random_setting(np.random.default_rng(0), 1)
    instance = instance_of(requests, 3, 0)
    policy = type(setting)(((1, 1),), (), 3, 0).wait([1])
    run = reference(instance, policy, 200)
    assert waiting_at(run, np.arange(2), 1).tolist() == [1, 1]


def test_admission_at_a_vertex() -> None:
    """Footprints 3/2 and 2, room for work 4: rate 1 of the first class, 1/6 of the other."""
    case = Case(((1, 1, 1), (1, 1, 2)), 1, 10**6)
    # C/(d0 + d1·C) = 4/(1 + 4·10⁻⁶), so (C/(..) − 3)/6 of class 2, which counts 3.
    room = Fraction(4) / (1 + Fraction(4, 10**6))
    assert best_admission(case.problem(4)) == 2 + (room - 3) / 6 * 3


def test_figure_6_with_its_types() -> None:
    """P3, P5 to P8 of type 2, the others of type 1: the corrected last row."""
    rows_ = trace([1, 1, 2, 1, 2, 2, 2, 2, 1, 1])
    assert rows_[0] == ((), (3,), (1, 2))
    assert rows_[1] == ((7,), (3, 5, 6), (4,))
    assert rows_[2] == ((10,), (7, 8), (3, 5, 6, 9))


def test_without_output_in_the_first_segment_its_queue_is_not_all() -> None:
    """Thresholds (1, 5), l' = (0, 1): four wait before stage 1, with none before stage 0.

    At the fifth batch all five lack a first token: more than W_1 + 2n_1 = 2.
    """
    load = Load(1, (0, 1), (1, 5), tuple((10 * t, 1) for t in range(5)), 1, 1)
    run = load.run()
    waiting = queue_lengths(run, nested_policy(load.ends, load.thresholds)).waiting
    assert waiting[4].tolist() == [0, 4]
    assert run.batches.start.tolist() == run.instance.arrival.tolist()
    assert (run.first_token == -1).all()
    assert unanswered_are_bounded(load, 1)
