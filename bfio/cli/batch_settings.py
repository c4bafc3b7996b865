"""The line of settings of ``bfio batch``."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bfio.batching.options import BatchOptions
from bfio.cli.batch_arguments import SourceOptions
from bfio.common.number_text import number
from bfio.common.provenance import version_and_commit
from formulations.rationals import plain_number

if TYPE_CHECKING:
    from bfio.batching.scenario import Scenario
    from bfio.workloads.workload import Workload

#: Times that may have a deadline, and what the table calls them.
DEADLINES = {"ttft": "TTFT", "tbt": "TBT", "e2e": "E2E"}


def batch_settings(
    args: argparse.Namespace,
    sources: SourceOptions,
    options: BatchOptions,
    scenario: "Scenario",
    workload: "Workload | None",
) -> str:
    """Return one line that says what the runs are made of, but for their policies.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of the command.
    sources, options
        What it read from them.
    scenario : Scenario
        That of one policy.
    workload : Workload, optional
        The requests of a trace.
    """
    from bfio.workloads.requests_used import requests_used

    unit = "slots" if scenario.network.slot is None else "s"
    parts = [
        _network(args, scenario),
        "" if workload is None else requests_used(workload),
        *_laws(sources, unit, is_trace=workload is not None),
        f"balancer {sources.balancer}" if has_parallel_engines(scenario) else "",
        "" if sources.terms is None else f"terms {sources.terms}",
        *(f"{name} {' '.join(getattr(args, name) or ())}" for name in _lists(args)),
        *_span(options, unit),
        *(f"{DEADLINES[name]} within {limit}" for name, limit in _limits(options, unit).items()),
        f"seed {args.seed}",
        version_and_commit(),
    ]
    return ", ".join(part for part in parts if part)


def has_parallel_engines(scenario: "Scenario") -> bool:
    """Whether some agent has several engines, between which a balancer chooses."""
    return any(agent.engines > 1 for agent in scenario.network.agents)


def given_deadlines(options: BatchOptions) -> list[str]:
    """Return which times have a deadline, by their names in `DEADLINES`."""
    return [name for name in DEADLINES if getattr(options, f"{name}_deadline") is not None]


def _limits(options: BatchOptions, unit: str) -> Mapping[str, str]:
    return {
        name: f"{number(plain_number(getattr(options, f'{name}_deadline')))} {unit}"
        for name in given_deadlines(options)
    }


def _network(args: argparse.Namespace, scenario: "Scenario") -> str:
    if args.file is None:
        (agent,) = scenario.network.agents
        return f"{args.hardware}: {_counted(agent.engines, 'engine')}, token budget {agent.budget}"
    name = "stdin" if args.file == "-" else Path(args.file).name
    stages, agents = len(scenario.network.stages), len(scenario.network.agents)
    return f"{name}: {_counted(stages, 'stage')} at {_counted(agents, 'agent')}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _laws(sources: SourceOptions, unit: str, *, is_trace: bool) -> Iterator[str]:
    """Yield how requests arrive, and how long they are."""
    per = unit.removesuffix("s") or unit
    rate = (
        "" if sources.rate is None else f" of {number(plain_number(sources.rate))} requests/{per}"
    )
    if not is_trace or sources.rate is not None:
        yield f"{sources.arrivals} arrivals{rate}"
    else:
        scale = sources.rate_scale
        faster = "" if scale is None else f" at {number(plain_number(scale))} times their rate"
        yield f"timed arrivals{faster}"
    if not is_trace:
        yield f"{sources.sizes} sizes"


def _lists(args: argparse.Namespace) -> Iterator[str]:
    yield from (name for name in ("priority", "delay", "initial") if getattr(args, name))


def _span(options: BatchOptions, unit: str) -> Iterator[str]:
    if options.horizon is None:
        yield "until all have departed"
    else:
        yield f"{number(plain_number(options.horizon))} {unit}"
    if options.warmup:
        yield f"measured from {number(plain_number(options.warmup))} {unit} on"
