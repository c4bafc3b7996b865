"""What ``bfio batch`` says of a network and of each run, as documents."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bfio.batching.run import BatchRun
    from bfio.batching.scenario import Scenario

#: Slots of the beginning of each run that are run again and checked.
_CHECKED_SLOTS, _CHECKED_TOKENS = 20_000, 200_000


def theory_of(scenario: "Scenario") -> "dict[str, Any] | None":
    """Return what theory says of the network; None if nothing arrives."""
    from formulations.rationals import plain_number
    from formulations.stability import capacity, theory

    network = scenario.network
    if not any(stage.rate for stage in network.stages):
        return None
    result = capacity(network)
    judged = theory(result)
    return {
        "verdict": judged.verdict.value,
        "source": judged.source,
        "load": plain_number(1 / result.factor),
        "bottlenecks": list(result.bottlenecks),
        "warnings": list(judged.warnings),
    }


def document_of(args: argparse.Namespace, run: "BatchRun") -> dict[str, Any]:
    """Return the figures of a run, what the checker says, remarks, and a verdict."""
    from bfio.batching.conservation import remarks
    from bfio.batching.replay import violations

    document = run.summary() | {"remarks": remarks(run.scenario)}
    beginning = _beginning(args, run)
    document["violations"] = violations(beginning)
    if args.show_batches is not None:
        from bfio.batching.worked import first_batches

        shown = first_batches(beginning, args.show_batches)
        document["first_batches"] = [batch.to_mapping() for batch in shown]
    if args.judge:
        from bfio.batching.stability import judge

        document["stability"] = judge(
            run.scenario, seed=args.seed, engine=args.engine
        ).to_mapping()
    return document


def _beginning(args: argparse.Namespace, run: "BatchRun") -> "BatchRun":
    """Run the beginning of a run again, with a log."""
    from bfio.batching.simulation import simulate

    end = int(run.course.slot[-1])
    loaded = int(run.course.loaded[-1].sum())
    slots = max(1, min(end, _CHECKED_SLOTS if not loaded else end * _CHECKED_TOKENS // loaded))
    slot = run.scenario.network.slot or 1
    return simulate(
        run.scenario,
        seed=run.seed,
        engine=args.engine,
        keeps_log=True,
        horizon=slots * slot,
        blocks=1,
    )
