"""One face of all problems that have a file: ``bfio.solve``, ``bfio show`` and short texts."""

import json
from pathlib import Path
from typing import Any

import pytest

import bfio
from bfio.cli import main
from bfio.programs import KINDS, kind_of
from formulations.errors import InputError
from formulations.fluid import FluidProblem, equilibrium, solve_equilibrium

REQUESTS = [{"arrival": 0, "prompt": 3, "output": 2}, {"arrival": 1, "prompt": 1, "output": 3}]
#: A problem of each kind, whose optimum follows by hand.
DOCUMENTS: dict[str, tuple[dict[str, Any], float]] = {
    # Three workers of 205, 250 and 90 + 30 tokens, or 130, 250 and 165: 750 - 575 or 750 - 545.
    "solve": (
        {"capacity": [1, 0, 2], "base": [[100], [250], [90]], "contribution": [[30], [75]]},
        205,
    ),
    # Both fit at once: each waits for nothing.
    "hindsight": ({"memory": 20, "requests": REQUESTS}, 5),
    "makespan": (
        {"workers": 2, "slots": 1, "requests": REQUESTS, "objective": "latency"},
        5,
    ),
    # Two requests run: two tokens in a step of 1 + 3 seconds.
    "pause": (
        {
            "capacity": [0, 0],
            "active": [{"worker": 0, "load": 3}, {"worker": 1, "load": 3}],
            "max_pauses": 2,
            "step_overhead": "1",
            "token_time": "1",
        },
        2,
    ),
    # The load fits: (1 + 1) + (2 + 1) stages per second.
    "fluid": (
        {
            "classes": [
                {"rate": 1, "prompt": 1, "output": 1},
                {"rate": 1, "prompt": 1, "output": 2},
            ],
            "d0": "1/2",
            "d1": "1/18",
            "memory": 9,
        },
        5,
    ),
}


def solved(name: str, **how: Any) -> Any:
    """Return the result of the problem of a kind."""
    document = DOCUMENTS[name][0]
    return bfio.solve(kind_of(document, name).load("problem").from_mapping(document), **how)


def test_every_kind_is_here() -> None:
    """Each kind has a document, by whose fields it is recognised."""
    assert {kind.command for kind in KINDS} == set(DOCUMENTS)
    assert all(kind_of(document, "").command == name for name, (document, _) in DOCUMENTS.items())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_solve_and_short_texts(name: str) -> None:
    """`bfio.solve` finds the optimum; its repr and HTML are short, and the status is in words."""
    result = solved(name)
    value = result.value if name == "fluid" else result.objective
    assert (result.status, float(value)) == ("optimal, proven", DOCUMENTS[name][1])
    assert len(str(result)) < 150
    assert "optimal, proven" in repr(result)
    assert "optimal, proven" in result._repr_html_()
    assert len(result.summary().splitlines()) <= 10


@pytest.mark.parametrize("name", DOCUMENTS)
def test_show(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``bfio show`` prints sizes and every method's answer, in at most 60 lines."""
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text(json.dumps(DOCUMENTS[name][0]))
    kind = kind_of(DOCUMENTS[name][0], "")
    assert main(["show", "p.json"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 60
    assert "None" not in out
    assert "constraints (" in out
    for method in kind.methods:
        assert f"│ {method} " in out
    assert (
        f"best: objective {DOCUMENTS[name][1]} by {'knapsack' if name == 'fluid' else 'exact'}"
        in out
    )


def test_what_bfio_solve_refuses() -> None:
    """No kind, an unknown method, or a model where there is none, is one line."""
    with pytest.raises(InputError, match="a int is none of StepProblem"):
        bfio.solve(3)
    for name in ("pause", "fluid"):
        with pytest.raises(InputError, match="is not solved from one model"):
            solved(name, model=object())
    for name in DOCUMENTS:
        with pytest.raises(InputError) as error:
            solved(name, method="nope")
        assert "\n" not in str(error.value)


def test_the_equilibrium_uses_the_memory() -> None:
    """A memory below the equilibrium of 9 tokens is told, by closed form and program."""
    for memory, fits in ((4, False), (8, False), (9, True)):
        problem = FluidProblem.from_mapping(DOCUMENTS["fluid"][0] | {"memory": memory})
        state = equilibrium(problem.classes, problem.workers[0])
        answer = solve_equilibrium(problem)
        assert state.memory == 9
        assert (state.fits, answer.fits) == (fits, fits)
        told = "fits" if fits else "exceeds the memory"
        assert told in repr(state)
        assert told in repr(answer)
