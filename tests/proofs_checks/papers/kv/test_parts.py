"""Functions behind the claims of the KV-cache paper, against the engines and enumeration."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem, latency_problems
from formulations.hindsight_latency import (
    Convention,
    LatencyProblem,
    brute_force,
    total_latency,
    violations,
)
from proofs_checks.papers.kv.arrivals import ArrivalWindow, tail, waiting_law
from proofs_checks.papers.kv.coupling import Coupling, Moment, off_couple
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    algorithm,
    as_data,
    from_data,
    jobs,
    least_latency,
    least_starts,
    optima,
    peak,
    prefix,
    problem_of,
    random_problem,
)
from proofs_checks.papers.kv.overload import (
    EqualRequests,
    mean_wait,
    saturated_rate,
    started,
    stream,
)
from proofs_checks.papers.kv.program import RULES, within
from proofs_checks.papers.kv.regret import least_left
from proofs_checks.papers.kv.selection import (
    WorkerState,
    breaking_is_scanning_on,
    largest_is_found,
    random_state,
)
from proofs_checks.papers.kv.semi_online import area_bound, totals
from proofs_checks.statistics import binomial
from proofs_checks.statistics import exact_mean as mean

SEEDS = st.integers(0, 2**32 - 1)
EQUAL = st.tuples(
    st.integers(1, 3), st.integers(1, 4), st.integers(0, 20), st.sampled_from(CONVENTIONS)
)


def drawn(seed: int, *, most: int = 6, mixed: bool = False) -> LatencyProblem:
    """Draw a problem from a seed."""
    return random_problem(np.random.default_rng(seed), most=most, memory=9, mixed=mixed)


@given(SEEDS, st.booleans())
def test_a_known_schedule_only_saves_time(seed: int, mixed: bool) -> None:
    """All optima, and the least latency, are the same with it as without."""
    data = jobs(drawn(seed, most=4, mixed=mixed))
    known = algorithm(data)
    assert optima(data) == optima(data, known=known)
    assert least_latency(data, known=known) == least_latency(data) == sum(optima(data)[0])


@given(SEEDS, st.booleans())
def test_algorithm_2_is_that_of_the_engine(seed: int, mixed: bool) -> None:
    """Same starts under every convention, with common and with mixed prompts."""
    problem = drawn(seed, mixed=mixed)
    starts = algorithm(jobs(problem))
    assert starts == serve(problem, "mc-sf", engine="reference").start.tolist()
    assert peak(jobs(problem), starts) <= problem.memory


@given(SEEDS, st.booleans())
def test_slots_are_the_checkers(seed: int, mixed: bool) -> None:
    """The peak of any starts exceeds the memory where the checker of schedules finds it to."""
    problem = drawn(seed, mixed=mixed)
    delays = np.random.default_rng(seed).integers(0, 3, problem.num_requests)
    starts = (problem.arrival + delays).tolist()
    found = any(name.startswith("memory") for name in violations(problem, starts))
    assert (peak(jobs(problem), starts) > problem.memory) == found


@given(SEEDS)
def test_data_are_read_as_written(seed: int) -> None:
    """Plain data give the problem back."""
    problem = drawn(seed, mixed=True)
    assert as_data(from_data(as_data(problem))) == as_data(problem)


@given(SEEDS, st.booleans())
def test_optima_are_those_of_brute_force(seed: int, mixed: bool) -> None:
    """Least total latency, the smallest starts that reach it, and each optimum once."""
    problem = drawn(seed, most=3, mixed=mixed)
    found = optima(jobs(problem))
    least, starts = brute_force(problem)
    assert list(min(found)) == starts
    assert len(set(found)) == len(found)
    assert all(total_latency(problem, p) == least for p in found)
    assert not any(violations(problem, p) for p in found)


@given(SEEDS, st.integers(0, 5))
def test_optima_from_a_state_keep_what_has_started(seed: int, now: int) -> None:
    """They agree with the state, start nothing else before ``now``, and cost no less than at 0."""
    data = jobs(drawn(seed, most=4))
    state = prefix(algorithm(data), now)
    for starts in optima(data, state, now)[:5]:
        assert prefix(starts, now) == state
        assert peak(data, starts) <= data.memory
        assert sum(starts) >= sum(optima(data)[0])


def test_optimum_from_a_state_by_hand() -> None:
    """M = 4, s = 1, convention A, outputs 1, 1, 2, 2: the theorem's counterexample.

    Both short requests at 0 hold 2 tokens, then 4; a long one (1, 2, 3 tokens) fits after round 1
    only: 0 + 0 + 2 + 4 = 6. From the empty worker (0, 1, 1, 3) is best: 5.
    """
    data = jobs(problem_of(4, [1] * 4, [1, 1, 2, 2]))
    assert algorithm(data) == [0, 0, 2, 4]
    assert sum(optima(data)[0]) == 5
    assert sum(optima(data, {0: 0, 1: 0}, 1)[0]) == 6


@pytest.mark.parametrize(
    ("memory", "outputs", "convention"),
    [
        (4, [1, 1, 2, 2], Convention.CLOSED),
        (4, [2, 2, 3, 3], Convention.PRINTED),
        (5, [1, 1, 3, 3], Convention.HALF_OPEN),
        (6, [2, 2, 2, 2, 2], Convention.CLOSED),
        (11, [5, 5, 5, 5], Convention.CLOSED),
        (11, [6, 6, 6, 6], Convention.PRINTED),
    ],
)
def test_few_requests_suffice_for_one_convention(
    memory: int, outputs: list[int], convention: Convention
) -> None:
    """Four break Theorem 4.2 under A, B and C alone; four equal ones do under A and B."""
    problem = problem_of(memory, [1] * len(outputs), outputs, convention)
    assert brute_force(problem)[0] < total_latency(problem, algorithm(jobs(problem)))


@given(SEEDS)
def test_least_starts_are_optimal(seed: int) -> None:
    """Feasible, and of the least total latency."""
    problem = drawn(seed, most=4)
    starts = least_starts(jobs(problem))
    assert not violations(problem, starts)
    assert brute_force(problem)[0] == total_latency(problem, starts)


def test_off_couple_by_hand() -> None:
    """M = 4, s = 1, under (1): o = 3 at 0 (1, 2, 3, 4 tokens), o = 1 arrives at 1 (1, 2).

    Algorithm 2 starts the long one at 0, OFF both at 1 (2, 4, 3, 4). So t̂ = 1 + 3 = 4; next to
    the long one in slots 1 to 3 there is no room for 1, then 2, and OC starts the short one at 4.
    """
    moment = Moment(problem_of(4, [1, 1], [3, 1], arrivals=[0, 1]), 0)
    assert moment.offline == [(1, 1)]
    assert moment.coupled((1, 1)) == Coupling((0, 4), 4)


@given(EQUAL, st.integers(1, 5))
def test_least_starts_of_equal_requests(kind: tuple[int, int, int, Convention], num: int) -> None:
    """Trying starts in order only loses nothing with equal requests."""
    prompt, output, extra, convention = kind
    problem = problem_of(prompt + output + extra, [prompt] * num, [output] * num, convention)
    data = jobs(problem)
    starts = least_starts(data)
    assert peak(data, starts) <= data.memory
    if num <= 4:
        assert sum(starts) == sum(optima(data)[0])


@given(EQUAL, st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(any))
def test_streams_count_what_algorithm_2_does(
    kind: tuple[int, int, int, Convention], arrivals: list[int]
) -> None:
    """Counts per round are those of the starts, and so is the mean wait."""
    prompt, output, extra, convention = kind
    memory = prompt + output + extra
    problem = stream(memory, prompt, output, convention, arrivals)
    starts = algorithm(jobs(problem))
    counts = started(EqualRequests.of(memory, prompt, output, convention), arrivals)
    assert sorted(starts) == [now for now, count in enumerate(counts) for _ in range(count)]
    waits = total_latency(problem, starts) - sum(problem.output.tolist())
    assert mean_wait(arrivals, counts) == Fraction(waits, len(starts))


@given(EQUAL)
def test_saturated_rate_is_that_of_a_long_run(kind: tuple[int, int, int, Convention]) -> None:
    """Over 200 rounds with plenty waiting the starts differ from rate times rounds by little."""
    prompt, output, extra, convention = kind
    data = EqualRequests.of(prompt + output + extra, prompt, output, convention)
    counts = started(data, [200 * data.memory])[:200]
    assert abs(sum(counts) - 200 * saturated_rate(data)) <= 3 * data.length * data.memory
    assert saturated_rate(data) <= Fraction(data.memory, data.area)


def test_the_smallest_linear_regret_by_hand() -> None:
    """M = 6, s = o = 1, convention A: a request holds 1, then 2 tokens.

    Three at once hold 3, then 6: nothing else starts until they leave, 3 per 2 rounds. Two per
    round hold 2 + 4 = 6 for ever.
    """
    kind = EqualRequests.of(6, 1, 1, Convention.CLOSED)
    assert started(kind, [3, 3, 3]) == [3, 0, 3, 0, 3]
    assert saturated_rate(kind) == Fraction(3, 2)
    assert kind.steady == 2


@given(st.integers(1, 3), st.integers(1, 3), st.integers(2, 4), st.integers(2, 4))
def test_laws_of_arrivals_are_laws(rounds: int, most: int, longest: int, below: int) -> None:
    """They add up to 1 and have the mean of independent draws."""
    window = ArrivalWindow(rounds, most, longest, min(below, longest))
    assert sum(window.law().values()) == 1
    assert window.mean() == Fraction(most * rounds, 2) * Fraction(window.below - 1, longest)
    assert sum(binomial(rounds, Fraction(most, 10)).values()) == 1


def test_the_law_of_the_waiting_by_hand() -> None:
    """M = 3, s = 1, two arrivals a round, outputs 1 or 2; requests hold up to 2 or 3 tokens.

    At t = 0 both wait: the shortest is 1 unless both are 2, so with chance 3/4.
    """
    law = waiting_law(3, 2, 2, 0)
    assert law == {(2, 1): Fraction(3, 4), (2, 2): Fraction(1, 4)}


@given(SEEDS)
def test_rules_of_the_paper_are_the_conventions(seed: int) -> None:
    """Section 3, Equation (1) and appendix B.1 allow what conventions C, A and B do."""
    problem = drawn(seed, most=4, mixed=True)
    columns = problem.prompt.tolist(), problem.output.tolist()
    starts = (problem.arrival + np.random.default_rng(seed).integers(0, 3)).tolist()
    if any(s + o > problem.memory for s, o in zip(*columns, strict=True)):
        return
    for rule, convention in zip(RULES, "CAB", strict=True):
        other = problem_of(problem.memory, *columns, Convention(convention))
        allowed = within(problem.memory, *columns, starts, RULES[rule])
        assert allowed == (not violations(other, starts))


def test_equal_requests_as_the_prompt_gets_negligible() -> None:
    """M = 6, 30 requests with s = o = 1 under (1), each of 1, then 2 tokens.

    Three every other round: starts 3·(0 + 2 + ... + 18) = 270. Two every round: 2·(0 + ... + 14)
    = 210. Each ends a round after its start.
    """
    data = {"memory": 6, "prompt": 1, "output": 1, "requests": 30}
    assert totals(data, 1, Convention.CLOSED) == (300, 240)
    assert totals(data, 10, Convention.CLOSED) == (3000, 2400)


@given(EQUAL, st.integers(1, 4))
def test_no_schedule_ends_before_the_areas_allow(
    kind: tuple[int, int, int, Convention], num: int
) -> None:
    """The bound is at most the optimum's sum of last slots, counted from 1."""
    prompt, output, extra, convention = kind
    memory = prompt + output + extra
    data = jobs(problem_of(memory, [prompt] * num, [output] * num, convention))
    ends = sum(optima(data)[0]) + num * data.length[0]
    assert area_bound(EqualRequests.of(memory, prompt, output, convention), num) <= ends


@given(SEEDS)
def test_what_is_left_at_the_start_is_the_optimum(seed: int) -> None:
    """And nothing is left once all have completed."""
    problem = drawn(seed, most=4)
    path = optima(jobs(problem))[0]
    end = max(p + o for p, o in zip(path, problem.output.tolist(), strict=True))
    assert least_left(problem, path, 0) == total_latency(problem, list(path))
    assert least_left(problem, path, end) == 0


def test_hoeffding_fails_over_the_printed_interval() -> None:
    """C = 1: two rounds, one arrival in each, half of them short; δ = 1, so both must be short."""
    two_rounds = binomial(2, Fraction(1, 2))
    assert tail(two_rounds, 2 * mean(two_rounds)) == Fraction(1, 4) > exp(-2)


#: A, one request at a time (2·5 > 9): P3 (o = 3) waits, P4 (o = 1) comes at 1, P5 (o = 4) at 5.
FIGURE_4 = latency_problem(9, [(0, 5, 3), (1, 5, 1), (5, 5, 4)], Convention.CLOSED)


def test_figure_4_is_a_tie() -> None:
    """Off-Couple runs P3 from 0 to 3 and P4 from 4 to 5; offline P4 from 1 to 2, P3 from 3 to 6.

    Both complete at a sum of 8, and from 7 on both are in the same state: waiting gains nothing.
    """
    offline = [3, 1, 7]
    coupling = off_couple(FIGURE_4, [0, 4, 9], offline, 0)
    assert coupling.starts == (0, 4, 7)
    assert coupling.copies_from == 6
    assert violations(FIGURE_4, coupling.starts) == {}
    assert total_latency(FIGURE_4, coupling.starts) == total_latency(FIGURE_4, offline)


@given(
    latency_problems(common_prompt=True, max_requests=8, max_memory=24, max_output=24),
    st.integers(0, 20),
)
def test_it_follows_an_offline_schedule_that_is_algorithm_2(
    data: LatencyProblem, now: int
) -> None:
    """If the optimum does what Algorithm 2 does, so does Off-Couple."""
    starts = serve(data, "mc-sf").start.tolist()
    assert list(off_couple(data, starts, starts, now).starts) == starts


def test_it_starts_what_the_offline_schedule_has_started() -> None:
    """C, M = 6: at 0 Algorithm 2 starts o = 1 twice, offline only once; the rest is copied."""
    data = latency_problem(6, [(0, 2, 1), (0, 2, 1), (0, 2, 3)])
    coupling = off_couple(data, [0, 0, 9], [0, 1, 2], 0)
    assert coupling.starts == (0, 0, 2)
    assert coupling.copies_from == 2


def test_equal_outputs_need_the_smaller_prompt_first() -> None:
    """M = 5, three of one token with needs 4, 2, 1: the scan stops at 2, though 1 fits as well."""
    loads = (4, 1), (2, 1), (1, 1)
    larger, smaller = WorkerState(5, (), loads), WorkerState(5, (), loads[::-1])
    assert larger.starts() == [0]
    assert larger.starts(scan_on=True) == [0, 2]
    assert not breaking_is_scanning_on(larger)
    assert breaking_is_scanning_on(smaller)
    assert largest_is_found(smaller)
    # With another of need 1, three fit together: 2, 1 and 1.
    assert not largest_is_found(WorkerState(5, (), (*loads, (1, 1))))
    rng = np.random.default_rng(1)
    assert not all(largest_is_found(random_state(rng, "larger-first")) for _ in range(500))
