"""The two readers give the same requests, or the reader of rows says what is wrong."""

import gzip
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bfio.workloads import Workload, columnar, read_trace, trace_file
from bfio.workloads.columnar import Irregular, from_texts, read_columns
from bfio.workloads.tables import open_content, open_table
from bfio.workloads.trace_format import RequestColumns, TimeColumn
from bfio.workloads.trace_formats import formats
from formulations.errors import InputError
from tests.workloads.published import ALL

BY_NAME = {form.name: form for form in formats()}
WHOLE = st.integers(0, 10**6).map(str)
FLOATS = st.integers(0, 10**6).map(lambda n: f"{n}.0")
NUMBERS = st.decimals(0, 10**9, places=6, allow_nan=False).map(str)
LONG = st.decimals(0, 10**6, places=15, allow_nan=False).map(str)
DAYS = st.datetimes().map(lambda day: day.isoformat(sep=" "))
ZONES = st.sampled_from(["Z", "+00:00", "-07:30", "+05:45"])
#: What one of the readers may take for something else, or not take at all.
ODD = st.sampled_from(
    [
        "", " ", " 7", "7 ", "+7", "-7", "0x10", "1e3", "7.", ".5", "7.0", "7.5", "1_000", "nan",
        "null", "NA", "true", "\u0667", "\u00a07", '"7"', '"7', '7"', '"7,8"', "9" * 19, "9" * 40,
        "1000000000001", "2024-02-30 00:00:00", "2024-02-28", "2024-02-28T00:00:00",
        "2024-02-28 24:00:00", "2024-02-28 00:00:60", "1600-01-01 00:00:00", "x", ",", "7\r", "\r",
        "\r7", "7\n", "\t7", "7\x00", "\u20287", "2024-02-28 00:00:00 UTC",
        "2024-02-28 00:00:00+01",
    ]
)  # fmt: skip
FORMATS = {
    BY_NAME["bfio"]: NUMBERS | LONG | st.just(""),
    BY_NAME["vidur"]: NUMBERS | LONG,
    BY_NAME["burstgpt-1"]: WHOLE | NUMBERS,
    BY_NAME["azure-2023"]: DAYS,
    BY_NAME["azure-2024"]: st.builds(str.__add__, DAYS, ZONES),
}


@st.composite
def tables(draw: st.DrawFn, *, odd: bool) -> bytes:
    """Draw a file of some format, with a few odd cells."""
    form = draw(st.sampled_from(list(FORMATS)))
    delimiter = draw(st.sampled_from([",", ";", "\t"])) if odd else ","
    end = draw(st.sampled_from(["\n", "\r\n"]))
    blank = draw(st.booleans()) and form is BY_NAME["bfio"]
    lengths = draw(st.sampled_from([WHOLE, FLOATS])) if odd else WHOLE
    rows = [delimiter.join(form.columns)]
    for _ in range(draw(st.integers(0, 12))):
        row = []
        for column in form.columns:
            cell = lengths
            if column in ("TIMESTAMP", "arrival_time_s", "arrived_at", "Timestamp"):
                cell = st.just("") if blank else FORMATS[form].filter(bool)
            elif column in ("Model", "Log Type"):
                cell = st.sampled_from(["GPT-4", "API log", "Modèle", ""])
            row.append(draw(cell))
        rows.append(delimiter.join(row))
    if odd and draw(st.booleans()):
        place = draw(st.integers(0, len(rows) - 1))
        rows.insert(place, draw(st.sampled_from(["", " ", "\ufeff", delimiter, "1", "\x0c"])))
    if odd and len(rows) > 1:
        for _ in range(draw(st.integers(0, 2))):
            place = draw(st.integers(1, len(rows) - 1))
            cells = rows[place].split(delimiter)
            cells[draw(st.integers(0, len(cells) - 1))] = draw(ODD)
            rows[place] = delimiter.join(cells)
    text = end.join(rows) + draw(st.sampled_from(["", end, end * 2]))
    return text.encode()


def _outcome(path: Path, **options: bool | int | None) -> object:
    try:
        return _facts(read_trace(path, **options))  # type: ignore[arg-type]
    except InputError as error:
        return str(error)


def _facts(workload: Workload) -> object:
    times = workload.arrival_times
    return (
        workload.prompt_tokens.tolist(),
        workload.output_tokens.tolist(),
        None if times is None else tuple(times),
        workload.name,
        dict(workload.provenance),
    )


def _both(path: Path, **options: bool | int | None) -> tuple[object, object]:
    answers = []
    for least in (0, 10**18):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trace_file, "COLUMNAR_FROM_BYTES", least)
            answers.append(_outcome(path, **options))
    return answers[0], answers[1]


@given(tables(odd=True), st.booleans(), st.none() | st.integers(1, 6))
@example(b"arrival_time_s,prompt_tokens,output_tokens\n1,2,3\n,2,3\n", False, None)
@example(b"arrival_time_s,prompt_tokens,output_tokens\n5,2,3\n0.5,2,0\n1,2,3\n", False, None)
@example(b"arrival_time_s,prompt_tokens,output_tokens\n5,2,3\n0.5,x,1\n1,2,3\n", True, 1)
@example(b"arrival_time_s,prompt_tokens,output_tokens\n1,0,3\n", False, None)
def test_both_readers_agree(content: bytes, skip: bool, limit: int | None) -> None:
    """Same requests and same account of them, or the same error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        path.write_bytes(content)
        columns, rows = _both(path, skip_bad_rows=skip, limit=limit)
    assert columns == rows


@given(tables(odd=False))
def test_regular_files_are_read_by_columns(content: bytes) -> None:
    """The fast reader gives up only where the file is irregular or its times are too long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        path.write_bytes(content)
        with open_table(path) as table, open_content(path) as stream:
            if not table.first_row:
                return
            form = trace_file.detect_format(path)
            stream.readline()
            longest = max(len(line) for line in content.splitlines())
            try:
                found = read_columns(stream, ",", table.header, form.parse, None)  # type: ignore[arg-type]
            except Irregular:
                # Fifteen decimals of a million seconds do not fit into 64 bits; a year may be
                # one that the clock of computers does not reach.
                assert longest > 30 or b"." in content
            else:
                assert len(found.prompt) > 0


@pytest.mark.parametrize("name", sorted(ALL))
def test_published_formats(tmp_path: Path, name: str) -> None:
    """Every published format is read alike."""
    path = tmp_path / "trace.csv"
    path.write_bytes(ALL[name].content)
    columns, rows = _both(path)
    assert columns == rows
    assert not isinstance(columns, str)


def test_real_traces_are_read_alike(shared_data: Path) -> None:
    """All traces at hand, packed or not, in both readers; most of them by columns."""
    for path in sorted([*shared_data.glob("*.csv.gz"), *shared_data.glob("raw_excerpts/*.csv")]):
        columns, rows = _both(path, limit=3000)
        assert columns == rows, path


def test_many_blocks_with_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are cut at line ends; a limit ends the reading at its request."""
    monkeypatch.setattr(columnar, "_BLOCK", 10_000)
    rng = np.random.default_rng(1)
    rows = zip(*rng.integers(0, 1000, (3, 6_000)).tolist(), strict=True)
    lines = b"".join(
        b"%d.%03d,%d,%d\n" % (i // 100, a, b + 1, c) for i, (a, b, c) in enumerate(rows)
    )
    path = tmp_path / "long.csv.gz"
    path.write_bytes(
        gzip.compress(b"arrived_at,num_prefill_tokens,num_decode_tokens\n" + lines, 1)
    )
    for limit in (None, 2_345):
        columns, by_rows = _both(path, limit=limit)
        assert columns == by_rows


def test_a_late_error_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fast reader meets in a late block is told as ever."""
    monkeypatch.setattr(columnar, "_BLOCK", 10_000)
    path = tmp_path / "long.csv"
    good = b"1,2,3\n" * 4_000
    path.write_bytes(b"arrival_time_s,prompt_tokens,output_tokens\n" + good + b"1,2\n" + good)
    with pytest.raises(InputError, match=r"long\.csv line 4002: has 2 cells for 3 columns"):
        read_trace(path)
    skipped = read_trace(path, skip_bad_rows=True)
    assert (len(skipped), skipped.provenance["skipped_bad_rows"]) == (8_000, 1)


def test_ticks_beyond_64_bits() -> None:
    """Times that 64 bits do not hold at their own resolution are exact all the same."""
    texts = pa.table(
        {"arrived_at": ["1.5", "3.000000000000001"], "a": ["1", "2"], "b": ["3", "4"]}
    )
    times = from_texts(texts, RequestColumns("a", "b", TimeColumn("arrived_at"))).times
    assert times is not None
    assert tuple(times.plus(Fraction(10**9))) == (
        10**9 + Fraction(3, 2),
        10**9 + 3 + Fraction(1, 10**15),
    )
