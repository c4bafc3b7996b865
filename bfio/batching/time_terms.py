"""Extended time of a batch: attention (A.1), and KV cache beyond the memory (A.3).

The time of a batch is the sum of the token time (2.3), the attention over cached tokens (A.1),
(A.2), and the cost of swapping or recomputing an overflowing cache (A.3). All terms are added
exactly and rounded up to whole slots once. The paper leaves two points open. (A.3) is applied here
to each request of the batch: caches fill the memory in the order of loading, and a request pays
for its tokens beyond the memory, or nothing if all fit. The attention of a chunk over earlier
chunks of its prompt, which (A.1) lacks, is the optional `chunk`.
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
from formulations.scalars import exact_number

#: Maximum duration of a batch in units of 1/unit slot: sums stay within 64 bits.
_MAX_UNITS = 2**61


@dataclass(frozen=True)
class TimeTerms(Validated):
    """Coefficients of the extended batch time; all 0 for equation (2.3) alone.

    Parameters
    ----------
    prefill_attention : Fraction
        ``α`` [slots/token²]: per squared chunk length.
    decode_attention : Fraction
        ``β`` [slots/token²]: per decode token and cached token of its request.
    chunk_attention : Fraction
        Per chunk token and cached token of its request [slots/token²]; not in the paper.
    memory : int
        Maximum cached tokens of a batch; 0 for no limit.
    swap_token, swap_request : Fraction
        ``a1``, ``a2``: swapping x tokens of a request costs ``a1·x + a2`` slots.
    recompute_square, recompute_request : Fraction
        ``b1``, ``b2``: recomputing them costs ``b1·x² + b2`` slots.

    Raises
    ------
    InputError
        If a value is invalid, or both swapping and recomputing have costs.
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
        """Check all fields; an invalid value raises InputError."""
        for entry in fields(self):
            if entry.name != "memory":
                self._set(**{entry.name: exact_number(getattr(self, entry.name), entry.name)})
        self._set(memory=integer(self.memory, "memory"))
        if self.swaps and self.recomputes:
            raise InputError(
                "recompute", "swapping and recomputing exclude each other", "give one of them"
            )
        if (self.swaps or self.recomputes) and not self.memory:
            raise InputError("memory", "overflow costs need a memory limit", "give memory")

    @cached_property
    def are_zero(self) -> bool:
        """Whether equation (2.3) alone gives the duration of a batch."""
        return self == TimeTerms()

    @property
    def swaps(self) -> bool:
        """Whether overflowing caches are swapped."""
        return bool(self.swap_token or self.swap_request)

    @property
    def recomputes(self) -> bool:
        """Whether overflowing caches are recomputed."""
        return bool(self.recompute_square or self.recompute_request)

    @classmethod
    def from_mapping(cls, document: Any, where: str = "time") -> "TimeTerms":
        """Read the coefficients from an object whose keys are field names."""
        from formulations.problem_data import check_keys

        known = tuple(entry.name for entry in fields(cls))
        return cls(**check_keys(document, where, (), known))


def parse_terms(text: str, where: str = "terms") -> TimeTerms:
    """Parse terms of the form ``name=value:...``, where names are field names.

    Raises
    ------
    InputError
        If a name is unknown or repeated, a value is invalid, or memory has no overflow cost.
    """
    given: dict[str, object] = {}
    for part in text.split(":"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or name in given:
            what = "repeats a name" if name in given else "is not NAME=VALUE"
            raise InputError(where, f"{part!r:.60} {what}", "write NAME=VALUE:..., each name once")
        given[name] = (
            int(value) if value.isascii() and value.isdigit() and len(value) < 19 else value
        )
    terms = TimeTerms.from_mapping(given, where)
    if terms.memory and not (terms.swaps or terms.recomputes):
        remedy = "add swap_token or recompute_square"
        raise InputError(
            f"{where}.memory", "memory has no effect without an overflow cost", remedy
        )
    return terms


@dataclass(frozen=True)
class Part:
    """Tokens of one request in a batch.

    Parameters
    ----------
    tokens : int
        Length of a prompt chunk, or 1.
    is_decode : bool
        Whether it is a decode token.
    cached : int
        Tokens of the request processed earlier.
    """

    tokens: int
    is_decode: bool
    cached: int


def batch_slots(time: BatchTime, terms: TimeTerms, parts: list[Part]) -> int:
    """Return the duration of a batch [slots], by the formulas in exact fractions.

    Parameters
    ----------
    time, terms
        Coefficients.
    parts : list of Part
        Non-empty, in the order of loading.
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
    """Return the coefficients of the batch time as integers in units of ``1/unit`` slots.

    The order is: unit, overhead, per token, α, β, chunk, and the linear, square and fixed terms of
    an overflow. Machine code adds integers exactly.

    Raises
    ------
    InputError
        If no common unit keeps the time of a batch within 64 bits.
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
    # Assumes at most a million cached tokens per request, more than any model supports.
    cached = 10**6
    most = whole[0] + whole[1] * budget + whole[2] * budget**2 + whole[7] * budget
    most += (whole[3] + whole[4] + whole[5]) * budget * cached + whole[6] * budget * cached**2
    if most > _MAX_UNITS:
        raise InputError(
            "time",
            "the coefficients have no common unit that fits 64 bits",
            "round the coefficients",
        )
    return (unit, *whole)
