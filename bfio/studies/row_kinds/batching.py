"""Rows that simulate engines with a token budget, alone and in networks of agents."""

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from bfio.batching.laws import ListedSizes
from bfio.batching.options import BatchOptions
from bfio.batching.replay import violations
from bfio.batching.run import METRICS, BatchRun
from bfio.batching.simulation import simulate
from bfio.batching.stability import judge
from bfio.common.options import from_mapping, names_of
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, described_metrics, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, digest_of
from bfio.studies.row_parts.batching_offer import BatchingOffer
from bfio.studies.row_parts.cache_arguments import algorithm_digest
from bfio.studies.row_parts.workload_arguments import lengths_digest
from formulations.errors import InputError
from formulations.rationals import plain_number
from formulations.stability import capacity, theory

ARGUMENTS = (*names_of(BatchingOffer, BatchOptions), "judge", "judge_slots", "seed")
#: Tokens of the beginning of a run that are run again and checked.
_CHECKED_TOKENS = 100_000
VALUES = [
    *described_metrics(METRICS),
    *descriptions(
        """
        load | 1 | load of the bottleneck
        theory | | what theory says of the network whatever the policy
        judged | | what the drift of simulated runs says; None unless asked for
        drift | tokens/slot | mean slope of unprocessed tokens from an empty state
        drift_half_width | tokens/slot | half the width of its 95 % interval over seeds
        judged_slots | slots | length of the runs that were judged
        time | s or slots | ends of the blocks of the course, the beginning first
        tokens | tokens | unprocessed tokens then
        present | requests | requests at agents then
        """
    ),
]


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Read the arguments; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    scenario = from_mapping(BatchingOffer, arguments).scenario(context)
    options = from_mapping(BatchOptions, given.given)
    if options.horizon is None:
        raise InputError("argument horizon", "it is not given", "say how long to simulate")
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
        return RowResult(values, series=series, violations=_violations(run))

    document = json.dumps(scenario.network.to_mapping(), sort_keys=True)
    source = algorithm_digest(scenario.serving.name)
    laws = [law for law in scenario.listed_sizes.values() if isinstance(law, ListedSizes)]
    listed = [lengths_digest(law.prefill, law.decode).hexdigest() for law in laws]
    return Planned(digest_of(f"{document}{source}", *listed), compute)


_JUDGED = ("judged", "drift", "drift_half_width", "judged_slots")


def _violations(run: BatchRun) -> dict[str, int]:
    """Run the beginning of the run again with a log, and check it."""
    end, loaded = int(run.course.slot[-1]), int(run.course.loaded[-1].sum())
    slots = min(end, max(1, end * _CHECKED_TOKENS // loaded) if loaded else end)
    length = Fraction(slots) * (run.scenario.network.slot or 1)
    options = replace(BatchOptions(), horizon=length, blocks=1)
    return violations(simulate(run.scenario, seed=run.seed, keeps_log=True, options=options))


KIND = planned_kind(
    "batching",
    "engines with a token budget and networks of agents, simulated",
    plan,
    VALUES,
)
