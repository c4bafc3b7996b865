"""FCFS with four eviction rules: by hand, and against the toolkit's own policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.arrivals import poisson_instance
from bfio.wait.policy import KnownRequests, StagePolicy, StageState
from proofs_checks.evidence import Estimate, Verdict
from proofs_checks.papers.fluid.propositions import EVICTION_RULES, Removal, printed_verdict
from proofs_checks.papers.fluid.runs import canonical, instance_of, random_setting, reference

RULES = pytest.mark.parametrize("policy", EVICTION_RULES.values(), ids=EVICTION_RULES)


def _state(held: list[int], stages: list[int], memory: int) -> StageState:
    """Four prompts of one token in the order of arrival, of which some have started."""
    instance = instance_of([(t, 1, 3) for t in range(4)], 1, 1, memory)
    waiting = [i for i in range(4) if i not in held]
    known = KnownRequests.of(instance, 4, None)
    return StageState(known, 9, waiting, held, np.array(stages), False)


def test_removals_by_hand() -> None:
    """0, 1, 2 hold 1 token each and need 2 each, of 5: who goes, and who joins the batch."""
    state = _state([0, 1, 2], [1, 1, 1, 0], 5)
    batches = {}
    for name, policy in EVICTION_RULES.items():
        decision = policy(state)
        batches[name] = (sorted(decision.batch), sorted(decision.evict))  # type: ignore[union-attr]
    assert batches == {
        # 2 + 2 and one new token: the one removed was there before 3.
        "the youngest go": ([0, 1, 2], [2]),
        "the oldest go": ([0, 1, 2], [0]),
        # 3 held and a new one are 4 at most 5; then 2 + 2 + 1 remain.
        "arrivals start, then the youngest ongoing go": ([0, 1, 3], [2]),
        "all go": ([0, 1, 2, 3], [0, 1, 2]),
    }


def test_nobody_goes_without_need() -> None:
    """2 + 2 tokens and two new ones are 6."""
    state = _state([0, 1], [1, 1, 0, 0], 6)
    for policy in EVICTION_RULES.values():
        decision = policy(state)
        assert sorted(decision.batch) == [0, 1, 2, 3]  # type: ignore[union-attr]
        assert list(decision.evict) == []  # type: ignore[union-attr]


@given(st.integers(0, 10**6), st.integers(9, 20))
def test_the_first_rule_is_the_toolkits(seed: int, memory: int) -> None:
    """`Removal` by default, written apart, serves as `FirstComeFirstServed` does."""
    setting = random_setting(np.random.default_rng(seed), 15)
    instance, horizon = setting.instance(memory), setting.requests[-1][0] + 60
    ours, theirs = (
        reference(instance, policy, horizon)
        for policy in (Removal(), EVICTION_RULES["the youngest go"])
    )
    assert (ours.completion == theirs.completion).all()
    assert (ours.batches.memory == theirs.batches.memory).all()


@RULES
@given(seed=st.integers(0, 10**6))
def test_no_rule_exceeds_the_memory(policy: StagePolicy, seed: int) -> None:
    """On the instance of A.3, whoever is removed."""
    run = reference(poisson_instance(canonical(), 20, seed), policy, 20 * 18)
    assert run.overflows == 0


def test_rules_that_disagree_give_no_verdict() -> None:
    """Both sides of the printed constant: nothing is said of a statement that names no rule."""
    above, below = (Estimate("x", 1, 1, 1, 2, "", accepted) for accepted in (True, False))
    assert printed_verdict([above, below]) is Verdict.NOT_CHECKABLE
    assert printed_verdict([above, above]) is Verdict.SUPPORTED
    assert printed_verdict([below]) is Verdict.REFUTED
