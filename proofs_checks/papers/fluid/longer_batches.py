"""Queues of segment 1 with the arrivals of longer batches (appendices C and D)."""

from itertools import product

import numpy as np

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.queues import (
    poisson_law,
    queue_path,
    reflected_path,
)
from proofs_checks.search import Domain

CLAIMS = Claims()


#: Arrivals of each step, those of longer batches, and ``n_1``.
Pair = tuple[tuple[int, ...], tuple[int, ...], int]


def longer_dominate(pair: Pair, *, reflected: bool) -> bool:
    """Whether the queue stays below that with more arrivals, or below its reflected walk."""
    few, many, threshold = pair
    above = (
        reflected_path(many, threshold, 2 * threshold)
        if reflected
        else queue_path(many, threshold)
    )
    return all(w <= v for w, v in zip(queue_path(few, threshold), above, strict=True))


def verify_domination(data: Data) -> str | None:
    """Confirm that a queue with fewer arrivals exceeds the one with more."""
    few, many = (tuple(row) for row in data["arrivals"])
    threshold = data["threshold"]
    if not few or len(few) != len(many) or threshold < 1 or min(few) < 0:
        return None
    if any(a > b for a, b in zip(few, many, strict=True)):
        return None
    if longer_dominate((few, many, threshold), reflected=False):
        return None
    return (
        f"n_1 = {threshold}, Y = {list(few)} ≤ Ȳ = {list(many)}: W = "
        f"{queue_path(few, threshold)}, W̄ = {queue_path(many, threshold)}"
    )


def mean_after_one(threshold: int, rate: float) -> float:
    """``E[W^1] = E[Y − n·1{Y ≥ n}]`` with Y Poisson."""
    law = poisson_law(rate)
    numbers = np.arange(len(law))
    return float(law @ np.where(numbers >= threshold, numbers - threshold, numbers))


@CLAIMS.step(
    "fluid.theorem2-domination",
    Mutation("the reflected walk as printed", reflected=True),
    Mutation("the queue in the correction", still_queue=True),
    defect=Defect.FORMULA,
    verify=verify_domination,
)
def _domination_check(
    context: Context, *, reflected: bool = False, still_queue: bool = False
) -> Outcome:
    """Longer batches in the first segment.

    Source: fluid paper, proof of Theorem 2 (appendix C), and of Theorem 3 (appendix D): W ≤ W̄
    Statement: With the arrivals of the longest batch in place of its own, the queue of segment 1
        becomes a process that dominates it.
    Formula: Y^s ≤ Ȳ^s, W' = W + Y − n_1·1{W + Y ≥ n_1}, W̄ likewise with Ȳ  ⇒  W^s ≤ W̄^s
    Assumes: W^0 = W̄^0 = 0; Y^s ≤ Ȳ^s: batches last ΔT at most
    Summary: One arrival more may complete a cohort. The means do not obey either: with n_1 = 6 a
        first batch that sees 4 come on average leaves more than one that sees 5.
    Reading: path by path, as the chain of inequalities in appendix D has it.
    Correction: The reflected walk max{2n_1, W̃ + Ȳ − n_1} dominates both: it is monotone in what
        comes. The proof needs no more, so that its bounds stand; only the link by W̄ is to be left
        out.
    """
    steps = context.choose(2, 3, 4)
    cases = [
        (few, many, threshold)
        for threshold in (1, 2, 3)
        for few in product(range(4), repeat=steps)
        for many in product(range(4), repeat=steps)
        if all(a <= b for a, b in zip(few, many, strict=True))
    ]
    domain = Domain(f"every pair of sequences of {steps} arrivals up to 3, n_1 = 1, 2, 3", cases)
    shorter, longer = (mean_after_one(6, rate) for rate in (4.0, 5.0))
    printed = domain.refute(
        "W ≤ W̄",
        verify_domination,
        lambda c: {"arrivals": [list(c[0]), list(c[1])], "threshold": c[2]},
        holds=lambda c: longer_dominate(c, reflected=reflected),
    )
    corrected = domain.examine(
        "W ≤ the walk reflected at 2n_1 with Ȳ",
        lambda c: longer_dominate(c, reflected=not still_queue),
    )
    return Findings(
        printed,
        corrected,
        numbers={"E[W^1], n_1 = 6, 4 come": shorter, "E[W̄^1], n_1 = 6, 5 come": longer},
    )
