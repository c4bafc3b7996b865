"""The hashes of prompts' blocks: read, refused, kept, written."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bfio.workloads import generators, read_trace, trace_file
from bfio.workloads.trace_file import write_trace
from bfio.workloads.workload import Workload
from formulations.errors import InputError

LOAD = Workload(
    np.array([513, 9, 1024, 9]),
    np.array([1, 2, 3, 4]),
    block_hashes=[[7, 8], [7], [7, 9], []],
)


def _lists(workload: Workload) -> list[list[int]] | None:
    hashes = workload.prompt_blocks
    return None if hashes is None else [hashes[i].tolist() for i in range(len(hashes))]


def _mooncake(path: Path, rows: list[tuple[int, object]]) -> Path:
    lines = [
        {"timestamp": 9 - i, "input_length": length, "output_length": 1, "hash_ids": hashes}
        for i, (length, hashes) in enumerate(rows)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_hashes_are_read_in_order_of_arrival(tmp_path: Path) -> None:
    """The rows stand in reverse order; one has none."""
    path = _mooncake(tmp_path / "t.jsonl", [(512, [5]), (600, [1, 2]), (3, None)])
    assert _lists(read_trace(path)) == [[], [1, 2], [5]]
    assert read_trace(_mooncake(tmp_path / "n.jsonl", [(3, None)])).prompt_blocks is None


@pytest.mark.parametrize("hashes", [[], [1], [1, 2, 3]])
def test_a_wrong_number_of_hashes_is_told(hashes: list[int], tmp_path: Path) -> None:
    """With line and column, or skipped where damaged rows are."""
    path = _mooncake(tmp_path / "t.jsonl", [(512, [5]), (600, hashes)])
    what = rf"line 2 column 'hash_ids': {len(hashes)} hashes, not 2: one per 512 of 600 prompt"
    with pytest.raises(InputError, match=what):
        read_trace(path)
    assert _lists(read_trace(path, skip_bad_rows=True)) == [[5]]


@pytest.mark.parametrize(
    ("hashes", "message"),
    [
        ([[1]], "1 lists of hashes for 2 prompts"),
        ([[1], [1]], r"block_hashes\[0\]: 1 hashes, not 2: one per"),
        ([[1, 2], ["a"]], r"block_hashes\[1\]"),
    ],
)
def test_hashes_of_a_workload_are_checked(hashes: list[list[int]], message: str) -> None:
    """One list per request, one hash per block."""
    with pytest.raises(InputError, match=message):
        Workload(np.array([513, 9]), np.array([1, 1]), block_hashes=hashes)


def test_parts_keep_their_hashes_and_draws_lose_them() -> None:
    """As prompt keys do."""
    parts = [
        LOAD.head(2),
        LOAD.part(np.array([2, 3])),
        LOAD.part(np.array([False, True, True, False])),
        generators.window(LOAD, 1, 2),
        generators.with_output_mean(LOAD, 9),
        generators.with_shuffled_outputs(LOAD, np.random.default_rng(0)),
    ]
    whole = [[7, 8], [7], [7, 9], []]
    assert [_lists(part) for part in parts] == [
        whole[:2], whole[2:], whole[1:3], whole[2:], whole, whole,
    ]  # fmt: skip
    assert _lists(LOAD.after("1/2")) == whole[2:]
    drawn = generators.resample(LOAD, 9, rng=np.random.default_rng(0))
    assert drawn.prompt_blocks is None


@pytest.mark.parametrize("large", [False, True])
def test_what_is_written_is_read(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever reader would take the file without hashes; without them there is no column."""
    monkeypatch.setattr(trace_file, "COLUMNAR_FROM_BYTES", 0 if large else 10**9)
    path = tmp_path / "hashes.csv.gz"
    write_trace(LOAD, path)
    text = gzip.decompress(path.read_bytes())
    assert text.startswith(
        b"arrival_time_s,prompt_tokens,output_tokens,block_hashes\n,513,1,7 8\n"
    )
    assert _lists(read_trace(path)) == _lists(LOAD)
    path.write_bytes(gzip.compress(text.replace(b"7 8", b"7 8 9")))
    with pytest.raises(InputError, match=r"line 2 column 'block_hashes': 3 hashes"):
        read_trace(path)
    write_trace(replace(LOAD, block_hashes=None), tmp_path / "none.csv")
    assert "block_hashes" not in (tmp_path / "none.csv").read_text()


def test_frames_have_them_as_texts_or_lists() -> None:
    """Integers with spaces between them, or lists of them; numbers may be large floats."""
    frame = {
        "arrival_time_s": [0, 1],
        "prompt_tokens": [600, 5],
        "output_tokens": [1, 1],
        "block_hashes": ["3 4", ""],
    }
    assert _lists(Workload.from_frame(frame)) == [[3, 4], []]
    assert _lists(Workload.from_frame(frame | {"block_hashes": [[3, 4], None]})) == [[3, 4], []]
    large = {"prompt_tokens": [1.0, 2e10], "output_tokens": [1.0, 1.0]}
    columns = "prompt=prompt_tokens,output=output_tokens"
    assert Workload.from_frame(large, columns=columns).prompt_tokens.tolist() == [1, 2 * 10**10]


@pytest.mark.parametrize("name", ["mooncake_conversation", "mooncake_synthetic"])
def test_hashes_of_published_rows(shared_data: Path, name: str) -> None:
    """Each row's own."""
    path = shared_data / "raw_excerpts" / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert _lists(read_trace(path)) == [row["hash_ids"] for row in rows if row["output_length"]]
