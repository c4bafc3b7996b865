"""The batch program in the engine: as a policy, and compared with other policies."""

import pytest

from bfio.batching.policy import BatchState, ask
from bfio.batching.program import MeasuredPolicy, ProgramPolicy, Weighting
from bfio.batching.registry import build
from bfio.batching.replay import violations
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from formulations import InputError
from formulations.batching import single_engine

#: Load 0.78, b = 10, one prompt token and twelve decode tokens.
NETWORK = single_engine("0.6", 1, 12, budget=10)


def measured(policy: str, weighting: Weighting, slots: int = 400) -> MeasuredPolicy:
    """Return a policy that has been asked for some slots."""
    found = MeasuredPolicy(build(policy), weighting)
    scenario = Scenario(NETWORK, Serving(found, policy), sizes="fixed", arrivals="bernoulli")
    run = simulate(scenario, horizon=slots, keeps_log=True)
    assert violations(run) == {}
    return found


@pytest.mark.parametrize(
    ("policy", "weighting"),
    [
        ("sarathi", Weighting.TOKENS),
        ("orca", Weighting.TOKENS),
        ("sarathi", Weighting.DECODE),
        ("orca", Weighting.PREFILL),
    ],
)
def test_policies_without_a_gap(policy: str, weighting: Weighting) -> None:
    """Work-conserving policies have most tokens; each is best by its own weights."""
    tally = measured(policy, weighting).tally
    assert tally.batches > 100
    assert (tally.below, tally.gap) == (0, 0.0)


def test_vllm_leaves_half_of_the_tokens_out() -> None:
    """Its prompts of one token take slots in which nine decode tokens would fit."""
    tally = measured("vllm", Weighting.TOKENS).tally
    assert tally.below > 100
    assert 0.4 < tally.gap < 0.7
    assert tally.worth < tally.best


def test_orca_is_not_best_for_decode() -> None:
    """And Sarathi-Serve not for prompts: each leaves a share of the other's worth."""
    assert measured("orca", Weighting.DECODE).tally.below > 0
    assert measured("sarathi", Weighting.PREFILL).tally.below > 0


@pytest.mark.parametrize("weighting", Weighting)
def test_the_program_as_a_policy(weighting: Weighting) -> None:
    """Its runs keep the rules and have no gap to itself."""
    found = MeasuredPolicy(ProgramPolicy(weighting), weighting)
    scenario = Scenario(NETWORK, Serving(found, "program"))
    # Bonuses make it an integer program for a solver, tens of milliseconds a batch.
    slots = 6 if weighting is Weighting.FIRST_TOKEN else 60
    run = simulate(scenario, horizon=slots, keeps_log=True)
    assert violations(run) == {}
    assert found.tally.below == 0


def test_first_tokens_by_hand() -> None:
    """B = 6, prompts of 5, 3 and 3 tokens: two short ones are completed, not a long one."""
    state = BatchState(0, 6, True, [5, 3, 3], ["s"] * 3, [0] * 3, [-1] * 3, None)
    assert ask(ProgramPolicy(Weighting.FIRST_TOKEN), state, "p") == [0, 3, 3]
    # By age: weights 3, 2 and 1.
    assert ask(ProgramPolicy(Weighting.AGE), state, "p") == [5, 1, 0]


def test_what_has_no_program() -> None:
    """Prompts that are not cut, and unknown weightings."""
    state = BatchState(0, 6, False, [5], ["s"], [0], [-1], None)
    with pytest.raises(InputError, match="requires an engine that cuts prompts; set chunked"):
        ask(ProgramPolicy(), state, "p")
    with pytest.raises(InputError, match="did you mean tokens"):
        ProgramPolicy("token")  # type: ignore[arg-type]
