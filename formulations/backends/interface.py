"""The interface of solver backends, their limits and their outcomes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from formulations.arrays import FloatArray
from formulations.deadline import Deadline, TimeLimit, checked_work_limit
from formulations.errors import CapabilityError
from formulations.results import BoundKind, Termination
from formulations.scalars import MAX_SEED, integer
from formulations.standard_form import StandardForm, compile_model


class Program(Protocol):
    """Interface of programs for backends: a Pyomo model and a standard form."""

    @property
    def model(self) -> Any:
        """The Pyomo statement."""

    @property
    def standard_form(self) -> StandardForm:
        """The same program as sparse arrays."""


class ModelProgram:
    """A `Program` made from a Pyomo model; its standard form is compiled from the model.

    Parameters
    ----------
    state : callable
        Returns the model.
    """

    def __init__(self, state: Callable[[], Any]) -> None:
        self._state = state

    @cached_property
    def model(self) -> Any:
        """The model, stated at first use."""
        return self._state()

    @cached_property
    def standard_form(self) -> StandardForm:
        """The compiled model."""
        return compile_model(self.model)


@dataclass(frozen=True)
class WrittenProgram:
    """A `Program` with a standard form but no Pyomo model; solvers of Pyomo reject it."""

    standard_form: StandardForm
    model: None = None


@dataclass(frozen=True)
class SolveLimits:
    """Limits and settings of a solve.

    Parameters
    ----------
    time_limit : float or Deadline, optional
        Wall-clock seconds from the call on, including writing the program; or a running deadline.
    seed : int
        Random seed of the solver.
    threads : int
        Solver threads; results are reproducible with 1.
    found : callable, optional
        Callback for each improved point, shape (n,), if the solver supports it (CP-SAT, HiGHS).
    work_limit : int, optional
        Limit in ticks (`formulations.deadline`), which do not depend on the machine.

    Raises
    ------
    InputError
        If a limit is negative, or the seed no integer from 0 to 2^31 - 1.
    """

    time_limit: TimeLimit = None
    seed: int = 0
    threads: int = 1
    found: Callable[[FloatArray], None] | None = None
    work_limit: int | None = None

    def __post_init__(self) -> None:
        """Validate."""
        Deadline.of(self.time_limit)
        integer(self.seed, "seed", maximum=MAX_SEED)
        checked_work_limit(self.work_limit)

    @property
    def deadline(self) -> Deadline:
        """The deadline of the solve; if ``time_limit`` is in seconds, it starts now."""
        return Deadline.of(self.time_limit)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a backend: termination, and point and bound if there are any.

    Parameters
    ----------
    termination : Termination
        ``OPTIMAL`` is a claim of the backend, which callers verify in integers.
    values : FloatArray, optional
        Shape (n,), in the column order of the standard form.
    bound : float or int, optional
        Lower bound on the objective, offset included.
    bound_kind : BoundKind
        ``INTEGER`` if the bound, or the claim of infeasibility, counts as proven: derived in
        integers, in a range that enumeration has confirmed.
    seconds : float
        Wall-clock time of the solve itself.
    details : mapping
        Solver, version, raw status, options.
    ticks : int, optional
        Ticks used (`formulations.deadline`); None if they are not counted.
    """

    termination: Termination
    values: FloatArray | None
    bound: float | int | None
    bound_kind: BoundKind
    seconds: float
    details: Mapping[str, object] = field(default_factory=dict)
    ticks: int | None = None


class Backend(Protocol):
    """Interface of solver backends."""

    name: str
    #: Whether it supports continuous variables.
    continuous: bool

    def available(self) -> bool:
        """Return whether the solver is installed; the test does not import the solver."""

    def load(self) -> None:
        """Import the solver if it is installed; the import does not count against time limits."""

    def solve(self, program: Program, limits: SolveLimits, hint: FloatArray | None) -> Outcome:
        """Solve a program, starting from the point ``hint`` (shape (n,)) if supported."""


#: Largest row sum for which a floating-point solver is used on integer programs. Beyond it, HiGHS
#: returns points far from the optimum, reports false infeasibility, and exceeds its time limit.
_FLOAT_REACH = 2.0**28


def require_float_range(form: StandardForm, name: str) -> None:
    """Raise if an integer program has numbers too large for a floating-point solver.

    Raises
    ------
    CapabilityError
        If the sum of a row could reach `_FLOAT_REACH` in absolute value.
    """
    reach = form.row_reach()
    if form.integral.any() and reach >= _FLOAT_REACH:
        what = f"row sums could reach {reach:.1e}, beyond the 2.7e8 that {name} resolves"
        remedy = 'use method="exact" or "cp-sat", or smaller numbers'
        raise CapabilityError("program", what, remedy)


def require_integer_form(form: StandardForm, name: str) -> None:
    """Raise unless all variables are bounded integers and all data are integers.

    Raises
    ------
    CapabilityError
        If they are not; the error names the first column at fault.
    """
    for j, column in enumerate(form.column_names):
        if not form.integral[j]:
            what = f"{name} does not support continuous variables"
            raise CapabilityError(column, what, 'use method="highs"')
        if not (abs(form.lower[j]) < float("inf") and abs(form.upper[j]) < float("inf")):
            raise CapabilityError(
                column, f"{name} does not support unbounded variables", "give it both bounds"
            )
    fractional = (form.matrix.data % 1 != 0).any() or (form.objective % 1 != 0).any()
    if fractional:
        raise CapabilityError(
            "coefficients", f"{name} does not support fractions", "scale them to integers"
        )
