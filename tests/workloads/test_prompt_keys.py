"""Which requests have the same prompt: read, kept, written."""

import gzip
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.workloads import describe, generators, read_trace, trace_file
from bfio.workloads.read_requests import numbered
from bfio.workloads.trace_file import write_trace
from bfio.workloads.workload import Workload
from formulations.errors import InputError


def _mooncake(path: Path, rows: list[tuple[int, list[int] | None, int]]) -> Path:
    lines = [
        {
            "timestamp": 3000 * i,
            "input_length": length,
            "output_length": output,
            "hash_ids": hashes,
        }
        for i, (length, hashes, output) in enumerate(rows)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def _csv(path: Path, keys: list[str], header: str = "prompt_key") -> Path:
    lines = "".join(f"{i},5,{i % 3},{key}\n" for i, key in enumerate(keys))
    path.write_text(f"arrival_time_s,prompt_tokens,output_tokens,{header}\n{lines}")
    return path


def test_prompts_of_mooncake_are_equal_by_hashes_and_length(tmp_path: Path) -> None:
    """The same blocks with another length of the last one are another prompt."""
    path = _mooncake(
        tmp_path / "t.jsonl",
        [(600, [1, 2], 9), (600, [1, 3], 9), (601, [1, 2], 9), (600, [1, 2], 4), (600, [1, 2], 0)],
    )
    found = read_trace(path)
    assert found.prompt_keys is not None
    assert found.prompt_keys.tolist() == [0, 1, 2, 0]


def test_rows_without_hashes_are_prompts_of_their_own(tmp_path: Path) -> None:
    """Not known to equal any; without any hash there are no keys."""
    path = _mooncake(tmp_path / "t.jsonl", [(9, None, 1), (9, [4], 1), (9, None, 1), (9, [4], 1)])
    keys = read_trace(path).prompt_keys
    assert keys is not None
    assert keys.tolist() == [0, 1, 2, 1]
    assert read_trace(_mooncake(tmp_path / "n.jsonl", [(9, None, 1)] * 2)).prompt_keys is None


@pytest.mark.parametrize("hashes", ["7", '"ab"', "[1.5]", '["x"]', "[99999999999999999999]"])
def test_hashes_that_are_none_are_told(hashes: str, tmp_path: Path) -> None:
    """With line and column."""
    path = tmp_path / "t.jsonl"
    row = f'{{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": {hashes}}}\n'
    path.write_text(row)
    with pytest.raises(
        InputError, match=r"line 1 column 'hash_ids': .* is not a list of integers"
    ):
        read_trace(path)
    path.write_text(row + row.replace(hashes, "[3]"))
    assert len(read_trace(path, skip_bad_rows=True)) == 1


@given(keys=st.lists(st.none() | st.sampled_from(["a", "b", "7", "07"]), max_size=12))
def test_numbers_are_equal_where_keys_are(keys: list[str | None]) -> None:
    """And nowhere else."""
    found = numbered(keys)
    if found is None:
        assert set(keys) <= {None}
        return
    for i, j in combinations(range(len(keys)), 2):
        assert (found[i] == found[j]) == (keys[i] is not None and keys[i] == keys[j])


@pytest.mark.parametrize("large", [False, True])
def test_both_readers_take_the_same_keys(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts, numbers, white space around, empty cells; rows without output leave no trace."""
    monkeypatch.setattr(trace_file, "COLUMNAR_FROM_BYTES", 0 if large else 10**9)
    # Rows 0, 3, 6, 9 have no output.
    path = _csv(tmp_path / "t.csv", ["x", "b", "", " b ", "b", "7", "b", "", "7", "x"])
    keys = read_trace(path).prompt_keys
    assert keys is not None
    assert keys.tolist() == [0, 1, 0, 2, 3, 2]
    assert read_trace(_csv(tmp_path / "blank.csv", [""] * 5)).prompt_keys is None
    assert read_trace(_csv(tmp_path / "other.csv", ["a"] * 5, header="user")).prompt_keys is None


def test_keys_follow_their_requests_into_order(tmp_path: Path) -> None:
    """Sorted by arrival, and numbered by first occurrence."""
    path = tmp_path / "t.csv"
    path.write_text(
        "arrival_time_s,prompt_tokens,output_tokens,prompt_key\n9,1,1,late\n5,2,1,early\n7,3,1,late\n"
    )
    found = read_trace(path)
    assert found.prompt_tokens.tolist() == [2, 3, 1]
    assert found.prompt_keys is not None
    assert found.prompt_keys.tolist() == [0, 1, 1]


def _load(prompts: list[int], outputs: list[int]) -> Workload:
    return Workload(np.array(prompts), np.array(outputs))


LOAD = replace(_load([5, 5, 6, 5], [1, 2, 3, 4]), prompt_keys=np.array([0, 1, 2, 0]))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """With its keys; without them there is no column."""
    write_trace(LOAD, tmp_path / "keys.csv.gz")
    again = read_trace(tmp_path / "keys.csv.gz")
    assert again.prompt_keys is not None
    assert again.prompt_keys.tolist() == [0, 1, 2, 0]
    text = gzip.decompress((tmp_path / "keys.csv.gz").read_bytes())
    assert text.startswith(b"arrival_time_s,prompt_tokens,output_tokens,prompt_key\n")
    write_trace(_load([5], [1]), tmp_path / "none.csv")
    assert (
        (tmp_path / "none.csv")
        .read_text()
        .startswith("arrival_time_s,prompt_tokens,output_tokens\n")
    )


def test_parts_keep_their_keys_and_draws_lose_them() -> None:
    """A request that is drawn twice must not tell its length by its key."""
    kept = [
        LOAD.head(2).prompt_keys,
        LOAD.part(np.array([2, 3])).prompt_keys,
        generators.window(LOAD, 1, 2).prompt_keys,
        generators.with_output_mean(LOAD, 9).prompt_keys,
    ]
    assert [None if keys is None else keys.tolist() for keys in kept] == [
        [0, 1], [2, 0], [2, 0], [0, 1, 2, 0],
    ]  # fmt: skip
    drawn = generators.resample(LOAD, 9, rng=np.random.default_rng(0))
    assert drawn.prompt_keys is None


def test_distinct_prompts_are_counted() -> None:
    """None where the source does not tell."""
    assert describe(LOAD)["distinct_prompts"] == 3
    assert describe(_load([5], [1]))["distinct_prompts"] is None


@pytest.mark.parametrize("name", ["mooncake_conversation", "mooncake_synthetic"])
def test_keys_of_published_rows(shared_data: Path, name: str) -> None:
    """Equal keys exactly where hashes and lengths are equal; other formats have none."""
    path = shared_data / "raw_excerpts" / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    told = [(row["input_length"], *row["hash_ids"]) for row in rows if row["output_length"]]
    found = read_trace(path)
    assert found.prompt_keys is not None
    order = {key: place for place, key in enumerate(dict.fromkeys(told))}
    # No row of these excerpts is out of order.
    assert found.provenance["out_of_order_rows"] == 0
    assert found.prompt_keys.tolist() == [order[key] for key in told]
    azure = shared_data / "raw_excerpts" / "azure_conv_2023.csv"
    assert read_trace(azure).prompt_keys is None
