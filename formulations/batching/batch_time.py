"""The time of one batch: a fixed overhead, plus a time per token beyond the free tokens.

``t(b') = c + a·max(0, b' − b0)``, equation (2.3) of the throughput-optimal paper, in whole slots.

A full batch of b tokens takes t(b) slots. This is the longest time between two tokens (TBT) of a
request that is in every batch. A full batch processes b/t(b) tokens per slot. Section 5 chooses b
by both criteria (`fastest_budget`, `shortest_batch`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Self

import numpy as np

from formulations.arrays import IntArray, frozen, integer
from formulations.errors import InputError
from formulations.problem_data import ProblemData, check_keys
from formulations.scalars import exact_number

#: Largest token budget of an engine, so that tables over all batch sizes stay small.
MAX_BUDGET = 10**6
#: Longest batch [slots], so that sums fit in 64-bit integers.
_MAX_SLOTS = 10**12


@dataclass(frozen=True)
class RateCheck:
    """Whether a full batch has the highest token rate: ``b'/t(b') <= b/t(b)`` for all b'.

    Theorem 1 (b) assumes this: a load above ``b/t(b)`` is unstable under every policy only if no
    smaller batch has a higher rate. With (2.3) it holds iff ``c >= a·b0`` or ``b <= b0``, but
    batch times rounded up to whole slots may break it.

    Parameters
    ----------
    budget : int
        ``b`` [tokens].
    full_rate : Fraction
        ``b/t(b)`` [tokens/slot].
    best_tokens : int
        Smallest batch with the highest rate; b if the check holds.
    best_rate : Fraction
        The highest rate [tokens/slot], an upper bound for every policy.
    """

    budget: int
    full_rate: Fraction
    best_tokens: int
    best_rate: Fraction

    @property
    def holds(self) -> bool:
        """Whether no smaller batch has a higher rate."""
        return self.best_rate == self.full_rate

    def warning(self) -> str | None:
        """Return a warning that Theorem 1 (b) does not apply; None if the check holds."""
        if self.holds:
            return None
        return (
            f"a batch of {self.best_tokens} tokens has a higher rate than a full one of "
            f"{self.budget}: Theorem 1 (b) does not apply, loads from {self.full_rate} to "
            f"{self.best_rate} tokens/slot may be served by smaller batches"
        )


@dataclass(frozen=True)
class BatchTime(ProblemData):
    """Duration of a batch of b' tokens of any kind [slots]: equation (2.3), rounded up.

    Parameters
    ----------
    overhead : Fraction
        ``c > 0`` [slots]; exact, see `exact_number`.
    per_token : Fraction
        ``a >= 0`` [slots/token].
    free_tokens : int
        ``b0 >= 0``: tokens that cost no time beyond the overhead.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    The fit of Llama-3-70B, c = 45.5 ms, a = 0.30 ms/token, b0 = 64 (section 2.1), in slots of
    0.1 ms, in which it is exact:

    >>> BatchTime(455, 3, 64).slots(512)
    1799
    """

    overhead: Fraction
    per_token: Fraction = Fraction(0)
    free_tokens: int = 0

    def __post_init__(self) -> None:
        """Validate."""
        self._set(
            overhead=exact_number(self.overhead, "overhead", positive=True),
            per_token=exact_number(self.per_token, "per_token"),
            free_tokens=integer(self.free_tokens, "free_tokens", maximum=MAX_BUDGET),
        )
        if self._exact(MAX_BUDGET) > _MAX_SLOTS:
            raise InputError(
                "per_token", "a batch takes more than 10^12 slots", "use longer slots"
            )

    @classmethod
    def in_slots_of(
        cls, slot: object, *, overhead: object, per_token: object, free_tokens: int
    ) -> Self:
        """Return a batch time given in other units of time, such as milliseconds.

        Parameters
        ----------
        slot : number
            Length of a slot in these units, > 0: 0.1 for tenths of a millisecond.
        overhead, per_token : number
            ``c`` and ``a`` in these units.
        free_tokens : int
            See the class.
        """
        length = exact_number(slot, "slot", positive=True)
        return cls(
            exact_number(overhead, "overhead", positive=True) / length,
            exact_number(per_token, "per_token") / length,
            free_tokens,
        )

    def slots(self, tokens: int) -> int:
        """Return the time ``t(b')`` of a batch in whole slots; 1 for 0 tokens (idle engine)."""
        if tokens == 0:
            return 1
        exact = self._exact(tokens)
        return -(-exact.numerator // exact.denominator)

    def slots_table(self, budget: int) -> IntArray:
        """Return ``t(0), ..., t(b)``, shape (budget + 1,) [slots]; entry 0 is an idle slot.

        Raises
        ------
        InputError
            If the budget is not an integer from 1 to `MAX_BUDGET`.
        """
        b = integer(budget, "budget", minimum=1, maximum=MAX_BUDGET)
        unit = lcm(self.overhead.denominator, self.per_token.denominator)
        fixed, each = int(self.overhead * unit), int(self.per_token * unit)
        # Beyond 64 bits Python integers, which cannot overflow; fractions would take seconds.
        kind = np.int64 if fixed + each * b < 1 << 62 else object
        beyond = np.maximum(0, np.arange(1, b + 1) - self.free_tokens).astype(kind)
        slots = -(-(fixed + each * beyond) // unit)
        return frozen(np.append(1, slots).astype(np.int64))

    def rate(self, budget: int) -> Fraction:
        """Return ``b/t(b)``, the tokens per slot of full batches."""
        return Fraction(budget, self.slots(budget))

    def rate_check(self, budget: int) -> RateCheck:
        """Check whether a full batch has the highest token rate of all sizes, in whole slots."""
        table = self.slots_table(budget)
        loads = np.arange(1, budget + 1)
        # Floats only choose candidates within rounding of the highest rate; fractions decide.
        rates = loads / table[1:]
        near = loads[rates >= rates.max() * (1 - 1e-12)]
        # Ties go to the full batch, then to the smallest one.
        best = max((Fraction(int(x), int(table[x])), x == budget, -int(x)) for x in near)
        return RateCheck(budget, self.rate(budget), -best[2], best[0])

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        return {
            "overhead": str(self.overhead),
            "per_token": str(self.per_token),
            "free_tokens": self.free_tokens,
        }

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"overhead", "per_token", "free_tokens"}``; the last two default to 0."""
        return cls(**check_keys(document, "document", ("overhead",), OPTIONAL_TIMES))

    def _exact(self, tokens: int) -> Fraction:
        return self.overhead + self.per_token * max(0, tokens - self.free_tokens)


#: Optional keys of a batch time in a document.
OPTIONAL_TIMES = ("per_token", "free_tokens")


@dataclass(frozen=True)
class BudgetChoice:
    """A token budget with its batch time and rate.

    Parameters
    ----------
    budget : int
        ``b`` [tokens].
    slots : int
        ``t(b)``, the longest time between two tokens [slots].
    rate : Fraction
        ``b/t(b)`` [tokens/slot].
    """

    budget: int
    slots: int
    rate: Fraction


def fastest_budget(
    batch_time: BatchTime, candidates: Iterable[int], limit: int, work: Fraction | None = None
) -> BudgetChoice | None:
    """Return the budget with the highest rate whose full batch takes at most ``limit`` slots.

    Parameters
    ----------
    batch_time : BatchTime
        Duration of a batch as a function of its tokens [slots].
    candidates : iterable of int
        Budgets to choose from, such as ``range(1, 4097)`` [tokens].
    limit : int
        Longest allowed batch [slots].
    work : Fraction, optional
        Arriving tokens per slot, which must be below the rate.

    Returns
    -------
    BudgetChoice or None
        Ties go to the shortest batch, then to the smallest budget. None if no candidate meets the
        limit and the load condition.

    Raises
    ------
    InputError
        If there is no candidate, or a candidate is not a valid budget.
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
        Arriving tokens per slot: ``work < b/t(b)`` is the load condition (2.7).

    Returns
    -------
    BudgetChoice or None
        Ties go to the highest rate. None if no candidate meets the condition.
    """
    choices = _choices(batch_time, candidates, work)
    return min(choices, key=lambda c: (c.slots, -c.rate, c.budget), default=None)


def _choices(batch_time: BatchTime, candidates: Iterable[int], work: object) -> list[BudgetChoice]:
    """Return the budgets that meet the load condition, of equal slots only the largest."""
    found = list(candidates)
    if not found:
        raise InputError("candidates", "empty list", "give at least one token budget")
    for b in (min(found), max(found)) if isinstance(candidates, range) else found:
        integer(b, "candidates", minimum=1, maximum=MAX_BUDGET)
    least = Fraction(0) if work is None else exact_number(work, "work")
    budgets = np.unique(np.array(found, dtype=np.int64))[::-1]
    slots, first = np.unique(batch_time.slots_table(int(budgets[0]))[budgets], return_index=True)
    pairs = zip(budgets[first].tolist(), slots.tolist(), strict=True)
    made = (BudgetChoice(b, t, Fraction(b, t)) for b, t in pairs)
    return [choice for choice in made if choice.rate > least]
