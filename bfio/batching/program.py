"""Batches by the batch program: a policy that solves it each step, and the gap of any other to it.

`formulations.batch_composition` says which batch is worth most by weights; a `Weighting` makes
them of what an engine sees. The engine asks such policies batch by batch, so it does not run
compiled.
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
    """What a batch is worth: all weights are of tokens, section 9 of the specification."""

    #: Every token 1: the batch with most tokens.
    TOKENS = "tokens"
    #: A decode token 2, a prompt token 1: the time between tokens.
    DECODE = "decode"
    #: A prompt token 2, a decode token 1.
    PREFILL = "prefill"
    #: As many as there are younger requests, and 1: the oldest first.
    AGE = "age"
    #: Every token 1, and as much as the whole budget for a completed prompt: time to first token.
    FIRST_TOKEN = "first-token"


def batch_problem(state: BatchState, weighting: Weighting) -> BatchProblem:
    """Return the batch program of what an engine sees.

    Parameters
    ----------
    state : BatchState
        The engine when it decides.
    weighting : Weighting
        What a batch is worth.

    Raises
    ------
    CapabilityError
        If the engine does not cut prompts: the program does.
    """
    if not state.chunked:
        what = "an engine that does not cut prompts has no batch program"
        raise CapabilityError("chunked", what, "let it cut them")
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
    # Decode tokens left matter to no batch: one at most is loaded.
    return BatchProblem(prefill, np.ones_like(prefill), state.budget, weight, bonus)


@dataclass(frozen=True)
class ProgramPolicy:
    """A policy whose every batch is worth most.

    Parameters
    ----------
    weighting : Weighting
        What a batch is worth.
    """

    weighting: Weighting = Weighting.TOKENS

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "weighting", member(Weighting, self.weighting, "weighting"))

    def __call__(self, state: BatchState) -> list[int]:
        """Return the best batch."""
        prefill, decode = solve(batch_problem(state, self.weighting)).required_solution()
        return [x + y for x, y in zip(prefill, decode, strict=True)]


@dataclass
class GapTally:
    """How far batches were from the best ones.

    Parameters
    ----------
    batches, below : int
        Batches decided, and those that were worth less than the best.
    worth, best : int
        What they were worth in all, and what the best would have been in the same states.
    """

    batches: int = 0
    below: int = 0
    worth: int = 0
    best: int = 0

    @property
    def gap(self) -> float:
        """Share of the worth that was left, 0 to 1."""
        return 0.0 if self.best == 0 else 1 - self.worth / self.best


@dataclass(frozen=True)
class MeasuredPolicy:
    """Another policy, each batch of which is compared with the best one in the same state.

    Parameters
    ----------
    policy : BatchPolicy
        The policy that decides.
    weighting : Weighting
        What a batch is worth.
    tally : GapTally
        What was found, over all engines and runs that ask it.
    """

    policy: BatchPolicy
    weighting: Weighting = Weighting.TOKENS
    tally: GapTally = field(default_factory=GapTally)

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "weighting", member(Weighting, self.weighting, "weighting"))

    @property
    def knows_lengths(self) -> bool:
        """Whether the policy may read the lengths of requests."""
        return bool(getattr(self.policy, "knows_lengths", False))

    def for_engine(self) -> Callable[[BatchState], list[int]]:
        """Return what one engine asks: a fresh policy, the same tally."""
        fresh = MeasuredPolicy(policy_of_engine(self.policy), self.weighting, self.tally)
        return fresh.__call__

    def __call__(self, state: BatchState) -> list[int]:
        """Return the policy's batch, and note how far it is from the best."""
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
    """Return prompt and decode tokens of a batch, ``δ^p`` and ``δ^d`` of (2.5)."""
    pairs = list(zip(tokens, prefill, strict=True))
    return tuple(x if p else 0 for x, p in pairs), tuple(0 if p else x for x, p in pairs)


def batch_of(policy: BatchPolicy, problem: BatchProblem, name: str) -> Batch:
    """Return the batch of a policy in the state of a batch program, which none led to.

    Its requests are of one stage and in order of arrival; those that decode began so in the same
    order. What the program asks besides (2.5), such as weights or a most number of requests, is
    not told to the policy.

    Parameters
    ----------
    policy : BatchPolicy
        The policy.
    problem : BatchProblem
        Tokens left of each request, and the budget.
    name : str
        Name of the policy, for errors.

    Raises
    ------
    InputError
        If its answer breaks (2.5).
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
