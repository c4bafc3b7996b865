"""The decision case: BR-0 and BR-H at growing numbers of workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from benchmarks.case import Case, Row, Settings, Unit, chosen_methods
from benchmarks.decisions.timing import time_decisions
from benchmarks.figures import panels
from benchmarks.summary import duration, grouped, markdown_table, plain
from bfio.decode.cluster import Cluster

POLICIES = ("br-0", "br-h")
WORKERS = (16, 32, 64, 256)

_COLUMNS = ("size", "policy", "decisions", "admitted", "median", "p99", "max")


@dataclass(frozen=True)
class _Scale:
    workers: tuple[int, ...]
    slots: int
    output_mean: int
    decisions: int

    def pool(self, workers: int) -> int:
        """R = 128 as in BF-IO, and 4G (the released simulator) where that is more."""
        return max(128 if self.slots == 72 else 8, 4 * workers)


_FULL = _Scale(WORKERS, slots=72, output_mean=300, decisions=300)
_SMOKE = _Scale((2, 3), slots=4, output_mean=12, decisions=10)


def _units(settings: Settings) -> list[Unit]:
    scale = _SMOKE if settings.smoke else _FULL
    return [
        _unit(scale, workers, policy, settings.seed)
        for workers in scale.workers
        for policy in chosen_methods(settings, POLICIES, POLICIES)
    ]


def _unit(scale: _Scale, workers: int, policy: str, seed: int) -> Unit:
    pool = scale.pool(workers)
    return Unit(
        instance=f"{workers}x{scale.slots}-r{pool}/mean{scale.output_mean}",
        method=policy,
        parameters={
            "workers": workers,
            "slots": scale.slots,
            "pool": pool,
            "output_mean": scale.output_mean,
            "decisions": scale.decisions,
            "seed": seed,
        },
        measure=partial(
            time_decisions,
            policy,
            Cluster(workers, scale.slots),
            pool,
            scale.output_mean,
            scale.decisions,
            seed,
        ),
    )


def _warm_up() -> None:
    for policy in POLICIES:
        time_decisions(policy, Cluster(2, 4), 8, output_mean=12, decisions=5, seed=0)


def _tables(rows: Sequence[Row]) -> str:
    return markdown_table(
        _COLUMNS,
        [
            [
                row["instance"],
                row["method"],
                str(found["decisions"]),
                plain(found["admitted_mean"]),
                duration(found["median_s"]),
                duration(found["p99_s"]),
                duration(found["max_s"]),
            ]
            for row in rows
            if (found := row["measured"]) is not None
        ],
    )


def _figure(rows: Sequence[Row]) -> Figure | None:
    measured = [row for row in rows if row["measured"] is not None]
    if not measured:
        return None
    figure, [[axes]] = panels(1, 1)
    for k, (policy, own) in enumerate(grouped(measured, lambda r: str(r["method"])).items()):
        points = sorted(
            (r["parameters"]["workers"], r["measured"]["median_s"], r["measured"]["p99_s"])
            for r in own
        )
        workers, medians, tails = zip(*points, strict=True)
        axes.plot(workers, medians, "o-", color=f"C{k}", label=f"{policy}, median")
        axes.plot(workers, tails, "o--", color=f"C{k}", label=f"{policy}, p99")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("workers G")
    axes.set_ylabel("time of a decision [s]")
    axes.legend()
    return figure


def decision_cases() -> list[Case]:
    """Return the one decision case."""
    return [
        Case(
            name="decision-times",
            summary="time of a BR-0 and BR-H decision at G = 16, 32, 64, 256 (median, p99)",
            units=_units,
            warm_up=_warm_up,
            tables=_tables,
            figure=_figure,
        )
    ]
