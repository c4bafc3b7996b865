"""Damaged files: every error says where, what and what to do, and rows can be skipped."""

import gzip
import json
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.workloads import Workload, read_trace
from bfio.workloads.tables import MAX_LINE
from formulations.errors import InputError
from tests.workloads.published import BURSTGPT_1, MOONCAKE

HEADER = b"arrival_time_s,prompt_tokens,output_tokens\n"
GPT = b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def _file(folder: Path, content: bytes, name: str = "file.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _read_bytes(content: bytes, **options: bool | int) -> Workload:
    with tempfile.TemporaryDirectory() as folder:
        return read_trace(_file(Path(folder), content), **options)  # type: ignore[arg-type]


BAD_ROWS = [
    (b"0,-1,4", "column 'prompt_tokens'", "'-1' is negative"),
    (b"0,3.5,4", "column 'prompt_tokens'", "'3.5' is not a whole number"),
    (b"0,3e0,4", "column 'prompt_tokens'", "'3e0' is not a whole number"),
    (b"0,.0,4", "column 'prompt_tokens'", "'.0' is not a whole number"),
    (b"0,3,nan", "column 'output_tokens'", "'nan' is not a whole number"),
    (b"0,3,1_000", "column 'output_tokens'", "'1_000' is not a whole number"),
    (b"0,3,", "column 'output_tokens'", "'' is not a whole number"),
    (b"0,3,1000000000001", "column 'output_tokens'", "is more than 1000000000000 tokens"),
    (b"0,0,5", "column 'prompt_tokens'", "0 prompt tokens for 5 output tokens"),
    (b"-0.5,3,4", "column 'arrival_time_s'", "'-0.5' is negative"),
    (b"nan,3,4", "column 'arrival_time_s'", "'nan' is not a finite decimal number"),
    (b"inf,3,4", "column 'arrival_time_s'", "'inf' is not a finite decimal number"),
    (b"1e9999999,3,4", "column 'arrival_time_s'", "'1e9999999' is not a finite decimal number"),
    (b"1e99,3,4", "column 'arrival_time_s'", "'1e99' is more than"),
    ("١,3,4".encode(), "column 'arrival_time_s'", "'١' is not a finite decimal number"),
    (b"0,3", "", "2 cells for 3 columns"),
    (b"0,3,4,5", "", "4 cells for 3 columns"),
    (b"hello", "", "1 cells for 3 columns"),
]


@pytest.mark.parametrize(("row", "column", "what"), BAD_ROWS)
def test_bad_row(tmp_path: Path, row: bytes, column: str, what: str) -> None:
    """A bad row stops the reading, naming file, line, column and value."""
    path = _file(tmp_path, HEADER + b"1,2,3\n\n" + row + b"\n9,8,7\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    # Header 1, row 2, a blank line 3, the bad row 4.
    assert caught.value.where == f"{path} line 4 {column}".rstrip()
    assert what in caught.value.what
    assert "skip_bad_rows=True" in caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_bad_first_object_is_skipped(tmp_path: Path) -> None:
    """The first valid one tells the format; if there is none, the first is reported."""
    path = tmp_path / "t.jsonl"
    good = '{"timestamp":5,"input_length":4,"output_length":3,"hash_ids":[1]}\n'
    path.write_text(good.replace("4", "NaN") * 2 + good)
    with pytest.raises(InputError, match="line 1 input_length: NaN is not a finite number"):
        read_trace(path)
    assert read_trace(path, skip_bad_rows=True).prompt_tokens.tolist() == [4]
    path.write_text(good.replace("4", "NaN"))
    with pytest.raises(InputError, match=r"line 1 input_length.*correct the row$"):
        read_trace(path, skip_bad_rows=True)


@pytest.mark.parametrize(("row", "column", "what"), BAD_ROWS)
def test_bad_row_skipped(tmp_path: Path, row: bytes, column: str, what: str) -> None:
    """On request bad rows are counted and left out; the first is kept as a message."""
    path = _file(tmp_path, HEADER + b"1,2,3\n" + row + b"\n" + row + b"\n9,8,7\n")
    workload = read_trace(path, skip_bad_rows=True)
    assert workload.prompt_tokens.tolist() == [2, 8]
    assert workload.provenance["skipped_bad_rows"] == 2
    assert workload.provenance["rows"] == 4
    message = str(workload.provenance["first_bad_row"])
    assert message.startswith(f"{path} line 3 {column}".rstrip())
    assert what in message


def test_published_format_names_its_own_column(tmp_path: Path) -> None:
    """The column is named as the file names it."""
    path = _file(tmp_path, BURSTGPT_1.content + b"70,GPT-4,5,x,6,API log\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.where == f"{path} line 6 column 'Response tokens'"
    assert "'x'" in caught.value.what


@pytest.mark.parametrize(
    ("line", "where", "what"),
    [
        (b'{"timestamp": 1, "input_length": 3}', "column 'output_length'", "missing"),
        (b'{"timestamp": 1, "input_length": 3.5, "output_length": 4}', "column 'input", "3.5"),
        (b'{"timestamp": 1, "input_length": true, "output_length": 4}', "column 'input", "True"),
        (b'{"timestamp": "x", "input_length": 3, "output_length": 4}', "column 'timest", "'x'"),
        (b'{"timestamp": NaN, "input_length": 3, "output_length": 4}', "", "NaN"),
        (b'{"timestamp": 1e999, "input_length": 3, "output_length": 4}', "", "1e999"),
        (b'{"timestamp": 1, "timestamp": 2}', "timestamp", "occurs twice"),
        (rb'{"a\n\nb": 1, "a\n\nb": 2}', "a b", "occurs twice"),
        (b'{"timestamp": 1, ', "column 17", "not valid JSON"),
        (b"[1, 2, 3]", "", "expected a JSON object"),
        (b"[" * 100_000, "", "not readable as JSON"),
        (b'{"timestamp": 1' + b"0" * 5000 + b"}", "", "not readable as JSON"),
        (b"7,8,9", "column 2", "not valid JSON"),
    ],
)
def test_bad_json_line(tmp_path: Path, line: bytes, where: str, what: str) -> None:
    """JSON Lines are read strictly; a bad line is told, or skipped on request."""
    path = _file(tmp_path, MOONCAKE.content + line + b"\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.where.startswith(f"{path} line 4 {where}".rstrip())
    assert what in caught.value.what
    assert "skip_bad_rows=True" in caught.value.remedy
    workload = read_trace(path, skip_bad_rows=True)
    assert (len(workload), workload.provenance["skipped_bad_rows"]) == (3, 1)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\n \n\r\n", "is empty"),
        (b'""\n1\n', "no known trace format"),
        (HEADER, "no requests (0 rows, 0 without output, 0 bad)"),
        (GPT + b"5,GPT-4,0,0,0,API log\n", "no requests (1 row, 1 without output, 0 bad)"),
        (b"time,in,out\n1,2,3\n", "no known trace format has the columns 'time, in, out'"),
        (b"0.5,3,4\n1,2,3\n", "no known trace format"),
        (HEADER.replace(b",", b" ") + b"1 2 3\n", "no known trace format"),
        (b"prompt_tokens,prompt_tokens,output_tokens\n1,2,3\n", "'prompt_tokens' occurs twice"),
        (b"a," * 1_000_000 + b"\n", "'a' occurs twice"),
        (b",".join(b"%d" % i for i in range(50_000)), "no known trace format"),
        (HEADER + b'1,"2,3\n4,5,6\n', "not valid CSV"),
        (HEADER + b'1,"2"3,3\n', "not valid CSV"),
        (HEADER + b"1,2,3\n\xff,5,6\n", "byte 0xff is not UTF-8 text"),
        (HEADER.decode().encode("utf-16"), "binary data"),
        (b"\x00" * 100, "binary data"),
        (b"PK\x03\x04\x00\x00", "binary data"),
        (HEADER + b"1," + b"2" * (MAX_LINE + 1) + b",3\n", "is longer than"),
        (HEADER + b"1," + b"2" * 200_000 + b",3\n", "field larger than field limit"),
        (gzip.compress(HEADER + b"1,2,3\n" * 9999, mtime=0)[:-20], "damaged gzip data"),
        (gzip.compress(HEADER + b"1,2,3\n", mtime=0)[:-1] + b"\x77", "damaged gzip data"),
        (b"\x1f\x8b", "damaged gzip data"),
        (b"\x1f\x8b\x08 not gzip at all", "damaged gzip data"),
        (b'{"timestamp": 1}\n', "no known trace format"),
        (b'{"timestamp": \n', "not valid JSON"),
        (b'{"arrival": 1, "prompt_tokens": 2, "output_tokens": 3}\n', "no known trace"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_bad_file(tmp_path: Path, content: bytes, what: str, skip: bool) -> None:
    """What damages the file as a whole is an error, with or without skipping of rows."""
    path = _file(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_trace(path, skip_bad_rows=skip)
    assert caught.value.where.startswith(str(path))
    assert what in caught.value.what
    assert "\n" not in str(caught.value)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    """Neither a missing file nor a directory ends in a traceback."""
    with pytest.raises(InputError, match="No such file"):
        read_trace(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="directory"):
        read_trace(tmp_path)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("rows", [b"1,2,3\n,4,5\n", b",2,3\n1,4,5\n"])
def test_mixed_blank_times(rows: bytes, skip: bool) -> None:
    """Times on some rows only are an error that skipping does not hide."""
    with pytest.raises(InputError, match="line 3: only some rows have an arrival time"):
        _read_bytes(HEADER + rows, skip_bad_rows=skip)


@pytest.mark.parametrize("skip", [False, True])
def test_json_rows_with_a_time_after_one_without(tmp_path: Path, skip: bool) -> None:
    """Keys of later rows count: a trace with some times is never read as one without."""
    rows = [{"prompt_tokens": 1, "output_tokens": 2}] * 2
    rows.append({"arrival_time_s": 3, "prompt_tokens": 4, "output_tokens": 5})
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match="line 3: only some rows have an arrival time"):
        read_trace(path, skip_bad_rows=skip)
    with pytest.raises(InputError, match="row 1 column 'arrival_time_s'"):
        Workload.from_frame(
            rows, columns="arrival=arrival_time_s,prompt=prompt_tokens,output=output_tokens"
        )
    path.write_text("\n".join(map(json.dumps, rows[:2])))
    assert read_trace(path).arrival_times is None


def test_damage_after_the_limit_is_not_read() -> None:
    """With a limit, reading stops there: this is how the head of a huge trace is taken."""
    content = HEADER + b"0,1,0\n0,1,2\n1,3,4\nrubbish\n"
    workload = _read_bytes(content, limit=2)
    assert workload.prompt_tokens.tolist() == [1, 3]
    assert workload.provenance["rows"] == 3
    with pytest.raises(InputError, match="limit"):
        _read_bytes(content, limit=0)


def test_rebased_to_the_earliest_row() -> None:
    """The origin is the earliest row, even if it is dropped or comes late in the file."""
    rows = b"30,m,1,2,3,l\n20,m,3,4,7,l\n10,m,0,0,0,l\n30,m,5,6,11,l\n"
    workload = _read_bytes(GPT + rows)
    assert workload.arrival_times == (Fraction(10), Fraction(20), Fraction(20))
    # 20 comes after 30 and is late; the two at 30 keep their order (1 before 5).
    assert workload.prompt_tokens.tolist() == [3, 1, 5]
    assert workload.provenance["out_of_order_rows"] == 1
    assert workload.provenance["time_origin_s"] == "10"


def test_name_drops_endings(tmp_path: Path) -> None:
    """A workload is named after its file."""
    content = HEADER + b"0,1,2\n"
    assert read_trace(_file(tmp_path, content, "a.b.csv.gz")).name == "a.b"
    assert read_trace(_file(tmp_path, content, ".csv")).name == ".csv"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 99), st.integers(0, 5)), min_size=1))
def test_sorting_is_stable(rows: list[tuple[int, int, int]]) -> None:
    """Against Python's own stable sort, with many ties and dropped rows."""
    kept = [row for row in rows if row[2] > 0]
    content = HEADER + b"".join(b"%d,%d,%d\n" % row for row in rows)
    if not kept:
        with pytest.raises(InputError, match="no requests"):
            _read_bytes(content)
        return
    workload = _read_bytes(content)
    ordered = sorted(kept, key=lambda row: row[0])
    assert workload.arrival_times == tuple(Fraction(row[0]) for row in ordered)
    assert workload.prompt_tokens.tolist() == [row[1] for row in ordered]
    assert workload.output_tokens.tolist() == [row[2] for row in ordered]
    late = sum(any(before[0] > row[0] for before in kept[:i]) for i, row in enumerate(kept))
    assert workload.provenance["out_of_order_rows"] == late
    assert workload.provenance["dropped_zero_output"] == len(rows) - len(kept)


@given(st.binary(max_size=200), st.sampled_from([b"", HEADER, GPT, MOONCAKE.content, b"\x1f\x8b"]))
def test_any_bytes_end_in_a_workload_or_an_input_error(tail: bytes, head: bytes) -> None:
    """Nothing but `InputError` ever leaves the reader, whatever the file holds."""
    for skip in (False, True):
        try:
            workload = _read_bytes(head + tail, skip_bad_rows=skip)
        except InputError:
            continue
        else:
            assert len(workload) > 0


@given(st.text(alphabet='0123456789.,eE-+"{}: \n\r\tinfa_', max_size=120))
def test_any_text_after_a_header(tail: str) -> None:
    """The same with text that looks like rows."""
    for head in (HEADER, MOONCAKE.content):
        try:
            workload = _read_bytes(head + tail.encode(), skip_bad_rows=True)
        except InputError:
            continue
        assert workload.prompt_tokens.min() >= 1
