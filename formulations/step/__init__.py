"""The BF-IO step program (IO): which waiting request goes to which worker at one step."""

from formulations.step.problem import Objective, StepProblem

__all__ = ["Objective", "StepProblem"]
