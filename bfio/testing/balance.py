"""The papers' bounds on the worker loads of one step, and the improvement ratio of BF-IO.

``a_g`` is the load of worker g before admission and ``c_g`` its number of free slots; the sizes of
waiting requests lie in ``s_min..s_max``. In a *round*, all workers have equal loads and equal free
slots, and there are as many requests as slots. This module does not import Hypothesis, because the
claims use it as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log, pi, sqrt

import numpy as np

from bfio.decode.policy import Policy
from bfio.decode.policy_registry import check_policy, choose
from bfio.testing.states import contract_violation, loads_after, make_state
from formulations.arrays import integer, integer_vector
from formulations.errors import InputError
from formulations.named_objects import users_code

#: Constants of the proof of Theorem 1 (BF-IO paper, appendix C.1).
C1 = 1 - exp(-1 / (4 * sqrt(2 * pi)))
C = C1 / sqrt(2)
#: Smallest number of workers with ``log G >= 4``, as the proof of Theorem 1 requires.
LEAST_G = ceil(exp(4))


def gap(loads: Sequence[int]) -> int:
    """Return ``D``, the largest load minus the smallest load [tokens]."""
    return max(loads) - min(loads)


def imbalance(loads: Sequence[int]) -> int:
    """Return ``Imb``, the sum over workers of (largest load - load) [tokens]."""
    return len(loads) * max(loads) - sum(loads)


def contraction(slots: Sequence[int], pool: Sequence[int]) -> int:
    """Return ``Γ = s_max·c_min − (s_max − 1)·c_max`` [tokens]."""
    largest = max(pool)
    return largest * min(slots) - (largest - 1) * max(slots)


def distance_bounds(base: Sequence[int], slots: Sequence[int], pool: Sequence[int]) -> list[int]:
    """Return ``max{s_max − s_min, max_h a_h − a_q − Γ}`` for each worker q [tokens].

    On an overloaded step with ``c_g >= 1`` on every worker, the least gap is at most the largest
    of these G values. The least imbalance is at most the sum of all of them except the smallest
    (``proofs_checks/proofs/separation-levels.md``).
    """
    spread, top = max(pool) - min(pool), max(base) - contraction(slots, pool)
    return [max(spread, top - load) for load in base]


def improvement_bound(spread: float, slots: int, workers: int) -> float:
    """Return ``c·κ_0·√(B log G)·G/(G − 1)`` of Theorem 1, with the constant c of its proof.

    Parameters
    ----------
    spread : float
        ``κ_0``: standard deviation of the prompts divided by the largest prompt.
    slots, workers : int
        ``B`` and ``G``.
    """
    return C * spread * sqrt(slots * log(workers)) * workers / (workers - 1)


@dataclass(frozen=True)
class Improvement:
    """Mean imbalance of FCFS and of a policy over rounds of requests with equal outputs.

    Parameters
    ----------
    fcfs, policy : float
        Mean imbalance per round [tokens].
    bound : float
        Lower bound of Theorem 1 on the ratio.
    """

    fcfs: float
    policy: float
    bound: float

    @property
    def ratio(self) -> float:
        """``IIR``: imbalance of FCFS divided by the policy's; infinite if the latter is 0."""
        return self.fcfs / self.policy if self.policy else float("inf")


def improvement_ratio(
    policy: str | Policy,
    sizes: Sequence[int] = tuple(range(1, 11)),
    *,
    workers: int = 64,
    slots: int = 16,
    rounds: int = 20,
    seed: int = 0,
) -> Improvement:
    """Measure the imbalance of FCFS and of a policy, and compute the bound of Theorem 1.

    In each round the policy assigns ``G·B`` requests, with sizes drawn uniformly from ``sizes``,
    to empty workers. FCFS and the policy get the same rounds.

    Parameters
    ----------
    policy : str or callable
        The policy. The same policy object serves all rounds, so a policy with memory keeps it.
    sizes : sequence of int
        Equally likely prompts [tokens]; at least two different ones.
    workers, slots : int
        ``G >= 55``, since the proof requires ``log G >= 4``, and ``B``.
    rounds : int
        Number of rounds.
    seed : int
        Seed of the sizes.

    Returns
    -------
    Improvement
        Mean imbalances and the bound.

    Raises
    ------
    InputError
        If there are fewer than 55 workers or no two different sizes, if a number is not a positive
        integer, or if the policy does not start all requests of a round.
    """
    for name, value in {"workers": workers, "slots": slots, "rounds": rounds}.items():
        integer(value, name, minimum=1)
    sizes = integer_vector(sizes, "sizes", minimum=1).tolist()
    integer(seed, "seed")
    if workers < LEAST_G:
        remedy = f"use {LEAST_G} or more"
        raise InputError("workers", f"{workers}: Theorem 1 needs log G >= 4", remedy)
    if len(set(sizes)) < 2:
        what = "all sizes are equal, so every policy is balanced"
        raise InputError("sizes", what, "give two sizes")
    check_policy(policy)
    rng, total = np.random.default_rng(seed), [0, 0]
    made = choose(policy).make()
    for _ in range(rounds):
        pool = rng.choice(np.array(sizes), workers * slots).tolist()
        state = make_state([0] * workers, [slots] * workers, pool)
        for i, each in enumerate((choose("fcfs").make(), made)):
            with users_code("policy"):
                answer = each(state)
            if wrong := contract_violation(state, answer):
                raise InputError("policy", wrong, "check it with check_contract")
            if None in answer:
                what = f"{list(answer).count(None)} requests of a round do not start"
                raise InputError("policy", what, "start all requests of a round")
            total[i] += imbalance(loads_after(state, answer))
    spread = float(np.std(sizes) / max(sizes))
    return Improvement(
        total[0] / rounds, total[1] / rounds, improvement_bound(spread, slots, workers)
    )
