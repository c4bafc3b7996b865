"""Thresholds of WAIT and Nested WAIT: `formulations.thresholds`."""

from collections.abc import Mapping
from typing import Any

from bfio.library.kinds.kind import Judged, Kind, check_certificate, integers
from formulations.fluid import FluidProblem
from formulations.thresholds import NestedProblem, WaitProblem
from formulations.thresholds.check import certified_memory, threshold_violations
from formulations.thresholds.conditions import ThresholdProblem, policy_memory


class Thresholds(Kind):
    """Thresholds of least memory; the bound is the iteration from all ones, derived again."""

    unit = "tokens"

    def solution(self, problem: ThresholdProblem, document: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the thresholds."""
        return integers(document, "thresholds", len(problem.weights))

    def judge(self, problem: ThresholdProblem, solution: tuple[int, ...]) -> Judged:
        """Return the memory of a full batch and what is violated."""
        violated = threshold_violations(problem, solution)
        return Judged(policy_memory(problem.weights, solution), violated)

    def certified_bound(self, problem: ThresholdProblem, certificate: Mapping[str, Any]) -> int:
        """Return the least memory."""
        check_certificate(certificate, {"iteration": ()})
        return certified_memory(problem)


class Wait(Thresholds):
    """WAIT, whose thresholds keep up with the arrivals."""

    name = "wait"
    command = "bfio fluid"

    def read(self, document: Any) -> WaitProblem:
        """Return the problem."""
        return WaitProblem(FluidProblem.from_mapping(document))


class NestedWait(Thresholds):
    """Nested WAIT, which does not know output lengths."""

    name = "nested-wait"
    command = "bfio fluid --nested"

    def read(self, document: Any) -> NestedProblem:
        """Return the problem."""
        return NestedProblem.from_fluid(FluidProblem.from_mapping(document))
