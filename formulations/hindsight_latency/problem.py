"""Data, request kinds and result of the hindsight latency program: one worker, one KV cache."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import numpy as np

from formulations.arrays import IntArray, frozen, integer
from formulations.errors import InputError
from formulations.problem_data import ProblemData, check_keys, member
from formulations.request_table import (
    MAX_VALUE,
    RequestKind,
    alike,
    checked_columns,
    read_requests,
    written_requests,
)
from formulations.results import ProgramResult
from formulations.words import Words

_KEYS = ("memory", "requests")


class Convention(StrEnum):
    """Which rounds a request with start p and output o occupies (spec kv_cache, section 1.6).

    With prompt s, the request holds ``s + τ - p`` tokens at an occupied round τ. In all three
    conventions it completes at ``p + o``.
    """

    CLOSED = "A"  # p <= τ <= p + o: o + 1 rounds, peak s + o
    PRINTED = "B"  # p <= τ <= p + o - 1: o rounds, peak s + o - 1
    HALF_OPEN = "C"  # p + 1 <= τ <= p + o: o rounds, peak s + o

    @property
    def first_age(self) -> int:
        """Age ``τ - p`` of a request at its first occupied round τ."""
        return 1 if self is Convention.HALF_OPEN else 0

    def last_age(self, output: int) -> int:
        """Return the age ``τ - p`` of a request at its last occupied round τ."""
        return output - 1 if self is Convention.PRINTED else output


@dataclass(frozen=True)
class LatencyProblem(ProblemData):
    """Requests for one worker with a KV cache of ``M`` tokens (KV-cache paper, appendix B.1).

    A request that starts at round ``p_i >= a_i`` runs to its end without preemption and completes
    at ``c_i = p_i + o_i``. The objective is the minimum total latency ``Σ (c_i - a_i)``, subject
    to at most M tokens in the cache at every round.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    arrival, prompt, output : IntArray
        Shape (n,): arrival round ``a_i >= 0``, prompt ``s_i >= 1`` [tokens] and output
        ``o_i >= 1`` [tokens] of each request; its peak must fit alone.
    convention : Convention
        Rounds that a request occupies; half-open (C) by default.

    Raises
    ------
    InputError
        If a value breaks its rule, naming field and index.
    """

    memory: int
    arrival: IntArray
    prompt: IntArray
    output: IntArray
    convention: Convention = field(default=Convention.HALF_OPEN)

    def __post_init__(self) -> None:
        self._set(
            memory=integer(self.memory, "memory", minimum=1, maximum=MAX_VALUE),
            **checked_columns(self),
            convention=member(Convention, self.convention, "convention"),
        )
        for i, peak in enumerate(self.peaks().tolist()):
            if peak > self.memory:
                what = f"its peak of {peak} tokens exceeds the memory of {self.memory} tokens"
                raise InputError(f"requests[{i}]", what, "raise memory or leave out the request")

    @property
    def num_requests(self) -> int:
        """``n``."""
        return len(self.output)

    def peaks(self) -> IntArray:
        """Return the largest number of tokens each request holds, shape (n,)."""
        ages = self.output - 1 if self.convention is Convention.PRINTED else self.output
        return frozen(np.asarray(self.prompt + ages))

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        return {
            "memory": self.memory,
            "requests": written_requests(self),
            "convention": self.convention.value,
        }

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"memory": M, "requests": [{"arrival", "prompt", "output"}...]}``.

        ``convention`` ("A", "B" or "C") is optional. ``provenance`` is ignored.
        """
        check_keys(document, "document", _KEYS, ("convention", "provenance"))
        return cls(
            memory=document["memory"],
            convention=document.get("convention", Convention.HALF_OPEN),
            **read_requests(document["requests"]),
        )


def occupied_rounds(problem: LatencyProblem) -> list[int]:
    """Return the number of rounds each request occupies."""
    convention = problem.convention
    return [convention.last_age(o) - convention.first_age + 1 for o in problem.output.tolist()]


def kinds(problem: LatencyProblem, *, aggregate: bool = True) -> tuple[RequestKind, ...]:
    """Group requests of equal arrival, prompt and output; their windows contain every optimum.

    In an optimum, request i starts at ``max_j a_j + Σ_{j≠i} d_j`` at the latest, where d_j is the
    number of rounds j occupies. Suppose it starts later. The others occupy at most ``Σ_{j≠i} d_j``
    rounds, so between the last arrival and the first round of i there is a round g that no request
    occupies. No request spans g. Start every request whose first round comes after g one round
    earlier. Its start stays at or after the last arrival, the memory profile after g shifts by one
    round, and no round before g changes. The schedule stays feasible and the latency of i
    decreases, a contradiction.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    aggregate : bool
        Whether identical requests form one kind; otherwise each request is its own kind.
    """
    last_arrival = max(problem.arrival.tolist(), default=0)
    durations = occupied_rounds(problem)
    total = sum(durations)
    groups = alike(problem.arrival, problem.prompt, problem.output, aggregate=aggregate)
    return tuple(
        RequestKind(
            prompt, output, tuple(members), arrival, last_arrival + total - durations[members[0]]
        )
        for (arrival, prompt, output, _), members in groups.items()
    )


#: Start round of each request.
Starts = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LatencyResult(ProgramResult[Starts]):
    """The result of a hindsight latency program; the objective is the total latency [rounds].

    Parameters
    ----------
    starts : tuple of int, optional
        Start round of each request.
    """

    solution_fields = ("starts",)

    starts: Starts | None = None


WORDS = Words(
    title="the hindsight latency program",
    source="KV-cache paper (arXiv:2502.07115), appendix B.1",
    objective="total latency, completion minus arrival summed over the requests [rounds]",
    variables={"x": "x(c,k) = how many requests of kind c start at round k"},
    broken={
        "start_once": "{kind}: {by} starts too many or too few",
        "memory": "round {0}: the cache holds {by} tokens more than fit",
        "arrival": "request {0} starts {by} rounds before it arrives",
        "objective": "the total latency is off by {by}",
    },
)
