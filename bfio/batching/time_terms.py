"""Time that a batch takes beyond its tokens: attention (A.1), KV cache beyond the memory (A.3).

The time of a batch is that of its tokens (2.3), the attention over what requests have in the
cache (A.1), (A.2), and what swapping or recomputing costs where the cache overflows (A.3). All
terms are added exactly and rounded up to whole slots once. The paper leaves two things open. How
(A.3) enters: here it is added for each request of the batch, whose caches fill the memory in the
order in which they were loaded; a request pays for its part beyond the memory, nothing for none.
Attention of a chunk over the prompt before it, which (A.1) has not, is the optional `chunk`.
"""

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any

from formulations.arrays import integer
from formulations.batching import BatchTime
from formulations.errors import InputError
from formulations.problem_data import Validated
from formulations.rationals import exact_number

#: Longest batch, in the unit in which all terms are whole: leaves room for sums in 64 bits.
_MAX_UNITS = 2**61


@dataclass(frozen=True)
class TimeTerms(Validated):
    """Coefficients of the extended time of a batch; all 0: equation (2.3) alone.

    Parameters
    ----------
    prefill_attention : Fraction
        ``α`` [slots/token²]: per square of a chunk.
    decode_attention : Fraction
        ``β`` [slots/token²]: per decode token and token of its request in the cache.
    chunk_attention : Fraction
        Per token of a chunk and token of its request in the cache; not in the paper.
    memory : int
        Tokens that the caches of a batch may have; 0 for any number.
    swap_token, swap_request : Fraction
        ``a1``, ``a2``: swapping x tokens of a request costs ``a1·x + a2`` slots.
    recompute_square, recompute_request : Fraction
        ``b1``, ``b2``: recomputing them costs ``b1·x² + b2`` slots.

    Raises
    ------
    InputError
        If a value breaks its rule, or both costs are given.
    """

    prefill_attention: Fraction = Fraction(0)
    decode_attention: Fraction = Fraction(0)
    chunk_attention: Fraction = Fraction(0)
    memory: int = 0
    swap_token: Fraction = Fraction(0)
    swap_request: Fraction = Fraction(0)
    recompute_square: Fraction = Fraction(0)
    recompute_request: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Validate."""
        for entry in fields(self):
            if entry.name != "memory":
                self._set(**{entry.name: exact_number(getattr(self, entry.name), entry.name)})
        self._set(memory=integer(self.memory, "memory"))
        if self.swaps and self.recomputes:
            raise InputError("recompute", "swapping is given, too", "give one of them")
        if (self.swaps or self.recomputes) and not self.memory:
            raise InputError("memory", "no limit that caches could overflow", "give memory")

    @cached_property
    def are_zero(self) -> bool:
        """Whether equation (2.3) alone says how long a batch takes."""
        return self == TimeTerms()

    @property
    def swaps(self) -> bool:
        """Whether what overflows is swapped."""
        return bool(self.swap_token or self.swap_request)

    @property
    def recomputes(self) -> bool:
        """Whether what overflows is recomputed."""
        return bool(self.recompute_square or self.recompute_request)

    @classmethod
    def from_mapping(cls, document: Any, where: str = "time") -> "TimeTerms":
        """Read an object with the names of its fields."""
        from formulations.documents import check_keys

        known = tuple(entry.name for entry in fields(cls))
        return cls(**check_keys(document, where, (), known))


def parse_terms(text: str, where: str = "terms") -> TimeTerms:
    """Return the terms that a text gives, ``name=value:...`` with the names of the fields.

    Raises
    ------
    InputError
        If a name is unknown or occurs twice, a value breaks its rule, or memory stands alone.
    """
    given: dict[str, object] = {}
    for part in text.split(":"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or name in given:
            raise InputError(where, f"{part!r:.60}", "write NAME=VALUE:..., each name once")
        given[name] = (
            int(value) if value.isascii() and value.isdigit() and len(value) < 19 else value
        )
    terms = TimeTerms.from_mapping(given, where)
    if terms.memory and not (terms.swaps or terms.recomputes):
        remedy = "give swap_token or recompute_square beside it"
        raise InputError(f"{where}.memory", "overflowing it costs nothing", remedy)
    return terms


@dataclass(frozen=True)
class Part:
    """What a batch has of one request.

    Parameters
    ----------
    tokens : int
        Of a prompt, or 1.
    is_decode : bool
        Whether it is a decode token.
    cached : int
        Tokens of the request processed before.
    """

    tokens: int
    is_decode: bool
    cached: int


def batch_slots(time: BatchTime, terms: TimeTerms, parts: list[Part]) -> int:
    """Return the slots of a batch, by the formulas, in fractions.

    Parameters
    ----------
    time, terms
        Coefficients.
    parts : list of Part
        At least one, in the order in which they were loaded.
    """
    tokens = sum(part.tokens for part in parts)
    exact = time.overhead + time.per_token * max(0, tokens - time.free_tokens)
    room = terms.memory
    for part in [] if terms.are_zero else parts:
        if part.is_decode:
            exact += terms.decode_attention * part.cached
        else:
            exact += terms.prefill_attention * part.tokens**2
            exact += terms.chunk_attention * part.tokens * part.cached
        held = part.cached + part.tokens
        beyond = held - min(held, max(room, 0))
        room -= held
        if terms.memory and beyond:
            exact += terms.swap_token * beyond + terms.swap_request
            exact += terms.recompute_square * beyond**2 + terms.recompute_request
    return -(-exact.numerator // exact.denominator)


def whole_coefficients(time: BatchTime, terms: TimeTerms, budget: int) -> tuple[int, ...]:
    """Return unit, overhead, per token, α, β, chunk, linear, square and fixed overflow terms.

    All are whole in ``1/unit`` slots, so that machine code adds them exactly.

    Raises
    ------
    InputError
        If they have no common unit that leaves room for a batch.
    """
    exact = (
        time.overhead,
        time.per_token,
        terms.prefill_attention,
        terms.decode_attention,
        terms.chunk_attention,
        terms.swap_token,
        terms.recompute_square,
        terms.swap_request + terms.recompute_request,
    )
    unit = lcm(*(value.denominator for value in exact))
    whole = tuple(int(value * unit) for value in exact)
    # A cache of a million tokens for each request of a batch is more than any model has.
    cached = 10**6
    most = whole[0] + whole[1] * budget + whole[2] * budget**2 + whole[7] * budget
    most += (whole[3] + whole[4] + whole[5]) * budget * cached + whole[6] * budget * cached**2
    if most > _MAX_UNITS:
        raise InputError("time", "no common unit is coarse enough", "round the coefficients")
    return (unit, *whole)
