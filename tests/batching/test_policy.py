"""User-defined policies: the state they see, and the errors for invalid answers."""

import json

import numpy as np
import pytest

from bfio.batching.policy import BatchState
from bfio.batching.replay import violations
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from bfio.batching.tallies import SHORT
from formulations.batching import single_engine
from formulations.errors import InputError

NETWORK = single_engine("0.8", 10, 10, budget=20)


def oldest_first(state: BatchState) -> list[int]:
    """Return all that the oldest can take, then the next."""
    tokens, left = [], state.budget
    for prompt in state.prefill:
        tokens.append(min(prompt or 1, left))
        left -= tokens[-1]
    return tokens


def test_a_policy_of_ones_own() -> None:
    """It is work-conserving, and breaks no rule."""
    run = simulate(Scenario(NETWORK, Serving(oldest_first, "own")), horizon=1500, keeps_log=True)
    assert violations(run) == {}
    assert run.tallies.engines[0, SHORT] == 0
    assert run.engine == "reference"


def test_idling_takes_a_slot() -> None:
    """A policy that never loads anything: requests wait, no batch is formed."""
    idle = Serving(lambda state: [0] * len(state), "idle")
    run = simulate(Scenario(NETWORK, idle), horizon=50, seed=np.int64(3))
    assert json.loads(json.dumps(run.summary()))["seed"] == 3
    assert run.summary()["batches"] == 0
    assert run.course.present[-1, 0] == run.summary()["requests"] > 0


def test_lengths_are_hidden_unless_asked_for() -> None:
    """Reading them without asking is an error that says how to ask."""

    class Knowing:
        knows_lengths = True

        def __call__(self, state: BatchState) -> list[int]:
            assert min(state.decode) >= 1
            return oldest_first(state)

    simulate(Scenario(NETWORK, Serving(Knowing(), "knowing")), horizon=50)
    peeking = Scenario(NETWORK, Serving(lambda state: state.decode, "peeking"))
    with pytest.raises(InputError, match="knows_lengths = True"):
        simulate(peeking, horizon=50)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda state: 3, "returned 3"),
        (lambda state: "all", "returned 'all'"),
        (lambda state: [], "0 numbers"),
        (lambda state: [0] * 99, "more than"),
        (lambda state: [-1] * len(state), "-1 is not a whole number"),
        (lambda state: [True] * len(state), "True is not a whole number"),
        (lambda state: [0.5] * len(state), "0.5 is not a whole number"),
        (lambda state: np.full(len(state), 10**6), "prefill tokens, but only"),
        (lambda state: [2 - (p > 0) for p in state.prefill], "2 decode tokens in one batch"),
        (lambda state: list(state.prefill) if len(state) > 4 else [0] * len(state), "exceed"),
        (lambda state: 1 / 0, "division by zero"),
    ],
)
def test_wrong_answers(answer: object, told: str) -> None:
    """Each rule of (2.5), named with policy and slot."""
    scenario = Scenario(NETWORK, Serving(answer, "wrong"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=told) as raised:
        simulate(scenario, horizon=200)
    assert raised.value.where.startswith("policy wrong, slot ")
