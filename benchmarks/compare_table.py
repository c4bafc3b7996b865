"""Measure the comparison table of the README: three policies on two traces."""

import csv
from collections.abc import Iterator
from pathlib import Path

import bfio
from benchmarks.readme import CODE, COMMIT, RESULTS
from bfio.cli.tables import imbalance_ratios, measured_text
from bfio.common.provenance import ROOT, closure_digest, commit
from bfio.common.text import number
from bfio.decode.metrics import METRICS
from formulations.scalars import percent

#: Folder of trace cuts, next to the checkout.
DATA = ROOT.parent / "shared" / "data"
POLICIES = ("fcfs", "br-0", "bf-io")
#: Names of traces in the table, with their files.
TRACES = {
    "Azure 2023 conversation": "azure_conv_2023.csv.gz",
    "BurstGPT (4,800 requests)": "bfio_burstgpt_8000_untimed.csv.gz",
}
_POOL = 64
#: Metrics of the measured part, with their names in the table.
_SHOWN = {
    "avg_imbalance": "AvgImbalance [tokens]", "idle_fraction": "idle",
    "throughput_tokens_per_s": "tokens/s", "tpot_mean_s": "TPOT [ms]",
    "ttft_p95_s": "TTFT P95 [s]", "ttft_max_s": "TTFT max [s]",
}  # fmt: skip
_HEADER = (
    f"16 workers x 72 slots, pool {_POOL}", *_SHOWN.values(), "÷ fcfs", "steps proven",
    "AvgImbalance, whole run", COMMIT, CODE,
)  # fmt: skip


def measure_table(folder: Path) -> Path:
    """Measure all table lines with the traces of a folder, and write them to the results file."""
    path = RESULTS / "compare.csv"
    lines = measured(folder)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(lines)
    return path


def measured(folder: Path) -> list[list[str]]:
    """Measure all table lines with the traces of a folder; return them without the header."""
    code = [(commit() or "unknown")[:7], closure_digest(__name__)]
    return [[*_HEADER], *([*line, *code] for line in _lines(folder))]


def _lines(folder: Path) -> Iterator[list[str]]:
    for trace, file in TRACES.items():
        workload = bfio.read_trace(folder / file)
        found = bfio.compare(workload, POLICIES, bfio.Cluster(workers=16, slots=72), pool=_POOL)
        documents = found.documents()
        parts = [document["measured"] for document in documents]
        cells = [texts for _, texts in METRICS.cells(parts, tuple(_SHOWN))]
        names = [f"`{policy}`" for policy in POLICIES]
        names[0] = f"{trace}, {measured_text(documents)}: {names[0]}"
        whole = [number(document["avg_imbalance"]) for document in documents]
        proven = ["" if d["proven_share"] is None else percent(d["proven_share"]) for d in parts]
        columns = [names, *cells, list(imbalance_ratios(parts)), proven, whole]
        yield from map(list, zip(*columns, strict=True))
