"""The scenarios that the arguments of ``bfio batch`` ask for: one per policy."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from bfio.cli.batch_arguments import SourceOptions, pairs, priorities
from bfio.cli.batch_settings import has_parallel_engines
from bfio.cli.files import naming, read_problem
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bfio.batching.scenario import Scenario
    from bfio.workloads.workload import Workload
    from formulations.batching import AgentNetwork

_DEFAULT_POLICY = "sarathi"


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

    names = args.policy or [_DEFAULT_POLICY]
    if len(set(names)) < len(names):
        raise InputError("--policy", "a policy occurs twice", "name each once")
    policies = {name: build(name) for name in names}
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
    return {
        name: _served(common, policy, name, sources, orders) for name, policy in policies.items()
    }


def _network(args: argparse.Namespace, sources: SourceOptions) -> "AgentNetwork":
    from bfio.batching.hardware import hardware
    from formulations.batching import AgentNetwork

    if args.file is not None:
        return read_problem(args.file, AgentNetwork.from_json)
    assert sources.hardware is not None
    # A trace brings its own means.
    return hardware(sources.hardware).network(
        sources.rate or 0,
        sources.prefill or 1,
        sources.decode or 1,
        budget=sources.budget,
        engines=sources.engines,
    )


def _orders(texts: list[str], network: "AgentNetwork") -> "Mapping[str, tuple[str, ...]]":
    from formulations.stability import named_priority

    if texts in (["last"], ["first"]):
        order = named_priority(network, texts[0], "--priority")
        return {agent: tuple(stages) for agent, stages in order.items()}
    return priorities(texts)


def _common(
    args: argparse.Namespace, sources: SourceOptions, network: "AgentNetwork"
) -> "Scenario":
    from bfio.batching.laws import Law, LawName
    from bfio.batching.scenario import Scenario
    from formulations.rationals import exact_number

    slot = network.slot or 1
    delays = {
        stage: Law(LawName.GEOMETRIC, exact_number(mean, f"--delay {stage}", positive=True) / slot)
        for stage, mean in pairs(args.delay or [], "--delay").items()
    }
    initial = {
        stage: _count(text, f"--initial {stage}")
        for stage, text in pairs(args.initial or [], "--initial").items()
    }
    with naming(args.file or "command line", "mean", "rate"):
        return Scenario(
            network,
            sizes=sources.sizes,
            arrivals=sources.arrivals,
            delays=delays,
            initial=initial,
        )


def _count(text: str, where: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    raise InputError(where, f"{text!r:.40} is no number of requests", "write one >= 0")


def _with_trace(
    scenario: "Scenario", sources: SourceOptions, workload: "Workload", name: str
) -> "Scenario":
    from bfio.batching.trace import with_trace

    drawn = sources.rate is not None
    if drawn:
        network = scenario.network
        assert sources.rate is not None
        per_slot = sources.rate * (network.slot or 1)
        stages = tuple(replace(stage, rate=per_slot) for stage in network.stages[:1])
        scenario = replace(scenario, network=replace(network, stages=stages + network.stages[1:]))
    with naming(name):
        return with_trace(scenario, workload, rate_scale=sources.rate_scale or 1, drawn=drawn)


def _served(
    common: "Scenario",
    policy: object,
    name: str,
    sources: SourceOptions,
    orders: "Mapping[str, tuple[str, ...]]",
) -> "Scenario":
    from bfio.batching.scenario import Balancer, Serving
    from bfio.batching.time_terms import TimeTerms, parse_terms
    from formulations.problem_data import member

    balancer = member(Balancer, sources.balancer, "--balancer")
    if balancer is not Balancer.RANDOM and not has_parallel_engines(common):
        raise InputError("--balancer", "no agent has several engines", "leave it out")
    terms = TimeTerms() if sources.terms is None else parse_terms(sources.terms, "--terms")
    serving = Serving(policy, name, balancer, terms=terms)  # type: ignore[arg-type]
    agents = {agent: replace(serving, priority=order) for agent, order in orders.items()}
    return replace(common, serving=serving, agents=agents)
