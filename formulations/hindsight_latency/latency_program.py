"""The two equal forms of a hindsight latency program."""

from typing import Any

from formulations.hindsight_latency.matrix import build_standard_form
from formulations.hindsight_latency.problem import LatencyProblem
from formulations.standard_form import StandardForm
from formulations.twin_program import TwinProgram


class LatencyProgram(TwinProgram[LatencyProblem]):
    """The program of one `LatencyProblem`."""

    def _state(self) -> Any:
        from formulations.hindsight_latency.program import build

        return build(self.problem, aggregate=self.aggregate)

    def _write(self) -> StandardForm:
        return build_standard_form(self.problem, aggregate=self.aggregate)
