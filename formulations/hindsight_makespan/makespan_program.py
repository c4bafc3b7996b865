"""The two equal forms of a hindsight makespan program."""

from typing import Any

from formulations.hindsight_makespan.matrix import build_standard_form
from formulations.hindsight_makespan.problem import MakespanProblem
from formulations.standard_form import StandardForm
from formulations.twin_program import TwinProgram


class MakespanProgram(TwinProgram[MakespanProblem]):
    """The program of one `MakespanProblem`."""

    def _state(self) -> Any:
        from formulations.hindsight_makespan.program import build

        return build(self.problem, aggregate=self.aggregate)

    def _write(self) -> StandardForm:
        return build_standard_form(self.problem, aggregate=self.aggregate)
