"""``bfio makespan``."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bfio
from tests.cli.conftest import bfio as bfio

#: Loads 9, 10 and 10; half a second per token, none per step.
DEFERRED: dict[str, Any] = {
    "workers": 2,
    "slots": 1,
    "requests": [{"prompt": 9, "output": 2}, {"arrival": 0, "prompt": 10, "output": 1}],
    "step_overhead": "0",
    "token_time": "1/2",
}


def write(folder: Path, document: object) -> str:
    """Write a document and return its path."""
    path = folder / "requests.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize("method", ["exact", "cp-sat", "brute-force"])
def test_methods_that_prove(bfio: Bfio, tmp_path: Path, method: str) -> None:
    """Peaks 9 and 10 in halves of a second: 19 at scale 2."""
    done = bfio("makespan", write(tmp_path, DEFERRED), "--method", method, "--json")
    answer = done.json
    assert (done.status, answer["method"], answer["termination"]) == (0, method, "optimal")
    assert (answer["objective"], answer["bound"], answer["scale"]) == (19, 19, 2)
    assert (answer["starts"], sorted(answer["workers"])) == ([0, 1], [0, 1])
    assert (answer["violations"], answer["criterion"]) == ({}, "wall-clock")


@pytest.mark.parametrize("method", ["highs", "pyomo"])
def test_methods_that_do_not_prove(bfio: Bfio, tmp_path: Path, method: str) -> None:
    """They reach the optimum, and call it so only where the combinatorial bound meets it."""
    document = DEFERRED | {"objective": "imbalance"}
    answer = bfio("makespan", write(tmp_path, document), "--method", method, "--json").json
    # Conserving: |9 − 10| + |10 − 0|.
    assert answer["objective"] == 11
    assert answer["termination"] == (
        "optimal" if answer["bound_kind"] == "integer" else "feasible"
    )


@pytest.mark.parametrize("method", ["cp-sat", "highs", "pyomo"])
def test_times_too_fine_for_a_solver(bfio: Bfio, tmp_path: Path, method: str) -> None:
    """The remedy is one of this program's; our own method takes them."""
    file = write(tmp_path, DEFERRED | {"step_overhead": "0.00000000000000000001"})
    done = bfio("makespan", file, "--method", method)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "write both times with fewer digits, or use --method exact" in done.err
    assert bfio("makespan", file).status == 0


def test_the_objective_can_be_chosen(bfio: Bfio, tmp_path: Path) -> None:
    """Both start at once: latencies 2 and 1."""
    file = write(tmp_path, DEFERRED)
    answer = bfio("makespan", file, "--objective", "latency", "--json").json
    assert (answer["objective"], answer["criterion"], answer["scale"]) == (3, "latency", 1)


def test_text_output_draws_the_loads(bfio: Bfio, tmp_path: Path) -> None:
    """What it costs, who runs where, and the loads of each step."""
    lines = bfio("makespan", write(tmp_path, DEFERRED)).out.splitlines()
    assert lines[0] == "exact: optimal, wall-clock 9.5 s, bound 9.5 s (integer)"
    assert lines[1].endswith("proven by a combinatorial bound, derived in integers")
    assert lines[2].startswith("request->worker@step: 0->")
    assert lines[3].split() == ["step", "0", "1"]
    assert lines[-1].split() == ["peak", "9", "10"]


def test_wide_schedules_are_not_drawn(bfio: Bfio, tmp_path: Path) -> None:
    """A hundred steps do not fit a line."""
    document = DEFERRED | {"requests": [{"prompt": 1, "output": 100}]}
    assert len(bfio("makespan", write(tmp_path, document)).out.splitlines()) == 3


def test_no_requests(bfio: Bfio, tmp_path: Path) -> None:
    """A valid problem with an empty answer."""
    answer = bfio("makespan", write(tmp_path, DEFERRED | {"requests": []}), "--json").json
    assert (answer["objective"], answer["starts"], answer["termination"]) == (0, [], "optimal")


def test_nothing_found_exits_3(bfio: Bfio, tmp_path: Path) -> None:
    """A solver without time has no schedule; the bound is still there."""
    requests = [{"prompt": 1 + i % 7, "output": 1 + i % 5} for i in range(30)]
    file = write(tmp_path, DEFERRED | {"requests": requests})
    done = bfio("makespan", file, "--method", "cp-sat", "--time-limit", "1e-9", "--json")
    assert (done.status, done.json["starts"]) == (3, None)
    assert done.json["bound"] > 0
    done = bfio("makespan", file, "--method", "cp-sat", "--time-limit", "1e-9")
    assert done.status == 3
    assert re.fullmatch(r"cp-sat: time_limit, bound [\d.]+ s, no schedule\n", done.out)


@pytest.mark.parametrize(
    "arguments",
    [("--method", "magic"), ("--objective", "speed"), ("--time-limit", "-1")],
)
def test_bad_arguments(bfio: Bfio, tmp_path: Path, arguments: tuple[str, str]) -> None:
    """One line on stderr, status 2."""
    done = bfio("makespan", write(tmp_path, DEFERRED), *arguments)
    assert (done.status, done.out) == (2, "")
    assert "error: " in done.err


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"workers": 1}', b"\xff", b'{"a": NaN}'])
def test_bad_files(bfio: Bfio, tmp_path: Path, content: bytes) -> None:
    """Truncated, binary or incomplete: one line that names the file."""
    path = tmp_path / "requests.json"
    path.write_bytes(content)
    done = bfio("makespan", str(path))
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "requests.json" in done.err
    assert bfio("makespan", str(tmp_path / "none.json")).status == 2
