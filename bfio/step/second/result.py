"""Result of a step with a secondary objective."""

from dataclasses import dataclass

from bfio.step.second.solve import Chosen, solve_second
from formulations.deadline import Deadline
from formulations.formulation import COMBINATORIAL
from formulations.results import TieRule
from formulations.second import Second, second_problem
from formulations.step import StepProblem, StepProgram, StepResult, violations


@dataclass(frozen=True, kw_only=True)
class ChosenResult(StepResult):
    """Results of a step and of its second program.

    Parameters
    ----------
    second : Second
        The second objective.
    slack : int
        ε, in units of the first objective.
    chosen : Chosen, optional
        The result of the second program; None if the step has no assignment.
    first_proven : bool
        Whether the first objective, to which ε is added, is proven to be the least.
    """

    second: Second
    slack: int
    chosen: Chosen | None = None
    first_proven: bool = False

    @property
    def second_proven(self) -> bool:
        """Whether the second objective is proven to be the least, with both proofs in integers."""
        return self.first_proven and self.chosen is not None and self.chosen.is_optimal

    def to_mapping(self) -> dict[str, object]:
        """Return the JSON document ``bfio solve --second`` prints."""
        part: dict[str, object] = {
            "name": self.second.value,
            "slack": self.slack,
            "proven": self.second_proven,
        }
        if (chosen := self.chosen) is not None:
            part |= {
                "value": chosen.objective,
                "bound": chosen.bound,
                "method": chosen.method,
                "termination": chosen.termination.value,
                "seconds": chosen.seconds,
                "ticks": chosen.ticks,
                "proof": chosen.proof if self.second_proven else None,
            }
        return super().to_mapping() | {"second": part}

    def summary(self) -> str:
        """Return the summary of the step, and a line about the second objective."""
        if (chosen := self.chosen) is None:
            return super().summary()
        proof = f"proven by {chosen.proof}" if self.second_proven else "not proven"
        above = f" within {self.slack} of the optimum" if self.slack else ""
        return (
            f"{super().summary()}\nsecond objective {self.second}{above}: {chosen.objective}, "
            f"bound {chosen.bound}; {chosen.seconds * 1e3:.1f} ms; {proof}"
        )


def chosen_result(
    problem: StepProblem,
    first: StepResult,
    second: Second,
    slack: int,
    deadline: Deadline,
    work_limit: int | None,
) -> ChosenResult:
    """Minimise the second objective among assignments within ε of the first result.

    Parameters
    ----------
    problem : StepProblem
        The step.
    first : StepResult
        Its result.
    second : Second
        The second objective.
    slack : int
        ε, in units of the first objective.
    deadline : Deadline
        The time limit, whose clock is already running.
    work_limit : int, optional
        Ticks for the second objective.
    """
    as_it_is = ChosenResult(**vars(first), second=second, slack=slack)
    if first.assignment is None or violations(problem, first.assignment):
        return as_it_is
    assert first.objective is not None
    most = first.objective + slack * problem.scale
    deadline.found(lambda: as_it_is)
    chosen = solve_second(
        second_problem(problem, most, second),
        first.assignment,
        time_limit=deadline.mapped(lambda _: as_it_is),
        work_limit=work_limit,
    )
    assert chosen.assignment is not None
    proven = first.is_optimal and chosen.is_optimal
    step = StepProgram(problem).answer(
        chosen.assignment,
        first.termination,
        first.bound,
        first.bound_kind,
        method=first.method,
        seconds=first.seconds,
        compile_seconds=first.compile_seconds,
        solver=first.solver,
        proof=first.proof or COMBINATORIAL,
        ticks=first.ticks,
        tie_rule=TieRule.SECOND if proven else TieRule.BACKEND,
    )
    return ChosenResult(
        **vars(step), second=second, slack=slack, chosen=chosen, first_proven=first.is_optimal
    )
