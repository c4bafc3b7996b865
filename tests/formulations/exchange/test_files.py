"""Files hold the program that was stated, number by number, and other solvers find its optimum."""

import tracemalloc
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.testing.instances import (
    fluid_problems,
    latency_problems,
    makespan_problems,
    step_problem,
    step_problems,
)
from formulations.errors import CapabilityError
from formulations.exchange import ExactProgram, file_name, of_linear, program_text
from formulations.exchange.program_file import CONSTANT, FORMATS, head
from formulations.exchange.solution import exact_program, judge, parse_solution
from formulations.fluid import FluidProblem, knapsack
from formulations.fluid.programs import build_throughput as throughput
from formulations.formulation import Formulation
from formulations.hindsight_latency import LatencyProgram
from formulations.hindsight_makespan import MakespanProgram
from formulations.linear import exact_linear
from formulations.step import StepProblem, StepProgram
from formulations.words import Words

STEP = step_problem(
    [1, 0, 2],
    [[100, 101], [250, 251], [90, 91]],
    [[30, 31], [75, 76], [20, 21], [50, 51]],
    discount=["1", "9/10"],
)
formats = st.sampled_from(sorted(FORMATS))


def _written(program: ExactProgram, format_: str, comments: Iterable[str], folder: str) -> str:
    path = Path(folder) / f"p.{format_}"
    path.write_text("".join(f"{line}\n" for line in program_text(program, format_, comments)))
    return str(path)


def _read_by_highs(path: str) -> Any:
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(path) == highspy.HighsStatus.kOk
    return solver


def _assert_same(program: ExactProgram, lp: Any) -> None:
    """Compare what HiGHS has read, by name, with the integers written."""
    places = {name: j for j, name in enumerate(lp.col_names_)}
    rows = {name: r for r, name in enumerate(lp.row_names_)}
    assert set(places) - {CONSTANT} == set(program.column_names)
    assert set(rows) == set(program.row_names)
    carried = lp.col_cost_[places[CONSTANT]] if CONSTANT in places else 0
    assert carried == program.constant
    wholes = [int(kind) == 1 for kind in lp.integrality_] or [False] * lp.num_col_
    found = {
        name: (lp.col_cost_[j], lp.col_lower_[j], lp.col_upper_[j], wholes[j])
        for name, j in places.items()
    }
    for j, name in enumerate(program.column_names):
        lower, upper = _float(program.lower[j], -np.inf), _float(program.upper[j], np.inf)
        assert found[name] == (program.cost[j], lower, upper, program.integral[j])
    entries = {
        (lp.row_names_[r], lp.col_names_[j]): a for r, j, a in _cells(lp.a_matrix_, lp.num_row_)
    }
    assert entries == {
        (name, program.column_names[j]): a
        for r, name in enumerate(program.row_names)
        for j, a in program.terms(r)
    }
    for r, name in enumerate(program.row_names):
        assert lp.row_lower_[rows[name]] == _float(program.row_lower[r], -np.inf)
        assert lp.row_upper_[rows[name]] == _float(program.row_upper[r], np.inf)


def _cells(matrix: Any, num_rows: int) -> Iterable[tuple[int, int, float]]:
    import highspy

    by_row = matrix.format_ == highspy.MatrixFormat.kRowwise
    starts, index, values = matrix.start_, matrix.index_, matrix.value_
    for k in range(len(starts) - 1):
        for at in range(starts[k], starts[k + 1]):
            yield (k, index[at], values[at]) if by_row else (index[at], k, values[at])


def _float(side: int | None, missing: float) -> float:
    return missing if side is None else side


PROGRAMS = st.one_of(
    step_problems().filter(lambda p: p.num_requests).map(StepProgram),
    latency_problems().filter(lambda p: p.num_requests).map(LatencyProgram),
    makespan_problems().filter(lambda p: p.num_requests).map(MakespanProgram),
)


@given(program=PROGRAMS, format_=formats)
def test_files_hold_the_program(program: Formulation[Any, Any, Any], format_: str) -> None:
    """Every number, bound, side and name is read back as stated, up to the scale."""
    exact = exact_program(program)
    form = program.standard_form
    with TemporaryDirectory() as folder:
        path = _written(exact, format_, ["a comment"], folder)
        _assert_same(exact, _read_by_highs(path).getLp())
    scale = getattr(program.problem, "scale", 1)
    point = np.arange(form.num_columns) % 3
    stated = int(form.objective @ point) + int(form.offset)
    assert exact.multiplier * exact.objective(point.tolist()) == Fraction(stated, scale)
    assert [file_name(name) for name in form.column_names] == list(exact.column_names)


@given(problem=fluid_problems(max_workers=3, confined=True), format_=formats)
def test_files_hold_a_program_in_fractions(problem: FluidProblem, format_: str) -> None:
    """Rows are scaled to whole numbers, and only scaled."""
    linear = exact_linear(throughput(problem))
    exact = of_linear(linear)
    for r, factor in enumerate(exact.row_factors):
        assert {j: a / factor for j, a in exact.terms(r)} == dict(linear.matrix[r])
        assert Fraction(exact.row_upper[r] or 0) / factor == linear.bound[r]
    point = [Fraction(j, 7) for j in range(len(linear.columns))]
    assert exact.multiplier * exact.objective(point) == linear.value(point)
    # HiGHS reads no larger entries.
    assume(exact.largest <= 10**15)
    with TemporaryDirectory() as folder:
        _assert_same(exact, _read_by_highs(_written(exact, format_, [], folder)).getLp())


SMALL = st.one_of(
    step_problems(max_workers=3, max_requests=4, max_horizon=1)
    # Floating-point solvers are wrong on some large loads: docs/step.md.
    .filter(lambda p: p.num_requests and int(p.base.max()) <= 1000)
    .map(StepProgram),
    latency_problems(max_requests=3).filter(lambda p: p.num_requests).map(LatencyProgram),
    makespan_problems(max_requests=3).filter(lambda p: p.num_requests).map(MakespanProgram),
)


@given(program=SMALL, format_=formats)
def test_scip_and_highs_find_the_optimum(
    program: Formulation[Any, Any, Any], format_: str
) -> None:
    """Both solve the file; their solutions are read and verified, and match our optimum."""
    from pyscipopt import Model

    best = type(program).solve_by_enumeration(program.problem)
    with TemporaryDirectory() as folder:
        path = _written(exact_program(program), format_, ["comment"], folder)
        scip = Model()
        scip.hideOutput()
        scip.readProblem(path)
        scip.optimize()
        if best.objective is None:
            assert scip.getStatus() == "infeasible"
            return
        scip.writeBestSol(f"{folder}/scip.sol")
        solver = _read_by_highs(path)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.run()
        solver.writeSolution(f"{folder}/highs.sol", 0)
        for name in ("scip", "highs"):
            judged = judge(program, parse_solution(Path(f"{folder}/{name}.sol").read_text()))
            assert judged.in_words == {}
            assert judged.result.objective == best.objective
            assert judged.file_objective == Fraction(best.objective, judged.result.scale)


@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_bytes_depend_on_the_program_alone(format_: str) -> None:
    """Two writings are equal, every line is short and ASCII, and the head says what is what."""
    program = StepProgram(STEP)
    exact = exact_program(program)
    comments = head(
        exact,
        program.words,
        digest=STEP.digest(),
        version="bfio 9.9.9 (commit abc)",
        back="bfio solve step.json --read-solution SOLUTION",
        criterion="imbalance",
    )
    once, again = (list(program_text(exact, format_, comments)) for _ in range(2))
    assert once == again
    assert all(line.isascii() and len(line) <= 140 for line in once)
    text = " ".join(line.strip("\\* ") for line in once)
    for part in (
        "section 4, program (IO)",
        STEP.digest(),
        "commit abc",
        "1/10 * objective",
        "x(i,g) = 1 if",
        "--read-solution",
        "here imbalance",
    ):
        assert part in text
    # 1/10: weights 10^6 and 900,000 over a scale of 10^6, in lowest terms.
    assert exact.multiplier == Fraction(1, 10)
    assert "m(h)" not in text


def test_kinds_are_told() -> None:
    """A kind of a hindsight program is a list of requests."""
    from formulations.hindsight_latency import LatencyProblem

    rows = [{"arrival": 0, "prompt": 2, "output": 3}, {"arrival": 0, "prompt": 1, "output": 2}]
    problem = LatencyProblem.from_mapping({"memory": 9, "requests": [rows[0], rows[1], rows[0]]})
    assert LatencyProgram(problem).groups() == ["requests 0, 2", "request 1"]


@pytest.mark.parametrize("name", ["end", "e1", "x y", "3x", "x[a]", "inf", "x" * 256, "a-b"])
def test_names_that_some_reader_refuses(name: str) -> None:
    """Our writer refuses these names."""
    with pytest.raises(ValueError, match="cannot be written"):
        file_name(name)


def test_nothing_to_decide_and_a_rounded_constant() -> None:
    """No file is written of a program without variables, or with a constant that was rounded."""
    with pytest.raises(CapabilityError, match="nothing to decide"):
        exact_program(StepProgram(step_problem([1], [[3]], [])))
    rows = [[10**12] * 3 for _ in range(2)]
    heavy = StepProgram(step_problem([1, 1], rows, [[1, 1, 1]], discount=[4000, 4000, 4001]))
    with pytest.raises(CapabilityError, match="beyond 2\\^53"):
        exact_program(heavy)


def test_what_is_too_large_is_refused_before_memory_is_taken() -> None:
    """Sixty million entries, at once."""
    loads = np.full((5000, 21), 7)
    program = StepProgram(StepProblem(np.full(500, 8), loads[:500], loads))
    tracemalloc.start()
    with pytest.raises(CapabilityError, match="nonzeros are more than"):
        exact_program(program)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_the_dual_prices_are_what_the_head_says() -> None:
    """Value factor times factor of the row times dual of the file is the exact price."""
    document = {
        "classes": [
            {"rate": 2, "prompt": 3, "output": 2},
            {"rate": "3/2", "prompt": 1, "output": 5},
        ]
    }
    problem = FluidProblem.from_mapping(document | {"d0": "0.1", "d1": "1/50", "memory": 60})
    exact = of_linear(exact_linear(throughput(problem)))
    with TemporaryDirectory() as folder:
        solver = _read_by_highs(_written(exact, "lp", [], folder))
    solver.run()
    duals = dict(zip(solver.getLp().row_names_, solver.getSolution().row_dual, strict=True))
    prices = [
        float(exact.multiplier * factor) * duals[name]
        for name, factor in zip(exact.row_names, exact.row_factors, strict=True)
    ]
    ours = knapsack(problem)
    assert prices == pytest.approx([*map(float, ours.rate_prices), float(ours.work_prices[0])])


def test_words_of_every_program() -> None:
    """Each column family of a program has its meaning, each row family its violation."""
    for program in (StepProgram, LatencyProgram, MakespanProgram):
        words: Words = program.words
        assert words.title
        assert words.source
        assert {"x"} <= set(words.variables)
