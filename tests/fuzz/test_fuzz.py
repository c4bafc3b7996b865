"""Findings of the fuzzer stay fixed, and the fuzzer would detect a regression."""

from dataclasses import replace

import pytest

from tests.fuzz import generator
from tests.fuzz.case import Case
from tests.fuzz.minimise import minimised
from tests.fuzz.oracle import findings
from tests.fuzz.process import Outcome
from tests.fuzz.surface import surface_of, surfaces
from tests.places import ROOT
from tests.processes import python

#: Inputs of every run of the tests, and of the long profile.
_FEW, _MANY = 12, 10_000
#: The inputs before it go through all commands, those that take seconds included.
_BEYOND = 25

REFUSED = Outcome(2, b"", b"error: here: wrong; mend it\n", 0.1, 0.1, 0, None, (), ())
SOLVED = replace(REFUSED, status=0, out=b"{}\n", err=b"")


def _fuzz(*words: str, seconds: float) -> None:
    done = python("-m", "tests.fuzz", *words, cwd=ROOT, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_was_found_and_a_few_more() -> None:
    """Inputs that once broke a promise, and the first of those that the long profile makes."""
    _fuzz("--found", "--first", str(_BEYOND), "--inputs", str(_FEW), seconds=250)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_ten_thousand_inputs() -> None:
    """No traceback, no hang, no second line on standard error, no limit broken (40 min)."""
    _fuzz("--inputs", str(_MANY), "--minimise", seconds=7000)


@pytest.mark.parametrize(
    ("outcome", "promise"),
    [
        (replace(REFUSED, err=b'Traceback (most recent call last):\n  File "x"\nKeyError: 1\n'),
         "traceback"),
        (replace(REFUSED, err=REFUSED.err * 2), "stderr"),
        (replace(REFUSED, err=b"error: it failed\n"), "stderr"),
        (replace(REFUSED, err=b"/lib/x.py:1: RuntimeWarning: overflow\n" + REFUSED.err),
         "second line on stderr"),
        (replace(REFUSED, status=0), "stderr"),
        (replace(REFUSED, status=1), "status"),
        (replace(REFUSED, status=-11), "status"),
        (replace(SOLVED, out=b"solved\n{}\n"), "json"),
        (replace(SOLVED, out=b'{"x": NaN}\n'), "json"),
        (replace(SOLVED, out='{"x": "θ"}\n'.encode()), "json"),
        (replace(SOLVED, wall_s=3, cpu_s=3), "time limit"),
        (replace(SOLVED, peak_bytes=1 << 32), "memory"),
        (replace(SOLVED, status=130, interrupt_s=4.0), "interrupt"),
        (replace(SOLVED, written=("step.json",)), "files"),
        (replace(SOLVED, left=("$TMPDIR/x",)), "left behind"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_noticed(outcome: Outcome, promise: str) -> None:
    """Each promise, by an outcome that breaks it."""
    case = Case(("solve", "problem.json", "--json", "--time-limit", "1"))
    assert promise in {finding.promise for finding in findings(case, outcome)}


@pytest.mark.parametrize("outcome", [REFUSED, SOLVED, replace(SOLVED, wall_s=9.0, cpu_s=0.5)])
def test_what_keeps_them_is_no_finding(outcome: Outcome) -> None:
    """A refusal, an answer, and one that had to wait for others at work."""
    case = Case(("solve", "problem.json", "--json", "--time-limit", "1"))
    assert findings(case, outcome) == []


def test_a_case_is_cut_down_to_what_it_needs() -> None:
    """Words, files and parts of a document that do not matter go."""
    case = Case(
        ("solve", "a.json", "--seed", "3", "--json"),
        {"a.json": b'{"x": [1, 2, 3], "y": {"z": 4}}', "b.csv": b"1\n"},
        encoding="ascii",
    )
    small = minimised(
        case, lambda c: "a.json" in c.argv and b"3" in (c.files.get("a.json") or b"")
    )
    assert small == Case(("solve", "a.json"), {"a.json": b'{"x": [3]}'})


@pytest.mark.deep
def test_inputs_are_the_same_again_and_reach_every_command() -> None:
    """By seed and index; each survives being written into a file."""
    cases = [generator.make(7, index) for index in range(len(surfaces()))]
    assert [generator.make(7, index) for index in range(5)] == cases[:5]
    assert [Case.from_document(case.to_document()) for case in cases] == cases
    assert {surface_of(case.argv) for case in cases} == set(surfaces())
