"""The table of ``bfio wait``, and what the fluid model says to compare with."""

from collections.abc import Mapping, Sequence
from typing import Any

from bfio.cli.tables import print_fitting, print_sentences, run_cells
from bfio.common.number_text import number, percent
from bfio.wait.run import METRICS
from formulations.fluid import FluidObjective, FluidProblem, equilibrium, knapsack
from formulations.rationals import plain_number

_ABOVE = (
    "\nabove 100 %: thresholds do not look at the memory (batches beyond it are overflows), and "
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


def print_runs(documents: Sequence[Mapping[str, Any]], fluid: Mapping[str, Any] | None) -> None:
    """Print one row per run, the fluid limits below, if there are any."""
    shares = [_share(document, fluid) for document in documents]
    columns = [run_cells("policy", documents), *METRICS.cells(documents)]
    columns.insert(2, ("of fluid", [percent(share) for share in shares]))
    columns.append(run_cells("verdict", documents))
    above = any((share or 0) > 1 for share in shares)
    note = _note(documents[0], fluid) + (_ABOVE if above else "")
    print_fitting("", columns)
    for line in note.splitlines():
        print_sentences(line)


def _share(document: Mapping[str, Any], fluid: Mapping[str, Any] | None) -> float | None:
    return None if fluid is None else float(document["throughput"] / fluid["throughput"])


def _note(document: Mapping[str, Any], fluid: Mapping[str, Any] | None) -> str:
    shown = (
        f"{document['requests']:,} requests in {number(document['horizon_s'])} s; memory "
        f"{document['memory']:,} tokens"
    )
    if fluid is None:
        return shown
    return (
        f"{shown}, equilibrium {number(fluid['equilibrium_memory'])}, "
        f"load {number(fluid['load'])}\nfluid optimum: {number(fluid['throughput'])} stages/s, "
        f"{number(fluid['decode_throughput'])} decode tokens/s"
    )
