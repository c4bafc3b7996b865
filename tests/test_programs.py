"""One face of all programs: build, solve, relaxation, check, write, show; one document of each."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyomo.contrib.solver.common.factory import SolverFactory
from pyomo.environ import Constraint, value

import bfio
from bfio.cli import main
from bfio.programs import KINDS, kind_of
from formulations.changed import ChangedProgram
from formulations.errors import CapabilityError, InputError
from formulations.fluid import (
    FluidProblem,
    FluidWorker,
    LimitedProgram,
    RateProfile,
    ServiceLimits,
    equilibrium,
    solve_equilibrium,
)
from formulations.formulation import Formulation
from formulations.linear_program import LinearProgram
from formulations.pausing import PricedProgram
from formulations.statement import Statement
from formulations.thresholds import TimeVaryingProblem
from tests.places import ROOT

REQUESTS = [{"arrival": 0, "prompt": 3, "output": 2}, {"arrival": 1, "prompt": 1, "output": 3}]
STEP = {"capacity": [1, 0, 2], "base": [[100], [250], [90]], "contribution": [[30], [75]]}
CLASSES = [{"rate": 1, "prompt": 1, "output": 1}, {"rate": 1, "prompt": 1, "output": 2}]
FLUID = {"classes": CLASSES, "d0": "1/2", "d1": "1/18", "memory": 9}
ONE = Fraction(1)
#: A problem of each kind, its optimum by hand, and a solution that is infeasible.
CASES: dict[str, tuple[dict[str, Any], float, Any]] = {
    # Three workers of 205, 250 and 90 + 30 tokens, or 130, 250 and 165: 750 - 575 or 750 - 545.
    "solve": (STEP, 205, (1, 0)),
    # Both start, which costs 1 + 2. Worker 0 has 200 in the window, and no room under the peak of
    # 250 for 75 tokens: 750 - 645.
    "show": (
        {
            "step": STEP,
            "most": 205,
            "cost": [1, 2],
            "window": STEP | {"base": [[200], [250], [90]]},
        },
        108,
        (1, 0),
    ),
    # Both fit at once: each waits for nothing.
    "hindsight": ({"memory": 20, "requests": REQUESTS}, 5, (0, 0)),
    "makespan": (
        {"workers": 2, "slots": 1, "requests": REQUESTS, "objective": "latency"},
        5,
        ((0, 0), (0, 1)),
    ),
    # Of 4 + 5 and 6 + 20 tokens the last rests: 5 + 12/2 s for 4 tokens.
    "pause": (
        {
            "capacity": [1, 0],
            "active": [
                {"worker": 0, "load": 4},
                {"worker": 0, "load": 5},
                {"worker": 1, "load": 6},
                {"worker": 1, "load": 20},
            ],
            "waiting": [3],
            "max_pauses": 2,
            "step_overhead": 5,
            "token_time": "1/2",
        },
        2.75,
        ((True, True, True, False), (1,)),
    ),
    # A decode token is worth 3, two prompt tokens that end a prompt 2 + 4.
    "batch --state": (
        {
            "budget": 3,
            "requests": [
                {"prefill": 2, "decode": 1, "finish_bonus": 4},
                {"prefill": 0, "decode": 2, "weight": 3},
                {"prefill": 5, "decode": 1, "weight": 2},
            ],
        },
        -9,
        ((2, 0, 1), (0, 1, 0)),
    ),
    # Batches of 10 tokens in a slot, for tasks of 5.
    "capacity": (
        {
            "agents": [{"name": "gpu", "budget": 10, "overhead": 1}],
            "stages": [{"agent": "gpu", "prefill": 1, "decode": 4, "rate": 1}],
        },
        2,
        (3 * ONE,),
    ),
    # The load fits: (1 + 1) + (2 + 1) stages per second; its equilibrium is the whole memory.
    "throughput": (FLUID, 5, ((2 * ONE,), (ONE,))),
    "margin": (FLUID, 1, ((2 * ONE,), (ONE,))),
    "equilibrium": (FLUID, 9, ((ONE, ONE), 2 * ONE)),
    # One of each, 3 + 6 tokens, takes 1/2 + 9/18 = 1 s, in which one of each arrives.
    "wait": (FLUID, 9, (1, 0)),
    # n = (3, 2) takes 1/2 + 15/18 < 3/2 s; n_1 = 2 takes more than 1 s.
    "nested": (FLUID, 15, (2, 2)),
    # The same and 2 requests that wait with 2 tokens; one segment needs 4 of 6 tokens.
    "segments": (FLUID, 19, ((2, 2), (1, 2))),
}
BY_NAME = {kind.name or kind.command: kind for kind in KINDS}
OPTIMUM = {name: optimum for name, (_, optimum, _) in CASES.items()}


def problem_of(name: str) -> tuple[Any, str | None]:
    """Return the problem of a kind and the name of its program."""
    kind = BY_NAME[name]
    return kind.read(CASES[name][0]), kind.name or None


def solved(name: str, **how: Any) -> Any:
    """Return the result of the problem of a kind."""
    problem, program = problem_of(name)
    return bfio.solve(problem, program=program, **how)


def _value(result: Any) -> float:
    return float(result.value if hasattr(result, "value") else result.objective)


def _units(name: str) -> int:
    problem, _ = problem_of(name)
    return problem.scale if name == "pause" else 1


def test_every_kind_is_here() -> None:
    """Each kind has a document, by whose fields it is recognised."""
    assert set(BY_NAME) == set(CASES)
    for name, kind in BY_NAME.items():
        assert kind_of(CASES[name][0], "", kind.name or None) is kind


def test_every_program_has_a_kind() -> None:
    """No stated program is without a face, but for parts of others and what users change."""

    def below(family: Any) -> set[Any]:
        subclasses: set[Any] = set(family.__subclasses__())
        return subclasses.union(*map(below, subclasses))

    for package in (ROOT / "formulations").glob("*/solver.py"):
        import_module(f"formulations.{package.parent.name}.solver")
    stated = {found for found in below(Statement) if found.__module__.startswith("formulations.")}
    # Limits on latency stand in no file of a fluid problem.
    parts = {Formulation, LinearProgram, PricedProgram, ChangedProgram, LimitedProgram}
    assert stated - parts == {kind.load("program") for kind in KINDS}


@pytest.mark.parametrize("name", CASES)
def test_solve_and_short_texts(name: str) -> None:
    """`bfio.solve` finds the optimum; its repr and HTML are short, and the status is in words."""
    result = solved(name)
    assert (result.status, _value(result)) == ("optimal, proven", OPTIMUM[name])
    assert result.proof
    assert len(str(result)) < 150
    assert "optimal, proven" in repr(result)
    assert "optimal, proven" in result._repr_html_()
    assert len(result.summary().splitlines()) <= 10


@pytest.mark.parametrize("name", CASES)
def test_the_statement_has_the_value_of_solve(name: str) -> None:
    """A solver of Pyomo minimises the model of `build`, which is negative where one maximises."""
    problem, program = problem_of(name)
    model = bfio.build(problem, program=program)
    SolverFactory("highs").solve(model)
    sign = -1 if BY_NAME[name].load("program").maximised else 1
    reached = sign * value(model.objective) / _units(name)
    assert reached == pytest.approx(OPTIMUM[name], rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_relaxation_and_lp_bound_the_optimum(name: str) -> None:
    """From below, or from above where one maximises; ``lp`` claims no optimum of integers."""
    problem, program = problem_of(name)
    relaxed = bfio.relaxation(problem, program=program)
    assert relaxed is not None
    bounded = solved(name, method="lp")
    statement = BY_NAME[name].load("program")
    for bound in (relaxed, float(bounded.bound)):
        if statement.maximised:
            assert bound >= OPTIMUM[name] - 1e-6
        else:
            assert bound <= OPTIMUM[name] + 1e-6
    is_linear = issubclass(statement, LinearProgram)
    assert bounded.status == ("optimal, proven" if is_linear else "bound only")
    # The integer bound is at least the value of the relaxation, rounded up.
    assert is_linear or name == "pause" or bounded.bound >= math.ceil(relaxed - 1e-6)


@pytest.mark.parametrize("suffix", ["lp", "mps"])
@pytest.mark.parametrize("name", CASES)
def test_highs_reads_what_is_written(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the optimum, up to the multiplier; the command takes its solution back."""
    import highspy

    problem, program = problem_of(name)
    told = bfio.write(problem, tmp_path / f"p.{suffix}", program=program)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(tmp_path / f"p.{suffix}")) == highspy.HighsStatus.kOk
    highs.run()
    reached = float(Fraction(str(told["multiplier"]))) * highs.getObjectiveValue()
    assert reached == pytest.approx(OPTIMUM[name], rel=1e-6)
    if name != "show":
        monkeypatch.chdir(tmp_path)
        highs.writeSolution("p.sol", 0)
        Path("p.json").write_text(json.dumps(CASES[name][0]))
        chosen = ["--program", program] if program else []
        command = [*BY_NAME[name].command.split(), "p.json", *chosen]
        assert main([*command, "--read-solution", "p.sol"]) == 0
    with pytest.raises(InputError, match="exists"):
        bfio.write(problem, tmp_path / f"p.{suffix}", program=program)


@pytest.mark.parametrize("name", CASES)
def test_the_checker_takes_the_answer_and_refuses_another(name: str) -> None:
    """A wrong solution is refused, and a value that the right one does not have."""
    problem, program = problem_of(name)
    result = solved(name)
    assert bfio.check(problem, result, program=program) == {}
    assert bfio.check(problem, result.solution, program=program) == {}
    assert bfio.check(problem, CASES[name][2], program=program)
    better = _value(result) + (1 if BY_NAME[name].load("program").maximised else -1)
    assert bfio.check(problem, result.solution, Fraction(better), program=program)
    assert bfio.check(problem, _arrays(result.solution), program=program) == {}
    with pytest.raises(InputError, match="value: expected a number, found '5'"):
        bfio.check(problem, result.solution, "5", program=program)
    with pytest.raises(InputError, match="solution: 7 is not a solution of this problem"):
        bfio.check(problem, 7, program=program)
    with pytest.raises(InputError, match="value: NaN is no number"):
        bfio.check(problem, result.solution, math.nan, program=program)
    with pytest.raises(InputError, match="is not a solution of this problem"):
        bfio.check(problem, _without_numbers(result.solution), program=program)


@pytest.mark.parametrize("name", CASES)
def test_the_checker_refuses_parts_too_many(name: str) -> None:
    """A solution with one more entry anywhere violates something, or is none."""
    problem, program = problem_of(name)
    for longer in _longer(solved(name).solution):
        with suppress(InputError):
            assert bfio.check(problem, longer, program=program), longer


def _longer(part: Any) -> Iterator[Any]:
    """Yield a solution with one entry more, in each of its tuples."""
    if isinstance(part, tuple):
        yield from ((*part, more) for more in (*part[-1:], 0, None, ()))
        for k, inner in enumerate(part):
            yield from ((*part[:k], longer, *part[k + 1 :]) for longer in _longer(inner))


def _without_numbers(part: Any) -> Any:
    """Return a solution with NaN in place of its first number."""
    return (_without_numbers(part[0]), *part[1:]) if isinstance(part, tuple) else math.nan


def _arrays(part: tuple[Any, ...]) -> Any:
    """Return a solution in arrays, as a solver of one's own in numpy gives it."""
    if any(isinstance(each, tuple) for each in part):
        return [_arrays(each) if isinstance(each, tuple) else each for each in part]
    return np.array(part)


@pytest.mark.parametrize(
    "name", ["solve", "show", "hindsight", "makespan", "batch --state", "wait"]
)
def test_a_model_with_a_row_of_ones_own(name: str) -> None:
    """Every integer program takes a changed model: below its optimum there is nothing."""
    problem, _ = problem_of(name)
    model = bfio.build(problem)
    assert bfio.solve(problem, method="cp-sat", model=model).objective == OPTIMUM[name]
    model.below = Constraint(expr=model.objective.expr <= OPTIMUM[name] - 1)
    assert bfio.solve(problem, method="cp-sat", model=model).status == "infeasible"


@pytest.mark.parametrize("name", CASES)
def test_show(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``bfio show`` prints sizes, and value, bound, proof and time of every method, on a page."""
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text(json.dumps(CASES[name][0]))
    kind = BY_NAME[name]
    chosen = ["--program", kind.name] if kind.name else []
    assert main(["show", "p.json", *chosen]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 60
    assert "None" not in out
    assert "constraints (" in out
    # Each family of rows is explained.
    _, _, after = out.partition("constraints (")
    rows = after.partition("\n")[2].partition("Answers")[0].strip().splitlines()
    assert all(len(row.split()) > 3 for row in rows)
    for method in kind.methods:
        assert f"│ {method} " in out
    assert "proof of " in out
    assert f"best: {OPTIMUM[name]:g} by {kind.methods[0]}" in out
    # A program says what it minimises or maximises, and the values have that sign.
    (goal,) = (line for line in out.splitlines() if line.startswith(("minimise  ", "maximise  ")))
    assert ("the negative of" in goal) == (OPTIMUM[name] < 0)
    assert "fewest requests" not in goal


def test_the_limited_program_has_the_face_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A statement stands for its problem: `write`, `relaxation`, `check`; ``show`` takes limits.

    ``--program`` is read without ``--write`` too, and errors of the file name it.
    """
    monkeypatch.chdir(tmp_path)
    document = CASES["throughput"][0]
    Path("p.json").write_text(json.dumps(document))
    program = LimitedProgram(FluidProblem.from_mapping(document), ServiceLimits(Fraction(3)))
    best = program.solved()
    assert best.value is not None
    assert bfio.write(program, "p.mps")["columns"] == len(program.linear.columns)
    relaxed = bfio.relaxation(program)
    assert relaxed is not None
    assert relaxed >= best.value
    assert bfio.check(program, best.admitted, best.value) == {}
    assert bfio.check(program, [3 * x for x in best.admitted])
    assert main(["show", "p.json", "--latency", "3", "--methods", "exact,highs"]) == 0
    out = capsys.readouterr().out
    assert "limits" in out
    assert f"best: {float(best.value):g} by exact" in out
    assert "refused: highs does not solve the limited program" in out
    assert main(["fluid", "p.json", "--program", "margins"]) == 2
    assert "--program: 'margins' is unknown; did you mean margin" in capsys.readouterr().err
    Path("p.json").write_text(json.dumps(document | {"workers": 2}))
    for command in ("fluid", "show"):
        assert main([command, "p.json", "--latency", "3"]) == 2
        assert "p.json: workers: found 2; give one worker" in capsys.readouterr().err


def test_an_infeasible_relaxation_is_infeasible() -> None:
    """Once CP-SAT confirms HiGHS's claim, ``lp`` says infeasible, with the proof."""
    problem, _ = problem_of("solve")
    model = bfio.build(problem)
    model.below = Constraint(expr=model.objective.expr <= -1)
    result = bfio.solve(problem, method="lp", model=model)
    assert (result.status, result.bound) == ("infeasible", None)
    assert "CP-SAT" in result.proof


def test_show_goes_on_where_a_method_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a program too large to be stated, the other methods answer; the reason is one line."""
    monkeypatch.chdir(tmp_path)
    document = {"capacity": [1] * 500, "active": [{"worker": 0, "load": 3}]}
    document |= {"waiting": [2] * 8001, "max_pauses": 2, "step_overhead": 1, "token_time": 1}
    Path("p.json").write_text(json.dumps(document))
    assert main(["show", "p.json", "--methods", "heuristic,highs,brute-force,lp"]) == 0
    out = capsys.readouterr().out
    assert "The program is not written: about 52006512 nonzeros are more than" in out
    rows = {row.split()[1]: row for row in out.splitlines() if row.startswith("│")}
    for method in ("highs", "lp"):
        assert "refused: about" in rows[method]
    assert "refused: more than 1,000,000 solutions to enumerate" in rows["brute-force"]
    assert "feasible" in rows["heuristic"]


def test_what_the_face_refuses() -> None:
    """No kind, an unknown method or program, or a model where there is none, is one line."""
    with pytest.raises(InputError, match="an int is none of StepProblem"):
        bfio.solve(3)
    for name in ("pause", "capacity", "throughput"):
        with pytest.raises(InputError, match="is not solved from one model"):
            solved(name, model=object())
    for name in CASES:
        with pytest.raises(InputError) as error:
            solved(name, method="nope")
        assert "\n" not in str(error.value)
    problem, _ = problem_of("margin")
    with pytest.raises(InputError, match="'wait' is unknown; use one of throughput, margin"):
        bfio.build(problem, program="wait")
    with pytest.raises(InputError, match="this problem has one program; leave it out"):
        bfio.build(problem_of("solve")[0], program="margin")
    with pytest.raises(InputError, match="--program: 'margins' is unknown; did you mean margin"):
        kind_of(FLUID, "", "margins")
    with pytest.raises(InputError, match="there is none"):
        bfio.check(problem_of("solve")[0], solved("solve", method="lp"))
    with pytest.raises(CapabilityError, match="nothing to decide"):
        bfio.build(problem_of("solve")[0].from_mapping(STEP | {"contribution": []}))


def test_rates_that_vary_have_no_linear_program() -> None:
    """Their thresholds are solved by iteration, and checked; the statement says what to use."""
    profile = RateProfile((0, 2), ((1, 2), (2, 1)), 4)  # type: ignore[arg-type]
    worker = FluidWorker(Fraction(1, 2), Fraction(1, 100), 99)
    problem = TimeVaryingProblem(1, (1, 2), profile, worker)
    result = bfio.solve(problem)
    assert result.is_optimal
    assert bfio.check(problem, result) == {}
    with pytest.raises(CapabilityError, match="time-varying rates have no linear program"):
        bfio.build(problem)


def test_the_equilibrium_uses_the_memory() -> None:
    """A memory below the equilibrium of 9 tokens is told, by closed form and program."""
    for memory, fits in ((4, False), (8, False), (9, True)):
        problem = FluidProblem.from_mapping(FLUID | {"memory": memory})
        state = equilibrium(problem.classes, problem.workers[0])
        answer = solve_equilibrium(problem)
        assert state.memory == 9
        assert (state.fits, answer.fits) == (fits, fits)
        told = "fits" if fits else "exceeds the memory"
        assert told in repr(state)
        assert told in repr(answer)
