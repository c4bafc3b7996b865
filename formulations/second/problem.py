"""Data and result of the secondary program, which chooses among near-optimal assignments."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

import numpy as np

from formulations.arrays import IntArray, integer, integer_vector
from formulations.errors import InputError, check_kind, known_fields
from formulations.problem_data import ProblemData, check_keys, member
from formulations.results import ProgramResult
from formulations.step.problem import (
    MAX_OBJECTIVE,
    Assignment,
    Objective,
    StepProblem,
    assignment_text,
)
from formulations.step.problem import WORDS as STEP
from formulations.words import Words, counted


class Second(StrEnum):
    """Names of the secondary objectives; `second_problem` builds the program."""

    #: Sum of the arrival ranks of admitted requests: prefers the oldest.
    AGE = "age"
    #: Minus the tokens admitted at the current step: short requests keep waiting.
    LARGEST = "largest"
    #: Tokens admitted at the current step: long requests keep waiting.
    SMALLEST = "smallest"
    #: The primary objective summed over a look-ahead window with equal weights.
    WINDOW = "window"
    #: The primary objective of the current step alone.
    NOW = "now"
    #: Largest minus smallest time, with the weights of the primary objective.
    GAP = "gap"


@known_fields
@dataclass(frozen=True)
class SecondProblem(ProblemData):
    """Minimise a secondary objective over assignments whose primary objective is limited.

    The secondary objective of an assignment is ``Σ_i cost_i [i is admitted]``, plus the objective
    of ``window`` if there is one. All data are integers.

    Parameters
    ----------
    step : StepProblem
        The step: its constraints, and the primary objective.
    most : int
        Largest allowed scaled primary objective: its optimum plus ε.
    cost : IntArray, optional
        Shape (N,): cost of admitting each request, in units of the secondary objective; default 0.
    window : StepProblem, optional
        Loads, weights and objective on the same requests and workers, with any number of
        look-ahead steps. The constraints on assignments come from ``step``.

    Raises
    ------
    InputError
        If a value breaks its rule, naming field and index.
    """

    step: StepProblem
    most: int
    cost: IntArray | None = None
    window: StepProblem | None = None

    def __post_init__(self) -> None:
        """Validate."""
        for name, step in (("step", self.step), ("window", self.window)):
            if name == "step" or step is not None:
                check_kind(step, StepProblem, name, "StepProblem(...)")
            if step is not None and step.benefit is not None:
                what = "the secondary program does not support benefits"
                remedy = "leave out the secondary objective or the benefit"
                raise InputError(f"{name}.benefit", what, remedy)
        N = self.step.num_requests
        cost = np.zeros(N, dtype=np.int64) if self.cost is None else self.cost
        cost = integer_vector(cost, "cost")
        if len(cost) != N:
            raise InputError(
                "cost",
                f"{counted(len(cost), 'entry')} for {counted(N, 'request')}",
                "give one cost per request",
            )
        self._set(cost=cost, most=integer(self.most, "most", maximum=MAX_OBJECTIVE))
        window = self.window
        if window is not None and (
            window.num_requests != N or window.num_workers != self.step.num_workers
        ):
            requests = counted(window.num_requests, "request")
            what = f"{requests} on {counted(window.num_workers, 'worker')}"
            raise InputError("window", what, "use the requests and workers of the step")
        if window is not None:
            # The window gets the step's slots, so that its bounds hold for the same assignments.
            slots, admit = self.step.capacity, self.step.num_admitted
            self._set(window=_unlimited(window, capacity=slots, admit=admit))

    @property
    def costs(self) -> IntArray:
        """``cost``, all 0 if not given; shape (N,)."""
        assert self.cost is not None
        return self.cost

    @property
    def scale(self) -> int:
        """Units of the secondary objective per unit of the window's objective."""
        return 1 if self.window is None else self.window.scale

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Build a problem from its JSON document."""
        fields = check_keys(document, "document", ("step", "most"), ("cost", "window"))
        window = fields.get("window")
        return cls(
            step=StepProblem.from_mapping(fields["step"]),
            most=fields["most"],
            cost=fields.get("cost"),
            window=None if window is None else StepProblem.from_mapping(window),
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        document = {
            "step": self.step.to_mapping(),
            "most": self.most,
            "cost": self.costs.tolist(),
        }
        return document if self.window is None else document | {"window": self.window.to_mapping()}


def second_problem(
    step: StepProblem, most: int, second: Second | str, window: StepProblem | None = None
) -> SecondProblem:
    """Return the secondary program of a step by the name of its objective.

    Parameters
    ----------
    step : StepProblem
        The step.
    most : int
        Largest allowed scaled primary objective.
    second : Second or str
        Name of the secondary objective.
    window : StepProblem, optional
        For ``window``: the look-ahead window; by default that of the step with equal weights.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    second = member(Second, second, "second")
    sizes = step.contribution[:, 0]
    if second is Second.AGE:
        return SecondProblem(step, most, cost=np.arange(step.num_requests))
    if second is Second.LARGEST:
        return SecondProblem(step, most, cost=sizes.max(initial=0) - sizes)
    if second is Second.SMALLEST:
        return SecondProblem(step, most, cost=sizes)
    if second is Second.GAP:
        return SecondProblem(step, most, window=replace(step, objective=Objective.GAP))
    if window is None:
        ones = (1,) * step.num_steps
        now = (1,) + (0,) * (step.num_steps - 1)
        weights = ones if second is Second.WINDOW else now
        window = replace(step, weights=weights, scale=1)
    return SecondProblem(step, most, window=window)


def without_idle_steps(problem: SecondProblem) -> SecondProblem:
    """Return the same program without look-ahead steps that affect no objective and no limit."""
    window = None if problem.window is None else _busy(problem.window)
    return replace(problem, step=_busy(problem.step), window=window)


def _busy(step: StepProblem) -> StepProblem:
    if step.token_capacity is not None or all(step.weights):
        return step
    kept = [h for h, weight in enumerate(step.weights) if weight] or [0]
    return replace(
        step,
        base=step.base[:, kept],
        contribution=step.contribution[:, kept],
        weights=tuple(step.weights[h] for h in kept),
    )


def _unlimited(step: StepProblem, **changes: Any) -> StepProblem:
    """Return a changed copy of a step without token capacities and required requests."""
    return replace(step, token_capacity=None, required=None, **changes)


@dataclass(frozen=True, kw_only=True)
class SecondResult(ProgramResult[Assignment]):
    """The result of a secondary program; objective and bound are those of the secondary objective.

    Parameters
    ----------
    assignment : tuple of (int or None), optional
        Worker of each request, None for one that keeps waiting.
    """

    solution_fields = ("assignment",)

    assignment: Assignment | None = None

    def solution_text(self) -> str:
        """Return the assignment in one line."""
        return assignment_text(self.required_solution())


WORDS = Words(
    title="the second program of a step: which of its optima",
    source="docs/second.md",
    objective="cost of the requests that start, plus the objective of the window",
    variables={
        **STEP.variables,
        "window_M": "window_M(k) = time of the most loaded worker at step k of the window",
        "window_m": "window_m(k) = time of the least loaded worker at step k of the window",
    },
    broken={
        **STEP.broken,
        "most": "the primary objective is {by} above its limit",
        "window_peak": "window step {1}: worker {0} is {by} above the peak window_M({1})",
        "window_floor": "window step {1}: worker {0} is {by} below the floor window_m({1})",
    },
)
