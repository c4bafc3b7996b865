"""Data and result of the batch program: which tokens the next iteration of an engine processes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from formulations.arrays import (
    BoolArray,
    IntArray,
    check_length,
    frozen,
    integer,
    integer_vector,
    optional_vector,
    read_columns,
)
from formulations.errors import InputError, known_fields
from formulations.problem_data import ProblemData, check_keys, shown
from formulations.results import ProgramResult

#: Largest scaled objective, so that sums fit in 64 bits.
_MAX_OBJECTIVE = 2**62
_MAX_WEIGHT = 10**9
#: Columns of the requests in a document: minimum and default; a default of None is required.
_COLUMNS = {"prefill": (0, None), "decode": (0, None), "weight": (0, 1), "finish_bonus": (0, 0)}
_OPTIONAL = ("mixing", "max_requests", "fewest_requests")


@known_fields
@dataclass(frozen=True)
class BatchProblem(ProblemData):
    """The data of one batch of an engine with a token budget: (2.5) of the throughput paper.

    A request i with prompt tokens left, ``p_i > 0``, gets up to p_i of them processed. A request
    without prompt tokens left gets at most one decode token processed. A batch holds at most
    ``budget`` tokens. The maximised objective is ``Σ weight_i tokens_i``, plus ``finish_bonus_i``
    for each prompt that the batch completes.

    Parameters
    ----------
    prefill : IntArray
        Shape (n,): ``p_i >= 0`` prompt tokens left.
    decode : IntArray
        Shape (n,): ``d_i >= 1`` decode tokens left.
    budget : int
        ``b >= 1`` [tokens].
    weight : IntArray, optional
        Shape (n,), >= 0: weight of a token of the request in its present phase; by default 1,
        which maximises the number of tokens.
    finish_bonus : IntArray, optional
        Shape (n,), >= 0: bonus for completing the prompt in this batch, to favour the time to
        first token. 0 for requests without prompt tokens left.
    mixing : bool
        Whether prompt and decode tokens may share the batch.
    max_requests : int, optional
        ``M >= 1``: largest number of requests with tokens in the batch.
    fewest_requests : bool
        Secondary objective: among optimal batches, choose one with fewest requests.

    Raises
    ------
    InputError
        If a value breaks its rule, naming field and index.
    """

    prefill: IntArray
    decode: IntArray
    budget: int
    weight: IntArray | None = None
    finish_bonus: IntArray | None = None
    mixing: bool = True
    max_requests: int | None = None
    fewest_requests: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        prefill = integer_vector(self.prefill, "prefill")
        n = len(prefill)
        decode = integer_vector(self.decode, "decode", minimum=1)
        check_length(decode, n, "decode", "request")
        most = self.max_requests
        for name in ("mixing", "fewest_requests"):
            if not isinstance(value := getattr(self, name), bool):
                raise InputError(name, shown(value), "write true or false")
        self._set(
            prefill=prefill,
            decode=decode,
            budget=integer(self.budget, "budget", minimum=1),
            weight=_weights(self.weight, "weight", n, 1),
            finish_bonus=_weights(self.finish_bonus, "finish_bonus", n, 0),
            max_requests=None if most is None else integer(most, "max_requests", minimum=1),
        )
        self._check_bonus()
        most_worth = self.scale * sum(
            w * min(cap, self.budget) + g
            for w, cap, g in zip(
                self.weights.tolist(), self.caps.tolist(), self.bonuses.tolist(), strict=True
            )
        )
        if most_worth + n >= _MAX_OBJECTIVE:
            what = f"the worth of a batch could reach {most_worth:.1e}, beyond 64-bit integers"
            raise InputError("weight", what, "use smaller weights")

    def _check_bonus(self) -> None:
        for i in np.flatnonzero((self.bonuses > 0) & ~self.in_prefill).tolist():
            what = f"request {i} has no prompt tokens left to complete"
            raise InputError(f"finish_bonus[{i}]", what, "set its bonus to 0")

    @property
    def num_requests(self) -> int:
        """``n``, the number of requests."""
        return len(self.prefill)

    @property
    def weights(self) -> IntArray:
        """Weight of a token of each request, shape (n,); 1 where ``weight`` is not given."""
        assert self.weight is not None
        return self.weight

    @property
    def bonuses(self) -> IntArray:
        """Bonus for completing each prompt, shape (n,); 0 where ``finish_bonus`` is not given."""
        assert self.finish_bonus is not None
        return self.finish_bonus

    @cached_property
    def in_prefill(self) -> BoolArray:
        """Whether each request has prompt tokens left, shape (n,)."""
        return frozen(self.prefill > 0)

    @cached_property
    def caps(self) -> IntArray:
        """Most tokens of each request in one batch, shape (n,): p_i in prefill, 1 in decode."""
        return frozen(np.where(self.prefill > 0, self.prefill, 1))

    @property
    def scale(self) -> int:
        """Objective units per unit of worth; one unit of worth outweighs the request count."""
        return self.num_requests + 1 if self.fewest_requests else 1

    @property
    def is_greedy(self) -> bool:
        """Whether filling the budget by weight is optimal: no bonus, no binding request limit."""
        limited = self.max_requests is not None and self.max_requests < self.num_requests
        return not limited and not bool(self.bonuses.any())

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        columns = {
            "prefill": self.prefill,
            "decode": self.decode,
            "weight": self.weights,
            "finish_bonus": self.bonuses,
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        document: dict[str, Any] = {
            "budget": self.budget,
            "requests": [dict(zip(columns, row, strict=True)) for row in rows],
            "mixing": self.mixing,
            "fewest_requests": self.fewest_requests,
        }
        limit = {} if self.max_requests is None else {"max_requests": self.max_requests}
        return document | limit

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"budget", "requests": [{"prefill", "decode"}...]}`` with optional keys.

        Optional keys of a request are ``weight`` and ``finish_bonus``; of the document,
        ``mixing``, ``max_requests`` and ``fewest_requests``.
        """
        fields = check_keys(document, "document", ("budget", "requests"), _OPTIONAL)
        given: dict[str, Any] = {name: fields[name] for name in _OPTIONAL if name in fields}
        given |= read_columns(fields["requests"], "requests", _COLUMNS)
        return cls(budget=fields["budget"], **given)


def _weights(values: object, where: str, length: int, default: int) -> IntArray:
    vector = optional_vector(values, where, length, 0)
    if vector is None:
        return frozen(np.full(length, default, dtype=np.int64))
    return integer_vector(vector, where, maximum=_MAX_WEIGHT)


def phase_weights(prefill: IntArray, *, prompt_token: int, decode_token: int) -> IntArray:
    """Return token weights by phase, shape (n,): (1, 2) as in Sarathi-Serve, (2, 1) as in Orca.

    Parameters
    ----------
    prefill : IntArray
        Shape (n,): prompt tokens left.
    prompt_token, decode_token : int
        Weight of a token in each phase.
    """
    return np.where(np.asarray(prefill) > 0, prompt_token, decode_token).astype(np.int64)


def aging_weights(waited: object) -> IntArray:
    """Return ``1 + waited``, shape (n,): longest waiting first, which prevents starvation.

    Parameters
    ----------
    waited : sequence of int
        Slots since each request arrived or, to bound the time between tokens, since its last
        token.
    """
    return integer_vector(waited, "waited") + 1


def shortest_first_weights(remaining: object) -> IntArray:
    """Return weights that prefer requests with fewest remaining tokens (SRPT), shape (n,).

    Parameters
    ----------
    remaining : sequence of int
        Remaining tokens of each request, known or predicted.
    """
    left = integer_vector(remaining, "remaining")
    longest = int(left.max(initial=0))
    return (longest + 1 - left).astype(np.int64)


#: Prompt tokens and decode tokens of each request.
Batch = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class BatchResult(ProgramResult[Batch]):
    """The result of the batch program; objective as in `formulations.batch_composition.program`.

    Parameters
    ----------
    prefill, decode : tuple of int, optional
        Length n: ``δ^p_i`` and ``δ^d_i``.
    """

    solution_fields: ClassVar[tuple[str, ...]] = ("prefill", "decode")

    prefill: tuple[int, ...] | None = None
    decode: tuple[int, ...] | None = None

    @property
    def tokens(self) -> int:
        """``b'``, the number of tokens in the batch; 0 without a batch."""
        return sum(self.prefill or ()) + sum(self.decode or ())
