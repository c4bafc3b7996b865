"""The two-stage heuristic within token capacities, speeds, required requests and fewer slots."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.solve import solve_step
from bfio.step.two_stage import limits as step_limits
from bfio.step.two_stage.heuristic import (
    TwoStageParameters,
    two_stage,
    two_stage_compiled,
    two_stage_reference,
    two_stage_step,
)
from bfio.step.two_stage.limits import Limits, repaired
from bfio.testing.instances import step_problem, step_problems
from formulations.errors import CapabilityError
from formulations.results import Termination
from formulations.step import StepProblem, solve_by_enumeration
from formulations.step.check import violations
from formulations.step.problem import geometric_weights

PARAMETERS = st.builds(
    TwoStageParameters,
    threshold=st.integers(0, 12),
    candidates=st.none() | st.integers(1, 9),
    beta=st.none() | st.sampled_from([Fraction(0), Fraction(4, 3), Fraction(43)]),
    key=st.sampled_from(["lexicographic", "product"]),
)


def decided(
    problem: StepProblem, parameters: TwoStageParameters, limits: Limits | None
) -> list[int | None]:
    """Return what the readable statement decides, before any repair."""
    data = problem.capacity, problem.base, problem.contribution, problem.weights
    return two_stage_reference(*data, parameters, limits)


def plain_rule(problem: StepProblem, threshold: int) -> list[int | None]:
    """Follow the rule at H = 0 as it is stated, sets by enumeration, before any repair."""
    G, tau = problem.num_workers, problem.time_weights.tolist()
    sizes = problem.contribution[:, 0].tolist()
    load, free = problem.base[:, 0].tolist(), problem.capacity.tolist()
    kappa = [10**9] * G if problem.token_capacity is None else problem.token_capacity.tolist()
    required = [False] * len(sizes) if problem.required is None else problem.required.tolist()
    benefit = [[0] * G] * len(sizes) if problem.benefit is None else problem.benefit.tolist()
    left = sum(free) if problem.admit is None else problem.admit
    answer: list[int | None] = [None] * len(sizes)

    def margin(g: int) -> int:
        return int(max(t * b for t, b in zip(tau, load, strict=True)) - tau[g] * load[g])

    def score(members: tuple[int, ...], g: int) -> int:
        time = tau[g] * sum(sizes[i] for i in members)
        worth = sum(benefit[i][g] for i in members)
        return int(time - G * max(0, time - margin(g)) + worth)

    def fits(members: tuple[int, ...], g: int) -> bool:
        waiting = sorted(s for s, w in zip(sizes, answer, strict=True) if w is None)
        must = max(0, min(left, len(waiting)) - (sum(free) - free[g]))
        # As many of the smallest as fit at all.
        must = sum(load[g] + sum(waiting[: k + 1]) <= kappa[g] for k in range(must))
        rest = sum(waiting[: max(0, must - len(members))])
        return bool(load[g] + sum(sizes[i] for i in members) + rest <= kappa[g])

    def age(members: tuple[int, ...]) -> tuple[bool, ...]:
        return tuple(i in members for i in range(len(sizes)))

    for flag in (True, False):
        pool = [i for i, r in enumerate(required) if r is flag]
        closed: set[int] = set()
        while pool and (slots := min(left, sum(free[g] for g in range(G) if g not in closed))):
            workers = [g for g in range(G) if free[g] and g not in closed]
            g = max(workers, key=lambda g: (free[g], margin(g), -g))
            fitting = [i for i in pool if fits((i,), g)]
            if not fitting:
                closed.add(g)
                continue
            chosen: tuple[int, ...] = (max(fitting, key=lambda i: (score((i,), g), -i)),)
            if slots <= threshold:
                most = min(free[g], left)
                sets = [c for n in range(1, most + 1) for c in combinations(fitting, n)]
                best = max(
                    (c for c in sets if fits(c, g)),
                    key=lambda c: (score(c, g), sum(sizes[i] for i in c), age(c)),
                )
                chosen = best if score(best, g) > 0 else chosen
            for i in chosen:
                answer[i] = g
                load[g] += sizes[i]
                pool.remove(i)
            free[g] -= len(chosen)
            left -= len(chosen)
    return answer


@given(step_problems(max_horizon=0, max_requests=7), st.integers(0, 12))
def test_decides_as_its_plain_statement(problem: StepProblem, threshold: int) -> None:
    """Times, room kept for slots that must be filled, required requests first, fewer slots."""
    limits = Limits.of(problem)
    data = problem.capacity, problem.base, problem.contribution, (1,)
    found = two_stage_reference(*data, TwoStageParameters(threshold), limits)
    assert found == plain_rule(problem, threshold)


@given(step_problems(max_workers=5, max_requests=9), PARAMETERS)
def test_kernels_decide_alike(problem: StepProblem, parameters: TwoStageParameters) -> None:
    """Request by request, ties, zeros and large tokens included; or they leave it."""
    limits = Limits.of(problem)
    data = problem.capacity, problem.base, problem.contribution, problem.weights
    found = two_stage_compiled(*data, parameters, limits)
    assert found is None or found == decided(problem, parameters, limits)


@given(step_problems(max_workers=5, max_requests=9), PARAMETERS)
def test_answers_are_feasible(problem: StepProblem, parameters: TwoStageParameters) -> None:
    """What is returned keeps every constraint; without capacities an answer is always found."""
    required = 0 if problem.required is None else int(problem.required.sum())
    try:
        found = two_stage_step(problem, parameters)
    except CapabilityError:
        assert problem.token_capacity is not None or required > problem.num_admitted
        return
    assert violations(problem, found) == {}


@given(step_problems(options=False), PARAMETERS)
def test_limits_that_bind_nobody_change_nothing(
    problem: StepProblem, parameters: TwoStageParameters
) -> None:
    """No limit and limits out of reach: the same answer, from the statement and the kernels."""
    loose = step_problem(
        problem.capacity.tolist(),
        problem.base.tolist(),
        problem.contribution.tolist(),
        token_capacity=[10**9] * problem.num_workers,
        token_time=[1] * problem.num_workers,
        required=[False] * problem.num_requests,
    )
    data = problem.capacity, problem.base, problem.contribution, problem.weights
    free = two_stage_reference(*data, parameters)
    assert two_stage_reference(*data, parameters, Limits.of(loose)) == free
    assert two_stage(*data, parameters, Limits.of(loose)) == free


def test_scores_beyond_64_bits_stay_feasible() -> None:
    """10^10 tokens, β = 43 and six-digit weights over 21 steps: Python's integers decide."""
    rng = np.random.default_rng(23)
    weights, scale = geometric_weights(Fraction(43, 50), 21)
    parameters = TwoStageParameters(beta=Fraction(43))
    found = 0
    for _ in range(40):
        G, N = int(rng.integers(1, 3)), int(rng.integers(1, 6))
        base = rng.integers(0, 10**10, (G, 21))
        problem = StepProblem(
            rng.integers(0, 3, G),
            base,
            rng.integers(0, 10**10, (N, 1)) + np.arange(21),
            weights=weights,
            scale=scale,
            token_capacity=base.max(axis=1) + rng.integers(0, 2 * 10**10, G),
            token_time=rng.integers(1, 3, G),
            required=(rng.random(N) < 0.3).tolist(),
        )
        data = problem.capacity, problem.base, problem.contribution, weights
        assert two_stage_compiled(*data, parameters, Limits.of(problem)) is None
        try:
            answer = two_stage_step(problem, parameters)
        except CapabilityError:
            continue
        assert violations(problem, answer) == {}
        found += 1
    assert found > 10


def planted(rng: np.random.Generator, G: int, N: int, columns: int) -> StepProblem:
    """Draw a problem in which half of the workers just hold what a hidden assignment gives."""
    base = np.repeat(rng.integers(60_000, 66_000, (G, 1)), columns, axis=1)
    sizes = np.minimum(rng.lognormal(6.5, 1.0, (N, 1)).astype(np.int64), 9000)
    contribution = sizes + np.arange(columns)
    capacity = rng.integers(0, 4, G)
    slots = rng.permutation(np.repeat(np.arange(G), capacity))[:N]
    owner = np.full(N, -1)
    owner[rng.permutation(N)[: len(slots)]] = slots
    loads = base.copy()
    np.add.at(loads, owner[owner >= 0], contribution[owner >= 0])
    binds = rng.random(G) < 0.5
    return StepProblem(
        capacity,
        base,
        contribution,
        token_capacity=np.where(binds, loads.max(axis=1), 10**7),
        required=((owner >= 0) & (rng.random(N) < 0.3)).tolist(),
    )


@pytest.mark.parametrize(("G", "N", "columns"), [(4, 12, 1), (8, 40, 3), (16, 128, 1)])
def test_tight_capacities_are_met(G: int, N: int, columns: int) -> None:
    """Where a feasible answer exists, one is found on each of these problems."""
    rng = np.random.default_rng(21)
    repairs = 0
    for _ in range(12):
        problem = planted(rng, G, N, columns)
        assert violations(problem, two_stage_step(problem)) == {}
        raw = decided(problem, TwoStageParameters(), Limits.of(problem))
        repairs += bool(violations(problem, raw))
    # Two stages alone would not do.
    assert repairs > 0 or N == 12


def test_small_feasible_problems_are_not_overlooked() -> None:
    """Three workers, up to six requests, everything restricted: what enumeration finds exists."""
    rng = np.random.default_rng(22)
    feasible = 0
    for _ in range(150):
        G, N = 3, int(rng.integers(1, 7))
        base = rng.integers(0, 30, (G, 2))
        problem = StepProblem(
            rng.integers(0, 3, G),
            base,
            rng.integers(0, 30, (N, 2)),
            token_capacity=base.max(axis=1) + rng.integers(0, 50, G),
            required=(rng.random(N) < 0.3).tolist(),
        )
        if solve_by_enumeration(problem).termination is Termination.INFEASIBLE:
            with pytest.raises(CapabilityError):
                two_stage_step(problem)
        else:
            feasible += 1
            assert violations(problem, two_stage_step(problem)) == {}
    assert 30 < feasible < 120


def test_speeds_weigh_loads() -> None:
    """Times 2·30 and 1·50: the margin of worker 1 is 10, so it takes 9; worker 0 at 60 is full.

    By tokens worker 0 (30 < 50) would come first, with a margin of 20, and take 19.
    """
    data = [1, 1], [[30], [50]], [[19], [9]]
    assert two_stage_step(step_problem(*data, token_time=[2, 1], admit=1)) == [None, 1]
    assert two_stage_step(step_problem(*data, admit=1)) == [0, None]


def test_room_is_kept_for_slots_that_must_be_filled() -> None:
    """Two slots with room for 10 tokens; 9 scores most, but leaves no room for the 4 or the 6."""
    problem = step_problem([2, 0], [[0], [50]], [[9], [4], [6]], token_capacity=[10, 60])
    assert two_stage_step(problem) == [None, 0, 0]


def test_required_requests_come_first() -> None:
    """One slot, a margin of 30: 30 would fill it, but 5 is required."""
    problem = step_problem([1, 0], [[0], [30]], [[30], [5]], required=[False, True])
    assert two_stage_step(problem) == [None, 0]


def test_a_worker_closed_to_required_requests_takes_others() -> None:
    """Worker 0 has room for 5: the required 20 goes to worker 1, the other one to worker 0."""
    problem = step_problem(
        [2, 1], [[0], [0]], [[20], [5], [9]], token_capacity=[5, 30], required=[True, False, False]
    )
    # Three must start and nobody holds 9 and 5.
    with pytest.raises(CapabilityError, match="found no feasible answer"):
        two_stage_step(problem)
    assert two_stage_step(
        step_problem(
            [2, 1],
            [[0], [0]],
            [[20], [5], [9]],
            token_capacity=[5, 30],
            required=[True, False, False],
            admit=2,
        )
    ) == [1, 0, None]


def test_no_answer_is_an_error_of_one_line() -> None:
    """Two required requests for one slot; and 5 tokens where 4 fit."""
    for problem in (
        step_problem([1], [[0]], [[1], [2]], required=[True, True]),
        step_problem([1], [[0]], [[5]], token_capacity=[4]),
    ):
        with pytest.raises(CapabilityError, match="use method exact or cp-sat") as caught:
            solve_step(problem, method="two-stage")
        assert "\n" not in str(caught.value)
        assert solve_step(problem).termination is Termination.INFEASIBLE


def test_exchanges_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers hold 9 and 14: 7 + 2 and 8 + 6.

    By room per slot, 4.5 and 7, worker 1 takes 8 and, with 6 left, 7; then requests change places.
    """
    problem = step_problem([2, 2], [[0], [0]], [[8], [7], [6], [2]], token_capacity=[9, 14])
    assert repaired(problem, [None] * 4) == [1, 0, 1, 0]
    monkeypatch.setattr(step_limits._Exchange, "_exchange_best", lambda *_: False)  # noqa: SLF001
    assert repaired(problem, [None] * 4) is None


def test_room_is_kept_for_as_many_as_fit() -> None:
    """Four free slots and 20 tokens: of 5, 6, 6, 6, 9 three fit, so 9 starts with 5 and 6.

    Room for four of the smallest, 23 tokens, would leave none that may start.
    """
    capacity, base = np.array([4]), np.array([[0]])
    sizes = np.array([[9], [6], [6], [5], [6]])
    limits = Limits(np.array([1]), np.array([20]), np.zeros(5, dtype=np.bool_), 4)
    found = two_stage_reference(capacity, base, sizes, (1,), TwoStageParameters(), limits)
    assert found == [0, 0, None, 0, None]
    assert two_stage(capacity, base, sizes, (1,), TwoStageParameters(), limits) == found
