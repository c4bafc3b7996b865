"""The kinds of problems in the library, by name.

Fluid programs (`formulations.fluid`) are continuous, so their objectives are fractions. Thresholds
of WAIT and Nested WAIT: see `formulations.thresholds`. Problems in hindsight:
`formulations.hindsight_latency` and `formulations.hindsight_makespan`. Step problems:
`formulations.step`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from bfio.library.kind import (
    CLOSED_FORM,
    Judged,
    Kind,
    Value,
    check_certificate,
    field_of,
    fractions_of,
    integers,
)
from formulations import hindsight_latency as latency
from formulations import hindsight_makespan as makespan
from formulations.errors import InputError
from formulations.fluid import (
    FluidObjective,
    FluidProblem,
    admission_bound,
    admission_price_violations,
    admission_violations,
    margin_bound,
    margin_violations,
    throughput_of,
)
from formulations.hindsight_latency import LatencyProblem, LatencyProgram, PriceCertificate
from formulations.hindsight_makespan import MakespanProblem
from formulations.hindsight_makespan.problem import Schedule
from formulations.problem_data import check_keys
from formulations.step import StepProblem, lower_bound, violations
from formulations.step.bound import interval_relaxation
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.check import brute_force
from formulations.thresholds import NestedProblem, WaitProblem
from formulations.thresholds.check import certified_memory, threshold_violations
from formulations.thresholds.conditions import ThresholdProblem, policy_memory

#: ``routing[j][g]``: rate of class j on worker g.
Routing = tuple[tuple[Fraction, ...], ...]


class Fluid(Kind):
    """Throughput of classes of requests under a memory; certificates are dual prices."""

    problem = FluidProblem
    minimised = False
    #: Names of the certificate fields.
    prices: ClassVar[tuple[str, ...]] = ("work_prices",)

    def solution(self, problem: FluidProblem, document: Mapping[str, Any]) -> Routing:
        """Return the rate of each class on each worker."""
        shape = len(problem.classes), len(problem.workers)
        rows = [
            fractions_of(row, f"routing[{j}]")
            for j, row in enumerate(field_of(document, "routing"))
        ]
        if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
            what, remedy = "has the wrong shape", f"give {shape[0]} rows of {shape[1]} rates"
            raise InputError("routing", what, remedy)
        return tuple(rows)

    def certified_bound(self, problem: FluidProblem, certificate: Mapping[str, Any]) -> Value:
        """Return the bound that the prices prove."""
        check_certificate(certificate, {"prices": self.prices})
        work = fractions_of(certificate["work_prices"], "certificate.work_prices")
        if len(work) != len(problem.workers):
            what = f"has {len(work)} prices"
            raise InputError("certificate.work_prices", what, "give one per worker")
        return self._bound(problem, work, certificate)

    @abstractmethod
    def _bound(
        self, problem: FluidProblem, work: tuple[Fraction, ...], certificate: Mapping[str, Any]
    ) -> Value:
        """Return the bound that the prices prove, or raise `InputError`."""


class Throughput(Fluid):
    """Maximum stages, or decode tokens, per second."""

    fluid_program = "throughput"
    prices = ("work_prices", "rate_prices")

    def judge(self, problem: FluidProblem, solution: Routing) -> Judged:
        """Return the throughput and the violations."""
        violated = admission_violations(problem, solution)
        return Judged(throughput_of(problem, solution, self.fluid_objective), violated)

    def _bound(
        self, problem: FluidProblem, work: tuple[Fraction, ...], certificate: Mapping[str, Any]
    ) -> Value:
        rates = fractions_of(certificate["rate_prices"], "certificate.rate_prices")
        if len(rates) != len(problem.classes):
            what = f"has {len(rates)} prices"
            raise InputError("certificate.rate_prices", what, "give one per class")
        refused = admission_price_violations(problem, work, rates, self.fluid_objective)
        if refused:
            what = f"dual prices are infeasible at {next(iter(refused))}"
            raise InputError("certificate", what, "solve again")
        return admission_bound(problem, work, rates)


class Stages(Throughput):
    """Throughput counted in stages."""

    name = "fluid-stages"
    command = "bfio fluid"
    unit = "stages/s"
    fluid_objective = FluidObjective.STAGES


class Decode(Throughput):
    """Throughput counted in decode tokens."""

    name = "fluid-decode"
    command = "bfio fluid --objective decode"
    unit = "decode tokens/s"
    fluid_objective = FluidObjective.DECODE


class Margin(Fluid):
    """Maximum factor on all rates that the workers sustain."""

    name = "fluid-margin"
    command = "bfio fluid"
    unit = "times the rates"
    fluid_program = "margin"

    def judge(self, problem: FluidProblem, solution: Routing) -> Judged:
        """Return the factor that a routing serves, and the violations."""
        served = (
            sum(row, Fraction(0)) / kind.rate
            for kind, row in zip(problem.classes, solution, strict=True)
        )
        margin = min(served)
        return Judged(margin, margin_violations(problem, solution, margin))

    def _bound(
        self, problem: FluidProblem, work: tuple[Fraction, ...], certificate: Mapping[str, Any]
    ) -> Value:
        bound = margin_bound(problem, work)
        if bound is None:
            raise InputError("certificate", "the prices prove no bound", "solve again")
        return bound


class Thresholds(Kind):
    """Thresholds with minimum memory; the bound is recomputed, iterating from thresholds of 1."""

    unit = "tokens"
    problem = FluidProblem

    def solution(self, problem: ThresholdProblem, document: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the thresholds."""
        return integers(document, "thresholds", len(problem.weights))

    def judge(self, problem: ThresholdProblem, solution: tuple[int, ...]) -> Judged:
        """Return the memory of a full batch and the violations."""
        violated = threshold_violations(problem, solution)
        return Judged(policy_memory(problem.weights, solution), violated)

    def certified_bound(self, problem: ThresholdProblem, certificate: Mapping[str, Any]) -> int:
        """Return the minimum memory."""
        check_certificate(certificate, {"iteration": ()})
        return certified_memory(problem)


class Wait(Thresholds):
    """WAIT, with thresholds that keep up with the arrivals."""

    name = "wait"
    command = "bfio fluid"

    def read(self, document: Any) -> WaitProblem:
        """Return the problem."""
        return WaitProblem(super().read(document))


class NestedWait(Thresholds):
    """Nested WAIT, for unknown output lengths."""

    name = "nested-wait"
    command = "bfio fluid --nested"

    def read(self, document: Any) -> NestedProblem:
        """Return the problem."""
        return NestedProblem.from_fluid(super().read(document))


class Latency(Kind):
    """Starts of requests with one KV cache."""

    name = "latency"
    command = "bfio hindsight"
    unit = "rounds"
    problem = LatencyProblem
    formulation = LatencyProgram

    def solution(self, problem: LatencyProblem, document: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the start of each request."""
        return integers(document, "starts", problem.num_requests)

    def judge(self, problem: LatencyProblem, solution: tuple[int, ...]) -> Judged:
        """Return the total latency and the violations."""
        return Judged(
            latency.total_latency(problem, solution), latency.violations(problem, solution)
        )

    def certified_bound(self, problem: LatencyProblem, certificate: Mapping[str, Any]) -> int:
        """Return the bound by prices of rounds, of cells or tokens, or by areas."""
        fields = {
            CLOSED_FORM: (),
            "prices": ("scale", "cells", "prices"),
            "token-prices": ("scale", "prices"),
        }
        if check_certificate(certificate, fields) == CLOSED_FORM:
            return latency.certified_bound(problem, None)
        try:
            return latency.certified_bound(problem, read_prices(certificate))
        except ValueError as error:
            raise InputError("certificate.prices", str(error), "solve again") from None


class Makespan(Kind):
    """Starts and workers of requests on barrier-synchronised workers."""

    name = "makespan"
    command = "bfio makespan"
    problem = MakespanProblem
    formulation = makespan.MakespanProgram

    def unit_of(self, problem: MakespanProblem) -> str:
        """Return the unit of the problem's objective."""
        units = {"wall-clock": "seconds", "imbalance": "tokens", "latency": "steps"}
        return units[problem.objective]

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
        If a value is not an integer, or a round does not have one price per cell.
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


#: Kind of an empty certificate: the verifier enumerates all assignments of a tiny problem.
EVERY_ASSIGNMENT = "every-assignment"
#: Kind of certificate with multipliers of the interval relaxation.
INTERVAL = "interval"
#: Fields of certificates that do not come from the exact method.
_OTHER_KINDS = {CLOSED_FORM: (), EVERY_ASSIGNMENT: (), INTERVAL: ("flow", "price")}


class Step(Kind):
    """Assignment of waiting requests to workers at one step."""

    name = "step"
    command = "bfio solve"
    unit = "tokens"
    problem = StepProblem

    def solution(
        self, problem: StepProblem, document: Mapping[str, Any]
    ) -> tuple[int | None, ...]:
        """Return the worker of each request."""
        return integers(document, "assignment", problem.num_requests, or_none=True)

    def judge(self, problem: StepProblem, solution: tuple[int | None, ...]) -> Judged:
        """Return the scaled objective and the violations."""
        violated = violations(problem, solution)
        strangers = any(name.startswith("worker[") for name in violated)
        objective = 0 if strangers else problem.objective_value(solution)
        return Judged(objective, violated)

    def certified_bound(self, problem: StepProblem, certificate: Mapping[str, Any]) -> int:
        """Return the bound by the verifier of the certificate's kind."""
        if certificate.get("kind") in _OTHER_KINDS:
            kind = check_certificate(certificate, _OTHER_KINDS)
            if kind == INTERVAL:
                return _interval_bound(problem, certificate)
            return lower_bound(problem) if kind == CLOSED_FORM else _least_of_all(problem)
        try:
            return certified_bound(problem, read_certificate(certificate))
        except InputError:
            raise
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            # Verifiers assume the types of `Certificate`, which a document may violate.
            raise InputError("certificate", f"malformed ({error})", "solve again") from None

    def program(self, problem: StepProblem) -> Any:
        """Return the step program."""
        from formulations.step import StepProgram

        return StepProgram(problem)

    def scale(self, problem: StepProblem) -> int:
        """Return the scale of the discount weights."""
        return problem.scale


def _interval_bound(problem: StepProblem, certificate: Mapping[str, Any]) -> int:
    """Return the bound of multipliers; the flow has a row per worker and a column per step."""
    relaxation = interval_relaxation(problem)
    if relaxation is None:
        what = f"{INTERVAL} certificates only cover requests with equal growth"
        raise InputError("certificate.kind", what, "use another kind of certificate")
    (price,) = integers({"price": [certificate["price"]]}, "price", 1)
    width = relaxation.times.shape[1]
    flow = [integers({"flow": line}, "flow", width) for line in field_of(certificate, "flow")]
    if max(map(abs, (price, *(y for line in flow for y in line)))) > sum(problem.weights) * len(
        relaxation.times
    ):
        raise InputError("certificate.flow", "exceeds the sum of all supplies", "solve again")
    return relaxation.bound(np.array(flow, dtype=np.int64), price)


def _least_of_all(problem: StepProblem) -> int:
    best = brute_force(problem)
    if best is None:
        raise InputError("problem", "no assignment is feasible", "there is nothing to bound")
    return best[0]


def written_certificate(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as JSON: the fields that differ from their defaults."""
    return {
        field.name: value
        for field in fields(certificate)
        if (value := getattr(certificate, field.name)) != field.default
    }


def read_certificate(document: Mapping[str, Any]) -> Certificate:
    """Read the output of `written_certificate`.

    Raises
    ------
    InputError
        If a field is unknown, or contains values other than integers.
    """
    names = tuple(field.name for field in fields(Certificate))
    check_keys(document, "certificate", ("kind", "bound"), names)
    return Certificate(
        **{name: _tuples(value, name, name == "kind") for name, value in document.items()}
    )


def _tuples(value: object, where: str, is_word: bool) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_tuples(part, where, False) for part in value)
    if (type(value) is not int) if not is_word else not isinstance(value, str):
        raise InputError(f"certificate.{where}", "contains non-integers", "solve again")
    return value


#: In the order of tables.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Step(), Latency(), Makespan(), Stages(), Decode(), Margin(), Wait(), NestedWait()
    )
}  # fmt: skip

__all__ = ["CLOSED_FORM", "KINDS", "Judged", "Kind"]
