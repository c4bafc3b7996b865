"""The table of ``bfio wait``, its settings, and what the fluid model says to compare with."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from bfio.cli.tables import print_fitting, print_sentences, run_cells
from bfio.cli.wait_arguments import ArrivalOptions
from bfio.common.number_text import number, percent
from bfio.common.provenance import version_and_commit
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


def wait_settings(
    requests: str,
    arrivals: ArrivalOptions,
    problem: FluidProblem,
    *,
    is_trace: bool,
    drains: bool,
    seed: int,
) -> str:
    """Return one line that says what the runs are made of.

    Parameters
    ----------
    requests : str
        The classes or the trace.
    arrivals : ArrivalOptions
        How they arrive.
    problem : FluidProblem
        The classes and the engine, scaled as asked for.
    is_trace : bool
        Whether they are those of a trace.
    drains : bool
        Whether runs end when all have completed.
    seed : int
        Seed of the arrivals.
    """
    worker, duration = problem.single_worker(), arrivals.duration
    scale = "" if arrivals.scale is None else f"scaled by {plain_number(arrivals.scale)}"
    parts = (
        requests,
        _arrivals(arrivals, is_trace=is_trace),
        scale,
        f"d0 {worker.d0} s and d1 {worker.d1} s a token",
        f"memory {worker.memory:,} tokens",
        "until all have completed"
        if drains or duration is None
        else f"observed for {number(plain_number(duration))} s",
        f"seed {seed}",
        version_and_commit(),
    )
    return ", ".join(part for part in parts if part)


def _arrivals(arrivals: ArrivalOptions, *, is_trace: bool) -> str:
    if arrivals.rate is not None:
        return f"Poisson arrivals of {plain_number(arrivals.rate)} requests/s"
    if not is_trace:
        duration = plain_number(arrivals.duration or Fraction(0))
        return f"{arrivals.arrivals or 'poisson'} arrivals for {number(duration)} s"
    scale = arrivals.rate_scale
    faster = "" if scale is None else f" at {plain_number(scale)} times their rate"
    return f"timed arrivals{faster}"


def print_runs(documents: Sequence[Mapping[str, Any]], fluid: Mapping[str, Any] | None) -> None:
    """Print one row per run, the fluid limits and what does not fit below, if there are any."""
    shares = [_share(document, fluid) for document in documents]
    columns = [run_cells("policy", documents), *METRICS.cells(documents)]
    columns.insert(2, ("of fluid", [percent(share) for share in shares]))
    columns.append(run_cells("verdict", documents))
    above = any((share or 0) > 1 for share in shares)
    note = _note(documents[0], fluid) + (_ABOVE if above else "")
    print_fitting("", columns)
    for line in note.splitlines():
        print_sentences(line)
    for document in documents:
        if document["overflows"]:
            print_sentences(
                f"{document['policy']} does not fit the memory: {document['overflows']:,} of "
                f"{document['batches']:,} batches held more than {document['memory']:,} tokens, "
                f"up to {document['peak_memory']:,}. Each ran all the same and counts as an "
                "overflow; its stages count in all figures."
            )


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
        f"load {number(fluid['load'])} of the engine's time\n"
        f"fluid optimum: {number(fluid['throughput'])} stages/s, "
        f"{number(fluid['decode_throughput'])} decode tokens/s"
    )
