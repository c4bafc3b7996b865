"""Theorem 3: the improvement ratio where all requests grow alike, step by step."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import log, sqrt

import numpy as np

from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.laws import CUT_OFF, convolved, deviation, expected_imbalance
from proofs_checks.papers.balance.average_gap import Pool
from proofs_checks.papers.balance.improvement import (
    FCFS,
    OVERLOADED,
    POOLS,
    constant,
    growth,
    improvement_estimates,
)
from proofs_checks.papers.balance.theorem1 import LEAST_G, C, prompt_laws
from proofs_checks.search import examine
from proofs_checks.statistics import room

CLAIMS = Claims()


_CHANCES = (0.1, 0.5)


def drift_law(prompts: FloatArray, p: float, increments: Sequence[int], step: int) -> FloatArray:
    """Law of a slot's size at a step, long after the start, under global-step drift.

    Parameters
    ----------
    prompts : FloatArray
        Law of the prompt.
    p : float
        Completion probability.
    increments : sequence of int
        ``δ``, repeated for ever.
    step : int
        The step looked at; a slot of age a has gained the a increments before it.
    """
    ages = int(np.ceil(np.log(CUT_OFF) / np.log1p(-p))) + 1
    chances = p * (1 - p) ** np.arange(ages)
    gains = [0]
    for age in range(1, ages):
        gains.append(gains[-1] + increments[(step - age) % len(increments)])
    gained = np.zeros(gains[-1] + 1)
    np.add.at(gained, gains, chances / chances.sum())
    return convolved(prompts, gained)


_DRIFTS = ((0,), (1,), (3,), (0, 2), (2, 0, 0, 1))


@CLAIMS.result(
    "balance.theorem3",
    Mutation("FCFS in place of BF-IO", pools=FCFS),
    Mutation("c = 2 in place of 0.067", factor=2 / C),
    Mutation("twice the deviation", spread=2),
    Mutation("half the deviation", spread=0.5),
    Mutation("a fifth of (G − 1)·s_max/p", share=0.2),
    hypotheses=(
        *OVERLOADED,
        "√G·log G = o(B) (section 5; in the proof, log G ≥ 4 and B ≥ B_0)",
        "increments by global step (balance.definition2)",
    ),
    kind=Kind.ASYMPTOTIC,
)
def _theorem3_check(
    context: Context,
    *,
    pools: Sequence[Pool] | None = None,
    factor: float = 1,
    spread: float = 1,
    share: float = 1,
) -> Outcome:
    """Improvement ratio under drift.

    Source: BF-IO paper, Theorem 3 (section 5.1) and eq. (52)
    Statement: With common increments 0 ≤ δ_k ≤ δ_max per global step the ratio is at least
        c·(pσ_s/s_max)·G/(G − 1)·√(B log G), with c > 0 that depends on σ_s², p, δ_max and s_max
        only.
    Formula: IIR ≥ c·(p·σ_s/s_max)·(G/(G−1))·√(B log G)
    Reading: the FCFS side long after the start, at every step of a periodic drift, with the c of
        Theorem 1. Since c may depend on p and s_max, what refutes balance.theorem2 does not refute
        this.
    """
    slots, workers = context.choose(
        ((16,), (LEAST_G,)), ((4, 64), (LEAST_G, 1024)), ((4, 64, 512), (LEAST_G, 1024))
    )
    laws = list(prompt_laws().values())[: context.choose(1, 4, 4)]
    cells = list(product(laws, _CHANCES, _DRIFTS, slots, workers))

    def holds(cell: tuple[FloatArray, float, tuple[int, ...], int, int]) -> bool:
        prompts, p, drift, B, G = cell
        bound = factor * C * G * deviation(prompts) * sqrt(B * log(G)) * (1 + 1e-9)
        return all(
            expected_imbalance(drift_law(prompts, p, drift, step), B, G) >= bound
            for step in range(len(drift))
        )

    seen = examine(
        "E[Imbalance(k)] ≥ c_1·G·σ_s·√(B log G / 2) at every step of the period",
        f"exact expectations, increments {_DRIFTS} by global step, p = 1/10 and 1/2",
        cells,
        holds,
    )
    both = constant(
        "a slot's size under drift",
        "the same for B ≥ 16 and G = 2 too, at the first step of the period",
        [
            (drift_law(q, p, drift, 0), B, G)
            for q, p, drift, B in product(laws, _CHANCES, _DRIFTS, slots)
            for G in (2, *workers)
            if B >= 16
        ],
        spread,
    )
    uniform = prompt_laws()["uniform on 1..10"]
    every = [(replace(cell, increments=(0, 2)), admission) for cell, admission in POOLS]
    measured = improvement_estimates(context, every if pools is None else pools, share)
    estimates = (
        growth(context, "increments 0, 2, p = 1/2", drift_law(uniform, 0.5, (0, 2), 0)),
        *(m.estimate for m in measured),
    )
    return Findings(
        seen,
        both,
        estimates=estimates,
        summary="As Theorem 2, with the law of a slot under drift in place of the stationary one. "
        "σ_s alone is a weak bound: growth adds variance unless all increments are 0. On the side "
        f"of BF-IO, on pools of every size and of two sizes, it is measured. {room(measured)}",
    )
