"""Hindsight makespan: `formulations.hindsight_makespan`."""

from collections.abc import Mapping
from typing import Any

from bfio.library.kinds.kind import CLOSED_FORM, Judged, Kind, check_certificate, integers
from formulations.hindsight_makespan import (
    MakespanProblem,
    lower_bound,
    objective_value,
    violations,
)
from formulations.hindsight_makespan.problem import Schedule


class Makespan(Kind):
    """Starts and workers of requests on barrier-synchronised workers."""

    name = "makespan"
    command = "bfio makespan"
    unit = "seconds, tokens or steps"

    def read(self, document: Any) -> MakespanProblem:
        """Return the problem."""
        return MakespanProblem.from_mapping(document)

    def solution(self, problem: MakespanProblem, document: Mapping[str, Any]) -> Schedule:
        """Return start and worker of each request."""
        n = problem.num_requests
        return integers(document, "starts", n), integers(document, "workers", n)

    def judge(self, problem: MakespanProblem, solution: Schedule) -> Judged:
        """Return the scaled objective and the violations."""
        violated = violations(problem, *solution)
        return Judged(0 if violated else objective_value(problem, *solution), violated)

    def certified_bound(self, problem: MakespanProblem, certificate: Mapping[str, Any]) -> int:
        """Return the maximum of the bounds by packing, peaks and completions."""
        check_certificate(certificate, {CLOSED_FORM: ()})
        return lower_bound(problem)

    def program(self, problem: MakespanProblem) -> Any:
        """Return the integer program."""
        from formulations.hindsight_makespan import MakespanProgram

        return MakespanProgram(problem)

    def scale(self, problem: MakespanProblem) -> int:
        """Return the scale of times."""
        return problem.scale
