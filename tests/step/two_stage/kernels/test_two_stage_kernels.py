"""The compiled two-stage heuristic against the reference implementation, for every decision."""

import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.step.two_stage import heuristic as module
from bfio.step.two_stage import subset_choice
from bfio.step.two_stage.heuristic import (
    TwoStageParameters,
    two_stage,
    two_stage_compiled,
    two_stage_reference,
)
from bfio.workloads.trace_file import read_trace
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step.problem import geometric_weights
from tests.decode.cases import build

Case = tuple[IntArray, IntArray, IntArray, Sequence[int], TwoStageParameters]

#: Ties and zeros, some thousand tokens, and more than 64-bit scores can hold.
TOKENS = [st.integers(0, 2), st.integers(0, 12), st.integers(0, 3000), st.integers(0, 10**12)]
PARAMETERS = st.builds(
    TwoStageParameters,
    threshold=st.integers(0, 25),
    candidates=st.none() | st.integers(1, 16),
    alpha=st.sampled_from([Fraction(1), Fraction(0), Fraction(5, 2)]),
    beta=st.none() | st.sampled_from([Fraction(0), Fraction(1), Fraction(4, 3), Fraction(43)]),
    key=st.sampled_from(["lexicographic", "product"]),
)


def matrix(draw: st.DrawFn, tokens: st.SearchStrategy[int], rows: int, columns: int) -> IntArray:
    """Draw a matrix of tokens."""
    count = rows * columns
    values = draw(st.lists(tokens, min_size=count, max_size=count))
    return np.array(values, dtype=np.int64).reshape(rows, columns)


@st.composite
def cases(draw: st.DrawFn, kinds: Sequence[str], max_slots: int = 6) -> Case:
    """Draw a problem whose requests stay constant, have common growth, or grow differently."""
    G, N, columns = draw(st.integers(1, 5)), draw(st.integers(0, 11)), draw(st.integers(1, 4))
    tokens = draw(st.sampled_from(TOKENS))
    base, contribution = matrix(draw, tokens, G, columns), matrix(draw, tokens, N, columns)
    kind = draw(st.sampled_from(kinds))
    if kind != "general":
        contribution[:] = contribution[:, :1]
    if kind == "alike":
        # Loads that fall must not fall below 0.
        least = int(contribution.min()) if N else 0
        fall = st.integers(-min(least, 3), 7)
        drift = draw(st.lists(fall, min_size=columns - 1, max_size=columns - 1))
        contribution += np.array([0, *drift])
    free = draw(st.lists(st.integers(0, max_slots), min_size=G, max_size=G))
    gamma = draw(st.sampled_from([Fraction(0), Fraction(43, 50), Fraction(1)]))
    weights, _ = geometric_weights(gamma, columns)
    return np.array(free, dtype=np.int64), base, contribution, weights, draw(PARAMETERS)


def assert_same(case: Case, *, decided: bool = False) -> None:
    """Assert that the kernels give the reference's assignment, or leave the case to it."""
    found = two_stage_compiled(*case)
    assert found is not None or not decided
    if found is not None:
        assert found == two_stage_reference(*case)
        assert all(worker is None or type(worker) is int for worker in found)


@given(cases(["constant", "alike", "general"]))
def test_decides_as_the_statement(case: Case) -> None:
    """Ties, zeros, no slots, fewer requests than slots, every kind of growth and parameter."""
    assert_same(case)


@given(cases(["constant", "alike"], max_slots=11))
def test_subsets_of_requests_that_grow_alike(case: Case) -> None:
    """Stage 2 alone: large subsets by extremes, bisection, pairs and masks."""
    parameters = TwoStageParameters(
        threshold=100, beta=case[4].beta, candidates=case[4].candidates
    )
    assert_same((*case[:4], parameters))


@given(cases(["general"], max_slots=11))
def test_subsets_of_requests_that_grow_differently(case: Case) -> None:
    """Stage 2 alone, by branch and bound."""
    parameters = TwoStageParameters(
        threshold=100, beta=case[4].beta, candidates=case[4].candidates
    )
    assert_same((*case[:4], parameters))


def random_case(rng: np.random.Generator, N: int, columns: int, kind: str) -> Case:
    """Draw a problem of the size that runs meet: full workers, a few free slots."""
    G = int(rng.integers(2, 9))
    base = rng.integers(60_000, 66_000, (G, 1)) - rng.integers(0, 90, (G, columns)).cumsum(axis=1)
    sizes = np.minimum(rng.lognormal(6.5, 1.0, (N, 1)).astype(np.int64), 9000)
    contribution = np.repeat(sizes, columns, axis=1)
    if kind == "alike":
        contribution += np.arange(columns)
    if kind == "general":
        outputs = rng.geometric(1 / 60, (N, 1))
        contribution = np.where(np.arange(columns) < outputs, contribution, 0)
    free = np.bincount(rng.integers(0, max(1, G // 3), 7), minlength=G)
    weights, _ = geometric_weights(Fraction(43, 50), columns)
    return free, base, contribution, weights, TwoStageParameters(beta=Fraction(43))


@pytest.mark.parametrize("kind", ["constant", "alike", "general"])
@pytest.mark.parametrize("columns", [1, 21])
def test_realistic_problems(kind: str, columns: int) -> None:
    """Pools of 128, 64 candidates, several slots per worker: all are decided, and as stated."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        assert_same(random_case(rng, 128, columns, kind), decided=True)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["constant", "alike", "general"])
def test_many_realistic_problems(kind: str) -> None:
    """The same on a thousand problems of all pool sizes."""
    rng = np.random.default_rng(8)
    for _ in range(1000):
        N, columns = int(rng.integers(1, 200)), int(rng.integers(1, 22))
        assert_same(random_case(rng, N, columns, kind), decided=True)


@pytest.mark.parametrize("predictor", ["none", "oracle"])
@pytest.mark.parametrize("policy", ["br-0", "br-h"])
def test_same_run(policy: str, predictor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole run with the kernels is the run without them."""
    rng = np.random.default_rng(3)
    workload = Workload(
        prompt_tokens=rng.integers(1, 2000, 250), output_tokens=rng.geometric(1 / 25, 250)
    )

    def workers() -> list[int]:
        machine = Cluster(workers=4, slots=8)
        run = simulate(
            workload,
            build(policy),
            machine,
            pool=24,
            predictor=predictor,
            window_knows="all",
            projection="growing",
        )
        return [int(worker) for worker in run.worker]

    compiled = workers()
    monkeypatch.setattr(module, "two_stage_compiled", lambda *case: None)
    assert workers() == compiled


def test_states_of_a_real_trace(shared_data: Path) -> None:
    """Every state of a run on a real trace, both with and without look-ahead."""
    trace = read_trace(shared_data / "burstgpt_1_first400.csv.gz")
    policy = build("br-h")

    def checked(state: DecodeState) -> list[int | None]:
        free, loads, added = state.free_slots, state.projected_loads, state.contributions
        weights, _ = geometric_weights(Fraction(43, 50), loads.shape[1])
        parameters = TwoStageParameters(beta=Fraction(43))
        assert_same((free, loads, added, weights, parameters), decided=True)
        assert_same((free, loads[:, :1], added[:, :1], (1,), TwoStageParameters()), decided=True)
        return list(policy(state))

    simulate(trace, checked, Cluster(workers=4, slots=8), pool=24, horizon=20, steps=150)


def test_scores_beyond_64_bits_are_left_to_the_reference() -> None:
    """10^12 tokens with six-digit weights, or an enormous weight, are not for the kernels."""
    base, contribution = np.full((2, 21), 10**12), np.full((3, 21), 10**12)
    free = np.array([1, 0])
    weights, _ = geometric_weights(Fraction(43, 50), 21)
    parameters = TwoStageParameters(beta=Fraction(43))
    assert two_stage_compiled(free, base, contribution, weights, parameters) is None
    assert two_stage(free, base, contribution, weights, parameters) == [0, None, None]
    small = np.ones((1, 2), dtype=np.int64)
    case = (free[:1], small, small, (10**30, 1), TwoStageParameters())
    assert two_stage_compiled(*case) is None
    assert two_stage(*case) == [0]


def test_masks_beyond_their_limit_are_left_to_the_reference() -> None:
    """Sums of three out of twenty up to 3·10^9 tokens would need masks of gigabytes."""
    rng = np.random.default_rng(1)
    contribution = rng.integers(1, 10**9, (20, 1))
    base = np.array([[0], [10**9]])
    case = (np.array([3, 0]), base, contribution, (1,), TwoStageParameters())
    assert two_stage_compiled(*case) is None
    assert two_stage(*case) == two_stage_reference(*case)


def test_too_many_subsets_are_refused_as_stated() -> None:
    """Beyond 16 candidates that grow differently the reference names the flag."""
    contribution = np.random.default_rng(2).integers(1, 99, (20, 2))
    case = (np.array([2]), np.array([[5, 5]]), contribution, (1, 1))
    parameters = TwoStageParameters(candidates=subset_choice.MAX_ENUMERATED + 1)
    assert two_stage_compiled(*case, parameters) is None
    with pytest.raises(InputError, match="candidates"):
        two_stage(*case, parameters)


def test_inputs_stay_as_they_are() -> None:
    """The kernels overwrite their arguments, so the wrapper hands them copies."""
    free, base = np.array([1, 2, 0]), np.array([[40], [25], [60]])
    contribution = np.array([[18], [9], [30], [22], [5]])
    before = [array.copy() for array in (free, base, contribution)]
    assert two_stage_compiled(free, base, contribution, (1,), TwoStageParameters()) == [
        0, None, 1, None, 1,
    ]  # fmt: skip
    for array, copy in zip((free, base, contribution), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_wrong_statement_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one side broke ties by the newest request, random cases would show it."""

    def newest(values: IntArray, sizes: IntArray) -> int:
        return int(max(np.flatnonzero(values == values.max()), key=lambda k: (sizes[k], k)))

    monkeypatch.setattr(subset_choice, "_first_best", newest)
    rng = np.random.default_rng(4)
    for _ in range(100):
        contribution = rng.integers(1, 6, (6, 1))
        case = (np.array([1, 1]), rng.integers(0, 9, (2, 1)), contribution, (1,))
        parameters = TwoStageParameters()
        if two_stage_compiled(*case, parameters) != module.two_stage_reference(*case, parameters):
            return
    pytest.fail("a different tie rule went unnoticed")


def test_listing_policies_does_not_load_numba() -> None:
    """Numba comes with the first policy that is made, not with their names."""
    code = (
        "import sys; from bfio.decode.policy_registry import specs; specs()\n"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_options_reach_the_kernels() -> None:
    """θ = 0 is stage 1 alone; the product key and one candidate change other answers."""
    built = build("br-0", threshold=0, key="product", candidates=2)
    assert built.parameters == TwoStageParameters(threshold=0, key="product", candidates=2)
    answers = set()
    for parameters in (
        TwoStageParameters(threshold=0),
        TwoStageParameters(threshold=99),
        TwoStageParameters(threshold=99, key="product"),
        TwoStageParameters(threshold=99, candidates=1),
    ):
        rng = np.random.default_rng(36)
        base, contribution = rng.integers(0, 60, (3, 1)), rng.integers(1, 20, (7, 1))
        case = (np.array([1, 2, 2]), base, contribution, (1,), parameters)
        assert_same(case, decided=True)
        answers.add(tuple(str(worker) for worker in two_stage(*case)))
    assert len(answers) == 4
