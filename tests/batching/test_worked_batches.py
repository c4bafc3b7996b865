"""First batches of runs (figure 5) and the next batch of a state, by hand and by the rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.batching.laws import ListedArrivals, ListedSizes
from bfio.batching.policy import BatchState
from bfio.batching.program import batch_of
from bfio.batching.registry import build
from bfio.batching.run import BatchRun, WorkedBatch, first_batches
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from formulations.batch_composition import BatchProblem, phase_weights, solve, violations, worth
from formulations.batching import rybko_stolyar, single_engine
from formulations.errors import InputError
from tests.batching.cases import scenarios

#: Prompts 3, 5, 2 and outputs 3, 2, 2; the third may be loaded two slots after the others, in
#: slot 3. Four tokens in a slot. Worked by hand: slot, prompt tokens, decode tokens.
WORKED: dict[str, list[tuple[int, dict[str, int], str]]] = {
    "faster-transformer": [
        (1, {"0": 3, "1": 1}, ""), (2, {}, "0"), (3, {}, "0"), (4, {}, "0"), (5, {"1": 4}, ""),
        (6, {}, "1"), (7, {}, "1"), (8, {"2": 2}, ""), (9, {}, "2"), (10, {}, "2"),
    ],
    "vllm": [
        (1, {"0": 3, "1": 1}, ""), (2, {"1": 4}, ""), (3, {"2": 2}, ""), (4, {}, "012"),
        (5, {}, "012"), (6, {}, "0"),
    ],
    "orca": [
        (1, {"0": 3, "1": 1}, ""), (2, {"1": 4}, ""), (3, {"2": 2}, "01"), (4, {}, "012"),
        (5, {}, "02"),
    ],
    "sarathi": [
        (1, {"0": 3, "1": 1}, ""), (2, {"1": 3}, "0"), (3, {"1": 1, "2": 2}, "0"),
        (4, {}, "012"), (5, {}, "12"),
    ],
}  # fmt: skip


def _toy(policy: str) -> BatchRun:
    sizes = ListedSizes(np.array([3, 5, 2]), np.array([3, 2, 2]), in_order=True)
    scenario = Scenario(
        single_engine(1, 1, 1, budget=4),
        Serving(build(policy), policy),
        listed_sizes={"1@engine": sizes},
        listed_arrivals={"1@engine": ListedArrivals(np.array([0, 0, 2]))},
    )
    return simulate(scenario, keeps_log=True)


@pytest.mark.parametrize("policy", WORKED)
def test_four_policies_as_worked_by_hand(policy: str) -> None:
    """In the manner of figure 5: who is in each batch until all have left."""
    batches = first_batches(_toy(policy), 20)
    assert [(b.slot, b.prefill, "".join(b.decode)) for b in batches] == WORKED[policy]
    assert {(b.engine, b.slots, b.budget) for b in batches} == {("engine", 1, 4)}
    assert first_batches(_toy(policy), 2) == batches[:2]


def test_names_of_engines_and_stages() -> None:
    """Parallel engines are numbered; in a network requests say at which stage they are."""
    network = single_engine(2, 2, 2, budget=3, engines=2)
    run = simulate(Scenario(network, sizes="fixed"), horizon=20, keeps_log=True)
    assert {batch.engine for batch in first_batches(run, 99)} == {"engine#0", "engine#1"}
    run = simulate(Scenario(rybko_stolyar(1)), horizon=20, keeps_log=True)
    (first, *_) = first_batches(run, 99)
    assert {name.partition("@")[2] for name in (*first.prefill, *first.decode)} < {
        stage.name for stage in run.scenario.network.stages
    }


def test_a_run_without_a_log_has_none() -> None:
    """It says so."""
    run = simulate(Scenario(single_engine(1, 1, 1, budget=4)), horizon=9)
    with pytest.raises(InputError, match="keeps_log"):
        first_batches(run, 1)


@given(scenario=scenarios(), seed=st.integers(0, 9))
def test_batches_have_what_the_log_has(scenario: Scenario, seed: int) -> None:
    """In any network: tokens add up, nobody is in both phases of a batch, no budget is broken."""
    run = simulate(scenario, seed=seed, horizon=40, keeps_log=True)
    batches = first_batches(run, 10**6)
    assert run.log is not None
    assert len(batches) == len(run.log.batches)
    assert all(_adds_up(batch) for batch in batches)
    assert sum(batch.tokens for batch in batches) == run.tokens


def _adds_up(batch: WorkedBatch) -> bool:
    apart = not set(batch.prefill) & set(batch.decode)
    total = sum(batch.prefill.values()) + len(batch.decode)
    return apart and total == batch.tokens <= batch.budget


problems = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=8).flatmap(
    lambda rows: st.integers(1, 12).map(
        lambda budget: BatchProblem(
            np.array([p for p, _ in rows], dtype=np.int64),
            np.array([d for _, d in rows], dtype=np.int64),
            budget,
        )
    )
)


@given(problem=problems)
def test_the_next_batch_of_a_policy_is_a_batch_and_no_better_than_the_best(
    problem: BatchProblem,
) -> None:
    """Work-conserving ones have most tokens; Sarathi and Orca are best by weights of their own."""
    best = worth(problem, *solve(problem).required_solution())
    assert best == min(problem.budget, int(np.maximum(problem.prefill, 1).sum()))
    for name in ("sarathi", "orca", "vllm-chunked", "sjf", "vllm", "faster-transformer"):
        batch = batch_of(build(name), problem, name)
        assert violations(problem, *batch) == {}
        if name in ("sarathi", "orca", "vllm-chunked", "sjf"):
            assert worth(problem, *batch) == best
        else:
            assert min(sum(batch[0]), sum(batch[1])) == 0
    for name, prompt, decode in (("sarathi", 1, 2), ("orca", 2, 1)):
        weight = phase_weights(problem.prefill, prompt_token=prompt, decode_token=decode)
        weighed = BatchProblem(problem.prefill, problem.decode, problem.budget, weight)
        own = batch_of(build(name), problem, name)
        assert worth(weighed, *own) == worth(weighed, *solve(weighed).required_solution())


def test_a_policy_of_ones_own_sees_the_state() -> None:
    """Requests in the order of the file; lengths if it may know them; decoders in that order."""
    seen: list[BatchState] = []

    def idles(state: BatchState) -> list[int]:
        seen.append(state)
        return [0] * len(state)

    problem = BatchProblem(np.array([0, 4, 0]), np.array([2, 1, 7]), 5)
    assert batch_of(idles, problem, "idles") == ((0, 0, 0), (0, 0, 0))
    (state,) = seen
    assert (state.prefill, state.entered, state.lengths) == ([0, 4, 0], [0, -1, 2], None)
    idles.knows_lengths = True  # type: ignore[attr-defined]
    batch_of(idles, problem, "idles")
    assert seen[-1].decode == [2, 1, 7]


def test_a_wrong_answer_is_named() -> None:
    """By the rule that it breaks."""
    problem = BatchProblem(np.array([3]), np.array([1]), 5)
    with pytest.raises(InputError, match=r"\(2.5b\)"):
        batch_of(lambda state: [4], problem, "greedy")
