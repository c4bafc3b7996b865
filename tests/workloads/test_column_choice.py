"""Tables of no published format: columns that are named, or whose names leave no doubt."""

import csv
import datetime
import re
import shlex
import subprocess
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bfio.cli.main import main
from bfio.workloads import Workload, read_trace
from bfio.workloads.column_choice import parse_columns, suggested_columns
from formulations.errors import InputError

MESSY = """\
Request ID;ts;input tokens;generated;Model
1;2024-05-12T00:00:02.5+02:00;10;4;a
2;2024-05-11T22:00:00Z;20.0;5;b
3;2024-05-11 22:00:01 UTC;30;0;c
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "my log.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_messy_table(tmp_path: Path) -> None:
    """Semicolons, ISO times with zones, floats, a failed request: named columns are enough."""
    columns = {"arrival": "ts", "prompt": "input tokens", "output": "generated"}
    path = _file(tmp_path, MESSY)
    workload = read_trace(path, columns=columns)
    assert workload.prompt_tokens.tolist() == [20, 10]
    assert workload.output_tokens.tolist() == [5, 4]
    assert workload.arrival_times == (Fraction(0), Fraction(5, 2))
    assert workload.provenance["dropped_zero_output"] == 1
    assert workload.provenance["out_of_order_rows"] == 1
    text = "arrival=ts,prompt=input tokens,output=generated"
    assert workload.provenance["format"] == f"columns {text}"
    assert read_trace(path, columns=text).arrival_times == workload.arrival_times


@pytest.mark.parametrize(
    ("header", "row", "arrival"),
    [
        ("isl,osl", "1,2", None),
        ("Input Tokens,Output Tokens", "1,2", None),
        ("prompt_len,completion_tokens,arrival_ms", "1,2,3000", 3),
        ("arrival [s],prompt_tokens,generated_tokens", "1.5,7,8", Fraction(3, 2)),
        ("Timestamp (ns),input_length,output_length", "5,7,8", Fraction(5, 10**9)),
        ("created_at,input,output", "2024-01-01 00:00:00,7,8", 0),
    ],
)
def test_names_in_use(tmp_path: Path, header: str, row: str, arrival: object) -> None:
    """Where names leave no doubt nothing need be said; units in names are respected."""
    later = row.replace("3000", "6000").replace("1.5", "3").replace("5,7", "10,7")
    workload = read_trace(_file(tmp_path, f"{header}\n{row}\n{later}\n"))
    assert len(workload) == 2
    times = workload.arrival_times
    assert (None if times is None else list(times)) == (None if arrival is None else [0, arrival])


@pytest.mark.parametrize(
    ("header", "row", "columns"),
    [
        ("timestamp,input_tokens,output_tokens", "5,7,8",
         "arrival=timestamp,prompt=input_tokens,output=output_tokens"),
        ("a,b,c", "1,2,3", "prompt=NAME,output=NAME"),
        ("input_tokens,c", "1,2", "prompt=input_tokens,output=NAME"),
        ("input_tokens,prompt_tokens,output_tokens", "1,2,3", "prompt=NAME,output=output_tokens"),
        ("start_time_s,arrival_s,isl,osl", "1,2,3,4", "prompt=isl,output=osl"),
        ("isl,osl,launchTime_ms", "1,2,3", "arrival_ms=launchTime_ms,prompt=isl,output=osl"),
        ("isl,osl,sent_at,ended_at", "1,2,3,4", "prompt=isl,output=osl"),
        ("prefix_len,isl,osl", "1,2,3", "prefix=prefix_len,prompt=isl,output=osl"),
        ("input_tokens,output_tokens,request_rate,samples,mean", "128,4,1.0,100,0.4",
         "prompt=input_tokens,output=output_tokens"),
        ("isl,osl,P50,P99", "128,4,0.1,0.2", "prompt=isl,output=osl"),
    ],
)  # fmt: skip
def test_doubt_ends_in_a_command(tmp_path: Path, header: str, row: str, columns: str) -> None:
    """A unit is never assumed; the error prints what would read the file."""
    path = _file(tmp_path, f"{header}\n{row}\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert f"bfio traces inspect '{path}' --columns {columns}" in caught.value.remedy


def test_a_prefix_comes_before_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt is the sum of both, for both readers; each bad cell is told."""
    path = _file(tmp_path, "prefix_len,input_len,output_len\n1000,50,7\n1057,60,9\n0,1,2\n")
    columns = "prefix=prefix_len,prompt=input_len,output=output_len"
    for least in (0, 10**9):
        monkeypatch.setattr("bfio.workloads.trace_file.COLUMNAR_FROM_BYTES", least)
        assert read_trace(path, columns=columns).prompt_tokens.tolist() == [1050, 1117, 1]
    path.write_text(path.read_text() + "x,1,2\n")
    with pytest.raises(InputError, match="line 5 column 'prefix_len': 'x' is not a whole number"):
        read_trace(path, columns=columns)
    path.write_text(f"prefix_len,input_len,output_len\n{10**12},1,2\n")
    with pytest.raises(InputError, match="is more than 1000000000000 tokens"):
        read_trace(path, columns=columns)


def test_the_printed_command_reads_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can be pasted as it is."""
    path = _file(tmp_path, "timestamp,input_tokens,output_tokens\n5,7,8\n")
    assert main(["traces", "inspect", str(path)]) == 2
    command = capsys.readouterr().err.partition("name them: bfio ")[2].partition(";")[0]
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True
    )
    assert main([*words.stdout.splitlines(), "--json"]) == 0
    assert '"requests": 1' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("prompt", "'prompt' is not of the form role=NAME"),
        ("prompt=,output=b", "'prompt=' is not of the form role=NAME"),
        ("prompt=a,prompt=b,output=c", "prompt is given twice"),
        ("promt=a,output=b", "unknown role 'promt'; did you mean prompt"),
        ("prompt=a,output=z", "column 'z' does not exist"),
        ("prompt=a", "role output has no column"),
        ("arrival=c,arrival_ms=d,prompt=a,output=b", "arrival and arrival_ms"),
        ("prompt=a,output=a", "column 'a' has two roles"),
    ],
)
def test_bad_choices(tmp_path: Path, columns: str, message: str) -> None:
    """Each is one line that says what to write."""
    path = _file(tmp_path, "a,b,c,d\n1,2,3,4\n")
    with pytest.raises(InputError) as caught:
        read_trace(path, columns=columns)
    assert message in str(caught.value)


@pytest.mark.parametrize("columns", [["a", "b"], {"prompt": 1, "output": "b"}])
def test_columns_of_another_type(tmp_path: Path, columns: Any) -> None:
    """Neither is a traceback."""
    with pytest.raises(InputError):
        read_trace(_file(tmp_path, "a,b\n1,2\n"), columns=columns)


def test_other_units_in_the_columns_of_a_published_format(tmp_path: Path) -> None:
    """Mooncake counts whole milliseconds; fractions are doubted."""
    path = tmp_path / "f.jsonl"
    path.write_text('{"timestamp": 1.5, "input_length": 3, "output_length": 4}\n')
    with pytest.raises(InputError, match="arrival=timestamp,prompt=input_length"):
        read_trace(path)


def test_columns_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """They would be ignored without a word."""
    assert main(["simulate", "--policy", "fcfs", "--columns", "prompt=a,output=b"]) == 2
    assert "has no effect without --trace" in capsys.readouterr().err


UTC = datetime.UTC
TWICE = pa.table([[1], [2], [3]], names=["isl", "isl", "osl"])
DAY = datetime.datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("arrival", "role"),
    [
        ([DAY + datetime.timedelta(seconds=2), DAY], "arrival"),
        (np.array([2.0, 0.0]), "arrival"),
        (np.array([3000, 1000]), "arrival_ms"),
        (["2024-01-01 00:00:02", "2024-01-01 00:00:00"], "arrival"),
        (pa.array([2 * 10**9, 0], pa.timestamp("ns")), "arrival"),
        (["2e0", "0"], "arrival"),
    ],
)
def test_frames(arrival: Any, role: str) -> None:
    """Whatever type the columns have."""
    frame = {"t": arrival, "in": np.array([1.0, 2.0]), "out": [3, 4]}
    workload = Workload.from_frame(
        frame, columns={role: "t", "prompt": "in", "output": "out"}, name="mine"
    )
    assert workload.name == "mine"
    assert workload.prompt_tokens.tolist() == [2, 1]
    assert workload.arrival_times == (Fraction(0), Fraction(2))
    assert Workload.from_frame(pa.table(frame), columns=f"{role}=t,prompt=in,output=out").name


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (3, "mine: is not a table"),
        ({"a": [1]}, 'name them: columns="prompt=NAME,output=NAME"'),
        ({"input_tokens": [1, 2.5], "osl": [1, 2]}, "mine row 2 column 'input_tokens': '2.5'"),
        ({"input_tokens": [1, None], "osl": [1, 2]}, "mine row 2 column 'input_tokens': ''"),
        ({"input_tokens": [1, float("nan")], "osl": [1, 2]}, "mine row 2 column 'input_tokens'"),
        (
            {"input_tokens": ["1", "x"], "osl": [1, 2]},
            "number; correct the row or add skip_bad_rows=True",
        ),
        ({"input_tokens": [], "osl": []}, "mine: no requests"),
        ({"input_tokens": [[1]], "osl": [1]}, "mine row 1 column 'input_tokens'"),
        ({"input_tokens": [1], "osl": [1, 2]}, "mine: is not a table"),
        ({"input_tokens": [10**30], "osl": [1]}, "mine: is not a table"),
        (
            pa.table([[1], [2], [3]], names=["isl", "isl", "osl"]),
            "mine: column 'isl' occurs twice",
        ),
        (
            {"arrival_s": [datetime.timedelta(seconds=1)], "isl": [1], "osl": [2]},
            "mine column 'arrival_s': holds durations",
        ),
        (
            {"arrival_s": [DAY, DAY.replace(tzinfo=None)], "isl": [1, 1], "osl": [2, 2]},
            "some dates have a UTC offset and some have none",
        ),
    ],
)
def test_bad_frames(frame: object, message: str) -> None:
    """Rows of a frame are numbered from 1."""
    with pytest.raises(InputError) as caught:
        Workload.from_frame(frame, name="mine")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["time, s", 'a "b", c', "it's, so", "plain"])
def test_the_printed_command_reads_a_header_with_commas(tmp_path: Path, name: str) -> None:
    """As a shell reads it, quotes and all."""
    path = tmp_path / "odd name.csv"
    with path.open("w", newline="") as stream:
        rows = [(name, "in, all", "out, all"), ("2024-01-01 00:00:00", 1, 2)]
        csv.writer(stream).writerows(rows)
    columns = {"arrival": name, "prompt": "in, all", "output": "out, all"}
    written = suggested_columns(columns)
    assert parse_columns(written) == columns
    assert shlex.split(shlex.join(["--columns", written]))[1] == written
    assert len(read_trace(path, columns=written)) == 1


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("time,prompt,output\n1700000000000,1,2\n", "--columns arrival_ms=time,prompt=prompt,"),
        ("time,prompt,output\n1700000000000000,1,2\n", "--columns arrival_us=time,"),
        ("time,prompt,output\n2024-01-01,1,2\n", "; 'time' is omitted: '2024-01-01' in"),
        ("time_s,prompt,output\n1700000000000,1,2\n", "(name the column as arrival_ms?)"),
        ("time_s;prompt;output\n0,5;1;2\n", "is not a finite decimal number (a decimal comma?"),
        ('prompt,output\n"1,5",2\n', "whole number (a decimal comma? write a point)"),
        ("prompt;output\n1.000;2\n", "'1.000' may be 1000 or 1 (points between thousands?"),
        ("prompt;output\n2;12.345.678\n", "'12.345.678' may be 12345678 or 12 (points"),
        ("time_s,prompt,output\n2024-01-01,1,2\n", "(dates are written 2024-01-31 12:00:00)"),
        ('[{"prompt": 1, "output": 2}]', "not JSON Lines; write one object a line: jq"),
        (
            '{\n  "prompt": 1,\n  "output": 2\n}\n',
            "line 1: not valid JSON Lines: its first object does",
        ),
        ('{"prompt": 1,\n "output": 2}\n', "on the line; write one object a line: jq -c . "),
        ('{"prompt": 1, "output" 2}\n', "line 1 column 24: not valid JSON"),
        ('[\n{"prompt": 1, "output": 2}\n]', "is a JSON array, not JSON Lines"),
    ],
)
def test_what_a_file_might_mean_is_told(tmp_path: Path, rows: str, words: str) -> None:
    """Units of epochs, decimal commas, dates that are cut, JSON that is no JSON Lines."""
    path = tmp_path / "trace.csv"
    path.write_text(rows)
    for skip in (False, True):
        with pytest.raises(InputError, match=re.escape(words)) as caught:
            read_trace(path, skip_bad_rows=skip and "{" in rows)
        assert "{" not in rows or "skip_bad_rows=True" not in caught.value.remedy


def test_fractions_of_a_second_may_stand_behind_a_comma(tmp_path: Path) -> None:
    """As ISO 8601 allows; both readers take the same times."""
    path = tmp_path / "trace.csv"
    lines = [f'"2024-01-01 12:00:{k % 60:02},{k % 10}",1,2' for k in range(60)]
    path.write_text("\n".join(["time,prompt,output", *lines]))
    times = read_trace(path).arrival_seconds()
    assert times[1] == 1.1


def test_a_comment_before_the_header_is_told(tmp_path: Path) -> None:
    """With columns named or not; a header that begins with the sign is one all the same."""
    path = tmp_path / "mine.csv"
    path.write_text("# exported, v2\nZeit,in,out\n0,5,3\n")
    for columns in (None, "arrival=Zeit,prompt=in,output=out"):
        with pytest.raises(InputError, match="begins with a comment, '# exported, v2'"):
            read_trace(path, columns=columns)
    path.write_text("#Zeit,in,out\n0,5,3\n")
    assert len(read_trace(path, columns="arrival=#Zeit,prompt=in,output=out")) == 1


@pytest.mark.parametrize("cell", ["0.000", "721.0", "721.", "1000.000", "1.0000"])
def test_floats_that_are_no_thousands(
    cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both readers take them; decimals of a frame have a type that says what they are."""
    path = _file(tmp_path, f"prompt,output\n5,1\n{cell},{int(float(cell) > 0)}\n")
    for least in (0, 10**9):
        monkeypatch.setattr("bfio.workloads.trace_file.COLUMNAR_FROM_BYTES", least)
        prompts = read_trace(path).prompt_tokens.tolist()
        assert prompts == [5, int(float(cell))][: len(prompts)]
        assert len(prompts) == 1 + (float(cell) > 0)
    decimals = pa.array([Decimal("721.000")], pa.decimal128(10, 3))
    assert Workload.from_frame({"prompt": decimals, "output": [1]}).prompt_tokens.tolist() == [721]


def test_thousands_are_refused_by_both_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of columns leaves them to that of rows, which names the place."""
    path = _file(tmp_path, "prompt;output\n5;1\n1.000;2\n")
    for least in (0, 10**9):
        monkeypatch.setattr("bfio.workloads.trace_file.COLUMNAR_FROM_BYTES", least)
        with pytest.raises(InputError, match=r"line 3 column 'prompt': '1\.000' may be 1000 or 1"):
            read_trace(path)
