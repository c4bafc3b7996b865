"""The programs that `bfio.solve` and ``bfio show`` handle, by kind of problem."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from formulations.deadline import TimeLimit
from formulations.errors import InputError


@dataclass(frozen=True)
class ProgramKind:
    """One kind of problem: where its data, its statement and its solver stand.

    Parameters
    ----------
    command : str
        Command of `bfio` that solves a file of it.
    problem, program, solve : str
        ``module:name`` of the `ProblemData`, of its `Formulation`, and of the function
        ``solve(problem, method=..., time_limit=..., seed=..., model=...)``.
    methods : tuple of str
        Methods, ``exact`` first; ``pyomo:SOLVER`` besides.
    fields : frozenset of str
        Fields by which a document of this kind is recognised.
    shown : str
        ``module:name`` of a function from the problem to the program that is shown, if it differs.
    """

    command: str
    problem: str
    program: str
    solve: str
    methods: tuple[str, ...]
    fields: frozenset[str] = frozenset()
    shown: str = ""

    def load(self, what: str) -> Any:
        """Return the object behind ``problem``, ``program``, ``solve`` or ``shown``."""
        module, _, name = getattr(self, what).partition(":")
        return attrgetter(name)(importlib.import_module(module))


_METHODS = ("exact", "cp-sat", "highs", "pyomo", "brute-force", "lp")
STEP = ProgramKind(
    "solve",
    "formulations.step:StepProblem",
    "formulations.step:StepProgram",
    "bfio.step.solve:solve_step",
    ("exact", "two-stage", *_METHODS[1:]),
    frozenset({"capacity", "base", "contribution"}),
)
LATENCY = ProgramKind(
    "hindsight",
    "formulations.hindsight_latency:LatencyProblem",
    "formulations.hindsight_latency:LatencyProgram",
    "bfio.hindsight.latency:solve_latency",
    _METHODS,
    frozenset({"memory", "requests"}),
)
MAKESPAN = ProgramKind(
    "makespan",
    "formulations.hindsight_makespan:MakespanProblem",
    "formulations.hindsight_makespan:MakespanProgram",
    "bfio.hindsight.makespan:solve_makespan",
    _METHODS,
    frozenset({"workers", "slots", "requests"}),
)
#: Solved by a sequence of programs that differ in the price of a token; the first one is shown.
PAUSING = ProgramKind(
    "pause",
    "formulations.pausing:PausingProblem",
    "",
    "bfio.pausing:solve_pausing",
    ("exact", "heuristic", *_METHODS[1:-1]),
    frozenset({"capacity", "active", "max_pauses"}),
    "formulations.pausing.solver:first_priced",
)
FLUID = ProgramKind(
    "fluid",
    "formulations.fluid:FluidProblem",
    "",
    "formulations.fluid.solver:solve_fluid",
    ("exact", "highs", "pyomo"),
    frozenset({"classes"}),
    "formulations.fluid.solver:ThroughputProgram",
)
#: The kinds, those with the most fields first: a makespan document may have a memory, too.
KINDS = (STEP, PAUSING, MAKESPAN, LATENCY, FLUID)


def kind_of(document: object, where: str) -> ProgramKind:
    """Return the kind of problem in a document.

    Raises
    ------
    InputError
        If it is none of `KINDS`.
    """
    if isinstance(document, Mapping):
        for kind in KINDS:
            if kind.fields <= document.keys():
                return kind
    wanted = "; ".join(f"{kind.command}: {', '.join(sorted(kind.fields))}" for kind in KINDS)
    raise InputError(where, "no problem with a program", f"give the fields of one ({wanted})")


def solve(
    problem: Any,
    *,
    method: str = "exact",
    time_limit: TimeLimit = None,
    seed: int = 0,
    model: Any = None,
) -> Any:
    """Solve any problem that has a file: a step, hindsight, pausing or fluid problem.

    Parameters
    ----------
    problem : StepProblem, LatencyProblem, MakespanProblem, PausingProblem or FluidProblem
        Data. Of a fluid problem, the throughput is maximised.
    method : str
        ``exact``, ``cp-sat``, ``highs``, ``pyomo`` or ``pyomo:SOLVER``, ``brute-force`` (tiny
        problems), ``lp`` (the bound of the linear relaxation); for a step also ``two-stage``, for
        pausing also ``heuristic`` (and no ``lp``). Of a fluid problem ``exact``, ``highs`` and
        ``pyomo``.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    seed : int
        Random seed of the solver.
    model : pyomo.environ.ConcreteModel, optional
        The statement of ``build(problem)`` with rows added, or another objective
        (`formulations.changed`); not for pausing and fluid problems.

    Returns
    -------
    ProgramResult, PausingResult or AdmissionResult
        Optimal only if a bound derived in integers equals the objective.

    Raises
    ------
    InputError
        If the problem is of another kind, or the method is unknown.
    """
    for kind in KINDS:
        if isinstance(problem, kind.load("problem")):
            given = {"method": method, "time_limit": time_limit, "seed": seed}
            if kind.program:
                given["model"] = model
            elif model is not None:
                what = f"a {type(problem).__name__} is not solved from one model"
                raise InputError("model", what, "leave it out")
            return kind.load("solve")(problem, **given)
    names = ", ".join(kind.problem.partition(":")[2] for kind in KINDS)
    what = f"a {type(problem).__name__} is none of {names}"
    raise InputError("problem", what, "see docs/step.md for the functions of other problems")
