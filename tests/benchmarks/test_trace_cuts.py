"""Trace cuts made of published files: miniature ones written by hand, and the real recipe."""

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.cli import main
from benchmarks.trace_cuts import CUTS, Cut, make_cuts, text_digest
from bfio.cli.command import BAD_INPUT, DONE
from bfio.studies.study_file import read_study
from bfio.workloads import read_trace
from tests.places import ROOT

HEADER = "arrival_time_s,prompt_tokens,output_tokens\n"
# Published files of every format, and the cut of their first two requests with an output.
PUBLISHED = {
    "AzureLLMInferenceTrace_code.csv": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 23:59:59.9799600,4808,10\r\n"
        "2023-11-17 00:00:00.0319607,3180,8\r\n"
        "2023-11-17 00:00:01.0000000,5,6",
        HEADER + "0,4808,10\n0.0520007,3180,8\n",
    ),
    # Prompts with equal hashes: a cut has neither keys nor hashes.
    "conversation_trace.jsonl": (
        '{"timestamp": 0, "input_length": 600, "output_length": 500, "hash_ids": [0, 1]}\n'
        '{"timestamp": 3001, "input_length": 600, "output_length": 490, "hash_ids": [0, 1]}\n'
        '{"timestamp": 9000, "input_length": 7, "output_length": 1, "hash_ids": [2]}\n',
        HEADER + "0,600,500\n3.001,600,490\n",
    ),
    # The failed request in between is skipped; time begins at the first published row.
    "burstgpt_slice.csv": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "7,ChatGPT,0,0,0,Conversation log\n"
        "45,ChatGPT,1087,230,1317,Conversation log\n"
        "118,GPT-4,417,276,693,Conversation log\n",
        HEADER + "0,472,18\n40,1087,230\n",
    ),
    "bwb_stats.csv": (
        "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
        "1047,1368,2415,0.77\n1154,1461,2615,0.79\n3,4,7,0.75\n",
        HEADER + ",1047,1368\n,1154,1461\n",
    ),
    "burst_data_8000.json": (
        '{"data": [{"input_length": 632, "output_length": 34},'
        ' {"input_length": 1, "output_length": 0},'
        ' {"input_length": 220, "output_length": 7}, {"input_length": 9, "output_length": 9}]}',
        HEADER + ",632,34\n,220,7\n",
    ),
    # Excerpts: every byte of two lines, and of the heading of a table.
    "burstgpt3_slice.csv": (
        "A,B\r\n19440110.0,906\r\n2,0\r\n3,3",
        "A,B\r\n19440110.0,906\r\n2,0\r\n",
    ),
    "synthetic_trace.jsonl": ('{"a": 9,"b": 2}\n{}\n{}\n', '{"a": 9,"b": 2}\n{}\n'),
}


def _cut(published: str, text: str) -> Cut:
    """Return the recipe of a cut of two requests with this text."""
    is_excerpt = published in {"burstgpt3_slice.csv", "synthetic_trace.jsonl"}
    file = f"excerpts/{published}" if is_excerpt else "a_cut.csv.gz"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Cut(file, "owner/repository/blob/commit/data", published, 2, digest)


@pytest.mark.parametrize("published", PUBLISHED)
def test_cut_of_each_published_format(published: str, tmp_path: Path) -> None:
    """A cut holds the first two requests with an output, and exact times from the first row on."""
    content, expected = PUBLISHED[published]
    (tmp_path / published).write_bytes(content.encode())
    cut = replace(_cut(published, expected), published=published.replace("_stats", "*"))
    assert make_cuts(tmp_path, tmp_path / "cuts", [cut]) == []
    made = (tmp_path / "cuts" / cut.file).read_bytes()
    text = gzip.decompress(made) if cut.file.endswith(".gz") else made
    assert text.decode() == expected
    assert _files(tmp_path / "cuts") == [cut.file]


@pytest.mark.parametrize("published", PUBLISHED)
def test_another_file_makes_no_cut(published: str, tmp_path: Path) -> None:
    """A token more or less in the published file is noticed, and nothing is left in the folder."""
    content, expected = PUBLISHED[published]
    changed = (
        content.replace("9", "8").replace("632", "633").replace("104", "105").replace("230", "231")
    )
    assert changed != content
    (tmp_path / published).write_bytes(changed.encode())
    (error,) = make_cuts(tmp_path, tmp_path / "cuts", [_cut(published, expected)])
    assert "SHA-256" in error.what
    assert "owner/repository" in error.remedy
    assert not _files(tmp_path / "cuts")


def _files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("content", ["", "[]", '{"data": 3}', '{"data": [{"input_length": 3}]}'])
def test_damaged_sample(content: str, tmp_path: Path) -> None:
    """A JSON file of another shape is named in one line."""
    (tmp_path / "x.json").write_text(content)
    (error,) = make_cuts(tmp_path, tmp_path / "cuts", [_cut("x.json", "")])
    assert "x.json" in error.where
    assert "\n" not in str(error)


def test_command_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cut without a published file is a line with the address of that file."""
    command = ["cuts", "--from", str(tmp_path), "--to", str(tmp_path / "cuts")]
    assert main(command) == BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(CUTS)
    for cut, line in zip(CUTS, lines, strict=True):
        assert line.startswith(f"error: {cut.file}: no files {cut.published} in {tmp_path}")
        assert f"https://github.com/{cut.place}" in line
    content, expected = PUBLISHED["burst_data_8000.json"]
    (tmp_path / "burst_data_8000.json").write_text(content)
    cut = _cut("burst_data_8000.json", expected)
    monkeypatch.setattr("benchmarks.cli.CUTS", (cut,))
    assert main(command) == DONE
    assert (tmp_path / "cuts" / "a_cut.csv.gz").is_file()


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: Path(cut.file).stem)
def test_recipe_is_of_the_cuts_that_are_used(cut: Cut, shared_data: Path) -> None:
    """The cuts beside the checkout have the recorded text and number of requests."""
    assert text_digest(shared_data / cut.file) == cut.sha256
    assert len(read_trace(shared_data / cut.file)) == cut.requests


def test_every_trace_of_a_study_has_a_recipe() -> None:
    """No study file reads a trace cut that the recipe does not make."""
    made = {cut.file for cut in CUTS}
    for path in sorted((ROOT / "benchmarks").rglob("*.toml")):
        study = read_study(path)
        traces = {row["trace"] for row in study.rows() if row.get("trace") is not None}
        named = {trace for trace in traces if study.folder != study.home}
        assert named <= made, path
