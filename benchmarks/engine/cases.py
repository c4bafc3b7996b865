"""The engine cases: speed by policy, memory, growth with the number of requests, one million."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.case import Case, Settings, Unit, chosen_methods
from benchmarks.engine.figures import growth_figure, speed_figure
from benchmarks.engine.simulation import SimulationSpec, engines, measure_in_child
from benchmarks.engine.tables import growth_tables, speed_tables

#: Every policy.
POLICIES = (
    "fcfs", "fcfs-by-index", "jsq", "jsq-tokens", "round-robin", "random", "power-of-2", "router",
    "min-min", "max-min", "longest-first", "throttled", "br-0", "br-h", "bf-io",
)  # fmt: skip
#: They spend their time in solvers: no engine is compiled for them, and at 144 workers a run takes
#: hours.
SOLVING_POLICIES = ("bf-io",)
GROWTH_POLICIES = ("fcfs", "br-0")
MILLION_POLICIES = ("fcfs", "jsq-tokens", "br-0")
GROWTH_REQUESTS = (10_000, 100_000, 1_000_000)

_STANDARD = SimulationSpec(16, 72, 128, 8000, 300, 0, policy="", repeats=3, steady=True)
_GROWTH = replace(_STANDARD, repeats=1, steady=False)
_LARGE = replace(_GROWTH, workers=144, pool=512)
_MEMORY_REQUESTS = (8000, 100_000)
_SMOKE = SimulationSpec(3, 4, 8, 100, 12, 0, policy="")

_List = Callable[[Settings], Iterable[SimulationSpec]]


def _speed(settings: Settings) -> Iterable[SimulationSpec]:
    spec = replace(_SMOKE, repeats=2, steady=True) if settings.smoke else _STANDARD
    yield spec
    if not settings.smoke:
        yield replace(spec, workers=144, pool=512, requests=50_000, repeats=1)


def _memory(settings: Settings) -> Iterable[SimulationSpec]:
    for requests in (100,) if settings.smoke else _MEMORY_REQUESTS:
        for keep in (False, True):
            spec = _SMOKE if settings.smoke else _GROWTH
            yield replace(spec, requests=requests, keep_trajectory=keep)


def _growth(settings: Settings) -> Iterable[SimulationSpec]:
    spec = _SMOKE if settings.smoke else _GROWTH
    for requests in (100, 300) if settings.smoke else GROWTH_REQUESTS:
        yield replace(spec, requests=requests)


def _million(settings: Settings) -> Iterable[SimulationSpec]:
    yield replace(_SMOKE, requests=300) if settings.smoke else replace(_LARGE, requests=1_000_000)


def _units(listed: _List, defaults: Sequence[str], settings: Settings) -> list[Unit]:
    """Return one unit per size, policy and engine, the engines of a policy in a row."""
    smoke_defaults = tuple(p for p in ("fcfs", "br-0") if p in defaults)
    policies = chosen_methods(settings, POLICIES, smoke_defaults if settings.smoke else defaults)
    return [
        _unit(replace(spec, policy=policy, engine=engine, seed=settings.seed))
        for spec in listed(settings)
        for policy in policies
        if policy not in SOLVING_POLICIES or spec.workers < _LARGE.workers
        for engine in (engines() if policy not in SOLVING_POLICIES else ("auto",))
    ]


def _unit(spec: SimulationSpec) -> Unit:
    size = f"{spec.workers}x{spec.slots}-r{spec.pool}"
    kept = "/trajectory" if spec.keep_trajectory else ""
    return Unit(
        instance=f"{size}/n{spec.requests}/mean{spec.output_mean}{kept}",
        method=f"{spec.policy}/{spec.engine}",
        parameters=spec.to_mapping(),
        measure=partial(measure_in_child, spec),
    )


def _nothing() -> None:
    """Children warm up themselves."""


def engine_cases() -> list[Case]:
    """Return the four engine cases."""
    speed = ("engine-speed", "steps/s and requests/s by policy, whole run and steady part",
             _speed, POLICIES, speed_tables, speed_figure)  # fmt: skip
    memory = ("engine-memory", "peak memory with and without the trajectory",
              _memory, GROWTH_POLICIES, speed_tables, speed_figure)  # fmt: skip
    growth = ("engine-growth", "time over 10^4, 10^5, 10^6 requests at fixed R, and its exponent",
              _growth, GROWTH_POLICIES, growth_tables, growth_figure)  # fmt: skip
    million = ("engine-million", "one million requests on 144 workers of 72 slots, R = 512",
               _million, MILLION_POLICIES, speed_tables, speed_figure)  # fmt: skip
    return [
        Case(name, summary, partial(_units, listed, defaults), _nothing, tables, figure)
        for name, summary, listed, defaults, tables, figure in (speed, memory, growth, million)
    ]
