"""The backend for any solver that Pyomo supports; it solves the Pyomo model itself."""

import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.interface import Outcome, Program, SolveLimits, require_float_range
from formulations.deadline import GUROBI_UNIT, NODE, Deadline, count_within
from formulations.errors import CapabilityError, use_one_of
from formulations.results import BoundKind, Termination

#: Order in which solvers are tried if none is named; HiGHS, which has its own backend, is last.
PREFERRED = ("scip_direct", "gurobi_direct", "highs")


class PyomoSolver:
    """The backend ``pyomo`` (first installed solver) or ``pyomo:NAME`` (the named solver).

    Parameters
    ----------
    solver : str, optional
        Pyomo's name of the solver; by default the first of `PREFERRED` that is installed.
    """

    continuous = True

    def __init__(self, solver: str | None = None) -> None:
        self.solver = solver
        self.name = "pyomo" if solver is None else f"pyomo:{solver}"

    def available(self) -> bool:
        """Return whether Pyomo is installed."""
        return importlib.util.find_spec("pyomo") is not None

    def load(self) -> None:
        """Import Pyomo and its solver."""
        self._opened()

    def solve(self, program: Program, limits: SolveLimits, hint: FloatArray | None) -> Outcome:
        """Solve the Pyomo model; hint and seed are ignored."""
        solver = self._opened()
        require_float_range(program.standard_form, self.name)
        _limit(solver, limits.deadline)
        solver.config.threads = limits.threads
        if limits.work_limit is not None:
            solver.config.solver_options.update(self._work_options(solver, limits.work_limit))
        # Load the solution only after checking the status: Pyomo raises if there is none.
        solver.config.load_solutions = False
        solver.config.raise_exception_on_nonoptimal_result = False
        model = program.model
        began = time.perf_counter()
        with _objective_scaled(model, program) as factor:
            results = solver.solve(model)
        seconds = time.perf_counter() - began
        in_hand = results.incumbent_objective is not None
        if in_hand:
            results.solution_loader.load_vars()
        if results.termination_condition.name == "interrupted":
            # SCIP has caught the Ctrl-C, so raise it again for the caller.
            if in_hand and limits.found is not None:
                limits.found(_values(model, program))
            raise KeyboardInterrupt
        return Outcome(
            termination=_TERMINATIONS.get(results.termination_condition.name, Termination.FAILED),
            values=_values(model, program) if in_hand else None,
            bound=_finite(results.objective_bound, factor),
            bound_kind=BoundKind.FLOAT,
            seconds=seconds,
            details={
                "name": results.solver_name,
                "version": ".".join(str(part) for part in results.solver_version or ()),
                "interface": "pyomo",
                "status": results.termination_condition.name,
            },
        )

    def _work_options(self, solver: Any, work_limit: int) -> dict[str, object]:
        """Return the solver options that set a work limit in ticks."""
        kind = type(solver).__name__.lower()
        for name, options in _WORK_OPTIONS.items():
            if kind.startswith(name):
                return options(work_limit)
        what = f"bfio cannot set a work limit for {kind}"
        raise CapabilityError(self.name, what, "give time_limit=SECONDS instead")

    def _opened(self) -> Any:
        known = _known()
        if self.solver is not None and self.solver not in known:
            remedy = f"{use_one_of(self.solver, known)}; installed: {_installed_names()}"
            raise CapabilityError(self.name, "Pyomo has no solver of this name", remedy)
        for name in (self.solver,) if self.solver else PREFERRED:
            solver = _factory()(name)
            if solver is not None and solver.available():
                return solver
        remedy = f"use an installed solver ({_installed_names()}), or e.g. pip install pyscipopt"
        raise CapabilityError(self.name, "the solver is not installed", remedy)


def _limit(solver: Any, deadline: Deadline) -> None:
    """Count Pyomo's translation of the model against the time limit of the solver."""
    solver.config.time_limit = deadline.left_or_none
    if deadline.left_or_none is None:
        return
    # Steps of Pyomo's interfaces to SCIP and Gurobi, and to HiGHS; others have neither.
    translate, solve = (getattr(solver, n, None) for n in ("_create_solver_model", "_solve"))
    if translate is not None:

        def translated(model: Any, config: Any) -> Any:
            with deadline.interrupting():
                made = translate(model, config)
            config.time_limit = deadline.left
            return made

        vars(solver)["_create_solver_model"] = translated
    elif solve is not None:

        def solved() -> Any:
            vars(solver)["_active_config"].time_limit = deadline.left
            return solve()

        vars(solver)["_solve"] = solved


#: Solver options that set a work limit, by prefix of Pyomo's class name.
_WORK_OPTIONS: dict[str, Callable[[int], dict[str, object]]] = {
    "gurobi": lambda work_limit: {"WorkLimit": work_limit / GUROBI_UNIT},
    "highs": lambda work_limit: {"mip_max_nodes": count_within(work_limit, NODE)},
    "scip": lambda work_limit: {"limits/totalnodes": count_within(work_limit, NODE)},
}


def installed_solvers() -> dict[str, bool]:
    """Return whether each solver that Pyomo supports is installed, by Pyomo's name."""
    factory = _factory()
    return {name: bool(factory(name).available()) for name in _known()}


def _known() -> list[str]:
    return [name for name in _factory() if name != "ipopt"]


def _factory() -> Any:
    """Return Pyomo's solver factory."""
    # This import registers the solvers.
    import formulations.modelling  # noqa: F401  # isort: skip
    from pyomo.contrib.solver.common.factory import SolverFactory

    return SolverFactory


def _installed_names() -> str:
    return ", ".join(name for name, is_there in installed_solvers().items() if is_there) or "none"


_TERMINATIONS = {
    "convergenceCriteriaSatisfied": Termination.OPTIMAL,
    "provenInfeasible": Termination.INFEASIBLE,
    "infeasibleOrUnbounded": Termination.INFEASIBLE,
    "maxTimeLimit": Termination.TIME_LIMIT,
    "iterationLimit": Termination.WORK_LIMIT,
}


@contextmanager
def _objective_scaled(model: Any, program: Program) -> Iterator[float]:
    """Divide the objective by its largest coefficient inside the block; yield this factor.

    SCIP 10 has pruned optima of step programs with weights 10^6 and 428571, and reported values
    0.1 % above them as optimal; with coefficients of at most 1 it did not.
    """
    from pyomo.environ import Objective

    factor = float(np.abs(program.standard_form.objective).max(initial=0.0)) or 1.0
    objectives = list(model.component_data_objects(Objective, active=True))
    stated = [objective.expr for objective in objectives]
    for objective, expression in zip(objectives, stated, strict=True):
        objective.expr = expression / factor
    yield factor
    for objective, expression in zip(objectives, stated, strict=True):
        objective.expr = expression


def _finite(bound: float | None, factor: float) -> float | None:
    # SCIP's infinity is 1e20.
    return None if bound is None or not abs(bound) < 1e20 else factor * bound


def _values(model: Any, program: Program) -> FloatArray:
    """Return the variable values in the column order of the standard form."""
    from pyomo.environ import Var

    values = {variable.name: variable.value for variable in model.component_data_objects(Var)}
    # A variable in no row has no value; any value within its bounds is valid, so use 0.
    return np.array([values[name] or 0.0 for name in program.standard_form.column_names])
