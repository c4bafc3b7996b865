"""Bad input: status 2, one line on stderr that says where, what and what to do."""

import gzip
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from formulations.errors import CapabilityError, InputError
from tests.cli.conftest import Bfio, Done
from tests.processes import PATIENCE_S, python

VALID = {"capacity": [1, 0], "base": [[5], [7]], "contribution": [[3]]}
TRACE = "arrival_time_s,prompt_tokens,output_tokens\n0,5,2\n1,6,3\n"


def _is_one_clear_line(done: Done) -> None:
    assert done.status == 2, done.err
    assert done.out == ""
    assert re.fullmatch(r"error: .+: .+; .+\n", done.err), done.err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"capacity": [1',
        b'{"capacity": [1], "capacity": [1]}',
        b"\x00\x01\xff\xfe binary",
        b"\x1f\x8b" + bytes(30),
        json.dumps(VALID | {"capacity": [1]}).encode(),
        json.dumps(VALID | {"capacity": [1, -2]}).encode(),
        json.dumps(VALID | {"capacity": [1, 2.0]}).encode(),
        json.dumps(VALID | {"capacity": [1, True]}).encode(),
        json.dumps(VALID | {"base": [[5], [7, 8]]}).encode(),
        json.dumps(VALID | {"base": []}).encode(),
        json.dumps(VALID | {"contribution": [["a"]]}).encode(),
        json.dumps(VALID | {"surprise\n\x1b[31m": 1}).encode(),
        json.dumps(VALID | {"discount": ["x"]}).encode(),
        json.dumps(VALID).replace("5", "NaN").encode(),
        json.dumps(VALID).replace("5", "1e400").encode(),
        json.dumps(VALID).replace("5", "9" * 6000).encode(),
        b"[" * 100_000,
    ],
)
def test_bad_step_files(bfio: Bfio, tmp_path: Path, content: bytes) -> None:
    """Truncated, binary, mistyped, misshapen or unknown: one line each."""
    path = tmp_path / "step.json"
    path.write_bytes(content)
    done = bfio("solve", str(path))
    _is_one_clear_line(done)
    assert "step.json" in done.err


def test_a_billion_slots_are_no_problem(bfio: Bfio, tmp_path: Path) -> None:
    """Capacity is clipped to the requests that wait."""
    path = tmp_path / "step.json"
    path.write_text(json.dumps(VALID | {"capacity": [10**9, 0]}))
    assert bfio("solve", str(path), "--json").json["objective"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "missing.json"],
        ["solve", "."],
        ["solve", "step.json", "--method", "magic"],
        ["solve", "step.json", "--time-limit", "-1"],
        ["solve", "step.json", "--time-limit", "nan"],
        ["solve"],
        ["nonsense"],
        [],
        ["simulate"],
        ["simulate", "--policy", "fcsf"],
        ["simulate", "--policy", "no_such_module:f"],
        ["simulate", "--policy", "json:no_such_function"],
        ["simulate", "--policy", "br-h:horizont=3"],
        ["simulate", "--policy", "br-h:horizon=x"],
        ["simulate", "--policy", "fcfs", "--workers", "0"],
        ["simulate", "--policy", "fcfs", "--slots", "1000000000"],
        ["simulate", "--policy", "fcfs", "--slots", "1.5"],
        ["simulate", "--policy", "fcfs", "--pool", "0"],
        ["simulate", "--policy", "fcfs", "--requests", "0"],
        ["simulate", "--policy", "fcfs", "--steps", "-1"],
        ["simulate", "--policy", "fcfs", "--seed", "-1"],
        ["simulate", "--policy", "fcfs", "--seed", "x"],
        ["simulate", "--policy", "fcfs", "--step-overhead", "nan"],
        ["simulate", "--policy", "fcfs", "--token-time", "-1"],
        ["simulate", "--policy", "fcfs", "--params", "inf"],
        ["simulate", "--policy", "fcfs", "--params", "1e308"],
        ["simulate", "--policy", "fcfs", "--token-time", "1e308"],
        ["simulate", "--policy", "fcfs", "--token-time", "1e-320", "--step-overhead", "0"],
        ["simulate", "--policy", "fcfs", "--drift", "1/3000000000"],
        ["simulate", "--policy", "br-h:horizon"],
        ["simulate", "--policy", "../mine:f"],
        ["simulate", "--poli", "fcfs"],
        ["solve", "step.json", "--method", "pyomo:"],
        ["solve", "step.json", "--seed", "-1"],
        ["simulate", "--policy", "fcfs", "--drift", "sometimes"],
        ["simulate", "--policy", "fcfs", "--drift", "age:x"],
        ["simulate", "--policy", "fcfs", "--drift", "day:1"],
        ["simulate", "--policy", "fcfs", "--arrivals", "never"],
        ["simulate", "--policy", "fcfs", "--engine", "steam"],
        ["simulate", "--policy", "bf-io", "--engine", "compiled"],
        ["simulate", "--policy", "adaptive", "--dispatch", "immediate"],
        ["simulate", "--policy", "jsq", "--margin", "3"],
        ["simulate", "--policy", "fcfs", "--rate-scale", "2"],
        ["simulate", "--policy", "fcfs", "--rate-scale", "0", "--arrivals", "timed"],
        ["simulate", "--policy", "fcfs", "--predictor", "crystal-ball"],
        ["simulate", "--policy", "br-h", "--horizon", "-1"],
        ["simulate", "--policy", "br-h", "--gamma", "2"],
        ["simulate", "--policy", "bf-io", "--backend", "cplex"],
        ["simulate", "--policy", "bf-io", "--objective", "beauty"],
        ["simulate", "--policy", "fcfs", "--trace", "missing.csv"],
        ["simulate", "--policy", "fcfs", "--synthetic", "dmeo"],
        ["simulate", "--policy", "fcfs", "--synthetic", "demo", "--trace", "x.csv"],
        ["compare", "--policies", ""],
        ["compare", "--policies", "fcfs,fcfs"],
        ["compare", "--policies", "fcfs,unknown"],
        ["compare", "--jobs", "0"],
        ["gap", "--every", "0"],
        ["gap", "--gap-horizon", "-1"],
        ["gap", "--method", "magic", "--requests", "20"],
        ["gap", "--method", "highs", "--requests", "20"],
        ["traces"],
        ["traces", "inspect", "missing.csv"],
        ["traces", "convert", "missing.csv", "out.csv"],
        ["traces", "fetch", "unknown"],
    ],
)
def test_bad_arguments(bfio: Bfio, tmp_path: Path, arguments: list[str]) -> None:
    """Every wrong argument is one line too, with the place and the remedy."""
    (tmp_path / "step.json").write_text(json.dumps(VALID))
    _is_one_clear_line(bfio(*arguments))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"arrival_time_s,prompt_tokens,output_tokens\n",
        b"who,what,when\n1,2,3\n",
        TRACE.replace("6", "-6").encode(),
        TRACE.replace("6", "6.5").encode(),
        TRACE.replace("6", "NaN").encode(),
        TRACE.replace("6", "").encode(),
        TRACE.replace("6", "10000000000000").encode(),
        TRACE.replace("1,6", "1e999999999,6").encode(),
        TRACE.replace("1,6,3", "1,6").encode(),
        TRACE.encode() + b"\xff\xfe\x00",
        gzip.compress(TRACE.encode(), mtime=0)[:-9],
        b'{"timestamp": 1, "input_length": 4}\n',
    ],
)
def test_bad_traces(bfio: Bfio, tmp_path: Path, content: bytes) -> None:
    """Empty, unknown, damaged or truncated traces name the file."""
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    done = bfio("simulate", "--policy", "fcfs", "--trace", str(path))
    _is_one_clear_line(done)
    assert "trace.csv" in done.err


def test_a_bad_row_names_line_column_and_value(bfio: Bfio, tmp_path: Path) -> None:
    """And the flag that counts such rows instead."""
    path = tmp_path / "trace.csv"
    path.write_text(TRACE.replace("6", "six"))
    done = bfio("traces", "inspect", str(path))
    assert "line 3" in done.err
    assert "prompt_tokens" in done.err
    assert "six" in done.err
    assert "--skip-bad-rows" in done.err
    counted = bfio("traces", "inspect", str(path), "--skip-bad-rows", "--json").json
    assert counted["provenance"]["skipped_bad_rows"] == 1


def test_a_policy_that_answers_badly_is_named(bfio: Bfio, tmp_path: Path) -> None:
    """A user's mistake ends in one line, with policy and step."""
    (tmp_path / "mine.py").write_text("def greedy(state):\n    return [0] * state.num_waiting\n")
    done = bfio("simulate", "--policy", "mine:greedy", "--requests", "50", "--slots", "2")
    _is_one_clear_line(done)
    assert "greedy" in done.err
    assert "step 0" in done.err


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('no\\nidea')",
        "raise SystemExit(0)",
        "state.loads[0] = 1",
        "return policy(state)",
        "return 1 / 0",
    ],
)
def test_a_policy_that_raises_is_told_where(bfio: Bfio, tmp_path: Path, body: str) -> None:
    """Whatever it raises, one line names policy, step, file and line."""
    (tmp_path / "raiser.py").write_text(f"def policy(state):\n    {body}\n")
    sys.modules.pop("raiser", None)
    done = bfio("simulate", "--policy", "raiser:policy", "--requests", "20")
    _is_one_clear_line(done)
    assert "step 0" in done.err
    assert "raiser.py line 2" in done.err


def test_what_a_policy_prints_does_not_spoil_the_answer(bfio: Bfio, tmp_path: Path) -> None:
    """It goes to stderr; statistics that are no JSON are written as text."""
    (tmp_path / "chatty.py").write_text(
        "class Chatty:\n"
        "    def __call__(self, state):\n"
        "        print('hello')\n"
        "        return [0] + [None] * (state.num_waiting - 1)\n"
        "    def statistics(self):\n"
        "        return {'what': object, 'none': float('nan')}\n"
    )
    done = bfio("simulate", "--policy", "chatty:Chatty", "--requests", "5", "--json")
    assert done.json["completed"] == 5
    assert done.json["statistics"]["none"] == "nan"
    assert "hello" in done.err


def test_a_pipe_without_a_writer_does_not_hang(bfio: Bfio, tmp_path: Path) -> None:
    """Named pipes are refused: they may never end."""
    os.mkfifo(tmp_path / "pipe")
    _is_one_clear_line(bfio("solve", "pipe"))
    _is_one_clear_line(bfio("traces", "inspect", "pipe"))


def test_a_request_that_no_one_could_wait_for(bfio: Bfio, tmp_path: Path) -> None:
    """10^12 output tokens: refused without --steps, simulated with it."""
    (tmp_path / "long.csv").write_text(TRACE + "2,3,1000000000000\n")
    _is_one_clear_line(bfio("simulate", "--policy", "fcfs", "--trace", "long.csv"))
    done = bfio("simulate", "--policy", "fcfs", "--trace", "long.csv", "--steps", "9", "--json")
    assert done.json["steps"] == 9


@pytest.mark.parametrize(
    ("command", "closed"),
    [
        ("solve -", "<&-"),
        ("traces list", ">&-"),
        ("traces list", ">&- 2>&-"),
        ("simulate --policy fcfs --requests 20", ">&-"),
    ],
)
def test_closed_streams_are_no_traceback(tmp_path: Path, command: str, closed: str) -> None:
    """Run with stdin, stdout or all output closed."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m bfio {command} {closed}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


def test_a_folder_that_cannot_be_written(bfio: Bfio, tmp_path: Path) -> None:
    """The plots' folder is a file."""
    (tmp_path / "out").write_text("")
    done = bfio("compare", "--policies", "fcfs", "--requests", "20")
    assert done.status == 2
    assert "choose another --output" in done.err


def test_an_interrupt_exits_130(tmp_path: Path) -> None:
    """SIGINT in a real process: status 130, no traceback.

    The handler is set because a shell's background job, and what it starts, ignores the signal.
    """
    code = (
        "import contextlib, io, os, signal, threading\n"
        "from bfio.cli import main\n"
        "def compare(requests):\n"
        "    words = ['--policies', 'fcfs,max-min', '--requests', requests, '--json']\n"
        "    return main(['compare', '--no-plots', *words])\n"
        # All is loaded then, on a machine of any speed.
        "with contextlib.redirect_stdout(io.StringIO()): compare('20')\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "raise SystemExit(compare('2000000'))"
    )
    done = python("-c", code, cwd=tmp_path, check=False)
    assert done.returncode == 130
    # In words, or in the JSON of what was complete by then.
    assert "interrupted" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_an_interrupted_simulation_prints_what_it_has(bfio: Bfio, tmp_path: Path) -> None:
    """The steps so far are measured and printed; the status is 130."""
    # In this process, where another test may have loaded a module of a plainer name.
    (tmp_path / "interrupted_late.py").write_text(
        "import os, signal\n"
        "def late(state):\n"
        "    if state.step == 20:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return [0] + [None] * (state.num_waiting - 1)\n"
    )
    done = bfio("simulate", "--policy", "interrupted_late:late", "--requests", "100", "--json")
    answer = done.json
    assert (done.status, answer["interrupted"], answer["steps"]) == (130, True, 21)


def test_a_reader_that_has_gone_is_no_failure(tmp_path: Path) -> None:
    """A table for nobody: status 0, and not a word."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "bfio", "traces", "list"],
            stdout=nobody, stderr=subprocess.PIPE, cwd=tmp_path, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("kind", [InputError, CapabilityError])
def test_an_error_passes_between_processes(kind: type[InputError]) -> None:
    """Its three parts survive."""
    error = pickle.loads(pickle.dumps(kind("here", "wrong", "mend it")))
    assert type(error) is kind
    assert (error.where, error.what, error.remedy) == ("here", "wrong", "mend it")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--prefill", "workers=1"),
            "--prefill: has no token_time=; "
            "write e.g. --prefill workers=4,token_time=5e-5,ttl=30,places=256",
        ),
        (("--slo", "ttft=0"), "--slo: ttft_s: 0.0 s is not a valid limit; give seconds > 0"),
        (("--slo", "tpot=inf"), "--slo: sets no limit; write e.g. --slo ttft=2,tpot=0.05"),
        (("--batching", "mixed"), "there are no token budgets; give --token-budget"),
        (
            ("--free-tokens", "5", "--token-budget", "9"),
            "no effect while --batch-token-time is 0; give --batch-token-time, or leave it out",
        ),
        # Names within a value are written as they are.
        (("--prefill", "token_tme=3"), "did you mean token_time? use one of workers, token_time"),
    ],
)
def test_remedies_are_in_flags(bfio: Bfio, options: tuple[str, ...], told: str) -> None:
    """As they are typed on the command line, not as Python spells them."""
    done = bfio("simulate", "--policy", "fcfs", "--requests", "50", *options)
    _is_one_clear_line(done)
    assert told in done.err
