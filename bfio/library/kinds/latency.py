"""Hindsight latency: `formulations.hindsight_latency`."""

from collections.abc import Mapping
from typing import Any

from bfio.library.kinds.kind import (
    CLOSED_FORM,
    Judged,
    Kind,
    check_certificate,
    field_of,
    integers,
)
from formulations.errors import InputError
from formulations.hindsight_latency import (
    LatencyProblem,
    PriceCertificate,
    certified_bound,
    total_latency,
    violations,
)


class Latency(Kind):
    """When each request starts under one KV cache."""

    name = "latency"
    command = "bfio hindsight"
    unit = "rounds"

    def read(self, document: Any) -> LatencyProblem:
        """Return the problem."""
        return LatencyProblem.from_mapping(document)

    def solution(self, problem: LatencyProblem, document: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the start of each request."""
        return integers(document, "starts", problem.num_requests)

    def judge(self, problem: LatencyProblem, solution: tuple[int, ...]) -> Judged:
        """Return the total latency and what is violated."""
        return Judged(total_latency(problem, solution), violations(problem, solution))

    def certified_bound(self, problem: LatencyProblem, certificate: Mapping[str, Any]) -> int:
        """Return the bound by prices of rounds, or by areas."""
        fields = {CLOSED_FORM: (), "prices": ("scale", "prices")}
        if check_certificate(certificate, fields) == CLOSED_FORM:
            return certified_bound(problem, None)
        try:
            return certified_bound(problem, read_prices(certificate))
        except ValueError as error:
            raise InputError("certificate.prices", str(error), "solve again") from None

    def program(self, problem: LatencyProblem) -> Any:
        """Return the integer program."""
        from formulations.hindsight_latency import LatencyProgram

        return LatencyProgram(problem)


def written_prices(certificate: PriceCertificate) -> dict[str, Any]:
    """Return the document of prices: a line for each round, tokens held and rounds left."""
    lines = [
        [now, tokens, left, price]
        for now, row in sorted(certificate.prices.items())
        for (tokens, left), price in sorted(row.items())
    ]
    return {"kind": "prices", "scale": certificate.scale, "prices": lines}


def read_prices(document: Mapping[str, Any]) -> PriceCertificate:
    """Return what `written_prices` wrote.

    Raises
    ------
    InputError
        If it holds anything but lines of four integers, or a line twice.
    """
    prices: dict[int, dict[tuple[int, int], int]] = {}
    for k, line in enumerate(field_of(document, "prices")):
        now, tokens, left, price = integers({"line": line}, "line", 4)
        row = prices.setdefault(now, {})
        if (tokens, left) in row:
            raise InputError(f"certificate.prices[{k}]", "a second price", "solve again")
        row[tokens, left] = price
    (scale,) = integers({"scale": [document.get("scale")]}, "scale", 1)
    return PriceCertificate(scale, prices)
