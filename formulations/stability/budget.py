"""The token budget that an engine should have, under a limit on the time between tokens.

A full batch of b tokens takes t(b) slots, which is the longest time between two tokens of a
request that is in every batch (TBT); it processes b/t(b) tokens per slot. Section 5 asks to choose
b by both.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from formulations.arrays import integer
from formulations.batching import BatchTime
from formulations.batching.batch_time import MAX_BUDGET
from formulations.errors import InputError
from formulations.rationals import exact_number


@dataclass(frozen=True)
class BudgetChoice:
    """A token budget, and what comes with it.

    Parameters
    ----------
    budget : int
        ``b`` [tokens].
    slots : int
        ``t(b)``, the limit it gives to the time between tokens [slots].
    rate : Fraction
        ``b/t(b)`` [tokens/slot].
    """

    budget: int
    slots: int
    rate: Fraction


def fastest_budget(
    batch_time: BatchTime, candidates: Iterable[int], limit: int, work: Fraction | None = None
) -> BudgetChoice | None:
    """Return the budget with the highest rate whose full batch takes ``limit`` slots at most.

    Parameters
    ----------
    batch_time : BatchTime
        Slots of a batch.
    candidates : iterable of int
        Budgets to choose from, such as ``range(1, 4097)`` [tokens].
    limit : int
        Most slots of a batch.
    work : Fraction, optional
        Tokens per slot that arrive and must be fewer than the rate.

    Returns
    -------
    BudgetChoice or None
        Of equally high rates the one with the shortest batch, then the least budget. None if no
        candidate keeps the limit and the load condition.

    Raises
    ------
    InputError
        If there is no candidate or one is no budget.
    """
    most = integer(limit, "limit", minimum=1)
    choices = [c for c in _choices(batch_time, candidates, work) if c.slots <= most]
    return max(choices, key=lambda c: (c.rate, -c.slots, -c.budget), default=None)


def shortest_batch(
    batch_time: BatchTime, candidates: Iterable[int], work: Fraction
) -> BudgetChoice | None:
    """Return the budget with the shortest full batch that meets the load condition.

    Parameters
    ----------
    batch_time, candidates
        See `fastest_budget`.
    work : Fraction
        Tokens per slot that arrive: ``work < b/t(b)`` is the load condition (2.7).

    Returns
    -------
    BudgetChoice or None
        Of equally short batches the one with the highest rate. None if no candidate meets it.
    """
    choices = _choices(batch_time, candidates, work)
    return min(choices, key=lambda c: (c.slots, -c.rate, c.budget), default=None)


def _choices(batch_time: BatchTime, candidates: Iterable[int], work: object) -> list[BudgetChoice]:
    budgets = [integer(b, "candidates", minimum=1, maximum=MAX_BUDGET) for b in candidates]
    if not budgets:
        raise InputError("candidates", "none", "give at least one token budget")
    least = Fraction(0) if work is None else exact_number(work, "work")
    slots = batch_time.slots_table(max(budgets))[np.array(budgets)].tolist()
    made = (BudgetChoice(b, t, Fraction(b, t)) for b, t in zip(budgets, slots, strict=True))
    return [choice for choice in made if choice.rate > least]
