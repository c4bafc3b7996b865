"""Policies that solve the batch program in each step, and the gap of any policy to the optimum.

`formulations.batch_composition` maximizes the weighted tokens of a batch; a `Weighting` derives
the weights from the state of an engine. These policies are called batch by batch, so they do not
run compiled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from bfio.batching.policy import BatchPolicy, BatchState, ask, policy_of_engine
from formulations.batch_composition import (
    BatchProblem,
    aging_weights,
    phase_weights,
    solve,
    worth,
)
from formulations.batch_composition.problem import Batch
from formulations.errors import CapabilityError
from formulations.problem_data import member


class Weighting(StrEnum):
    """Objective of a batch, a weight per token: section 9 of the specification."""

    #: Weight 1 per token: maximizes the tokens of the batch.
    TOKENS = "tokens"
    #: Weight 2 per decode token, 1 per prompt token: favours the time between tokens.
    DECODE = "decode"
    #: Weight 2 per prompt token, 1 per decode token.
    PREFILL = "prefill"
    #: Weight 1 plus the number of younger requests: favours the oldest.
    AGE = "age"
    #: Weight 1 per token plus the budget per completed prompt: favours the time to first token.
    FIRST_TOKEN = "first-token"


def batch_problem(state: BatchState, weighting: Weighting) -> BatchProblem:
    """Return the batch program of an engine's state.

    Parameters
    ----------
    state : BatchState
        State of the engine at its decision.
    weighting : Weighting
        Objective of a batch.

    Raises
    ------
    CapabilityError
        If the engine does not cut prompts; the program assumes chunks.
    """
    if not state.chunked:
        what = "the batch program requires an engine that cuts prompts"
        raise CapabilityError("chunked", what, "set chunked = true")
    prefill = np.array(state.prefill, dtype=np.int64)
    weight, bonus = np.ones_like(prefill), None
    if weighting is Weighting.DECODE:
        weight = phase_weights(prefill, prompt_token=1, decode_token=2)
    elif weighting is Weighting.PREFILL:
        weight = phase_weights(prefill, prompt_token=2, decode_token=1)
    elif weighting is Weighting.AGE:
        weight = aging_weights(np.arange(len(prefill))[::-1])
    elif weighting is Weighting.FIRST_TOKEN:
        bonus = np.where(prefill > 0, state.budget, 0).astype(np.int64)
    # At most one decode token is loaded, so the number left does not matter.
    return BatchProblem(prefill, np.ones_like(prefill), state.budget, weight, bonus)


@dataclass(frozen=True)
class ProgramPolicy:
    """Policy that returns an optimal batch in each step.

    Parameters
    ----------
    weighting : Weighting
        Objective of a batch.
    """

    weighting: Weighting = Weighting.TOKENS

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        object.__setattr__(self, "weighting", member(Weighting, self.weighting, "weighting"))

    def __call__(self, state: BatchState) -> list[int]:
        """Return an optimal batch."""
        prefill, decode = solve(batch_problem(state, self.weighting)).required_solution()
        return [x + y for x, y in zip(prefill, decode, strict=True)]


@dataclass
class GapTally:
    """Gap of a policy's batches to the optimal batches, summed over states.

    Parameters
    ----------
    batches, below : int
        Batches decided, and batches below the optimum.
    worth, best : int
        Total objective of the batches, and of optimal batches in the same states.
    """

    batches: int = 0
    below: int = 0
    worth: int = 0
    best: int = 0

    @property
    def gap(self) -> float:
        """Relative gap to the optimum, 0 to 1."""
        return 0.0 if self.best == 0 else 1 - self.worth / self.best


@dataclass(frozen=True)
class MeasuredPolicy:
    """Policy wrapper that compares each batch with an optimal batch in the same state.

    Parameters
    ----------
    policy : BatchPolicy
        The policy that decides.
    weighting : Weighting
        Objective of a batch.
    tally : GapTally
        Accumulated gap over all engines and runs of this policy.
    """

    policy: BatchPolicy
    weighting: Weighting = Weighting.TOKENS
    tally: GapTally = field(default_factory=GapTally)

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        object.__setattr__(self, "weighting", member(Weighting, self.weighting, "weighting"))

    @property
    def knows_lengths(self) -> bool:
        """Whether the wrapped policy may read the lengths of requests."""
        return bool(getattr(self.policy, "knows_lengths", False))

    def for_engine(self) -> Callable[[BatchState], list[int]]:
        """Return the policy object of one engine: a fresh policy with the shared tally."""
        fresh = MeasuredPolicy(policy_of_engine(self.policy), self.weighting, self.tally)
        return fresh.__call__

    def __call__(self, state: BatchState) -> list[int]:
        """Return the batch of the wrapped policy, and add its gap to the tally."""
        tokens = ask(self.policy, state, "measured")
        problem = batch_problem(state, self.weighting)
        reached = worth(problem, *by_phase(tokens, state.prefill))
        best = worth(problem, *solve(problem).required_solution())
        self.tally.batches += 1
        self.tally.below += reached < best
        self.tally.worth += reached
        self.tally.best += best
        return tokens


def by_phase(tokens: Sequence[int], prefill: Sequence[int]) -> Batch:
    """Return prompt tokens ``δ^p`` and decode tokens ``δ^d`` of a batch, as in (2.5)."""
    pairs = list(zip(tokens, prefill, strict=True))
    return tuple(x if p else 0 for x, p in pairs), tuple(0 if p else x for x, p in pairs)


def batch_of(policy: BatchPolicy, problem: BatchProblem, name: str) -> Batch:
    """Return the batch of a policy in the state given by a batch program.

    All requests belong to one stage and are in order of arrival and of entry into decode. The
    policy does not see the program's data beyond (2.5), such as weights or a maximum number of
    requests.

    Parameters
    ----------
    policy : BatchPolicy
        The policy.
    problem : BatchProblem
        Remaining tokens of each request, and the budget.
    name : str
        Name of the policy in error messages.

    Raises
    ------
    InputError
        If the answer of the policy breaks (2.5).
    """
    prefill, count = problem.prefill.tolist(), problem.num_requests
    knows = getattr(policy, "knows_lengths", False) is True
    state = BatchState(
        slot=0,
        budget=problem.budget,
        chunked=True,
        prefill=prefill,
        stage=["requests"] * count,
        rank=[0] * count,
        entered=[-1 if left else i for i, left in enumerate(prefill)],
        lengths=problem.decode.tolist() if knows else None,
    )
    return by_phase(ask(policy_of_engine(policy), state, name), prefill)
