"""The two-stage heuristic against a separate simple implementation, goldens and invariants."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.state import DecodeState
from bfio.step.two_stage import heuristic as module
from bfio.step.two_stage.heuristic import (
    TwoStageParameters,
    two_stage,
    two_stage_reference,
    two_stage_step,
)
from bfio.testing.balance import imbalance
from bfio.testing.instances import decode_states
from bfio.testing.states import contract_violation, loads_after, make_state
from formulations.step.problem import StepProblem, geometric_weights
from tests.decode.cases import build
from tests.decode.policies.test_baselines import P1

OPTIONS = st.fixed_dictionaries(
    {
        "threshold": st.integers(0, 12),
        "candidates": st.integers(1, 9) | st.none(),
        "key": st.sampled_from(["lexicographic", "product"]),
    }
)
PLAIN: dict[str, Any] = {"threshold": 7, "candidates": None, "key": "lexicographic"}


def plain_br_0(s: DecodeState, options: dict[str, Any]) -> list[int | None]:
    """BR-0 straight from equation 1 and the two stages, subsets by enumeration."""
    G, loads, free = s.num_workers, s.loads.tolist(), s.free_slots.tolist()
    sizes, answer = s.sizes.tolist(), [None] * s.num_waiting
    result: list[int | None] = list(answer)

    def margin(g: int) -> int:
        return int(max(loads) - loads[g])

    def f_score(members: Sequence[int], g: int) -> int:
        delta = sum(sizes[i] for i in members)
        return int(delta - G * max(0, delta - margin(g)))

    def admit(members: Sequence[int], g: int) -> None:
        for i in members:
            result[i] = g
            free[g] -= 1
            loads[g] += sizes[i]
            waiting.remove(i)

    waiting = list(range(len(sizes)))
    while waiting and sum(free) > options["threshold"]:
        g = max(range(G), key=lambda h: (free[h], margin(h), -h))
        admit([max(waiting, key=lambda i: (f_score([i], g), -i))], g)
    while waiting and sum(free) > 0:
        product = options["key"] == "product"
        open_workers = [h for h in range(G) if free[h] > 0]
        g = max(
            open_workers,
            key=lambda h: (free[h] * margin(h), -h) if product else (free[h], margin(h), -h),
        )
        largest = sorted(waiting, key=lambda i: (-sizes[i], i))[: options["candidates"] or 64]
        choices = [c for n in range(1, free[g] + 1) for c in combinations(sorted(largest), n)]
        best = max(
            choices,
            key=lambda c: (
                f_score(c, g),
                sum(sizes[i] for i in c),
                tuple(i in c for i in range(len(sizes))),
            ),
        )
        if f_score(best, g) <= 0:
            best = (max(waiting, key=lambda i: (f_score([i], g), -i)),)
        admit(best, g)
    return result


@given(decode_states(), OPTIONS)
def test_br_0_decides_as_its_plain_statement(s: DecodeState, options: dict[str, Any]) -> None:
    """One implementation of BR-H at H = 0, α = 1, β = G makes BR-0's decisions exactly."""
    assert build("br-0", **options)(s) == plain_br_0(s, options)


@given(decode_states(), OPTIONS)
def test_br_h_without_horizon_is_br_0(s: DecodeState, options: dict[str, Any]) -> None:
    """H = 0 with β = G, whatever γ."""
    same = options | {"beta": Fraction(s.num_workers), "gamma": Fraction(1, 3), "horizon": 0}
    assert build("br-h", **same)(s) == build("br-0", **options)(s)


@given(decode_states(), st.integers(1, 5), st.integers(0, 12))
def test_constant_window_without_discount_is_br_0(s: DecodeState, H: int, threshold: int) -> None:
    """If neither loads nor contributions change, a longer window changes nothing."""
    longer = make_state(
        s.loads.tolist(),
        s.free_slots.tolist(),
        s.sizes.tolist(),
        projected=[[load] * (H + 1) for load in s.loads.tolist()],
        contributions=[[size] * (H + 1) for size in s.sizes.tolist()],
    )
    options: dict[str, Any] = {"threshold": threshold, "horizon": H, "gamma": 1}
    assert build("br-h", beta=s.num_workers, **options)(longer) == build(
        "br-0", threshold=threshold
    )(s)


def test_golden_p1_subsets() -> None:
    """θ = 0: worker 0 or 1 by margin: 1 takes {30, 5}, 0 takes 18; loads 58, 60, 60: J = 2.

    Three free slots exceed θ = 0, so stage 1 runs; with θ >= 3 stage 2 chooses subsets.
    """
    answer = build("br-0", threshold=3)(P1)
    assert list(answer) == [0, None, 1, None, 1]
    assert imbalance(loads_after(P1, answer)) == 2


def test_golden_p1_without_stage_two() -> None:
    """θ = 0 is stage 1 alone until no slot is left.

    Worker 1 has most slots (margin 35): 30 scores 30, the best, and brings it to 55. Both have
    one slot: worker 0 has margin 20 > 5: 18 scores 18 (22 scores 22 − 3·2 = 16). Worker 1 with
    margin 5 takes 5. The golden assignment, J = 2.
    """
    answer = build("br-0", threshold=0)(P1)
    assert list(answer) == [0, None, 1, None, 1]
    assert imbalance(loads_after(P1, answer)) == 2


def test_product_key_orders_differently() -> None:
    """Free (1, 2), margins (20, 8): worker 1 has more slots, worker 0 the product 20 > 16.

    Who comes first takes 8 ({8, 7} would score 15 − 3·7 < 0 on worker 1), the other one 7.
    """
    s = make_state([10, 22, 30], [1, 2, 0], [8, 7])
    assert list(build("br-0")(s)) == [1, 0]
    assert list(build("br-0", key="product")(s)) == [0, 1]


@given(decode_states(), OPTIONS, st.sampled_from(["br-0", "br-h"]))
def test_work_conserving(s: DecodeState, options: dict[str, Any], name: str) -> None:
    """Both admit as many as can start, never more than the free slots."""
    answer = build(name, **options)(s)
    assert contract_violation(s, answer) is None
    assert sum(g is not None for g in answer) == s.num_admissible


@given(decode_states(), OPTIONS)
def test_plain_statement_with_horizon(s: DecodeState, options: dict[str, Any]) -> None:
    """Stage 2 alone on one worker with one slot: the single of best horizon score."""
    if s.num_waiting == 0:
        return
    worker = int(np.argmin(s.loads))
    free = np.zeros(s.num_workers, dtype=np.int64)
    free[worker] = 1
    weights, scale = geometric_weights(Fraction(43, 50), s.contributions.shape[1])
    answer = two_stage(
        free,
        s.projected_loads,
        s.contributions,
        weights,
        TwoStageParameters(threshold=0, beta=Fraction(43)),
    )
    margins = s.projected_loads.max(axis=0) - s.projected_loads[worker]
    values = [
        sum(
            Fraction(w, scale) * (int(v) - 43 * max(0, int(v) - int(m)))
            for w, v, m in zip(weights, row, margins, strict=True)
        )
        for row in s.contributions
    ]
    assert answer.index(worker) == values.index(max(values))


def test_look_ahead_changes_the_choice() -> None:
    """Worker 0 loses 40 tokens at the next step, worker 1 nothing.

    Now both hold 100 with an envelope of 110: margins (10, 10) each, so BR-0 prefers worker 0 for
    the first choice and gives it request 0 (10 tokens). With the window, worker 0 has margins
    (10, 50), worker 1 (10, 10): still min 10 each, but request 1 (50 next step, 10 now) scores
    60 on worker 0 and would overflow worker 1 by 40.
    """
    base = np.array([[100, 60], [100, 100], [110, 110]])
    contribution = np.array([[10, 10], [10, 50]])
    free = np.array([1, 1, 0])
    parameters = TwoStageParameters()
    assert two_stage(free, base, contribution, (1, 1), parameters) == [1, 0]
    assert two_stage(free, base[:, :1], contribution[:, :1], (1,), parameters) == [0, 1]


def test_no_positive_score_still_admits_the_least_harmful() -> None:
    """All at the envelope, G = 2: 30, 20, 10 score −30, −20, −10; the smallest is admitted.

    With one candidate (the largest) the single request is still the best of the whole pool.
    """
    s = make_state([50, 50], [1, 0], [30, 20, 10])
    assert list(build("br-0")(s)) == [None, None, 0]
    assert list(build("br-0", candidates=1)(s)) == [None, None, 0]


def test_candidates_are_the_largest() -> None:
    """Margin 12, two slots, K = 2: of 3, 9, 8, 5 the candidates are 9 and 8; 9 + 8 overflows.

    G = 3: {9} scores 9, {9, 8} scores 17 − 15 = 2, so {9}; then with margin 3 and candidates 8
    and 5: 8 − 15 = −7, 5 − 6 = −1: nothing positive, so the best of all: 3 scores 3.
    """
    s = make_state([10, 22, 22], [2, 0, 0], [3, 9, 8, 5])
    assert list(build("br-0", candidates=2)(s)) == [0, 0, None, None]
    # All four: {3, 9} fills the margin.
    assert list(build("br-0")(s)) == [0, 0, None, None]


def test_huge_tokens_are_exact() -> None:
    """10^12 tokens, β = 43 and six-digit weights leave 64 bits; ties still go to the oldest."""
    big = 10**12
    weights, _ = geometric_weights(Fraction(43, 50), 21)
    base = np.full((3, 21), big)
    base[0] -= 5
    contribution = np.array([[big - 1] * 21, [big] * 21, [big - 1] * 21])
    free = np.array([1, 0, 0])
    parameters = TwoStageParameters(beta=Fraction(43))
    assert two_stage(free, base, contribution, weights, parameters) == [0, None, None]


def test_step_problem_golden() -> None:
    """P1 as a step problem gives J = 2."""
    problem = StepProblem([1, 2, 0], [[40], [25], [60]], [[18], [9], [30], [22], [5]])  # type: ignore[arg-type]
    assert problem.objective_value(two_stage_step(problem)) == 2


def test_empty_problems() -> None:
    """No request, or no slot: nothing is admitted."""
    assert two_stage_step(StepProblem([2], [[5]], [])) == []  # type: ignore[arg-type]
    assert two_stage_step(StepProblem([0, 0], [[5], [6]], [[3]])) == [None]  # type: ignore[arg-type]


def test_general_contributions_use_twelve_candidates() -> None:
    """Forty requests with their own lengths: chosen by enumeration, without an error."""
    rng = np.random.default_rng(5)
    contribution = rng.integers(1, 500, (40, 6))
    base = rng.integers(5000, 6000, (4, 6))
    answer = two_stage(np.array([2, 3, 0, 1]), base, contribution, (1,) * 6, TwoStageParameters())
    assert sum(g is not None for g in answer) == 6


def test_stale_margins_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant that never raises the envelope differs from the plain statement."""
    original = module._Admission._admit  # noqa: SLF001

    def forgetful(self: module._Admission, worker: int, requests: tuple[int, ...]) -> None:
        envelope = self._envelope.copy()
        original(self, worker, requests)
        self._envelope = envelope

    monkeypatch.setattr(module._Admission, "_admit", forgetful)  # noqa: SLF001
    rng = np.random.default_rng(11)
    for _ in range(200):
        s = make_state(
            rng.integers(0, 30, 4).tolist(),
            rng.integers(0, 3, 4).tolist(),
            rng.integers(1, 20, 7).tolist(),
        )
        loads, added = s.projected_loads[:, :1], s.contributions[:, :1]
        answer = two_stage_reference(s.free_slots, loads, added, (1,), TwoStageParameters())
        if answer != plain_br_0(s, PLAIN):
            return
    pytest.fail("a stale envelope went unnoticed")
