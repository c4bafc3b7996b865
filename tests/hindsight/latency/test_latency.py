"""The exact method against enumeration, its bounds, its rules, and wrong variants caught."""

import itertools
import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.hindsight.latency import (
    HindsightResult,
    PriceCertificate,
    certified_bound,
    solve_hindsight,
    solve_latency,
)
from bfio.hindsight.latency.bound import (
    SCALE,
    PriceAscent,
    Stage,
    narrowed_windows,
    pair_losses,
    priced_bound,
)
from bfio.hindsight.latency.configurations import (
    Cells,
    NormalForm,
    arrival_windows,
    build_cells,
    dearest,
    losses,
    normal_form,
)
from bfio.hindsight.latency.schedule import fewest_rounds, good_starts, sequential_starts
from bfio.hindsight.latency.search import RoundSearch
from bfio.hindsight.latency.token_prices import ascended
from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem, latency_problems
from formulations import InputError
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.hindsight_latency import (
    LatencyProblem,
    LatencyProgram,
    brute_force,
    lower_bound,
    memory_used,
    total_latency,
    violations,
)
from formulations.hindsight_latency.check import most_memory
from formulations.results import Termination
from tests.formulations.hindsight_latency.cases import COUNTEREXAMPLES, common_prompt


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    """Two threads."""
    with ThreadPoolExecutor(2) as threads:
        yield threads


def _check(problem: LatencyProblem, result: HindsightResult) -> None:
    truth, _ = brute_force(problem)
    assert violations(problem, result.starts, result.objective) == {}
    assert (result.objective, result.bound) == (truth, truth)
    assert result.priced <= truth
    if result.certificate is not None:
        assert certified_bound(problem, result.certificate) == result.priced


@given(latency_problems(max_requests=5), st.integers(0, 20))
def test_it_equals_enumeration(problem: LatencyProblem, decodes: int) -> None:
    """Proven optimal under every convention, from good and bad first schedules."""
    _check(problem, solve_hindsight(problem, decodes=decodes))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_it_equals_enumeration_thousands_of_times(seed: int) -> None:
    """1,000 draws each, a third of them per convention."""
    rng = np.random.default_rng(seed)
    for draw in range(1000):
        convention = "ABC"[draw % 3]
        memory = int(rng.integers(2, 10))
        requests = []
        for _ in range(int(rng.integers(0, 6))):
            prompt = int(rng.integers(1, memory))
            longest = min(memory - prompt + (convention == "B"), 5)
            arrival = int(rng.integers(0, 4)) * int(rng.integers(0, 2))
            requests.append((arrival, prompt, int(rng.integers(1, longest + 1))))
        problem = latency_problem(memory, requests, convention)
        _check(problem, solve_hindsight(problem, decodes=int(rng.integers(0, 20))))


@pytest.mark.parametrize(("convention", "memory", "outputs", "_", "best"), COUNTEREXAMPLES)
def test_golden(convention: str, memory: int, outputs: tuple[int, ...], _: int, best: int) -> None:
    """Spec section 4.2: 11, 15 and 12."""
    result = solve_hindsight(common_prompt(memory, outputs, convention))
    assert (result.objective, result.bound) == (best, best)


def _prices(problem: LatencyProblem, seed: int) -> PriceCertificate:
    """Return nonsense prices: any prices must give a bound."""
    rng = np.random.default_rng(seed)
    form = normal_form(problem)
    cells = build_cells(form)
    names = list(zip(cells.tokens.tolist(), cells.left.tolist(), strict=True))
    rounds = int(rng.integers(0, 12))
    table = rng.integers(0, 9, (rounds, len(names)))
    prices = {t: dict(zip(names, table[t].tolist(), strict=True)) for t in range(rounds)}
    first = int(rng.integers(0, 4))
    per_token = dict(enumerate(rng.integers(0, 3, rounds).tolist(), first))
    kind = int(rng.integers(3))
    return PriceCertificate(
        int(rng.integers(1, 6)), prices if kind else {}, per_token if kind != 1 else {}
    )


@given(latency_problems(), st.integers(0, 1000))
def test_any_prices_bound(problem: LatencyProblem, seed: int) -> None:
    """The bound never depends on the prices being good."""
    assert certified_bound(problem, _prices(problem, seed)) <= brute_force(problem)[0]


def test_a_bound_that_forgets_to_give_back_is_caught() -> None:
    """Without the dearest sets the "bound" exceeds the optimum: what the test above looks for."""
    problem = latency_problem(4, [(0, 3, 1), (0, 3, 1)])
    # The cell (4, 0) of convention B costs 5 at rounds 0 and 1: both wait or pay.
    prices = PriceCertificate(1, {0: {(4, 0): 5}, 1: {(4, 0): 5}})
    # Start at 2 costs 2 each: 4, less the dearest sets 5 + 5, plus outputs 2: -4.
    assert certified_bound(problem, prices) == -4
    forgetful = certified_bound(problem, prices) + 5 + 5
    assert forgetful > brute_force(problem)[0]


def test_the_certificate_of_two_alternating_requests() -> None:
    """Price 1 at round 0: both then cost 1 at starts 0 and 1; 1 + 1 − 1 + outputs 2 = 3."""
    problem = latency_problem(4, [(0, 3, 1), (0, 3, 1)])
    assert certified_bound(problem, PriceCertificate(1, {0: {(4, 0): 1}})) == 3
    assert brute_force(problem)[0] == 3


@pytest.mark.parametrize(("scale", "price"), [(0, 1), (1, -1)])
def test_bad_certificates_are_refused(scale: int, price: int) -> None:
    """A negative price or no scale proves nothing."""
    problem = latency_problem(4, [(0, 3, 1)])
    with pytest.raises(ValueError, match="prices"):
        certified_bound(problem, PriceCertificate(scale, {0: {(4, 0): price}}))


def test_tokens_that_cost_more_than_the_memory_are_caught() -> None:
    """Two requests of peak 4, memory 4, a token costs 1 at rounds 0 and 1: what is given back."""
    problem = latency_problem(4, [(0, 3, 1), (0, 3, 1)])
    prices = PriceCertificate(1, {}, {0: 1, 1: 1})
    # Start at 2 costs 2 each: 4, less 2 rounds of 4 tokens, plus outputs 2.
    assert certified_bound(problem, prices) == 4 - 8 + 2
    assert certified_bound(problem, prices) + 8 > brute_force(problem)[0]


@given(latency_problems(max_requests=5))
def test_prices_of_tokens_reach_the_linear_relaxation(problem: LatencyProblem) -> None:
    """Within a hundredth of what waits, and never above it."""
    form = normal_form(problem)
    starts = sequential_starts(form)
    (*_, prices) = [np.zeros(0), *ascended(form, starts, math.inf)]
    scale = 2**20 * problem.memory
    scaled = dict(enumerate((prices * scale).astype(int).tolist(), form.origin))
    reached = certified_bound(problem, PriceCertificate(scale, {}, scaled))
    relaxed = LatencyProgram(problem).relaxation_value()
    assert relaxed is not None
    least = problem.output.sum()
    assert relaxed - 0.01 * (relaxed - least) - 0.01 <= reached <= math.ceil(relaxed - 1e-6)


def test_a_large_memory_gets_the_bound_of_the_linear_relaxation() -> None:
    """Thousands of tokens, too many for tables of cells."""
    rng = np.random.default_rng(4)
    requests = [(0, int(s), int(o)) for s, o in rng.integers([500, 5], [1500, 30], (10, 2))]
    problem = latency_problem(3000, requests)
    result = solve_hindsight(problem, decodes=500)
    assert result.method == "prices"
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.priced == result.bound
    relaxed = LatencyProgram(problem).relaxation_value()
    assert relaxed is not None
    assert lower_bound(problem) < relaxed - 5 < result.bound <= result.objective


def _no_dearest(ascent: PriceAscent) -> FloatArray:
    """Say that no round is so dear that it must be kept hotter."""
    return np.zeros(len(ascent.prices))


@given(latency_problems(min_requests=1), st.integers(0, 1000))
def test_compiled_and_plain_bounds_agree(
    pool: Executor, problem: LatencyProblem, seed: int
) -> None:
    """The compiled bound is what the certificate re-derives, for prices that ascend or not."""
    form = normal_form(problem)
    cells = build_cells(form)
    ascent = PriceAscent(form, cells, good_starts(form, 5), pool)
    if seed % 2:
        ascent.run(Stage(0.1, seed % 40, 1 + seed % 3), _no_dearest(ascent))
    priced = priced_bound(form, cells, ascent.windows, ascent.prices)
    names = list(zip(cells.tokens.tolist(), cells.left.tolist(), strict=True))
    prices = {
        form.origin + t: dict(zip(names, row, strict=True))
        for t, row in enumerate(priced.prices.tolist())
    }
    plain = certified_bound(problem, PriceCertificate(SCALE, prices))
    assert plain == priced.starts + form.constant
    assert plain <= brute_force(problem)[0]


@given(latency_problems(min_requests=1), st.integers(0, 60))
def test_closed_starts_are_in_no_better_schedule(
    pool: Executor, problem: LatencyProblem, steps: int
) -> None:
    """Every optimum keeps its starts open when the cutoff is its own cost."""
    form = normal_form(problem)
    cells = build_cells(form)
    ascent = PriceAscent(form, cells, good_starts(form, 5), pool)
    ascent.run(Stage(0.1, steps, 1 + steps % 3), _no_dearest(ascent))
    priced = priced_bound(form, cells, ascent.windows, ascent.prices)
    truth, starts = brute_force(problem)
    cutoff = SCALE * (truth - form.constant)
    windows = narrowed_windows(form, cells, ascent.windows, priced, cutoff)
    rounds = windows.starts.shape[1] - 1
    for i, request in enumerate(form.order.tolist()):
        assert windows.starts[i, min(starts[request] - form.origin, rounds)]


@given(latency_problems(min_requests=1, max_requests=5), st.integers(1, 5), st.booleans())
def test_narrow_searches_still_bound(
    pool: Executor, problem: LatencyProblem, width: int, ascend: bool
) -> None:
    """What is dropped for lack of room lowers the bound; it never claims too much."""
    form = normal_form(problem)
    cells = build_cells(form)
    ascent = PriceAscent(form, cells, sequential_starts(form), pool)
    if ascend:
        ascent.run(Stage(0.2, 30, 2), _no_dearest(ascent))
    priced = priced_bound(form, cells, ascent.windows, ascent.prices)
    known = sum(sequential_starts(form).tolist())
    pairs = pair_losses(cells, priced, ascent.windows, pool)
    found = RoundSearch(form, cells, priced, pairs, pool).run(known, width)
    truth = brute_force(problem)[0] - form.constant
    assert found.bound <= truth
    best = known
    if found.starts is not None:
        best = sum(found.starts.tolist())
        assert violations(problem, form.starts(found.starts)) == {}
        assert best < known
    if found.bound == best:
        assert best == truth


def _cells(
    tokens: IntArray, left: IntArray, copies: IntArray, memory: int, smallest: int
) -> Cells:
    return Cells(tokens, left, copies, np.zeros((0, 0), np.int64), memory, smallest)


def test_dearest_sets_by_hand() -> None:
    """Memory 10. Cells (tokens, left): a (5, 1), b (4, 0), c (6, 0).

    a and b now hold 9, and a alone 6 later: they fit. a and c hold 11: they do not. b and c hold
    10 at their common last round: they fit. Prices 3, 2, 4: b and c are dearest, 6.
    """
    price = np.array([3, 4, 2])
    tokens, left, once = np.array([5, 6, 4]), np.array([1, 0, 0]), np.ones(3, np.int64)
    assert dearest(price, _cells(tokens, left, once, 10, 4)) == 6
    # With memory 9, c stands alone or a with b: 5.
    assert dearest(price, _cells(tokens, left, once, 9, 4)) == 5
    # Memory 8 holds b twice, if two requests can be it; with c alone 4, b twice also 4, a 3.
    assert dearest(np.array([3, 4, 3]), _cells(tokens, left, once, 8, 4)) == 4
    assert dearest(np.array([3, 4, 3]), _cells(tokens, left, 2 * once, 8, 4)) == 6


_drawn_cells = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 5), st.integers(0, 9), st.integers(1, 2)),
    max_size=4,
)


def _fitting_sets(cells: list[tuple[int, int, int]], memory: int) -> list[tuple[int, ...]]:
    """Return every vector of copies that runs to its ends, simulated round by round."""
    found = []
    rounds = max((left for left, _, _ in cells), default=0) + 1
    for chosen in itertools.product(*(range(copies + 1) for _, _, copies in cells)):
        held = [list(zip(cells, chosen, strict=True)) for _ in range(rounds)]
        used = [
            sum(copies * (tokens + t) for (left, tokens, _), copies in sets if left >= t)
            for t, sets in enumerate(held)
        ]
        if max(used) <= memory:
            found.append(chosen)
    return found


@given(_drawn_cells, st.integers(6, 12))
def test_dearest_sets_against_enumeration(
    drawn: list[tuple[int, int, int, int]], memory: int
) -> None:
    """The dearest set, and the dearest with each cell."""
    priced = {(r, m, copies): p for m, r, p, copies in drawn if m + r <= memory}
    # One cell is listed once.
    cells = sorted({(r, m): (r, m, copies) for r, m, copies in priced}.values(), reverse=True)
    cells = [(r, m, min(copies, memory // (m + r))) for r, m, copies in cells]
    prices = [max(p for (r, m, _), p in priced.items() if (r, m) == cell[:2]) for cell in cells]
    worth = {
        chosen: sum(p * copies for p, copies in zip(prices, chosen, strict=True))
        for chosen in _fitting_sets(cells, memory)
    }
    price = np.array(prices, dtype=np.int64)
    tokens, left, copies = (
        np.array([cell[column] for cell in cells], dtype=np.int64) for column in (1, 0, 2)
    )
    best = max(worth.values())
    table = _cells(tokens, left, copies, memory, 1)
    assert dearest(price, table) == best
    if cells:
        before, after = np.zeros((2, len(cells), memory + 2, memory + 1), np.int64)
        loss = np.zeros(len(cells), np.int64)
        losses(price, table, before, after, loss)
        for cell, found in enumerate(loss.tolist()):
            assert found == best - max(w for chosen, w in worth.items() if chosen[cell])


@given(latency_problems(min_requests=1, max_requests=4), st.integers(0, 30))
def test_pair_losses_against_enumeration(
    pool: Executor, problem: LatencyProblem, steps: int
) -> None:
    """What the dearest set with two cells is short of the dearest, or that there is none."""
    form = normal_form(problem)
    cells = build_cells(form)
    ascent = PriceAscent(form, cells, good_starts(form, 5), pool)
    ascent.run(Stage(0.2, steps, 1 + steps % 3), _no_dearest(ascent))
    priced = priced_bound(form, cells, ascent.windows, ascent.prices)
    pairs = pair_losses(cells, priced, ascent.windows, pool)
    for now in range(len(priced.prices)):
        worth = _worth(form, cells, ascent.windows.cells[now], priced.prices[now].tolist())
        assert max(worth.values()) == priced.dearest[now]
        for one, other in itertools.combinations(range(len(cells.tokens)), 2):
            rows = pairs.row[now, [one, other]].tolist()
            if min(rows) < 0:
                continue
            with_both = [w for chosen, w in worth.items() if chosen[one] and chosen[other]]
            most = max(with_both, default=priced.dearest[now] - np.iinfo(np.int32).max)
            table = pairs.loss[pairs.begin[now] :].tolist()
            assert table[rows[0] * int(pairs.size[now]) + rows[1]] == priced.dearest[now] - most


def _worth(
    form: NormalForm, cells: Cells, is_open: BoolArray, prices: list[int]
) -> dict[tuple[int, ...], int]:
    """Return the price of every fitting set of open cells."""
    drawn = zip(
        cells.left.tolist(), cells.tokens.tolist(), (cells.copies * is_open).tolist(), strict=True
    )
    return {
        chosen: sum(p * copies for p, copies in zip(prices, chosen, strict=True))
        for chosen in _fitting_sets(list(drawn), form.memory)
    }


def test_threads_change_nothing() -> None:
    """One thread and three find the same schedule, bound and number of states."""
    rng = np.random.default_rng(5)
    prompts = rng.integers(1, 4, 11)
    requests = [(0, int(s), int(rng.integers(1, 21 - s))) for s in prompts]
    problem = latency_problem(20, requests)
    one, three = (solve_hindsight(problem, decodes=50, threads=count) for count in (1, 3))
    assert (one.starts, one.bound, one.states) == (three.starts, three.bound, three.states)
    assert one.states > 0
    with pytest.raises(InputError, match="threads"):
        solve_hindsight(problem, threads=0)


@given(latency_problems(max_requests=5), st.integers(0, 10))
def test_schedules_are_feasible(problem: LatencyProblem, decodes: int) -> None:
    """Serial placing and batches keep to the memory and to arrivals."""
    form = normal_form(problem)
    for starts in (good_starts(form, decodes), sequential_starts(form)):
        found = form.starts(starts)
        assert violations(problem, found) == {}
        assert total_latency(problem, found) == sum(starts.tolist()) + form.constant


def test_serial_placing_misses_optima() -> None:
    """Why the proof is left to the search: no order of placing reaches this optimum.

    All orders reach 9 at best, in sums of starts; the optimum is 8.
    """
    problem = latency_problem(9, [(0, 3, 5), (0, 1, 2), (0, 3, 6), (0, 1, 2), (0, 1, 1)])
    form = normal_form(problem)
    truth, _ = brute_force(problem)
    reached = min(
        _placed(form.memory, form.prompt.tolist(), form.duration.tolist(), order)
        for order in itertools.permutations(range(form.num_requests))
    )
    assert (reached, truth - form.constant) == (9, 8)
    _check(problem, solve_hindsight(problem))


def _placed(memory: int, prompts: list[int], durations: list[int], order: tuple[int, ...]) -> int:
    """Place requests in one order, each as early as it fits; return the sum of starts."""
    used: dict[int, int] = {}
    total = 0
    for i in order:
        ages = range(durations[i])
        start = next(
            k
            for k in itertools.count()
            if all(used.get(k + age, 0) + prompts[i] + age <= memory for age in ages)
        )
        for age in ages:
            used[start + age] = used.get(start + age, 0) + prompts[i] + age
        total += start
    return total


def test_medium_problems_are_proven() -> None:
    """Ten requests, memory 34, one judged draw: 325, found by search after prices."""
    rng = np.random.default_rng([1, 10])
    memory = int(rng.integers(30, 51))
    prompts = rng.integers(1, 6, 10)
    requests = [(0, int(s), int(rng.integers(1, memory - s + 1))) for s in prompts]
    problem = latency_problem(memory, requests)
    result = solve_hindsight(problem, decodes=2000)
    assert (result.objective, result.bound) == (325, 325)
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.priced


@pytest.mark.parametrize("convention", "ABC")
def test_edges(convention: str) -> None:
    """None, one, and identical requests that fill the memory alone."""
    assert solve_hindsight(latency_problem(3, [], convention)).bound == 0
    one = solve_hindsight(latency_problem(9, [(7, 2, 3)], convention))
    assert (one.objective, one.bound, one.starts) == (3, 3, (7,))
    # Peak 5 or 6 of 6: nobody overlaps a peak; the search proves what enumeration finds.
    same = latency_problem(6, [(0, 3, 3)] * 4, convention)
    _check(same, solve_hindsight(same))


def test_arrivals_far_apart() -> None:
    """Each starts on arrival, even where rounds by the billion lie between."""
    near = solve_hindsight(latency_problem(6, [(0, 3, 3), (50, 3, 3), (100, 3, 3)]))
    assert (near.objective, near.bound) == (9, 9)
    far = solve_hindsight(latency_problem(6, [(0, 3, 3), (10**9, 3, 3)]))
    assert (far.objective, far.bound) == (6, 6)


@given(latency_problems(max_requests=5), st.integers(1, 4 * 10**8))
def test_rounds_before_the_first_arrival_cost_nothing(problem: LatencyProblem, by: int) -> None:
    """Answer, states and proof are those of the problem that begins at once."""
    late = replace(problem, arrival=problem.arrival + by)
    one, other = (solve_hindsight(p, decodes=20) for p in (problem, late))
    assert tuple(start - by for start in other.starts) == one.starts
    assert (other.bound, other.method, other.states) == (one.bound, one.method, one.states)
    if other.certificate is not None:
        assert certified_bound(late, other.certificate) == other.priced


@given(latency_problems(max_requests=5), st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_the_memory_peaks_at_the_last_round_of_a_request(
    problem: LatencyProblem, later: list[int]
) -> None:
    """The checker looks at these rounds only; the others are counted here."""
    starts = [int(a) + more for a, more in zip(problem.arrival, later, strict=False)]
    assert most_memory(problem, starts) == max(memory_used(problem, starts).values(), default=0)


def test_a_schedule_of_many_rounds_is_not_walked_through() -> None:
    """Neither by its checker, nor to enumerate or to serve: that would take many GB."""
    problem = latency_problem(10**9, [(10**9, 3, 9 * 10**8), (0, 3, 9 * 10**8)])
    found = solve_latency(problem)
    assert (found.objective, found.starts) == (18 * 10**8, (10**9, 0))


def test_huge_values_get_the_area_bound() -> None:
    """Outputs of 10^8 tokens: the schedule and the bound stay exact integers."""
    size = 10**8
    problem = latency_problem(10**9, [(0, 10**8, size)] * 100)
    result = solve_hindsight(problem)
    assert result.method == "area"
    assert violations_by_batches(result.starts, size)
    assert result.bound <= result.objective
    # One occupies 10^8 (10^8 + (10^8 + 1) / 2) tokens, 15,000,000.05 rounds of the memory: the
    # k-th ends at k times that, rounded up: 15,000,000 · 5,050 + Σ_k ⌈k / 20⌉ = 300. None ends
    # before 10^8, which is more for the first six: 6 · 10^8 − 15,000,000 · 21 − 6 more.
    assert result.bound == 75_750_000_000 + 300 + 285_000_000 - 6


@given(latency_problems(max_requests=5), st.sampled_from(("mc-sf", "mc-benchmark")))
def test_no_run_takes_fewer_rounds_than_the_fewest(problem: LatencyProblem, name: str) -> None:
    """So a run that is not begun for its length would not have come to an end."""
    run = serve(problem, name)
    assert run.is_finished
    assert fewest_rounds(normal_form(problem)) <= len(run.batches)


def violations_by_batches(starts: tuple[int, ...], output: int) -> bool:
    """Say whether at most five (of peak 2·10^8) run at once, batch by batch."""
    return all(start % output == 0 and starts.count(start) <= 5 for start in starts)


def test_time_limits() -> None:
    """Without time there is a schedule and a bound; a negative limit is an error."""
    problem = common_prompt(40, tuple(range(5, 30)), "C")
    result = solve_hindsight(problem, 0.0, decodes=10)
    assert violations(problem, result.starts, result.objective) == {}
    assert result.bound <= result.objective
    assert result.stopped_by_time
    assert result.to_latency_result(problem).termination is Termination.TIME_LIMIT
    assert 0.0 < result.gap < 1.0
    with pytest.raises(InputError, match=r"time_limit: -1\.0 is not a number >= 0"):
        solve_hindsight(problem, -1.0)


def test_the_common_answer() -> None:
    """A proven result is optimal in the shared type too."""
    problem = common_prompt(4, (1, 1, 2, 2), "A")
    answer = solve_hindsight(problem).to_latency_result(problem)
    assert answer.is_optimal
    assert answer.objective == 11


def test_windows_follow_arrivals() -> None:
    """A request of two rounds that arrives at 1 can be at age 0 from 1, at age 1 from 2."""
    form = normal_form(latency_problem(9, [(0, 2, 2)], "B"))._replace(arrival=np.array([1]))
    cells = build_cells(form)
    windows = arrival_windows(form, cells, 3)
    assert windows.starts.tolist() == [[False, True, True, True]]
    young, old = cells.of_age[0].tolist()
    assert windows.cells[:, young].tolist() == [False, True, True]
    assert windows.cells[:, old].tolist() == [False, False, True]


def _search(problem: LatencyProblem, pool: Executor) -> RoundSearch:
    """Return a search with the first guess of prices."""
    form = normal_form(problem)
    cells = build_cells(form)
    ascent = PriceAscent(form, cells, sequential_starts(form), pool)
    priced = priced_bound(form, cells, ascent.windows, ascent.prices)
    pairs = pair_losses(cells, priced, ascent.windows, pool)
    return RoundSearch(form, cells, priced, pairs, pool)


def test_a_state_without_room_for_any_child_is_dropped(
    pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without room for one child of the root, nothing is found and nothing claimed."""
    monkeypatch.setattr("bfio.hindsight.latency.search._BYTES", 50)
    problem = latency_problem(12, [(0, 1, 3), (0, 2, 4), (0, 1, 5), (0, 3, 2)])
    found = _search(problem, pool).run(100, 10)
    assert (found.starts, found.states) == (None, 0)
    assert found.bound <= brute_force(problem)[0] - normal_form(problem).constant


def test_a_state_with_too_many_children_goes_on_with_the_best(
    pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the thousands of sets that twenty requests may begin with there is room for 500."""
    problem = common_prompt(40, tuple(range(3, 23)), "C")
    # A request's starts take 4 bytes, the rest of a state 40.
    monkeypatch.setattr("bfio.hindsight.latency.search._BYTES", 500 * (4 * 20 + 40))
    search = _search(problem, pool)
    form = normal_form(problem)
    found = search.run(10**6, 20)
    assert found.starts is not None
    assert violations(problem, form.starts(found.starts)) == {}
    assert found.bound <= sum(found.starts.tolist())


@given(latency_problems(min_requests=1, max_requests=5), st.integers(1, 5), st.integers(0, 12))
def test_searches_without_room_still_bound(
    pool: Executor, problem: LatencyProblem, width: int, children: int
) -> None:
    """What a lower cutoff discards lowers the bound that is claimed."""
    form = normal_form(problem)
    best = sum(sequential_starts(form).tolist())
    with pytest.MonkeyPatch.context() as patch:
        room = children * (4 * form.num_requests + 40)
        patch.setattr("bfio.hindsight.latency.search._BYTES", room)
        found = _search(problem, pool).run(best, width)
    if found.starts is not None:
        assert violations(problem, form.starts(found.starts)) == {}
        best = sum(found.starts.tolist())
    assert found.bound <= brute_force(problem)[0] - form.constant <= best
