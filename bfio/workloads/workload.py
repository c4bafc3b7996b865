"""The one thing every trace reader and every generator returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from formulations.arrays import FloatArray, IntArray, integer_vector
from formulations.errors import InputError


@dataclass(frozen=True)
class Workload:
    """Requests in arrival order.

    Parameters
    ----------
    prompt_tokens : IntArray
        Shape (n,), prompt length ``s_i >= 1`` of each request [tokens].
    output_tokens : IntArray
        Shape (n,), output length ``o_i >= 1`` [tokens = decode steps].
    arrival_times : tuple of Fraction, optional
        Exact, non-decreasing arrival times [s]; None if the source has none.
    name : str
        Short name shown in tables.
    provenance : mapping
        Where the requests come from: file and format or generator and seed, and how many rows
        were dropped and why.

    Raises
    ------
    InputError
        If shapes differ, a length is below 1, or arrival times are negative or decrease.
    """

    prompt_tokens: IntArray
    output_tokens: IntArray
    arrival_times: tuple[Fraction, ...] | None = None
    name: str = "workload"
    provenance: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Validate and freeze the arrays."""
        prompts = integer_vector(self.prompt_tokens, "prompt_tokens", minimum=1)
        outputs = integer_vector(self.output_tokens, "output_tokens", minimum=1)
        object.__setattr__(self, "prompt_tokens", prompts)
        object.__setattr__(self, "output_tokens", outputs)
        if len(prompts) != len(outputs):
            raise InputError(
                "output_tokens",
                f"{len(outputs)} entries for {len(prompts)} prompts",
                "give one output length per request",
            )
        if self.arrival_times is not None:
            self._check_arrivals(self.arrival_times)

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def total_output_tokens(self) -> int:
        """Tokens that serving every request emits."""
        return int(self.output_tokens.sum())

    def arrival_seconds(self) -> FloatArray:
        """Arrival times as float64 seconds, shape (n,).

        Raises
        ------
        InputError
            If the workload has no arrival times.
        """
        if self.arrival_times is None:
            raise InputError(
                self.name, "the requests have no arrival times", "use --arrivals pool"
            )
        return np.array([float(t) for t in self.arrival_times], dtype=np.float64)

    def head(self, num_requests: int) -> "Workload":
        """Return the first ``num_requests`` requests (all of them if there are fewer)."""
        times = None if self.arrival_times is None else self.arrival_times[:num_requests]
        return Workload(
            self.prompt_tokens[:num_requests],
            self.output_tokens[:num_requests],
            times,
            self.name,
            self.provenance,
        )

    def _check_arrivals(self, times: tuple[Fraction, ...]) -> None:
        if len(times) != len(self.prompt_tokens):
            raise InputError(
                "arrival_times",
                f"{len(times)} entries for {len(self.prompt_tokens)} requests",
                "give one arrival time per request or none at all",
            )
        previous = Fraction(0)
        for i, time in enumerate(times):
            if time < previous:
                raise InputError(
                    f"arrival_times[{i}]",
                    f"{float(time)} s comes after {float(previous)} s",
                    "sort the requests by arrival time and start at 0 or later",
                )
            previous = time
