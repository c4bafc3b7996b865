"""Every published format is recognised and read exactly."""

import gzip
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import bfio.workloads.trace_formats as format_modules
from bfio.workloads import detect_format, formats, read_trace
from bfio.workloads.statistics import requests_used
from formulations.errors import InputError
from tests.workloads.published import ALL, Published

PLUG_IN = """
from bfio.workloads.trace_format import token_lengths
from bfio.workloads.trace_format import RequestRow, TraceFormat

FORMAT = TraceFormat(
    name="pairs", description="in and out", source="a test", columns=("in", "out"),
    parse=lambda row: RequestRow(None, *token_lengths(row, "in", "out")),
)
NOT_A_FORMAT = 3
TAKEN = TraceFormat("vidur", "", "", ("in",), FORMAT.parse)
"""

CSV_FILES = sorted(name for name, file in ALL.items() if not file.content.startswith(b"{"))


@pytest.fixture(params=sorted(ALL))
def published(request: pytest.FixtureRequest) -> Published:
    """Return each hand-written file in turn."""
    return ALL[request.param]


def _write(folder: Path, content: bytes, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _assert_read(path: Path, published: Published) -> None:
    workload = read_trace(path)
    assert tuple(workload.prompt_tokens.tolist()) == published.prompts
    assert tuple(workload.output_tokens.tolist()) == published.outputs
    assert workload.arrival_times == published.times
    assert workload.provenance["format"] == published.format
    assert workload.provenance["dropped_zero_output"] == published.dropped
    assert workload.provenance["skipped_bad_rows"] == 0


def test_read_exactly(published: Published, tmp_path: Path) -> None:
    """Lengths, times and counts are those written by hand."""
    path = _write(tmp_path, published.content)
    assert detect_format(path).name == published.format
    _assert_read(path, published)


@pytest.mark.parametrize("name", ["trace.csv.gz", "trace.csv", "trace"])
def test_gzip_is_recognised_by_content(published: Published, tmp_path: Path, name: str) -> None:
    """A compressed file is read whatever its name ends in."""
    _assert_read(_write(tmp_path, gzip.compress(published.content), name), published)


def test_plain_file_named_gz(published: Published, tmp_path: Path) -> None:
    """A plain file is read though its name promises gzip."""
    _assert_read(_write(tmp_path, published.content, "trace.gz"), published)


def test_byte_order_mark(published: Published, tmp_path: Path) -> None:
    """A UTF-8 byte-order mark is dropped, plain and compressed."""
    marked = b"\xef\xbb\xbf" + published.content
    _assert_read(_write(tmp_path, marked), published)
    _assert_read(_write(tmp_path, gzip.compress(marked), "b"), published)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_and_blank_lines(published: Published, tmp_path: Path, end: bytes) -> None:
    """Any line end, blank lines between rows and at both ends, and no last line end are fine."""
    rows = re.split(rb"\r?\n", published.content)
    _assert_read(_write(tmp_path, end + (end + end).join(rows).rstrip() + end), published)
    _assert_read(_write(tmp_path, end.join(rows).rstrip()), published)


@pytest.mark.parametrize("name", CSV_FILES)
def test_columns_are_read_by_name(name: str, tmp_path: Path) -> None:
    """Reversed columns and an additional one change nothing; for JSON see the next test."""
    published = ALL[name]
    rows = published.content.decode().splitlines()
    turned = [",".join([*reversed(row.split(",")), f"x{i}"]) for i, row in enumerate(rows)]
    _assert_read(_write(tmp_path, "\n".join(turned).encode()), published)


def test_json_key_order(tmp_path: Path) -> None:
    """Keys of JSON Lines may come in any order, with others beside them."""
    path = _write(
        tmp_path,
        b'{"output_length":2,"x":null,"timestamp":1500,"input_length":3,"hash_ids":[4]}\n',
    )
    workload = read_trace(path)
    assert (workload.prompt_tokens.tolist(), workload.output_tokens.tolist()) == ([3], [2])
    # 1500 ms, the earliest row, is the origin.
    assert workload.provenance["time_origin_s"] == "1.5"


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize(
    "column", ["begin_time", "ttft_ms", "prefix_length", "NumImages", "turn_id"]
)
def test_what_is_not_read_is_named(name: str, column: str, tmp_path: Path) -> None:
    """A column that may tell of requests is named, or refused; the rest is read as without it."""
    published = ALL[name]
    head, *rows = published.content.decode().splitlines()
    if name in CSV_FILES:
        lines = [f"{head},{column}", *(f"{row},1" for row in rows)]
    else:
        lines = [f'{row[:-1]}, "{column}": 1}}' for row in (head, *rows)]
    path = _write(tmp_path, "\n".join(lines).encode())
    if (name, column) == ("etalon", "begin_time"):
        with pytest.raises(
            InputError, match=r"'begin_time' looks like a time; name them: .* arrival="
        ):
            read_trace(path)
        return
    _assert_read(path, published)
    workload = read_trace(path)
    unused = workload.provenance["unused_columns"]
    assert isinstance(unused, list)
    assert column in unused
    assert "columns not read: " in requests_used(workload)


def test_mooncake_counts_whole_milliseconds(tmp_path: Path) -> None:
    """Of every row; times without hashes may be seconds, and are doubted."""
    row = '{"timestamp": %s, "input_length": 12, "output_length": 9, "hash_ids": [1]}\n'
    path = _write(tmp_path, (row % 0 + row % 120.5).encode())
    with pytest.raises(
        InputError, match=r"line 2 column 'timestamp': 120.5 is not a whole number"
    ):
        read_trace(path)
    path = _write(tmp_path, b'{"timestamp": 0, "input_length": 12, "output_length": 9}\n')
    with pytest.raises(InputError, match="'timestamp' has no unit"):
        read_trace(path)


def test_vidur_with_total_columns_keeps_its_times(tmp_path: Path) -> None:
    """A file that Etalon's reader could take too is Vidur's if it has arrival times."""
    path = _write(
        tmp_path,
        b"arrived_at,num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
        b"0.5,1,2,3,0.5\n",
    )
    assert detect_format(path).name == "vidur"


def test_listing() -> None:
    """Every format of the folder is there, and names and texts are filled in."""
    known = formats()
    modules = [module.name for module in pkgutil.iter_modules(format_modules.__path__)]
    assert modules == ["built_in", "vidur"]
    assert len(known) == 11
    assert {f.name for f in known} == {published.format for published in ALL.values()}
    for trace_format in known:
        assert trace_format.description
        assert trace_format.source
        assert len(trace_format.columns) >= 2


def _install(folder: Path, target: str) -> None:
    (folder / "pairs_plug_in.py").write_text(PLUG_IN)
    metadata = folder / "pairs_plug_in-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pairs-plug-in\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[bfio.trace_readers]\npairs = {target}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder on the import path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "pairs_plug_in", raising=False)
    return folder


def test_entry_point(site: Path, tmp_path: Path) -> None:
    """An installed package adds a format through the entry-point group."""
    _install(site, "pairs_plug_in:FORMAT")
    path = _write(tmp_path, b"in,out\n3,4\n")
    assert detect_format(path).name == "pairs"
    assert read_trace(path).output_tokens.tolist() == [4]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pairs_plug_in:NOT_A_FORMAT", "is not a TraceFormat"),
        ("pairs_plug_in:TAKEN", "'vidur' is taken"),
        ("pairs_plug_in:NOWHERE", "cannot be loaded"),
        ("no_such_module_here:FORMAT", "cannot be loaded"),
    ],
)
def test_broken_entry_point(site: Path, target: str, message: str) -> None:
    """A broken package is named instead of being ignored."""
    _install(site, target)
    with pytest.raises(InputError, match=message) as caught:
        formats()
    assert caught.value.where == "entry point bfio.trace_readers:pairs"
