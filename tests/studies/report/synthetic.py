"""A study with made-up rows: the arithmetic is real, the numbers are drawn from a seed.

Four policies on three traces, ten windows each, at four numbers of workers; a row that failed,
one that timed out, one not computed, one refused, some unproven, some values undefined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bfio.studies.report_plan import Figure, FigureKind, ReportPlan, Statistic, Table
from bfio.studies.results import Results
from bfio.studies.row import Row, RowVerdict, Status, Task, Value, row_key
from bfio.studies.store import open_for_reading, open_for_writing
from bfio.studies.study import Grid, Study

POLICIES = ("fcfs", "jsq-tokens", "br-0", "bf-io")
TRACES = ("azure-code", "burstgpt", "mooncake")
WORKERS = (4, 8, 16, 32)
#: Imbalance and its growth with the number of workers.
_LEVEL: Mapping[str, tuple[float, float]] = {
    "fcfs": (900.0, 1.35),
    "jsq-tokens": (520.0, 1.20),
    "br-0": (160.0, 1.02),
    "bf-io": (118.0, 0.97),
}
ENVIRONMENT = {
    "machine": {"system": "Linux", "architecture": "x86_64", "processor": "Xeon", "cores": 2},
    "versions": {"python": "3.11.2", "bfio": "0.1.0", "numpy": "2.4.6", "ortools": "9.15"},
    "commit": "b2a49f1c0ffee",
    "dirty": False,
}

TABLES = (
    Table(
        "Imbalance and throughput per trace and policy",
        ("trace", "policy"),
        ("avg_imbalance", "throughput_tokens_per_s", "tpot_p95_s"),
        baseline={"policy": "fcfs"},
        published=(
            {
                "trace": "burstgpt",
                "policy": "bf-io",
                "avg_imbalance": 1834.5,
                "source": "BF-IO, Table 1",
            },
        ),
        note="Windows do not overlap.",
        where={"workers": 16},
    ),
    Table(
        "Typical regret",
        ("policy",),
        ("regret", "termination", "steady.avg_gap"),
        statistic=Statistic.MEDIAN,
    ),
    Table("Work", ("workers",), ("solves",), statistic=Statistic.SUM),
    Table("Growth", ("policy",), ("avg_imbalance",), against="workers"),
    Table("Largest", ("policy",), ("avg_imbalance",), statistic=Statistic.MAXIMUM),
    Table(
        "Smallest",
        ("policy",),
        ("regret",),
        statistic=Statistic.MINIMUM,
        baseline={"policy": "fcfs"},
    ),
)
FIGURES = (
    Figure(
        "How does the gap evolve?",
        FigureKind.TRAJECTORY,
        "gap",
        x="step",
        group=("policy",),
        where={"workers": 16, "trace": "azure-code"},
    ),
    Figure(
        "How is the gap distributed?",
        FigureKind.HISTOGRAM,
        "gap",
        group=("policy",),
        where={"trace": "burstgpt"},
    ),
    Figure(
        "How often is a policy near the best?",
        FigureKind.PERFORMANCE_PROFILE,
        "avg_imbalance",
        group=("policy",),
    ),
    Figure(
        "How does imbalance grow with the number of workers?",
        FigureKind.SCALING,
        "avg_imbalance",
        x="workers",
        group=("policy",),
    ),
    Figure(
        "How does regret grow?",
        FigureKind.SCALING,
        "regret",
        x="workers",
        group=("policy",),
        where={"trace": "mooncake"},
    ),
    Figure(
        "Does throughput depend on the number of workers?",
        FigureKind.LINES,
        "throughput_tokens_per_s",
        x="workers",
        group=("policy",),
        panel="trace",
        log="x",
    ),
    Figure(
        "Which trace is hard?", FigureKind.LINES, "avg_imbalance", x="trace", group=("policy",)
    ),
    Figure(
        "Where is imbalance large?",
        FigureKind.HEATMAP,
        "avg_imbalance",
        x="workers",
        group=("policy",),
        panel="trace",
        log="y",
    ),
    Figure(
        "Does regret grow?",
        FigureKind.LINES,
        "regret",
        x="workers",
        group=("policy",),
        log="xy",
    ),
    Figure("What is not there?", FigureKind.LINES, "absent", x="workers"),
)


def study(**changes: Any) -> Study:
    """Return the study, some of its fields replaced."""
    whole = Study(
        name="made-up",
        question="Does balancing look at the right thing, and what does exactness buy?",
        computes="simulate",
        grids=(
            Grid(
                {
                    "trace": TRACES,
                    "policy": POLICIES,
                    "workers": WORKERS,
                    "window": tuple(range(10)),
                }
            ),
        ),
        fixed={"slots": 72, "arrivals": "pool", "horizon": 0},
        report=ReportPlan(TABLES, FIGURES),
    )
    return replace(whole, **changes)


def tasks(of: Study) -> list[Task]:
    """Return the planned rows of a study."""
    return [
        Task(row_key(of.computes, arguments, "", "c0de"), of.computes, arguments, "", "c0de")
        for arguments in of.rows()
    ]


def done(task: Task, values: Mapping[str, Value], **more: Any) -> Row:
    """Return a row that is done."""
    return Row(
        task=task,
        status=Status.DONE,
        values=values,
        environment=ENVIRONMENT,
        finished_at="2025-11-20T08:00:00Z",
        wall_s=1.5,
        cpu_s=1.25,
        peak_memory_bytes=200 * 2**20,
        **more,
    )


def results(of: Study, rows: Sequence[Row], store: Path = Path("made-up.sqlite")) -> Results:
    """Return the results of a study, its rows in the order of the plan."""
    planned = tasks(of)
    by_key = {row.task.key: row for row in rows}
    ordered = {task.key: by_key[task.key] for task in planned if task.key in by_key}
    return Results(of, planned, ordered, store, f"bfio study run {of.name}.toml")


def stored(of: Study, rows: Sequence[Row], store: Path) -> Results:
    """Return the same after a round trip through a store."""
    with open_for_writing(store) as opened:
        for row in rows:
            opened.add(row)
    with open_for_reading(store) as opened:
        found = opened.rows(task.key for task in tasks(of))
    return results(of, list(found.values()), store)


def rows(of: Study, seed: int = 0) -> list[Row]:
    """Return made-up rows of a study with these arguments, some of them not done."""
    rng = np.random.default_rng(seed)
    # A window that is hard is hard for every policy: that is what pairing is for.
    difficulty = {
        (trace, window): float(rng.lognormal(0, 0.35))
        for trace in TRACES
        for window in range(1000)
    }
    found = [_row(task, difficulty, rng) for task in tasks(of)]
    return _spoiled(found)


def _row(task: Task, difficulty: Mapping[tuple[str, int], float], rng: np.random.Generator) -> Row:
    arguments: Mapping[str, Any] = task.arguments
    level, power = _LEVEL[arguments["policy"]]
    hard = difficulty[arguments["trace"], arguments["window"]]
    workers = arguments["workers"]
    imbalance = level * (workers / 4) ** power * hard * float(rng.lognormal(0, 0.06))
    throughput = 950.0 * workers / (1 + imbalance / (workers * 900)) * float(rng.normal(1, 0.01))
    length = 200 + 5 * arguments["window"]
    swing = np.exp(-np.arange(length) / 80) * 3 + 1
    gap = np.maximum(0, rng.gamma(1.3, imbalance / 4, length) * swing - imbalance / 8)
    exact = arguments["policy"] == "bf-io"
    unproven = int(exact and workers == 32 and arguments["window"] < 2)
    values: dict[str, Value] = {
        "avg_imbalance": imbalance,
        "throughput_tokens_per_s": throughput,
        "tpot_p95_s": 0.02 + imbalance / 4e5,
        "regret": 0 if exact else int(imbalance / 10),
        "steady.avg_gap": None if arguments["window"] == 3 else imbalance / 3,
        "termination": "feasible" if unproven else "optimal",
    }
    return done(
        task,
        values,
        series={"gap": gap.round().tolist()},
        timings={"engine_s": 0.8},
        solves=length if exact else 0,
        unproven=unproven,
        stopped_by_clock=bool(unproven),
        verdict=RowVerdict.PASSED,
    )


def _spoiled(found: list[Row]) -> list[Row]:
    """Return the rows with one of each bad end, and the last one missing."""
    ends = (
        (23, Status.FAILED, "InputError: window[3]: no request left; take fewer windows"),
        (47, Status.TIMED_OUT, "took longer than 3600 s"),
        (130, Status.OUT_OF_MEMORY, "wanted more than 4 GiB"),
        (201, Status.VIOLATED, "checker: capacity of worker 2 exceeded by 1"),
        (333, Status.CRASHED, "its process died five times (signal 11)"),
    )
    for place, status, error in ends:
        if place < len(found) - 1:
            found[place] = replace(
                found[place],
                status=status,
                error=error,
                values={},
                series={},
                timings={},
                solves=0,
                unproven=0,
                stopped_by_clock=status is Status.TIMED_OUT,
                environment={} if status is Status.CRASHED else ENVIRONMENT,
                verdict=RowVerdict.VIOLATED if status is Status.VIOLATED else RowVerdict.NONE,
            )
    return found[:-1]
