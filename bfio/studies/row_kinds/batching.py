"""Rows that simulate token-budget engines, single or in networks of agents."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from bfio.batching.hardware import hardware
from bfio.batching.laws import ListedSizes
from bfio.batching.options import BatchOptions
from bfio.batching.registry import build
from bfio.batching.replay import violations
from bfio.batching.run import METRICS
from bfio.batching.scenario import Balancer, Scenario, Serving, with_trace
from bfio.batching.simulation import logged_beginning, simulate
from bfio.batching.stability import judge
from bfio.batching.time_terms import TimeTerms, parse_terms
from bfio.common.options import (
    POSITIVE,
    TEXT,
    WHOLE,
    CheckedOptions,
    from_mapping,
    names_of,
    one_of,
    option,
)
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, described_metrics, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, algorithm_digest, digest_of, refused
from bfio.studies.row_parts.workload_arguments import lengths_digest, trace_requests
from formulations.batching import AgentNetwork
from formulations.errors import InputError
from formulations.problem_data import member
from formulations.scalars import plain_number
from formulations.stability import capacity, named_priority, theory


@dataclass(frozen=True)
class BatchingOffer(CheckedOptions):
    """Arguments of the simulated network: engines, arrivals and policy.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    network: str | None = option(
        None,
        TEXT,
        "FILE",
        "the network, a file as of `bfio capacity` in the study's `data` folder",
    )
    hardware: str | None = option(
        None,
        TEXT,
        "NAME",
        "instead of `network`: engines with published batch times (`bfio batch --help`)",
    )
    prefill: Fraction | None = option(
        None, POSITIVE, "M", "with `hardware`: mean prompt tokens (default 129)"
    )
    decode: Fraction | None = option(
        None, POSITIVE, "M", "with `hardware`: mean decode tokens (default 112)"
    )
    trace: str | None = option(
        None,
        TEXT,
        "FILE",
        "with `hardware`: prompt and output tokens are drawn together from this trace",
    )
    budget: int | None = option(
        None,
        WHOLE,
        "B",
        "token budget of all agents, replaces that of the file (`hardware`: default 512)",
    )
    engines: int = option(1, WHOLE, "K", "with `hardware`: number of parallel engines (default 1)")
    rate: Fraction | None = option(
        None,
        POSITIVE,
        "R",
        "total arrival rate of all stages, in requests per second, or per slot",
    )
    load: Fraction | None = option(
        None, POSITIVE, "X", "instead of `rate`: load of the bottleneck agent"
    )
    policy: str = option(
        "sarathi",
        TEXT,
        "NAME",
        "`sarathi` (default) or another policy with options, or `module:function`",
    )
    balancer: str = option(
        "random", TEXT, "NAME", "rule by which requests choose among parallel engines"
    )
    priority: str = option(
        "none",
        one_of("none", "last", "first"),
        "WHICH",
        "order in which agents serve stages: `none` (default), `last`, `first`",
    )
    terms: str | None = option(
        None, TEXT, "TERMS", "terms of the batch time besides its tokens: `NAME=VALUE:...` [slots]"
    )
    sizes: str = option(
        "geometric",
        TEXT,
        "LAW",
        "distribution of token counts: `geometric` (default), `fixed`, `poisson`",
    )
    arrivals: str = option(
        "poisson", TEXT, "LAW", "arrival process: `poisson` (default), `bernoulli`"
    )
    initial: int = option(
        0, WHOLE, "N", "requests present at the start, at the first stage with arrivals"
    )

    def __post_init__(self) -> None:
        """Validate, and convert numbers to exact fractions."""
        super().__post_init__()
        if (self.network is None) == (self.hardware is None):
            found = (
                "neither network nor hardware is given"
                if self.network is None
                else "network and hardware exclude each other"
            )
            raise InputError("network", found, "give one of them")
        if self.trace is not None and self.hardware is None:
            what = "cannot be combined with network"
            raise InputError("trace", what, "replace network by hardware")
        for name in ("prefill", "decode", "engines"):
            if self.network is not None and getattr(self, name) not in (None, 1):
                raise InputError(name, "the network file states the value", "change the file")
        if self.trace is not None and self.sizes != BatchingOffer.sizes:
            raise InputError("sizes", "the trace gives the sizes", "remove it")
        if self.trace is not None and (self.prefill, self.decode) != (None, None):
            raise InputError("trace", "prefill or decode is given as well", "leave them out")
        if self.rate is not None and self.load is not None:
            raise InputError("rate", "load is given as well", "remove one of the two")

    def scenario(self, context: RowContext) -> Scenario:
        """Return the simulated scenario.

        Raises
        ------
        InputError
            If the file cannot be read, or a value breaks its rule.
        """
        network = self._network(context)
        offered = Scenario(network, sizes=self.sizes, arrivals=self.arrivals)
        if self.trace is not None:
            offered = with_trace(offered, trace_requests(context.folder / self.trace), drawn=True)
        network = self._at_rate(offered.network)
        balancer = member(Balancer, self.balancer, "balancer")
        if balancer is not Balancer.RANDOM and not any(a.engines > 1 for a in network.agents):
            raise InputError("balancer", "no agent has several engines", "remove it")
        terms = TimeTerms() if self.terms is None else parse_terms(self.terms)
        serving = Serving(build(self.policy), self.policy, balancer, terms=terms)
        agents = {}
        if self.priority != "none":
            for agent, stages in named_priority(network, self.priority).items():
                agents[agent] = replace(serving, priority=tuple(stages))
        initial = {}
        if self.initial:
            first = next((stage.name for stage in network.stages if stage.rate), None)
            if first is None:
                what = "no stage has an arrival rate > 0"
                raise InputError("initial", what, "give a stage a rate > 0")
            initial[first] = self.initial
        return replace(offered, network=network, serving=serving, agents=agents, initial=initial)

    def _network(self, context: RowContext) -> AgentNetwork:
        if self.network is None:
            assert self.hardware is not None
            means, budget = (self.prefill or 129, self.decode or 112), self.budget or 512
            return hardware(self.hardware).network(1, *means, budget=budget, engines=self.engines)
        path = context.folder / self.network
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError("network", f"{path.name}: {error}"[:200], "name a file") from None
        network = AgentNetwork.from_json(text)
        if self.budget is None:
            return network
        document: dict[str, Any] = network.to_mapping()
        agents = [row | {"budget": self.budget} for row in document["agents"]]
        return AgentNetwork.from_mapping(document | {"agents": agents})

    def _at_rate(self, network: AgentNetwork) -> AgentNetwork:
        if self.load is not None:
            return network.scaled(capacity(network).factor * self.load)
        if self.rate is None:
            return network
        total = sum((stage.rate for stage in network.stages), Fraction(0)) / (network.slot or 1)
        if not total:
            raise InputError("rate", "no stage has an arrival rate > 0", "give a stage a rate > 0")
        return network.scaled(self.rate / total)


ARGUMENTS = (*names_of(BatchingOffer, BatchOptions), "judge", "judge_slots", "seed")
#: Number of tokens at the beginning of a run that are simulated again and checked.
_CHECKED_TOKENS = 100_000
VALUES = [
    *described_metrics(METRICS),
    *descriptions(
        """
        load | 1 | load of the bottleneck
        theory | | theoretical verdict on the network for all policies
        judged | | stability verdict from the drift of simulated runs; None unless requested
        drift | tokens/slot | mean slope of unprocessed tokens from an empty state
        drift_half_width | tokens/slot | half the width of its 95 % interval over seeds
        judged_slots | slots | length of the runs behind `judged`
        time | s or slots | sampling times of `tokens` and `present`, beginning with the start
        tokens | tokens | unprocessed tokens at the times `time`
        present | requests | requests at agents at the times `time`
        """
    ),
]


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    scenario = from_mapping(BatchingOffer, arguments).scenario(context)
    options = from_mapping(BatchOptions, given.given)
    if options.horizon is None:
        raise refused("horizon", "is missing", "give the simulated time")
    seed, judges = given.whole("seed", 0), given.flag("judge")
    judge_slots = given.whole("judge_slots", 20_000, minimum=400, maximum=10**9)

    def compute() -> RowResult:
        run = simulate(scenario, seed=seed, options=options)
        values: dict[str, Value] = dict(METRICS.measure(run))
        values |= {"load": 0.0, "theory": None} | dict.fromkeys(_JUDGED)
        if any(stage.rate for stage in scenario.network.stages):
            known = capacity(scenario.network)
            values["load"] = plain_number(1 / known.factor)
            values["theory"] = theory(known).verdict.value
        if judges:
            found = judge(scenario, horizon=judge_slots, seed=seed)
            drift = found.empty.mean, found.empty.half_width
            values |= zip(_JUDGED, (found.verdict.value, *drift, found.horizon), strict=True)
        series = {
            "time": (run.course.slot * run.slot).tolist(),
            "tokens": run.course.tokens.tolist(),
            "present": run.course.present.sum(axis=1).tolist(),
        }
        broken = violations(logged_beginning(run, _CHECKED_TOKENS))
        return RowResult(values, series=series, violations=broken)

    document = json.dumps(scenario.network.to_mapping(), sort_keys=True)
    source = algorithm_digest(scenario.serving.name)
    laws = [law for law in scenario.listed_sizes.values() if isinstance(law, ListedSizes)]
    listed = [lengths_digest(law.prefill, law.decode).hexdigest() for law in laws]
    return Planned(digest_of(f"{document}{source}", *listed), compute)


_JUDGED = ("judged", "drift", "drift_half_width", "judged_slots")


KIND = planned_kind(
    "batching",
    "engines with a token budget and networks of agents, simulated",
    plan,
    VALUES,
)
