"""What ``bfio batch`` says of a network and of each run, as documents and as tables."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from bfio.batching.replay import violations
from bfio.batching.run import METRICS, BatchRun, first_batches
from bfio.batching.scenario import Scenario, remarks
from bfio.batching.simulation import simulate
from bfio.batching.stability import judge
from bfio.cli.batch_scenario import DEADLINES
from bfio.cli.output import print_table
from bfio.cli.tables import print_fitting, print_sentences, run_cells
from bfio.common.number_text import number, percent
from formulations.rationals import plain_number
from formulations.stability import capacity, theory
from formulations.stability.verdict import Verdict

#: Slots of the beginning of each run that are run again and checked.
_CHECKED_SLOTS, _CHECKED_TOKENS = 20_000, 200_000
#: Most requests of a batch that a table shows.
_MOST_SHOWN = 12


def theory_of(scenario: Scenario) -> dict[str, Any] | None:
    """Return what theory says of the network; None if nothing arrives."""
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


def document_of(args: argparse.Namespace, run: BatchRun) -> dict[str, Any]:
    """Return the figures of a run, what the checker says, remarks, and a verdict."""
    document = run.summary() | {"remarks": remarks(run.scenario)}
    end, loaded = int(run.course.slot[-1]), int(run.course.loaded[-1].sum())
    slots = max(1, min(end, _CHECKED_SLOTS if not loaded else end * _CHECKED_TOKENS // loaded))
    length = slots * (run.scenario.network.slot or 1)
    again = {"seed": run.seed, "engine": args.engine, "keeps_log": True}
    beginning = simulate(run.scenario, **again, horizon=length, blocks=1)
    document["violations"] = violations(beginning)
    if args.show_batches is not None:
        shown = first_batches(beginning, args.show_batches)
        document["first_batches"] = [batch.to_mapping() for batch in shown]
    if args.judge:
        verdict = judge(run.scenario, seed=args.seed, engine=args.engine)
        document["stability"] = verdict.to_mapping()
    return document


def print_runs(documents: Sequence[Mapping[str, Any]], deadlines: Sequence[str] = ()) -> None:
    """Print a row per policy; agents, if there are several; remarks and verdicts.

    Parameters
    ----------
    documents : sequence of mapping
        Figures of the runs.
    deadlines : sequence of str
        Times with a deadline, by their names in `bfio.cli.batch_scenario.DEADLINES`.
    """
    columns = [run_cells("policy", documents), *METRICS.cells(documents)]
    for name in deadlines:
        shares = [document[f"{name}_attainment"] for document in documents]
        columns.append((f"{DEADLINES[name]}\nin time", list(map(percent, shares))))
    print_fitting("", columns)
    print_sentences(
        f"Times in {documents[0]['unit']}. TTFT: to the end of the prefill; TBT: between tokens; "
        "E2E: to the departure. Of full batches: tokens over those of full batches without pause. "
        "Short batches: fewer tokens than budget and requests allowed."
    )
    for document in documents:
        _print_remarks(document)
        _print_batches(document)


def _print_remarks(document: Mapping[str, Any]) -> None:
    name = document["policy"]
    if len(document["agents"]) > 1:
        parts = (
            f"{agent['agent']} {percent(agent['utilisation'])} of full batches, "
            f"{number(agent['mean_requests'])} requests"
            for agent in document["agents"]
        )
        print_sentences(f"{name}: {'; '.join(parts)}.")
    for remark in document["remarks"]:
        print_sentences(f"{name}: {remark}")
    if document["violations"]:
        print(f"{name}: BROKEN RUN {document['violations']}")
    if (judged := document.get("stability")) is not None:
        drift, large = judged["from_empty"], judged["from_large"]
        print_sentences(
            f"{name}: {judged['verdict']} by simulation ({judged['seeds']} seeds of "
            f"{judged['horizon_slots']:,} slots: |X| grows by {number(drift['slope'])} ± "
            f"{number(drift['half_width'])} tokens a slot from empty; of "
            f"{number(large['initial_tokens'])} tokens {number(large['final_tokens'])} are there "
            "at the end)"
        )


def print_theory(known: Mapping[str, Any] | None) -> None:
    """Print what theory says of the network; stability it has for some policies alone."""
    if known is None:
        return
    whose = " (of policies whose batches are as full as can be)"
    print_sentences(
        f"theory: {known['verdict']}, {known['source']}"
        f"{whose if known['verdict'] == Verdict.STABLE else ''}; load {percent(known['load'])} at "
        f"{', '.join(known['bottlenecks'])}"
    )
    for warning in known["warnings"]:
        print_sentences(f"warning: {warning}")


def _print_batches(document: Mapping[str, Any]) -> None:
    name, batches = document["policy"], document.get("first_batches")
    if batches is not None and not batches:
        print(f"{name}: no batch is loaded")
    rows = []
    for batch in batches or ():
        tokens = f"{batch['tokens']} of {batch['budget']}"
        loaded = prompts(batch["prefill"]), decoded(batch["decode"])
        rows.append([str(batch["slot"]), str(batch["slots"]), batch["engine"], tokens, *loaded])
    if rows:
        columns = ["slot", "slots", "engine", "tokens", "prompt tokens", "decode tokens of"]
        print_table(f"{name}: the first {len(rows)} batches", columns, rows)


def prompts(loaded: Mapping[str, int]) -> str:
    """Return how many prompt tokens of which requests are in a batch."""
    return decoded([f"{request}: {tokens}" for request, tokens in loaded.items()])


def decoded(requests: Sequence[str]) -> str:
    """Return which requests have a decode token in a batch."""
    more = len(requests) - _MOST_SHOWN
    shown = [*requests[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return ", ".join(shown) or "–"
