"""Data of the hindsight latency program: one worker, one KV cache, all requests known."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from formulations.arrays import IntArray, frozen, integer, integer_vector
from formulations.documents import check_keys, parse_json
from formulations.errors import InputError

#: Largest arrival and memory: sums of completion times stay exact in 64 bits.
_MAX_VALUE = 10**9
_KEYS = ("memory", "requests")
_REQUEST_KEYS = ("arrival", "prompt", "output")


class Convention(StrEnum):
    """Which rounds a request with start p and output o occupies (spec kv_cache, section 1.6).

    At an occupied round τ it holds ``s + τ - p`` tokens. In all three it completes at ``p + o``.
    """

    CLOSED = "A"  # p <= τ <= p + o: o + 1 rounds, peak s + o
    PRINTED = "B"  # p <= τ <= p + o - 1: o rounds, peak s + o - 1
    HALF_OPEN = "C"  # p + 1 <= τ <= p + o: o rounds, peak s + o

    @property
    def first_age(self) -> int:
        """``τ - p`` at the first occupied round."""
        return 1 if self is Convention.HALF_OPEN else 0

    def last_age(self, output: int) -> int:
        """Return ``τ - p`` at the last occupied round."""
        return output - 1 if self is Convention.PRINTED else output


@dataclass(frozen=True)
class LatencyProblem:
    """Requests for one worker with a KV cache of ``M`` tokens (KV-cache paper, appendix B.1).

    A request that starts at round ``p_i >= a_i`` runs to its end, never paused, and completes at
    ``c_i = p_i + o_i``. The total latency ``Σ (c_i - a_i)`` is to be least, while the tokens in
    the cache never exceed M.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    arrival, prompt, output : IntArray
        Shape (n,): arrival round ``a_i >= 0``, prompt ``s_i >= 1`` [tokens] and output
        ``o_i >= 1`` [tokens] of each request; its peak must fit alone.
    convention : Convention
        Which rounds are occupied; half-open (C) by default.

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
        set_field = object.__setattr__
        set_field(self, "memory", integer(self.memory, "memory", minimum=1, maximum=_MAX_VALUE))
        for name, minimum in (("arrival", 0), ("prompt", 1), ("output", 1)):
            values = integer_vector(getattr(self, name), name, minimum=minimum, maximum=_MAX_VALUE)
            set_field(self, name, values)
        lengths = {len(self.arrival), len(self.prompt), len(self.output)}
        if len(lengths) > 1:
            raise InputError(
                "requests",
                f"fields of different lengths {sorted(lengths)}",
                "give one per request",
            )
        set_field(self, "convention", _convention(self.convention))
        for i, peak in enumerate(self.peaks().tolist()):
            if peak > self.memory:
                raise InputError(
                    f"requests[{i}]",
                    f"its peak of {peak} tokens exceeds the memory of {self.memory}",
                    "raise memory or leave the request out",
                )

    @property
    def num_requests(self) -> int:
        """``n``."""
        return len(self.output)

    def peaks(self) -> IntArray:
        """Return the most tokens each request ever holds, shape (n,)."""
        ages = self.output - 1 if self.convention is Convention.PRINTED else self.output
        return frozen(np.asarray(self.prompt + ages))

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        columns = (self.arrival.tolist(), self.prompt.tolist(), self.output.tolist())
        return {
            "memory": self.memory,
            "requests": [
                dict(zip(_REQUEST_KEYS, values, strict=True))
                for values in zip(*columns, strict=True)
            ],
            "convention": self.convention.value,
        }

    @staticmethod
    def from_json(text: str) -> "LatencyProblem":
        """Read a document strictly: unknown or missing keys are errors."""
        return LatencyProblem.from_mapping(parse_json(text))

    @staticmethod
    def from_mapping(document: Any) -> "LatencyProblem":
        """Read ``{"memory": M, "requests": [{"arrival", "prompt", "output"}...]}``.

        ``convention`` ("A", "B" or "C") is optional.
        """
        check_keys(document, "document", _KEYS, ("convention",))
        requests = document["requests"]
        if not isinstance(requests, list):
            raise InputError("requests", f"a {type(requests).__name__}", "write a list")
        for i, request in enumerate(requests):
            check_keys(request, f"requests[{i}]", _REQUEST_KEYS)
        columns = {name: [request[name] for request in requests] for name in _REQUEST_KEYS}
        for name, values in columns.items():
            for i, value in enumerate(values):
                integer(value, f"requests[{i}].{name}", maximum=_MAX_VALUE)
        return LatencyProblem(
            memory=document["memory"],
            convention=_convention(document.get("convention", Convention.HALF_OPEN)),
            **{name: np.array(values, dtype=np.int64) for name, values in columns.items()},
        )


def _convention(value: object) -> Convention:
    try:
        return Convention(str(value))
    except ValueError:
        raise InputError("convention", f"{value!r} is unknown", "use A, B or C") from None
