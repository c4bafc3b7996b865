"""The common interface to all programs: build, solve, relaxation, check and write."""

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formulations.deadline import TimeLimit
from formulations.errors import InputError, check_known, with_article
from formulations.problem_data import shown
from formulations.scalars import real

if TYPE_CHECKING:
    from formulations.statement import Statement


@dataclass(frozen=True)
class ProgramKind:
    """One kind of program: the names of its data class, its statement and its solver.

    Parameters
    ----------
    command : str
        Command of `bfio` that reads files of this kind.
    problem, program, solve : str
        ``module:name`` of the data class, of the `Statement` of the program, and of the function
        ``solve(problem, method=..., time_limit=..., seed=...)``.
    methods : tuple of str
        Methods, with ``exact`` first if available; ``pyomo:SOLVER`` is also allowed.
    fields : frozenset of str
        Fields by which a document of this kind is recognised.
    name : str
        Name of the program, if one problem file has several programs; otherwise empty.
    made : str
        ``module:name`` of the function that converts the fluid problem of the file to ``problem``;
        empty if the file holds ``problem`` itself.
    exact : str
        Method that is passed to ``solve`` in place of ``exact``.
    """

    command: str
    problem: str
    program: str
    solve: str
    methods: tuple[str, ...]
    fields: frozenset[str] = frozenset()
    name: str = ""
    made: str = ""
    exact: str = "exact"

    def load(self, what: str) -> Any:
        """Return the object behind ``problem``, ``program``, ``solve`` or ``made``."""
        return _load(getattr(self, what))

    def read(self, document: object) -> Any:
        """Return the problem of a document."""
        if not self.made:
            return self.load("problem").from_mapping(document)
        return self.load("made")(_load(FLUID).from_mapping(document))

    def solved(self, problem: Any, method: str, time_limit: TimeLimit, seed: int) -> Any:
        """Solve a problem by a method and return the result."""
        # An array of one text equals it.
        is_exact = isinstance(method, str) and method == "exact"
        solve, method = self.load("solve"), self.exact if is_exact else method
        return solve(problem, method=method, time_limit=time_limit, seed=seed)

    @property
    def options(self) -> str:
        """Arguments that select this program on the command line; empty for the default."""
        return "" if self.name in ("", FLUID_KINDS[0].name) else f" --program {self.name}"


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return attrgetter(name)(importlib.import_module(module))


_BACKENDS = ("cp-sat", "highs", "pyomo", "brute-force", "lp")
_METHODS = ("exact", *_BACKENDS)
STEP = ProgramKind(
    "solve",
    "formulations.step:StepProblem",
    "formulations.step:StepProgram",
    "bfio.step.solve:solve_step",
    ("exact", "two-stage", *_BACKENDS),
    frozenset({"capacity", "base", "contribution"}),
)
SECOND = ProgramKind(
    "show",
    "formulations.second:SecondProblem",
    "formulations.second:SecondProgram",
    "formulations.second:SecondProgram.solve_by",
    _BACKENDS,
    frozenset({"step", "most"}),
    exact="cp-sat",
)
PAUSING = ProgramKind(
    "pause",
    "formulations.pausing:PausingProblem",
    "formulations.pausing:PausingProgram",
    "bfio.pausing:solve_pausing",
    ("exact", "heuristic", *_BACKENDS),
    frozenset({"capacity", "active", "max_pauses"}),
)
MAKESPAN = ProgramKind(
    "makespan",
    "formulations.hindsight_makespan:MakespanProblem",
    "formulations.hindsight_makespan:MakespanProgram",
    "bfio.hindsight.makespan:solve_makespan",
    _METHODS,
    frozenset({"workers", "slots", "requests"}),
)
LATENCY = ProgramKind(
    "hindsight",
    "formulations.hindsight_latency:LatencyProblem",
    "formulations.hindsight_latency:LatencyProgram",
    "bfio.hindsight.latency:solve_latency",
    _METHODS,
    frozenset({"memory", "requests"}),
)
BATCH = ProgramKind(
    "batch --state",
    "formulations.batch_composition:BatchProblem",
    "formulations.batch_composition:BatchProgram",
    "formulations.batch_composition:solve",
    _METHODS,
    frozenset({"budget", "requests"}),
    exact="auto",
)
_LINEAR = ("exact", "highs", "pyomo", "lp")
CAPACITY = ProgramKind(
    "capacity",
    "formulations.batching:AgentNetwork",
    "formulations.stability:CapacityProgram",
    "formulations.stability:CapacityProgram.solve_by",
    _LINEAR,
    frozenset({"agents", "stages"}),
)
FLUID = "formulations.fluid:FluidProblem"


def _fluid(name: str, methods: tuple[str, ...], **parts: str) -> ProgramKind:
    return ProgramKind("fluid", methods=methods, fields=frozenset({"classes"}), name=name, **parts)


def _linear(name: str, program: str) -> ProgramKind:
    program = f"formulations.fluid:{program}"
    return _fluid(name, _LINEAR, problem=FLUID, program=program, solve=f"{program}.solve_by")


def _thresholds(name: str, made: str) -> ProgramKind:
    home = "formulations.thresholds:"
    return _fluid(
        name,
        _METHODS,
        problem=f"{home}ThresholdProblem",
        program=f"{home}ThresholdProgram",
        solve=f"{home}solve",
        made=f"{home}{made}",
        exact="fixed-point",
    )


#: Programs of a fluid problem and of its WAIT thresholds; the first is the default.
FLUID_KINDS = (
    _linear("throughput", "ThroughputProgram"),
    _linear("margin", "MarginProgram"),
    _linear("equilibrium", "EquilibriumProgram"),
    _thresholds("wait", "WaitProblem"),
    _thresholds("nested", "NestedProblem.from_fluid"),
    _fluid(
        "segments",
        _BACKENDS,
        problem="formulations.thresholds:NestedProblem",
        program="formulations.thresholds:SegmentProgram",
        solve="formulations.thresholds:solve_segments",
        made="formulations.thresholds:NestedProblem.single_from_fluid",
        exact="cp-sat",
    ),
)
#: All kinds, ordered so that the first match is correct: a makespan document may have a memory.
KINDS = (STEP, SECOND, PAUSING, MAKESPAN, LATENCY, BATCH, CAPACITY, *FLUID_KINDS)


def kind_of(document: object, where: str, program: str | None = None) -> ProgramKind:
    """Return the kind of program of a document.

    Raises
    ------
    InputError
        If the document matches none of `KINDS`, or has no program of this name.
    """
    fields = document.keys() if isinstance(document, Mapping) else ()
    kinds = [kind for kind in KINDS if kind.fields <= set(fields)]
    if not kinds:
        named = {kind.command: ", ".join(sorted(kind.fields)) for kind in KINDS}
        wanted = "; ".join(f"{command}: {fields}" for command, fields in named.items())
        raise InputError(where, "no problem with a program", f"give the fields of one ({wanted})")
    return chosen_kind(kinds, program, "--program")


def _kind_for(problem: object, program: str | None) -> ProgramKind:
    kinds = [kind for kind in KINDS if isinstance(problem, kind.load("problem"))]
    if not kinds:
        names = ", ".join(dict.fromkeys(kind.problem.partition(":")[2] for kind in KINDS))
        what = f"{with_article(type(problem).__name__)} is none of {names}"
        raise InputError("problem", what, "see docs/programs.md for the programs of problems")
    return chosen_kind(kinds, program, "program")


def chosen_kind(kinds: Sequence[ProgramKind], program: str | None, where: str) -> ProgramKind:
    """Return the kind named ``program``, by default the first; errors name the place ``where``."""
    if program is None:
        return kinds[0]
    if (names := [kind.name for kind in kinds]) == [""]:
        raise InputError(where, "this problem has one program", "leave it out")
    check_known(where, program, names)
    return kinds[names.index(program)]


def _statement(problem: Any, program: str | None) -> "Statement[Any]":
    from formulations.statement import Statement

    if isinstance(problem, Statement) and program is None:
        return problem
    statement: Statement[Any] = _kind_for(problem, program).load("program")(problem)
    return statement


def build(problem: Any, *, program: str | None = None) -> Any:
    """Return the Pyomo model of a problem, which any solver of Pyomo minimises.

    Parameters
    ----------
    problem : StepProblem, SecondProblem, LatencyProblem, MakespanProblem, PausingProblem, \
            BatchProblem, AgentNetwork, FluidProblem, WaitProblem or NestedProblem
        Data; except in `solve`, a `Statement` of a problem, such as `LimitedProgram`, is allowed.
    program : str, optional
        For a fluid problem ``throughput`` (default), ``margin`` or ``equilibrium``; for a nested
        problem ``nested`` (default) or ``segments``.

    Returns
    -------
    pyomo.environ.ConcreteModel
        The objective is the value of `solve` times `Statement.units`, or its negative if the
        value is maximised. Constraints may be added before the model is passed to `solve`.

    Raises
    ------
    InputError
        If the problem is of another kind, or has no program of this name.
    CapabilityError
        If there is nothing to decide, for example without requests.
    """
    from formulations.exchange.solution import refuse_settled

    statement = _statement(problem, program)
    refuse_settled(statement)
    return statement.model


def solve(
    problem: Any,
    *,
    program: str | None = None,
    method: str = "exact",
    time_limit: TimeLimit = None,
    seed: int = 0,
    model: Any = None,
) -> Any:
    """Solve any problem that has a program.

    Parameters
    ----------
    problem, program
        See `build`.
    method : str
        ``exact`` (this project's own method; CP-SAT or HiGHS where there is none), ``cp-sat``,
        ``highs``, ``pyomo`` or ``pyomo:SOLVER``, ``brute-force`` (tiny problems), ``lp`` (only the
        bound of the linear relaxation); for a step also ``two-stage``, for pausing also
        ``heuristic``. Linear programs accept ``exact``, ``highs``, ``pyomo`` and ``lp``.
    time_limit : float or Deadline, optional
        Wall-clock seconds; no effect on closed forms.
    seed : int
        Random seed of the solver; no effect on closed forms.
    model : pyomo.environ.ConcreteModel, optional
        The model of `build` with constraints added or another objective (`formulations.changed`);
        not for pausing and linear programs.

    Returns
    -------
    ProgramResult, PausingResult or FluidResult
        Optimal only if a bound derived in integers or fractions equals the objective.

    Raises
    ------
    InputError
        If the problem is of another kind, or the method is unknown.
    """
    kind = _kind_for(problem, program)
    if model is None:
        return kind.solved(problem, method, time_limit, seed)
    from formulations.changed import solve_changed
    from formulations.formulation import Formulation

    statement = kind.load("program")(problem)
    if not isinstance(statement, Formulation):
        name = with_article(type(problem).__name__)
        what = f"{name} is not solved from one model, so it takes no changed model"
        raise InputError("model", what, "leave it out")
    return solve_changed(statement, model, method, time_limit=time_limit, seed=seed)


def relaxation(
    problem: Any, *, program: str | None = None, time_limit: float | None = None
) -> float | None:
    """Return the value of the linear relaxation, computed by HiGHS in floats.

    The relaxation bounds the value of `solve` from below, or from above if the value is maximised.
    A float proves nothing; method ``lp`` of `solve` returns the bound and whether it is proven.

    Parameters
    ----------
    problem, program
        See `build`.
    time_limit : float, optional
        Seconds for HiGHS.

    Returns
    -------
    float, optional
        In the unit of the result of `solve`; None if time ran out or there is no solution.
    """
    statement = _statement(problem, program)
    value = statement.relaxation_value(time_limit=time_limit)
    if value is None:
        return None
    return -value if statement.maximised else value / statement.value_units


def value_of(result: Any) -> Any:
    """Return the objective of a result of `solve`, or the value of a linear program."""
    return result.value if hasattr(result, "value") else result.objective


def check(
    problem: Any, solution: Any, value: Any = None, *, program: str | None = None
) -> Mapping[str, Any]:
    """Check a solution by the problem's checker, which uses only the data, not the program.

    Parameters
    ----------
    problem, program
        See `build`.
    solution
        A result of `solve`, or the ``solution`` of a result. The value of a result is checked too.
    value : int or Fraction, optional
        A claimed value, compared with the recomputed one.

    Returns
    -------
    mapping
        Each violated constraint and the amount; empty for a feasible solution.

    Raises
    ------
    InputError
        If the solution is None or has another form than those of the problem, the result has
        none, or the value is no number.
    """
    from formulations.results import Solved

    if isinstance(solution, Solved):
        value, solution = value_of(solution) if value is None else value, solution.solution
    if solution is None:
        raise InputError("solution", "there is none", "give a result of solve with a solution")
    if value is not None and _is_nan(real(value, "value")):
        raise InputError("value", "NaN is no number", "give the value of a result")
    statement = _statement(problem, program)
    try:
        return statement.violations(_plain(solution), value)
    except InputError:
        raise
    except (TypeError, ValueError, LookupError):
        what = f"{shown(solution)} is not a solution of this problem"
        raise InputError("solution", what, "give the solution of a result") from None


def _plain(solution: Any) -> Any:
    """Return a solution with numpy's arrays and numbers as Python's, which checkers require."""
    if hasattr(solution, "tolist"):
        solution = solution.tolist()
    if _is_nan(solution):
        raise ValueError("NaN would violate nothing")
    return tuple(map(_plain, solution)) if type(solution) in (list, tuple) else solution


def _is_nan(part: Any) -> bool:
    return isinstance(part, float) and math.isnan(part)


def write(
    problem: Any, file: str | Path, *, program: str | None = None, overwrite: bool = False
) -> dict[str, object]:
    """Write the program of a problem as an LP or MPS file for other solvers.

    Parameters
    ----------
    problem, program
        See `build`.
    file : str or Path
        Name that ends with ``.lp`` or ``.mps``.
    overwrite : bool
        Whether an existing file is replaced.

    Returns
    -------
    dict
        Sizes, source and digest of the program, and ``multiplier``: the value of the model is
        ``multiplier`` times the objective in the file.

    Raises
    ------
    InputError
        If the file exists or has another suffix.
    CapabilityError
        If there is nothing to decide, or the program is too large.
    """
    statement = _statement(problem, program)
    back = "bfio.check(problem, solution)"
    if statement is not problem and (kind := _kind_for(problem, program)) is not SECOND:
        back = f"bfio {kind.command} PROBLEM.json{kind.options} --read-solution SOLUTION"
    return write_statement(statement, file, back, overwrite=overwrite)


def write_statement(
    statement: "Statement[Any]", file: str | Path, back: str, *, overwrite: bool
) -> dict[str, Any]:
    """Write a program as `write` does; ``back`` is the call or command that checks a solution."""
    from bfio.common.files import atomic_file, file_path
    from bfio.common.provenance import version_and_commit
    from formulations.exchange import FORMATS, exact_program, program_text
    from formulations.exchange.program_file import head

    path = file_path(file, "file")
    format_ = path.suffix[1:].lower()
    if format_ not in FORMATS:
        raise InputError(str(file), "has no known suffix", "use .lp or .mps")
    words, program = statement.words, exact_program(statement)
    version, digest = version_and_commit(), statement.problem.digest()
    comments = head(
        program,
        words,
        digest=digest,
        version=version,
        back=back,
        criterion=str(getattr(statement.problem, "objective", "")),
        groups=statement.groups(),
        prices=statement.told_prices(),
    )
    with atomic_file(path, overwrite=overwrite) as (stream, _):
        for line in program_text(program, format_, comments):
            stream.write(f"{line}\n".encode("ascii", "replace"))
    return {
        "written": str(path),
        "format": format_,
        "program": words.title,
        "source": words.source,
        "digest": digest,
        "columns": len(program.column_names),
        "rows": len(program.row_names),
        "entries": program.num_entries,
        "multiplier": str(program.multiplier),
        "constant": program.constant,
        "version": version,
    }
