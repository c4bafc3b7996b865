"""What ``bfio batch`` simulates: the network and its load, a scenario per policy, its settings."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from bfio.batching.options import BatchOptions
from bfio.cli.files import naming, read_problem
from bfio.cli.options import policies_from
from bfio.cli.output import check_plot_name
from bfio.common.number_text import number
from bfio.common.options import (
    POSITIVE,
    TEXT,
    WHOLE,
    CheckedOptions,
    flag,
    from_namespace,
    option,
    split_pairs,
)
from bfio.common.provenance import version_and_commit
from formulations.errors import InputError
from formulations.rationals import exact_number, plain_number

if TYPE_CHECKING:
    from bfio.batching.scenario import Scenario
    from bfio.workloads.workload import Workload
    from formulations.batching import AgentNetwork

#: Times that may have a deadline, and what the table calls them.
DEADLINES = {"ttft": "TTFT", "tbt": "TBT", "e2e": "E2E"}
_MOST_BATCHES = 1000


@dataclass(frozen=True)
class SourceOptions(CheckedOptions):
    """A network without a file, and laws of what arrives.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    hardware: str | None = option(
        None, TEXT, "NAME", "in the place of FILE: engines with published batch times"
    )
    rate: Fraction | None = option(
        None, POSITIVE, "R", "with --hardware: requests/s; with --trace: Poisson arrivals"
    )
    prefill: Fraction | None = option(
        None, POSITIVE, "M", "with --hardware: mean prompt tokens, >= 1"
    )
    decode: Fraction | None = option(
        None, POSITIVE, "M", "with --hardware: mean decode tokens, >= 1"
    )
    budget: int = option(512, WHOLE, "B", "with --hardware: token budget (default 512)")
    engines: int = option(1, WHOLE, "K", "with --hardware: engines in parallel (default 1)")
    rate_scale: Fraction | None = option(None, POSITIVE, "X", "trace: multiply the rate by X")
    sizes: str = option(
        "geometric", TEXT, "LAW", "tokens around their means: geometric (default), fixed, poisson"
    )
    arrivals: str = option("poisson", TEXT, "LAW", "poisson (default) or bernoulli")
    balancer: str = option(
        "random",
        TEXT,
        "NAME",
        "parallel engines: random (default), least-requests, least-tokens, first",
    )
    terms: str | None = option(
        None, TEXT, "TERMS", "time of a batch beyond its tokens: NAME=VALUE:... [slots]"
    )


def checked_sources(args: argparse.Namespace) -> SourceOptions:
    """Refuse what contradicts itself or cannot be written, before anything is read.

    Raises
    ------
    InputError
        If there is such.
    """
    wrong = _conflict(args)
    if wrong is not None:
        raise InputError("command line", *wrong)
    check_plot_name(args.plot)
    if args.show_batches is not None and not 1 <= args.show_batches <= _MOST_BATCHES:
        what = f"{args.show_batches} is out of range"
        raise InputError("--show-batches", what, f"use 1 to {_MOST_BATCHES:,}")
    return from_namespace(SourceOptions, args)


def _conflict(args: argparse.Namespace) -> tuple[str, str] | None:
    if (args.file is None) == (args.hardware is None):
        found = "neither FILE nor --hardware" if args.file is None else "FILE and --hardware"
        return found, "give one of them"
    sized = args.prefill is not None or args.decode is not None
    if args.hardware is None and sized:
        return "--prefill or --decode with FILE", "write them there"
    for name in ("budget", "engines"):
        if args.hardware is None and getattr(args, name) != getattr(SourceOptions(), name):
            return f"{flag(name)} with FILE", "write it there"
    if args.hardware is None and args.rate is not None and args.trace is None:
        return "--rate with FILE", "write it there, or give --trace"
    if args.hardware is not None and args.trace is None:
        missing = [n for n in ("rate", "prefill", "decode") if getattr(args, n) is None]
        if missing:
            return f"--hardware without --{missing[0]}", "add it, or a --trace"
    if args.trace is None:
        for name in ("rate_scale", "skip_bad_rows", "columns"):
            if getattr(args, name):
                return f"{flag(name)} without --trace", "add --trace, or leave it out"
        return None if args.horizon is not None else ("no --horizon", "say how long to simulate")
    if sized or args.sizes != SourceOptions().sizes:
        which = "--prefill or --decode" if sized else "--sizes"
        return f"{which} with --trace", "leave them out: the trace has its own"
    if args.rate is None and args.arrivals != SourceOptions().arrivals:
        return "--arrivals with --trace", "leave it out, as the trace has times; or give --rate"
    if args.rate is not None and args.rate_scale is not None:
        return "--rate and --rate-scale", "give one of them"
    if args.rate is not None and args.horizon is None:
        return "--rate without --horizon", "say how long to simulate"
    return None


def scenarios_of(
    args: argparse.Namespace, sources: SourceOptions, workload: "Workload | None"
) -> "dict[str, Scenario]":
    """Return a scenario per policy, by its name.

    Raises
    ------
    InputError
        If anything is unknown, contradicts the network, or cannot be read.
    """
    from bfio.batching.registry import build
    from bfio.batching.scenario import Balancer, Serving
    from bfio.batching.time_terms import TimeTerms, parse_terms
    from formulations.problem_data import member

    policies = {name: build(name) for name in policies_from(args, "sarathi")}
    network = _network(args, sources)
    orders = _orders(args.priority or [], network)
    common = _common(args, sources, network)
    if workload is not None:
        common = _with_trace(common, sources, workload, args.trace)
    elif not any(stage.rate for stage in network.stages) and not any(common.initial.values()):
        what = "no request arrives, and none is there at the beginning"
        raise InputError(
            args.file or "command line", what, "give a stage a rate > 0, or --initial"
        )

    balancer = member(Balancer, sources.balancer, "--balancer")
    if balancer is not Balancer.RANDOM and not _has_parallel_engines(common):
        raise InputError("--balancer", "no agent has several engines", "leave it out")
    terms = TimeTerms() if sources.terms is None else parse_terms(sources.terms, "--terms")
    scenarios = {}
    for name, policy in policies.items():
        serving = Serving(policy, name, balancer, terms=terms)
        agents = {agent: replace(serving, priority=order) for agent, order in orders.items()}
        scenarios[name] = replace(common, serving=serving, agents=agents)
    return scenarios


def _network(args: argparse.Namespace, sources: SourceOptions) -> "AgentNetwork":
    from bfio.batching.hardware import hardware
    from formulations.batching import AgentNetwork

    if args.file is not None:
        return read_problem(args.file, AgentNetwork.from_json)
    assert sources.hardware is not None
    # A trace brings its own means.
    means = sources.rate or 0, sources.prefill or 1, sources.decode or 1
    made = hardware(sources.hardware)
    return made.network(*means, budget=sources.budget, engines=sources.engines)


def _orders(texts: list[str], network: "AgentNetwork") -> Mapping[str, tuple[str, ...]]:
    """Return the orders of stages: last, first, or those written as ``AGENT=STAGE>STAGE``."""
    from formulations.stability import named_priority

    if texts in (["last"], ["first"]):
        order = named_priority(network, texts[0], "--priority")
        return {agent: tuple(stages) for agent, stages in order.items()}
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        agent, equals, written = text.partition("=")
        stages = tuple(name.strip() for name in written.split(">"))
        if not equals or not all(stages):
            remedy = "write last, first or AGENT=STAGE>STAGE"
            raise InputError("--priority", f"{text!r:.60}", remedy)
        if agent in found:
            raise InputError("--priority", f"{agent} is named twice", "give it one order")
        found[agent.strip()] = stages
    return found


def _common(
    args: argparse.Namespace, sources: SourceOptions, network: "AgentNetwork"
) -> "Scenario":
    """Return what the scenarios of all policies share."""
    from bfio.batching.laws import Law, LawName
    from bfio.batching.scenario import Scenario

    delays, initial = {}, {}
    for stage, text in _pairs(args.delay, "--delay"):
        mean = exact_number(text, f"--delay {stage}", positive=True)
        delays[stage] = Law(LawName.GEOMETRIC, mean / (network.slot or 1))
    for stage, text in _pairs(args.initial, "--initial"):
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            what = f"{text!r:.40} is no number of requests"
            raise InputError(f"--initial {stage}", what, "write one >= 0")
        initial[stage] = int(text)
    with naming(args.file or "command line", "mean", "rate"):
        return Scenario(
            network,
            sizes=sources.sizes,
            arrivals=sources.arrivals,
            delays=delays,
            initial=initial,
        )


def _pairs(texts: list[str] | None, where: str) -> Iterator[tuple[str, str]]:
    """Yield what is written as ``NAME=VALUE``."""
    for name, value in split_pairs(texts or [], where).items():
        if not name or not value:
            raise InputError(where, f"{name or value!r:.60}", "write NAME=VALUE")
        yield name, value


def _with_trace(
    scenario: "Scenario", sources: SourceOptions, workload: "Workload", name: str
) -> "Scenario":
    from bfio.batching.scenario import with_trace

    if sources.rate is not None:
        network = scenario.network
        rate = sources.rate * (network.slot or 1)
        stages = replace(network.stages[0], rate=rate), *network.stages[1:]
        scenario = replace(scenario, network=replace(network, stages=stages))
    drawn = sources.rate is not None
    with naming(name):
        return with_trace(scenario, workload, rate_scale=sources.rate_scale or 1, drawn=drawn)


def _has_parallel_engines(scenario: "Scenario") -> bool:
    return any(agent.engines > 1 for agent in scenario.network.agents)


def given_deadlines(options: BatchOptions) -> list[str]:
    """Return the names of times that have a deadline."""
    return [name for name in DEADLINES if getattr(options, f"{name}_deadline") is not None]


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
    from bfio.workloads.statistics import requests_used

    def told(value: Fraction | None) -> str:
        return number(plain_number(value))

    network = scenario.network
    stages, agents = len(network.stages), len(network.agents)
    if args.file is None:
        (agent,) = network.agents
        engines = _counted(agent.engines, "engine")
        parts = [f"{args.hardware}: {engines}, token budget {agent.budget}"]
    else:
        name = "stdin" if args.file == "-" else Path(args.file).name
        parts = [f"{name}: {_counted(stages, 'stage')} at {_counted(agents, 'agent')}"]
    if workload is not None:
        parts.append(requests_used(workload))

    unit, per = ("slots", "slot") if network.slot is None else ("s", "s")
    if workload is None or sources.rate is not None:
        rate = "" if sources.rate is None else f" of {told(sources.rate)} requests/{per}"
        parts.append(f"{sources.arrivals} arrivals{rate}")
    else:
        scale = sources.rate_scale
        faster = "" if scale is None else f" at {told(scale)} times their rate"
        parts.append(f"timed arrivals{faster}")
    if workload is None:
        parts.append(f"{sources.sizes} sizes")
    if _has_parallel_engines(scenario):
        parts.append(f"balancer {sources.balancer}")
    if sources.terms is not None:
        parts.append(f"terms {sources.terms}")
    for name in ("priority", "delay", "initial"):
        if getattr(args, name):
            parts.append(f"{name} {' '.join(getattr(args, name))}")

    lasts = options.horizon is not None
    parts.append(f"{told(options.horizon)} {unit}" if lasts else "until all have departed")
    if options.warmup:
        parts.append(f"measured from {told(options.warmup)} {unit} on")
    for name in given_deadlines(options):
        limit = getattr(options, f"{name}_deadline")
        parts.append(f"{DEADLINES[name]} within {told(limit)} {unit}")
    return ", ".join([*parts, f"seed {args.seed}", version_and_commit()])


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
