"""Hindsight latency and makespan: `formulations.hindsight_latency` and `hindsight_makespan`."""

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
from formulations import hindsight_makespan as makespan
from formulations.errors import InputError
from formulations.hindsight_latency import (
    LatencyProblem,
    LatencyProgram,
    PriceCertificate,
    certified_bound,
    total_latency,
    violations,
)
from formulations.hindsight_makespan import MakespanProblem
from formulations.hindsight_makespan.problem import Schedule


class Latency(Kind):
    """Starts of requests with one KV cache."""

    name = "latency"
    command = "bfio hindsight"
    unit = "rounds"
    problem = LatencyProblem

    def solution(self, problem: LatencyProblem, document: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the start of each request."""
        return integers(document, "starts", problem.num_requests)

    def judge(self, problem: LatencyProblem, solution: tuple[int, ...]) -> Judged:
        """Return the total latency and the violations."""
        return Judged(total_latency(problem, solution), violations(problem, solution))

    def certified_bound(self, problem: LatencyProblem, certificate: Mapping[str, Any]) -> int:
        """Return the bound by prices of rounds, of cells or tokens, or by areas."""
        fields = {
            CLOSED_FORM: (),
            "prices": ("scale", "cells", "prices"),
            "token-prices": ("scale", "prices"),
        }
        if check_certificate(certificate, fields) == CLOSED_FORM:
            return certified_bound(problem, None)
        try:
            return certified_bound(problem, read_prices(certificate))
        except ValueError as error:
            raise InputError("certificate.prices", str(error), "solve again") from None

    def program(self, problem: LatencyProblem) -> Any:
        """Return the integer program."""
        return LatencyProgram(problem)


class Makespan(Kind):
    """Starts and workers of requests on barrier-synchronised workers."""

    name = "makespan"
    command = "bfio makespan"
    unit = "seconds, tokens or steps"
    problem = MakespanProblem

    def solution(self, problem: MakespanProblem, document: Mapping[str, Any]) -> Schedule:
        """Return start and worker of each request."""
        n = problem.num_requests
        return integers(document, "starts", n), integers(document, "workers", n)

    def judge(self, problem: MakespanProblem, solution: Schedule) -> Judged:
        """Return the scaled objective and the violations."""
        violated = makespan.violations(problem, *solution)
        return Judged(0 if violated else makespan.objective_value(problem, *solution), violated)

    def certified_bound(self, problem: MakespanProblem, certificate: Mapping[str, Any]) -> int:
        """Return the maximum of the bounds by packing, peaks and completions."""
        check_certificate(certificate, {CLOSED_FORM: ()})
        return makespan.lower_bound(problem)

    def program(self, problem: MakespanProblem) -> Any:
        """Return the integer program."""
        return makespan.MakespanProgram(problem)

    def scale(self, problem: MakespanProblem) -> int:
        """Return the scale of times."""
        return problem.scale


def written_prices(certificate: PriceCertificate) -> dict[str, Any]:
    """Return prices as JSON: the cells, and a row of prices per round; or a price per round."""
    if certificate.per_token:
        rounds = range(max(certificate.per_token) + 1)
        prices = [certificate.per_token.get(now, 0) for now in rounds]
        return {"kind": "token-prices", "scale": certificate.scale, "prices": prices}
    cells = sorted({cell for row in certificate.prices.values() for cell in row})
    rounds = range(max(certificate.prices, default=-1) + 1)
    rows = [certificate.prices.get(now, {}) for now in rounds]
    return {
        "kind": "prices",
        "scale": certificate.scale,
        "cells": [list(cell) for cell in cells],
        "prices": [[row.get(cell, 0) for cell in cells] for row in rows],
    }


def read_prices(document: Mapping[str, Any]) -> PriceCertificate:
    """Read the output of `written_prices`.

    Raises
    ------
    InputError
        If it contains values other than integers, or a round has not one price per cell.
    """
    (scale,) = integers({"scale": [document.get("scale")]}, "scale", 1)
    if document["kind"] == "token-prices":
        prices = integers(document, "prices", len(field_of(document, "prices")))
        return PriceCertificate(scale, {}, dict(enumerate(prices)))
    pairs = [integers({"cell": cell}, "cell", 2) for cell in field_of(document, "cells")]
    if len(set(pairs)) != len(pairs):
        raise InputError("certificate.cells", "lists a cell twice", "solve again")
    cells = [(tokens, left) for tokens, left in pairs]
    rows = {
        now: dict(zip(cells, integers({"row": row}, "row", len(cells)), strict=True))
        for now, row in enumerate(field_of(document, "prices"))
    }
    return PriceCertificate(scale, rows)
