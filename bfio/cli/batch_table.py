"""The table of ``bfio batch``, and what theory and the checker say besides."""

from collections.abc import Mapping, Sequence
from typing import Any

from bfio.batching.run import METRICS
from bfio.cli.batch_settings import DEADLINES
from bfio.cli.output import print_table
from bfio.cli.tables import print_fitting, print_sentences, run_cells
from bfio.common.number_text import number, percent
from formulations.stability.verdict import Verdict


def print_runs(documents: Sequence[Mapping[str, Any]], deadlines: Sequence[str] = ()) -> None:
    """Print a row per policy; agents, if there are several; remarks and verdicts.

    Parameters
    ----------
    documents : sequence of mapping
        Figures of the runs.
    deadlines : sequence of str
        Times with a deadline, by their names in `bfio.cli.batch_settings.DEADLINES`.
    """
    unit = documents[0]["unit"]
    in_time = [
        (f"{DEADLINES[name]}\nin time", [_share(d[f"{name}_attainment"]) for d in documents])
        for name in deadlines
    ]
    print_fitting("", [run_cells("policy", documents), *METRICS.cells(documents), *in_time])
    print_sentences(
        f"Times in {unit}. TTFT: to the end of the prefill; TBT: between tokens; E2E: to the "
        "departure. Of full batches: tokens over those of full batches without pause. Short "
        "batches: fewer tokens than budget and requests allowed."
    )
    for document in documents:
        _print_agents(document)
        _print_remarks(document)
        _print_batches(document)


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _print_agents(document: Mapping[str, Any]) -> None:
    if len(document["agents"]) < 2:
        return
    parts = (
        f"{agent['agent']} {percent(agent['utilisation'])} of full batches, "
        f"{number(agent['mean_requests'])} requests"
        for agent in document["agents"]
    )
    print_sentences(f"{document['policy']}: {'; '.join(parts)}.")


def _print_remarks(document: Mapping[str, Any]) -> None:
    name = document["policy"]
    for remark in document["remarks"]:
        print_sentences(f"{name}: {remark}")
    if document["violations"]:
        print(f"{name}: BROKEN RUN {document['violations']}")
    if (judged := document.get("stability")) is not None:
        drift = judged["from_empty"]
        print_sentences(
            f"{name}: {judged['verdict']} by simulation ({judged['seeds']} seeds of "
            f"{judged['horizon_slots']:,} slots: |X| grows by {number(drift['slope'])} ± "
            f"{number(drift['half_width'])} tokens a slot from empty; of "
            f"{number(judged['from_large']['initial_tokens'])} tokens "
            f"{number(judged['from_large']['final_tokens'])} are there at the end)"
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
    batches = document.get("first_batches")
    if batches is None:
        return
    name = document["policy"]
    if not batches:
        print(f"{name}: no batch is loaded")
        return
    rows = [
        [
            str(batch["slot"]),
            str(batch["slots"]),
            batch["engine"],
            f"{batch['tokens']} of {batch['budget']}",
            prompts(batch["prefill"]),
            decoded(batch["decode"]),
        ]
        for batch in batches
    ]
    columns = ["slot", "slots", "engine", "tokens", "prompt tokens", "decode tokens of"]
    print_table(f"{name}: the first {len(batches)} batches", columns, rows)


#: Most requests of a batch that a table shows.
_MOST_SHOWN = 12


def prompts(loaded: Mapping[str, int]) -> str:
    """Return how many prompt tokens of which requests are in a batch."""
    return _shown([f"{request}: {tokens}" for request, tokens in loaded.items()])


def decoded(requests: Sequence[str]) -> str:
    """Return which requests have a decode token in a batch."""
    return _shown(requests)


def _shown(parts: Sequence[str]) -> str:
    more = len(parts) - _MOST_SHOWN
    return ", ".join([*parts[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]) or "–"
