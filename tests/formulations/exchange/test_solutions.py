"""Solution files of every format are read, and only their values are used."""

from fractions import Fraction
from random import Random

import pytest

from bfio.testing.instances import step_problem
from formulations.errors import InputError
from formulations.exchange import parse_solution
from formulations.exchange.solution import judge, judge_linear
from formulations.fluid import FluidProblem, ThroughputProgram
from formulations.hindsight_latency import LatencyProblem, LatencyProgram
from formulations.hindsight_makespan import MakespanProblem, MakespanProgram
from formulations.results import Termination
from formulations.step import StepProgram

#: Loads 40 and 25 with one request of 18, one of 9: 0 stays, 1 gets both, 52 against 40.
PROGRAM = StepProgram(step_problem([1, 1], [[40], [25]], [[18], [9]]))
#: Request 0 on worker 1, request 1 on worker 0: loads 49 and 43, imbalance 6.
BEST = {"x(0,0)": 0, "x(0,1)": 1, "x(1,0)": 1, "x(1,1)": 0, "M(0)": 49}

GUROBI = """# Solution for model bfio
# Objective value = 6
x(0,0) 0
x(0,1) 1
x(1,0) 9.9999999999999978e-01
x(1,1) -0.0
M(0) 49
constant 1
"""
CPLEX = """<?xml version = "1.0" encoding="UTF-8" standalone="yes"?>
<CPLEXSolution version="1.2">
 <header problemName="p" objectiveValue="6" solutionStatusString="integer optimal solution"/>
 <linearConstraints><constraint name="use_slots" index="0" slack="0"/></linearConstraints>
 <variables>
  <variable name="x(0,0)" index="0" value="0"/>
  <variable name="x(0,1)" index="1" value="1"/>
  <variable name="x(1,0)" index="2" value="1"/>
  <variable name="x(1,1)" index="3" value="0"/>
  <variable name="M(0)" index="4" value="49"/>
  <variable name="constant" index="5" value="1"/>
 </variables>
</CPLEXSolution>
"""
SCIP = """solution status: optimal solution found
objective value:                                    6
x(0,1)                                              1 \t(obj:-18)
x(1,0)                                              1 \t(obj:-9)
M(0)                                               49 \t(obj:2)
constant                                            1 \t(obj:-65)
"""
HIGHS_RAW = """Model status
Optimal

# Primal solution values
Feasible
Objective 6
# Columns 6
x(0,0) 0
x(0,1) 1
x(1,0) 1
x(1,1) 0
M(0) 49
constant 1
# Rows 1
use_slots 2

# Dual solution values
None
"""
HIGHS_PRETTY = """Columns
    Index Status        Lower        Upper       Primal         Dual  Type        Name
        0                   0            1            0               Integer     x(0,0)
        1                   0            1            1               Integer     x(0,1)
        2                   0            1            1               Integer     x(1,0)
        3                   0            1           -0               Integer     x(1,1)
        4                  40           67           49               Integer     M(0)
        5                   1            1            1               Continuous  constant
Rows
    Index Status        Lower        Upper       Primal         Dual  Name
        0                   2            2            2               use_slots

Model status: Optimal

Objective value: 6
"""
CBC = """Optimal - objective value 6.00000000
      1 x(0,1)                              1                     -18
      2 x(1,0)                              1                      -9
      4 M(0)                               49                       2
      5 constant                            1                     -65
"""
PLAIN = "\n".join(f"{name} {value}" for name, value in BEST.items())
FILES = {
    "gurobi": GUROBI,
    "cplex": CPLEX,
    "scip": SCIP,
    "highs-raw": HIGHS_RAW,
    "highs-pretty": HIGHS_PRETTY,
    "cbc": CBC,
    "plain": PLAIN,
}


def test_what_newer_versions_of_highs_tell_is_passed_over() -> None:
    """Version 1.16 writes a bound and a gap below the objective."""
    more = "Objective 6\nObjective_bound 0\nMIP_rel_gap 0\n"
    file = parse_solution(HIGHS_RAW.replace("Objective 6\n", more))
    assert file == parse_solution(HIGHS_RAW)


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_known_by_its_content(name: str) -> None:
    """All files hold the same: request 0 on worker 1, request 1 on worker 0, objective 6."""
    file = parse_solution(FILES[name])
    assert file.format == name
    assert file.claimed is None or float(file.claimed) == 6
    judged = judge(PROGRAM, file)
    assert judged.result.solution == (1, 0)
    assert judged.result.objective == judged.file_objective == 6
    assert judged.notes == ()


_MUTATIONS = (
    "x(0,0)", "nan", "1e99", "-", "<", "\n", "&a;", "<!ENTITY", "\0", "constant 1", "Columns",
    "objective value:", "# Rows", "9" * 50, "(obj:1)", "Model status", "**", "1", "2", "0",
)  # fmt: skip


def _mutated(text: str, rng: Random) -> str:
    for _ in range(rng.randint(1, 6)):
        at, kind = rng.randrange(len(text) + 1), rng.random()
        if kind < 0.5:
            text = text[:at] + rng.choice(_MUTATIONS) + text[at + rng.randint(0, 1) :]
        elif kind < 0.8:
            text = text[:at] + text[at + rng.randint(1, 9) :]
        else:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            text = "\n".join(lines)
    return text


def _survives(seed: int, count: int) -> int:
    """Read mutated files; return how many were still solutions, none of them a false one."""
    rng, survived = Random(seed), 0
    told: list[str] = []
    for _ in range(count):
        text = _mutated(rng.choice(list(FILES.values())), rng)
        try:
            judged = judge(PROGRAM, parse_solution(text))
        except InputError as error:
            told.append(str(error))
            continue
        if judged.in_words:
            assert judged.result.termination is Termination.FAILED
            continue
        survived += 1
        solution, objective = judged.result.solution, judged.result.objective
        assert solution is not None
        assert PROGRAM.violations(solution, objective) == {}
        # Both requests must start, on different workers: 6 or 24.
        assert objective in (6, 24)
        assert not judged.result.is_optimal or objective == 6
    assert [message for message in told if "\n" in message] == []
    return survived


def test_damaged_files_are_told_or_right() -> None:
    """No mutation gives a traceback, a second line, or a wrong answer."""
    assert _survives(seed=1, count=1_500) > 20


@pytest.mark.deep
def test_many_damaged_files_are_told_or_right() -> None:
    """The same with more mutations."""
    assert _survives(seed=2, count=100_000) > 1_000


def test_the_encoding_that_xml_declares_does_not_matter() -> None:
    """The file is UTF-8, as all files that commands read."""
    assert parse_solution(CPLEX.replace("UTF-8", "UT-8")).values == parse_solution(CPLEX).values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no solution"),
        ("# Objective value = 3\n", "contains no solution"),
        ("no solution available\nobjective value: 1", "no solution available"),
        ("Model status\nInfeasible\n\n# Primal solution values\nNone\n", "(Infeasible)"),
        ("x(0,0) 1 2", "line 1: 'x(0,0) 1 2' is not a name and a value"),
        ("Problem: step\nRows: 3\n", "line 1: 'Problem: step' is not a name and a value"),
        ("x(0,0) 1\nx(0,0) 1", "line 2: x(0,0): the variable occurs twice"),
        ("x(0,0) one", "'one' is not a number"),
        ("x(0,0) nan", "'nan' is not finite"),
        ("x(0,0) 1e999", "is not a number"),
        ("x(0,0) 1e-999999999", "is not a number"),
        ("x(0,0) " + "9" * 80, "is not a number"),
        ("<CPLEXSolution><variables>", "not valid XML"),
        ("<a><variable name='x'/></a>", "without name or value"),
        ("<a><CPLEXSolution/><CPLEXSolution/></a>", "2 solutions"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "a declaration of a type or entity"),
        ("<a/>", "contains no solution"),
        (
            HIGHS_PRETTY.replace("          49 ", "             "),
            "write a value for each column of the table",
        ),
        (
            HIGHS_PRETTY.replace("          49", " 1.23457e+08"),
            "rounded to 6 digits; write the solution in",
        ),
        ("Optimal - objective value 3\n 1 x(0,0)", "give index, name, value and cost"),
    ],
)
def test_files_that_hold_none(text: str, message: str) -> None:
    """The error has one line with place, fault and remedy."""
    with pytest.raises(InputError) as told:
        parse_solution(text)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y(0)": 1}, "y(0): not a variable of the program"),
        ({"x(0,2)": 1}, "x(0,2): not a variable of the program"),
        ({"x(1,1)": None}, "x(1,1): no value in the file; list every variable"),
        ({"x(1,1)": None, "M(0)": None}, "x(1,1) and 1 more: no value in the file"),
        ({"x(1,1)": 0.4}, "x(1,1): 0.4 is not an integer"),
        ({"x(1,1)": 2e-6}, "x(1,1): 2e-06 is not an integer"),
        ({"constant": 2}, "constant: 2; it is fixed to 1"),
    ],
)
def test_values_that_are_not_the_programs(changes: dict[str, float | None], message: str) -> None:
    """Unknown, missing and fractional ones are named."""
    values = {name: v for name, v in (BEST | changes).items() if v is not None}
    text = "\n".join(f"{name} {value}" for name, value in values.items())
    with pytest.raises(InputError) as told:
        judge(PROGRAM, parse_solution(text))
    assert message in str(told.value)


def test_small_deviations_are_rounded_and_checked_again() -> None:
    """Within 10^-6 of a whole number a value is that number."""
    text = PLAIN.replace("x(0,1) 1", "x(0,1) 0.9999995").replace("M(0) 49", "M(0) 49.0000004")
    judged = judge(PROGRAM, parse_solution(text))
    assert (judged.result.objective, judged.result.violations) == (6, {})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"x(0,0)": 1}, "request 0 starts on more than one worker"),
        ({"x(0,0)": 1}, "worker 0 takes 1 request more than it has free slots"),
        ({"x(0,1)": 0}, "the number of requests that start is off by 1"),
        ({"M(0)": 48}, "step 0: worker 0 is 1 above the peak M(0)"),
        ({"M(0)": 5000}, "M(0) is 4942 outside its bounds"),
        ({"x(0,1)": 2, "x(1,0)": 0}, "x(0,1) is 1 outside its bounds"),
    ],
)
def test_what_is_violated_is_told_in_words(changes: dict[str, int], told: str) -> None:
    """The result has no solution and is not optimal."""
    text = "\n".join(f"{name} {value}" for name, value in (BEST | changes).items())
    judged = judge(PROGRAM, parse_solution(text))
    assert told in judged.in_words.values()
    assert judged.result.termination is Termination.FAILED
    assert (judged.result.objective, judged.result.solution) == (None, None)


def test_a_solution_proves_nothing_by_itself() -> None:
    """A solution is only feasible unless our own bound equals its objective."""
    text = PLAIN.replace("x(0,1) 1", "x(0,1) 0").replace("x(0,0) 0", "x(0,0) 1")
    text = text.replace("x(1,0) 1", "x(1,0) 0").replace("x(1,1) 0", "x(1,1) 1")
    worse = judge(PROGRAM, parse_solution(text.replace("M(0) 49", "M(0) 58"))).result
    assert (worse.termination, worse.objective, worse.proof) == (Termination.FEASIBLE, 24, None)
    best = judge(PROGRAM, parse_solution(PLAIN)).result
    assert best.is_optimal is (best.bound == 6)
    assert (best.proof is not None) is best.is_optimal


def test_what_the_file_claims_is_compared() -> None:
    """A wrong objective is noted, and peaks that are higher than need be."""
    judged = judge(PROGRAM, parse_solution(GUROBI.replace("= 6", "= 5")))
    assert judged.notes == ("the file states the objective 5, but its values give 6",)
    judged = judge(PROGRAM, parse_solution(PLAIN.replace("M(0) 49", "M(0) 50")))
    assert judged.file_objective == 8
    assert judged.result.objective == 6
    assert "cost 8: auxiliary variables are larger" in judged.notes[0]


def test_requests_of_a_kind_are_named() -> None:
    """Two alike are a kind; one start too few of it is told by their numbers."""
    row = {"arrival": 0, "prompt": 2, "output": 3}
    latency = LatencyProgram(LatencyProblem.from_mapping({"memory": 9, "requests": [row, row]}))
    names = latency.standard_form.column_names
    values = {name.replace("[", "(").replace("]", ")"): 0 for name in names}
    text = "\n".join(f"{name} {value}" for name, value in (values | {"x(0,0)": 1}).items())
    assert list(judge(latency, parse_solution(text)).in_words.values()) == [
        "requests 0, 1: 1 start too many or too few"
    ]
    text = "\n".join(f"{name} {value}" for name, value in (values | {"x(0,0)": 2}).items())
    # Both at once hold 2·5 tokens in their last round.
    assert list(judge(latency, parse_solution(text)).in_words.values()) == [
        "round 3: the cache holds 1 token more than fit"
    ]


def test_lanes_of_a_makespan_are_workers() -> None:
    """A step that is called idle is told by worker and step."""
    problem = MakespanProblem.from_mapping(
        {"workers": 1, "slots": 1, "requests": [{"prompt": 2, "output": 1}]}
    )
    judged = judge(MakespanProgram(problem), parse_solution("x(0,0,0) 1\nbusy(0) 0\npeak(0) 2"))
    assert judged.in_words == {
        "slots(0,0)": "step 0: worker 0 runs 1 request more than it has slots, or is not busy"
    }
    judged = judge(MakespanProgram(problem), parse_solution("x(0,0,0) 1\nbusy(0) 1\npeak(0) 2"))
    assert judged.result.solution == ((0,), (0,))


def test_continuous_programs_are_judged_in_fractions() -> None:
    """The exact optimum is found from the vertex that floats describe; slips are told."""
    document = {
        "classes": [
            {"rate": 2, "prompt": 3, "output": 2},
            {"rate": "3/2", "prompt": 1, "output": 5},
        ]
    }
    problem = FluidProblem.from_mapping(document | {"d0": "0.1", "d1": "1/50", "memory": 60})
    program = ThroughputProgram(problem)
    # Worker 0 does 600/13 of work: 3/2 of class 1 take 63/2, the rest is 127/104 of class 0.
    near = judge_linear(program, parse_solution("x(0,0) 1.22115384615384\nx(1,0) 1.5"))
    assert near.optimum == 3 * Fraction(127, 104) + 6 * Fraction(3, 2)
    assert near.describes_optimum
    assert not near.is_exact_optimum
    assert near.violations == {}
    less = judge_linear(program, parse_solution("x(0,0) 1\nx(1,0) 1.5"))
    assert less.value == 12
    assert less.largest_excess == 0
    assert not less.describes_optimum
    much = judge_linear(program, parse_solution("x(0,0) 2.5\nx(1,0) 1.5"))
    assert much.in_words["rate(0)"] == "class 0 is admitted at 0.5 requests/s more than arrive"
    assert "more work per second" in much.in_words["work(0)"]
