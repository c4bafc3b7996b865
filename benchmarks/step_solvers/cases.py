"""The step cases: sizes, output lengths, windows, and the units they make."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.case import Case, Settings, Unit, chosen_methods
from benchmarks.step_solvers.figures import solve_time_figure
from benchmarks.step_solvers.harvest import Harvest, Size
from benchmarks.step_solvers.instances import stored_instances, with_horizon
from benchmarks.step_solvers.methods import METHODS, measure, warm_up
from benchmarks.step_solvers.tables import step_tables
from benchmarks.step_solvers.verdict import problems
from benchmarks.workloads import SYNTHETIC, TRACES, require

SIZES = (Size(8, 24, 64), Size(16, 72, 128), Size(32, 72, 128), Size(64, 128, 256),
         Size(144, 72, 512))  # fmt: skip
OUTPUT_MEANS = (50, 100, 300)
HORIZONS = (0, 20, 80)
DEFAULT_METHODS = ("exact", "br-0", "cp-sat", "highs")

_SMOKE_SIZE = Size(3, 4, 8)
_SMOKE_TIME_LIMIT_S = 2.0


@dataclass(frozen=True)
class StepFamily:
    """A case before settings: one size, some workloads, one projection."""

    size: Size
    workloads: tuple[str, ...]
    projection: str

    def harvests(self, settings: Settings) -> list[Harvest]:
        """Return the harvests whose problems the case solves.

        Raises
        ------
        InputError
            If a trace is not there.
        """
        for workload in self.workloads:
            require(workload, settings.data)
        return [
            Harvest(
                size=_SMOKE_SIZE if settings.smoke else self.size,
                workload=workload,
                output_mean=mean,
                projection=self.projection,
                horizon=max(_horizons(settings)),
                instances=min(2, settings.instances) if settings.smoke else settings.instances,
                seed=settings.seed,
            )
            for workload in self.workloads
            for mean in ((6,) if settings.smoke else OUTPUT_MEANS)
        ]

    def units(self, settings: Settings) -> list[Unit]:
        """Return one unit per instance and method, the methods of an instance in a row."""
        methods = chosen_methods(settings, tuple(METHODS), DEFAULT_METHODS)
        return [
            unit
            for harvest in self.harvests(settings)
            for horizon in _horizons(settings)
            for unit in _units(harvest, horizon, methods, settings)
        ]


def _horizons(settings: Settings) -> tuple[int, ...]:
    return (0, 2) if settings.smoke else HORIZONS


def _units(
    harvest: Harvest, horizon: int, methods: tuple[str, ...], settings: Settings
) -> Iterator[Unit]:
    limit = (
        min(settings.time_limit, _SMOKE_TIME_LIMIT_S) if settings.smoke else settings.time_limit
    )
    for kind, count in (("cold", harvest.num_runs), ("warm", harvest.instances)):
        for number in range(count):
            for method in methods:
                yield Unit(
                    instance=_instance_name(harvest, horizon, kind, number),
                    method=method,
                    parameters=_parameters(harvest, horizon, kind) | {"time_limit": limit},
                    measure=partial(
                        _measure, harvest, horizon, kind, number, method, limit, settings
                    ),
                )


def _instance_name(harvest: Harvest, horizon: int, kind: str, number: int) -> str:
    return (
        f"{harvest.size.label}/{harvest.workload}/mean{harvest.output_mean}"
        f"/{harvest.projection}/h{horizon}/{kind}-{number:03d}"
    )


def _parameters(harvest: Harvest, horizon: int, kind: str) -> dict[str, Any]:
    return {
        "workers": harvest.size.workers,
        "slots": harvest.size.slots,
        "pool": harvest.size.pool,
        "workload": harvest.workload,
        "output_mean": harvest.output_mean,
        "projection": harvest.projection,
        "horizon": horizon,
        "kind": kind,
        "instances": harvest.instances,
        "seed": harvest.seed,
        "policy": harvest.policy,
    }


def _measure(
    harvest: Harvest,
    horizon: int,
    kind: str,
    number: int,
    method: str,
    limit: float,
    settings: Settings,
) -> dict[str, Any]:
    instances = stored_instances(harvest, settings.out, settings.data)
    instance = [i for i in instances if i.kind == kind][number]
    problem = with_horizon(instance.problem, horizon)
    measured = measure(problem, method, limit, harvest.seed)
    return {"step": instance.step, "run_seed": instance.seed, **measured}


def _case(prefix: str, summary: str, family: StepFamily) -> Case:
    return Case(
        name=f"{prefix}-{family.size.label}",
        summary=f"(G, B, R) = ({family.size.workers}, {family.size.slots}, {family.size.pool}): "
        + summary,
        units=family.units,
        warm_up=warm_up,
        tables=step_tables,
        figure=solve_time_figure,
        judge=problems,
    )


def step_cases() -> list[Case]:
    """Return the synthetic, trace and growing-window cases of every size."""
    synthetic, traces = (SYNTHETIC,), TRACES
    return [
        _case(prefix, summary, StepFamily(size, workloads, projection))
        for prefix, summary, workloads, projection in (
            ("steps", "step solvers, synthetic requests", synthetic, "constant"),
            (
                "steps-growing",
                "the same with loads that grow over the window",
                synthetic,
                "growing",
            ),
            ("steps-trace", "step solvers, resampled trace cuts", traces, "constant"),
        )
        for size in SIZES
    ]
