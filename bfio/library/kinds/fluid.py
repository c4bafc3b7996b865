"""Fluid programs (`formulations.fluid`) and thresholds of WAIT and Nested WAIT.

Fluid programs are continuous, so their objectives are fractions. Thresholds: see
`formulations.thresholds`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from bfio.library.kinds.kind import (
    Judged,
    Kind,
    Value,
    check_certificate,
    field_of,
    fractions_of,
    integers,
)
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
            raise InputError("routing", "another shape", f"give {shape[0]} rows of {shape[1]}")
        return tuple(rows)

    def certified_bound(self, problem: FluidProblem, certificate: Mapping[str, Any]) -> Value:
        """Return the bound that the prices prove."""
        check_certificate(certificate, {"prices": self.prices})
        work = fractions_of(certificate["work_prices"], "certificate.work_prices")
        if len(work) != len(problem.workers):
            raise InputError("certificate.work_prices", f"{len(work)}", "give one per worker")
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
            raise InputError("certificate.rate_prices", f"{len(rates)}", "give one per class")
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
    """Thresholds with minimum memory; the bound is recomputed by iteration from all ones."""

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
