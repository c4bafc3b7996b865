"""Make the trace cuts used by studies from the published files.

A cut contains the first requests with an output of a published trace, in the format of `bfio
traces convert`. An excerpt contains the first lines, byte for byte. `docs/trace-cuts.md` lists the
sources of the published files. A cut is accepted only if the SHA-256 of its uncompressed text is
the recorded one. Compressed bytes depend on the version of zlib and are not compared.
"""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bfio.workloads import Workload, read_trace
from bfio.workloads.trace_file import write_trace
from formulations.errors import InputError

_AZURE = "Azure/AzurePublicDataset/blob/b469a113cedca53ddc3bdea71a143dc4b7d8700c/data"
_MOONCAKE = (
    "kvcache-ai/Mooncake/blob/3b5a594133958449a1feaf1c9e0fc1b553e34a28/FAST25-release/traces"
)
_BURSTGPT = (
    "GitM-Labs/runtime/blob/458dabfd8b873a98338d3d84959b04d0afe4c47d"
    "/benchmarks/traffic_replay/fixtures"
)
_BURSTGPT_3 = (
    "GitM-Labs/runtime/blob/db39813a8cb3fc76f625b8a0d70e271fb4b15454"
    "/benchmarks/traffic_replay/fixtures"
)
_ETALON = (
    "project-etalon/etalon/blob/d5f18de15a2227a2d469365afc4fa9e2df0c631d/data/processed_traces"
)
_BF_IO = "Echoscd/Load-Balancing-Release/blob/6ae705d5c18e475a1f0a7ed6697c722b76a07d98"


@dataclass(frozen=True)
class Cut:
    """The definition of one cut.

    Parameters
    ----------
    file : str
        Path in the folder of cuts: ``.csv.gz`` for a cut, anything else for an excerpt.
    place : str
        Folder of the published file on GitHub, with its commit.
    published : str
        Name of the published file; ``*`` stands for any characters.
    requests : int
        Number of requests of a cut (rows without output are skipped), or lines of an excerpt, not
        counting the heading of a ``.csv`` file.
    sha256 : str
        SHA-256 of the text of the cut, uncompressed.
    """

    file: str
    place: str
    published: str
    requests: int
    sha256: str


CUTS = (
    Cut(
        "azure_code_2023.csv.gz", _AZURE, "AzureLLMInferenceTrace_code.csv", 6_521,
        "942208fd36c5c44ae8c1e514c18d6a855c7a5dfeee696c69e40b9f7d17307251",
    ),
    Cut(
        "azure_conv_2023.csv.gz", _AZURE, "AzureLLMInferenceTrace_conv.csv", 12_340,
        "94837d1040e72d02dda08b22e96674b4d40ba6f2867238a56552b0e6cc15c148",
    ),
    Cut(
        "mooncake_conversation.csv.gz", _MOONCAKE, "conversation_trace.jsonl", 6_848,
        "5a5690d127374e58979a77ccb0db8a8202973a7d5081bc9ce70d3ff1afbd1956",
    ),
    Cut(
        "mooncake_synthetic.csv.gz", _MOONCAKE, "synthetic_trace.jsonl", 2_319,
        "87b1fdcbdc14ab970bd6dad32b86f0fcc43d5210148684ddb73bb3f7563094a6",
    ),
    Cut(
        "burstgpt_1_first400.csv.gz", _BURSTGPT, "burstgpt_slice.csv", 191,
        "490c5f9fc026b470e1cee26aab3f23394f42e083196e10ff3f0f0b9e7882f1f5",
    ),
    Cut(
        "raw_excerpts/burstgpt_3.csv", _BURSTGPT_3, "burstgpt3_slice.csv", 77,
        "554606b73fb0f7bc0b569a999663e80670edd7c1bc9278c430a50c45a4e2d754",
    ),
    Cut(
        "raw_excerpts/mooncake_conversation.jsonl", _MOONCAKE, "conversation_trace.jsonl", 200,
        "23c130b3e14ca90138372ec992aaa850001554a0576d09b6367cbf05e5f59cbb",
    ),
    Cut(
        "raw_excerpts/mooncake_synthetic.jsonl", _MOONCAKE, "synthetic_trace.jsonl", 200,
        "e6543165833522df3fe9bbf9ab8f012f17d81dd89e7d0057226cf2d41f2fa14f",
    ),
    Cut(
        "sharegpt_8k_untimed.csv.gz", _ETALON, "sharegpt_8k*.csv", 18_438,
        "a02e2df6632a703bcfe6d57f723eceef6f6b480aa70dd203014f3ad6b838d984",
    ),
    Cut(
        "arxiv_summarization_untimed.csv.gz", _ETALON, "arxiv_summarization*.csv", 16_954,
        "5dec7a9a4e8c61f5f651f75de8305f253e4e336827887e232bc619a7eace203c",
    ),
    Cut(
        "bwb_untimed.csv.gz", _ETALON, "bwb*.csv", 20_000,
        "5ca66d515af815e5799f69285133d0b033d1d875df741e2d9e7f746b868dda6d",
    ),
    Cut(
        "bfio_burstgpt_8000_untimed.csv.gz", _BF_IO, "burst_data_8000.json", 4_800,
        "014ad66abfc59ab43e15720634a2e54ec27ed717cb7ba104b00ae4685c3eab87",
    ),
)  # fmt: skip


def make_cuts(source: Path, target: Path, cuts: Sequence[Cut]) -> list[InputError]:
    """Make cuts of published traces; return the errors of the cuts that could not be made.

    Parameters
    ----------
    source : Path
        Folder of the published files.
    target : Path
        Folder of the cuts; created if missing. Existing cuts are replaced.
    cuts : sequence of Cut
        Cuts to make.
    """
    target.mkdir(parents=True, exist_ok=True)
    failures = []
    for cut in cuts:
        try:
            _make(cut, source, target)
        except InputError as error:
            failures.append(error)
    return failures


def _make(cut: Cut, source: Path, target: Path) -> None:
    url = f"https://github.com/{cut.place}"
    found = sorted(source.glob(cut.published))
    if len(found) != 1:
        what = f"{len(found) or 'no'} files {cut.published} in {source}"
        raise InputError(cut.file, what, f"put the file of {url} into the folder")
    made = target / cut.file
    made.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=target) as folder:
        # Written to a temporary folder first, so that a wrong cut never replaces a right one.
        unchecked = Path(folder) / made.name
        _write(found[0], cut.requests, unchecked)
        digest = text_digest(unchecked)
        if digest != cut.sha256:
            what = f"{cut.file} has SHA-256 {digest}, not the recorded {cut.sha256}"
            raise InputError(str(found[0]), what, f"use the file of {url}")
        unchecked.replace(made)


def text_digest(path: Path) -> str:
    """Return the SHA-256 of the uncompressed text of a file."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return hashlib.sha256(text).hexdigest()


def _write(published: Path, count: int, path: Path) -> None:
    if path.suffix == ".gz":
        requests = _requests(published, count)
        write_trace(replace(requests, prompt_keys=None, block_hashes=None), path)
    else:
        with published.open("rb") as stream:
            path.write_bytes(b"".join(islice(stream, count + (path.suffix == ".csv"))))


def _requests(path: Path, count: int) -> Workload:
    """Return the first requests of a published file that have an output.

    The samples of the BF-IO simulator are one JSON object with a list ``data``. `bfio.workloads`
    does not read this format.
    """
    if path.suffix != ".json":
        return read_trace(path, limit=count)
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["data"]
        pairs = [(row["input_length"], row["output_length"]) for row in rows]
        prompts, outputs = np.array([pair for pair in pairs if pair[1]][:count]).T
    except (KeyError, TypeError, ValueError) as error:
        what = f"no list `data` of input_length and output_length ({error!r:.60})"
        raise InputError(str(path), what, "use the published file") from None
    return Workload(prompts, outputs)
