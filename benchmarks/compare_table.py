"""The table of the README: three policies on two traces, measured anew by one command."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import bfio
from benchmarks.readme import CODE, COMMIT, RESULTS
from bfio.common.import_closure import ROOT, closure_digest
from bfio.common.provenance import commit

#: Trace cuts, where they lie beside the checkout.
DATA = ROOT.parent / "shared" / "data"
POLICIES = ("fcfs", "br-0", "bf-io")
#: How a trace is called in the table, and its file.
TRACES = {
    "Azure 2023 conversation": "azure_conv_2023.csv.gz",
    "BurstGPT (4,800 requests)": "bfio_burstgpt_8000_untimed.csv.gz",
}
_POOL = 64
_HEADER = (
    f"16 workers x 72 slots, pool {_POOL}, steady part",
    "AvgImbalance [tokens]", "÷ fcfs", "idle", "tokens/s", "TPOT [ms]", "steps proven",
    COMMIT, CODE,
)  # fmt: skip


def measure_table(folder: Path) -> Path:
    """Measure all lines with the traces of a folder and write them beside the other results."""
    path = RESULTS / "compare.csv"
    lines = measured(folder)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(lines)
    return path


def measured(folder: Path) -> list[list[str]]:
    """Measure all lines with the traces of a folder and return them below the header."""
    code = [(commit() or "unknown")[:7], closure_digest(__name__)]
    return [[*_HEADER], *([*line, *code] for line in _lines(folder))]


def _lines(folder: Path) -> Iterator[list[str]]:
    for trace, file in TRACES.items():
        workload = bfio.read_trace(folder / file)
        found = bfio.compare(workload, POLICIES, bfio.Cluster(workers=16, slots=72), pool=_POOL)
        documents = found.documents()
        first = documents[0]["steady"]["avg_imbalance"]
        for policy, document in zip(POLICIES, documents, strict=True):
            name = f"{trace}: `{policy}`" if document is documents[0] else f"`{policy}`"
            yield [name, *_cells(document, first)]


def _cells(document: Mapping[str, Any], baseline: float) -> list[str]:
    steady, counts = document["steady"], document.get("statistics") or {}
    ratio = baseline / steady["avg_imbalance"]
    proven = f"{100 * counts['proven_steps'] / counts['steps']:.1f} %" if counts else ""
    return [
        f"{steady['avg_imbalance']:,.0f}",
        "1" if ratio == 1 else f"{ratio:.1f}",
        f"{100 * steady['idle_fraction']:.1f} %",
        f"{steady['throughput_tokens_per_s']:,.0f}",
        f"{1000 * steady['tpot_mean_s']:.2f}",
        proven,
    ]
