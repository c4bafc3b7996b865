"""The table of ``bfio wait``, its settings, and what the fluid model says to compare with."""

import argparse
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from bfio.cli.tables import print_fitting, print_sentences, run_cells
from bfio.cli.wait_arguments import ArrivalOptions
from bfio.common.number_text import number, percent
from bfio.common.provenance import version_and_commit
from bfio.wait.run import METRICS
from bfio.workloads.statistics import requests_used
from bfio.workloads.workload import Workload
from formulations.fluid import FluidObjective, FluidProblem, equilibrium, knapsack
from formulations.rationals import plain_number

_ABOVE = (
    "above 100 %: thresholds do not look at the memory (batches beyond it are overflows), and "
    "drawn requests differ from their rates"
)


def fluid_limits(problem: FluidProblem) -> dict[str, Any]:
    """Return the most that any policy can sustain, and the equilibrium of the whole load."""
    worker = problem.single_worker()
    load = worker.d1 * problem.work_rate
    state = equilibrium(problem.classes, worker) if load < 1 else None
    most = {kind: knapsack(problem, objective=kind).value for kind in FluidObjective}
    return {
        "throughput": plain_number(most[FluidObjective.STAGES]),
        "decode_throughput": plain_number(most[FluidObjective.DECODE]),
        "load": plain_number(load),
        "equilibrium_memory": None if state is None else plain_number(state.memory),
        "iteration_time": None if state is None else plain_number(state.iteration_time),
    }


def wait_settings(
    args: argparse.Namespace,
    arrivals: ArrivalOptions,
    problem: FluidProblem,
    workload: Workload | None,
) -> str:
    """Return one line that says what the runs are made of, but for their policies.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of the command.
    arrivals : ArrivalOptions
        What it read from them.
    problem : FluidProblem
        The engine and its classes.
    workload : Workload, optional
        The requests of a trace.
    """
    worker, duration = problem.single_worker(), arrivals.duration
    span = f"{number(plain_number(duration or Fraction(0)))} s"
    if workload is None:
        file = "stdin" if args.file == "-" else Path(args.file).name
        parts = [f"{file}: {len(problem.classes)} classes"]
    else:
        parts = [requests_used(workload)]
    if arrivals.rate is not None:
        parts.append(f"Poisson arrivals of {plain_number(arrivals.rate)} requests/s")
    elif workload is None:
        parts.append(f"{arrivals.arrivals or 'poisson'} arrivals for {span}")
    else:
        scale = arrivals.rate_scale
        faster = "" if scale is None else f" at {plain_number(scale)} times their rate"
        parts.append(f"timed arrivals{faster}")
    if arrivals.scale is not None:
        parts.append(f"scaled by {plain_number(arrivals.scale)}")
    is_drained = args.drain or duration is None
    parts += [
        f"d0 {worker.d0} s and d1 {worker.d1} s a token",
        f"memory {worker.memory:,} tokens",
        "until all have completed" if is_drained else f"observed for {span}",
    ]
    return ", ".join([*parts, f"seed {args.seed}", version_and_commit()])


def print_runs(documents: Sequence[Mapping[str, Any]], fluid: Mapping[str, Any] | None) -> None:
    """Print one row per run, the fluid limits and what does not fit below, if there are any."""
    first = documents[0]
    notes = [
        f"{first['requests']:,} requests in {number(first['horizon_s'])} s; memory "
        f"{first['memory']:,} tokens"
    ]
    shares = None if fluid is None else [d["throughput"] / fluid["throughput"] for d in documents]
    if fluid is not None:
        notes[0] += (
            f", equilibrium {number(fluid['equilibrium_memory'])}, load {number(fluid['load'])} "
            "of the engine's time"
        )
        notes.append(
            f"fluid optimum: {number(fluid['throughput'])} stages/s, "
            f"{number(fluid['decode_throughput'])} decode tokens/s"
        )
    if any(share > 1 for share in shares or ()):
        notes.append(_ABOVE)
    columns = [run_cells("policy", documents), *METRICS.cells(documents)]
    columns.insert(
        2, ("of fluid", [percent(share) for share in shares or [None] * len(documents)])
    )
    columns.append(run_cells("verdict", documents))
    print_fitting("", columns)
    for line in notes:
        print_sentences(line)
    for document in documents:
        if document["overflows"]:
            print_sentences(
                f"{document['policy']} does not fit the memory: {document['overflows']:,} of "
                f"{document['batches']:,} batches held more than {document['memory']:,} tokens, "
                f"up to {document['peak_memory']:,}. Each ran all the same and counts as an "
                "overflow; its stages count in all figures."
            )
