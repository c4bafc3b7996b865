"""Convert a trace to a problem: hindsight latency, hindsight makespan, fluid, or step problem.

A trace has arrival times in seconds; the hindsight problems count whole rounds or steps. Arrival
times are rounded up to the next round or step, so that no schedule starts a request before it
arrives. Prompt and output lengths are unchanged, except in the fluid problem. There k-means groups
the requests into classes of one prompt and one output length each, and the provenance reports the
resulting error.
"""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from bfio.common.files import file_path, write_file
from bfio.common.memory import refuse_oversized
from bfio.common.options import spelled_out
from bfio.decode.cluster import Cluster
from bfio.decode.observers import StepView
from bfio.decode.options import RunOptions
from bfio.decode.policy import Policy
from bfio.decode.policy_registry import all_options
from bfio.decode.settings import settings
from bfio.decode.state import DecodeState
from bfio.gap import observed_run
from bfio.kvcache.instance import rounds_problem
from bfio.workloads.workload import Workload
from formulations.arrays import BoolArray, IntArray, integer
from formulations.errors import InputError, check_kind
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.hindsight_makespan import MakespanProblem
from formulations.hindsight_makespan.problem import STEP_OVERHEAD, TOKEN_TIME
from formulations.problem_data import ProblemData, member
from formulations.scalars import exact_number, truth
from formulations.step import StepProblem

P = TypeVar("P", bound=ProblemData)

_ROUNDING = "arrival = first {unit} of {length} s at or after the arrival time"
_CLASS_LENGTHS = "output of a class = rounded mean; prompt = the one nearest to its mean work"
_AT_ONCE = "all requests arrive at {unit} 0; their times are not used"


@dataclass(frozen=True)
class TraceProblem(Generic[P]):
    """A problem made from a trace, with its provenance.

    Parameters
    ----------
    problem : ProblemData
        The problem.
    provenance : mapping
        Source, number of requests, rounding rule, number of requests left out, and, for a fluid
        problem, the errors of the classes.
    """

    problem: P
    provenance: Mapping[str, object]

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document of the problem, with its provenance (which solvers ignore)."""
        return self.problem.to_mapping() | {"provenance": dict(self.provenance)}

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the problem file.

        Raises
        ------
        InputError
            If the file exists and ``overwrite`` is False, or it cannot be written.
        """
        text = f"{json.dumps(self.to_mapping(), default=str)}\n"
        write_file(file_path(path), text.encode(), overwrite=overwrite)


def latency_problem(
    workload: Workload,
    memory: int,
    *,
    round_s: Fraction | str | float | None = None,
    convention: Convention | str = Convention.HALF_OPEN,
    leave_out_oversized: bool = False,
) -> TraceProblem[LatencyProblem]:
    """Return the hindsight latency problem of a workload, for `bfio hindsight`.

    Parameters
    ----------
    workload : Workload
        Requests.
    memory : int
        KV cache of the worker [tokens].
    round_s : Fraction, str or float, optional
        Length of a round [s]; by default all requests arrive at round 0.
    convention : Convention or str
        Rounds that a request occupies.
    leave_out_oversized : bool
        Whether requests that exceed the memory alone are left out and counted; by default they
        are refused.

    Raises
    ------
    InputError
        If a value is invalid, a request exceeds the memory, or the workload has no times.
    """
    check_kind(workload, Workload, "workload", "latency_problem(workload, memory)")
    truth(leave_out_oversized, "leave_out_oversized")
    length = _length(round_s, "round_s")
    problem, left_out = rounds_problem(
        workload,
        integer(memory, "memory", minimum=1),
        convention=member(Convention, convention, "convention"),
        round_s=length,
        leave_out_oversized=leave_out_oversized,
    )
    rounding = _rounding("round", length)
    return TraceProblem(problem, _origin(workload, problem.num_requests, left_out, rounding))


def makespan_problem(
    workload: Workload,
    workers: int,
    slots: int,
    *,
    step_s: Fraction | str | float | None = None,
    memory: int | None = None,
    leave_out_oversized: bool = False,
) -> TraceProblem[MakespanProblem]:
    """Return the hindsight makespan problem of a workload, for `bfio makespan`.

    Parameters
    ----------
    workload : Workload
        Requests.
    workers, slots : int
        Number of workers, and of slots per worker.
    step_s : Fraction, str or float, optional
        Length of a step [s] that turns arrival times into steps; by default all requests arrive
        at step 0. (The wall clock without work conservation does not depend on arrivals.)
    memory : int, optional
        Memory of each worker [tokens]; by default no limit.
    leave_out_oversized : bool
        As in `latency_problem`.

    Raises
    ------
    InputError
        If a value is invalid, a request exceeds the memory, or the workload has no times.
    """
    # A request holds prompt + output - 1 tokens at its last step.
    most = None if memory is None else integer(memory, "memory", minimum=1) + 1
    fits, left_out = _fitting(workload, most, leave_out=leave_out_oversized)
    length = _length(step_s, "step_s")
    arrival = np.zeros(len(workload), dtype=np.int64)
    if length is not None:
        arrival = workload.exact_arrivals("draw arrival times").rounded_up(1 / length)
    problem = MakespanProblem(
        workers,
        slots,
        arrival[fits],
        workload.prompt_tokens[fits],
        workload.output_tokens[fits],
        memory=None if memory is None else np.full(workers, memory),
    )
    rounding = _rounding("step", length)
    return TraceProblem(problem, _origin(workload, problem.num_requests, left_out, rounding))


def fluid_problem(
    workload: Workload,
    memory: int,
    *,
    classes: int = 8,
    rate: Fraction | str | float | None = None,
    workers: int = 1,
    d0: Fraction | str | float = STEP_OVERHEAD,
    d1: Fraction | str | float = TOKEN_TIME,
    leave_out_oversized: bool = False,
) -> TraceProblem[FluidProblem]:
    """Return the fluid problem of a workload, for `bfio fluid` and `equilibrium`.

    The classes are the clusters of k-means over prompts and outputs, each divided by its standard
    deviation. The initial centres are the means of groups of equally many requests in order of
    output. The output of a class is the mean output of its requests, rounded. Its prompt is chosen
    so that the work of the class is nearest to the mean work of its requests, on which the
    equilibrium depends. Its rate is the total rate times its share of the requests.

    Parameters
    ----------
    workload : Workload
        Requests.
    memory : int
        KV cache of each worker [tokens].
    classes : int
        Largest number of classes; there are fewer if the trace has fewer pairs of lengths.
    rate : Fraction, str or float, optional
        Total rate of all classes [1/s]; by default the rate of the trace: (number of requests - 1)
        divided by the time from the first to the last arrival.
    workers : int
        Number of workers.
    d0, d1 : Fraction, str or float
        Fixed time of an iteration [s] and time per token [s/token]; by default the constants of
        the BF-IO authors' simulator.
    leave_out_oversized : bool
        As in `latency_problem`.

    Returns
    -------
    TraceProblem
        The provenance has the share of the variance of prompts, and of outputs, that the classes
        explain, and ``work_error``, the relative error of the mean work per request.

    Raises
    ------
    InputError
        If a value is invalid, a request exceeds the memory, or neither ``rate`` nor the trace
        gives a rate.
    """
    integer(classes, "classes", minimum=1, maximum=1_000)
    integer(workers, "workers", minimum=1, maximum=1_000)
    worker = FluidWorker(
        exact_number(d0, "d0"), exact_number(d1, "d1"), integer(memory, "memory", minimum=1)
    )
    fits, left_out = _fitting(workload, memory, leave_out=leave_out_oversized)
    kept = workload.part(fits)
    if not len(kept):
        raise InputError(workload.name, "no request is left", "raise memory or read more requests")
    total = _arrival_rate(kept) if rate is None else exact_number(rate, "rate", positive=True)
    lengths = np.column_stack([kept.prompt_tokens, kept.output_tokens])
    of_class = clusters(lengths, classes)
    sizes = np.bincount(of_class)
    work = (lengths[:, 1] + 1) * (lengths[:, 0] + lengths[:, 1] / 2)
    output, mean_work = (
        np.bincount(of_class, weights=column) / sizes for column in (lengths[:, 1], work)
    )
    output = np.rint(output)
    prompt = np.clip(np.rint(mean_work / (output + 1) - output / 2), 1, memory - output)
    centres = np.column_stack([prompt, output]).astype(np.int64)
    rows = [
        RequestClass(total * size / len(kept), prompt, output)
        for size, (prompt, output) in zip(sizes.tolist(), centres.tolist(), strict=True)
    ]
    problem = FluidProblem(tuple(rows), (worker,) * workers)
    return TraceProblem(
        problem,
        _origin(kept, len(kept), left_out, _CLASS_LENGTHS)
        | {"classes": f"{len(rows)} by k-means over prompts and outputs"}
        | _lost(lengths, centres[of_class], problem, total),
    )


@spelled_out(RunOptions, all_options)
def step_problem(
    workload: Workload,
    policy: str | Policy,
    cluster: Cluster | None = None,
    *,
    step: int = 0,
    look_ahead: int = 0,
    options: RunOptions | None = None,
    **policy_options: object,
) -> TraceProblem[StepProblem]:
    """Return the step problem of a run's first decision at or after a step, for `bfio solve`.

    Parameters
    ----------
    workload, policy, cluster, options, **policy_options
        The run, as in `bfio.simulate`.
    step : int
        The problem is that of the first decision at or after this decode step.
    look_ahead : int
        Number ``H`` of steps in the look-ahead window after the current step.

    Raises
    ------
    InputError
        If the run ends before such a decision, or for an error of `bfio.simulate`.
    """
    integer(step, "step")
    integer(look_ahead, "look_ahead", maximum=10_000)
    found = _FirstDecision(step)
    run = observed_run(
        workload,
        policy,
        cluster,
        [found],
        look_ahead,
        policy_options=policy_options,
        options=options or RunOptions(),
        until=step,
    )
    if found.state is None:
        what = f"the run of {len(workload)} requests has no decision at or after it"
        raise InputError("step", f"{step}: {what}", "use an earlier step or more requests")
    problem = StepProblem.from_state(found.state, look_ahead=look_ahead)
    origin = _origin(workload, len(workload), 0, "none: loads of the run in tokens")
    asked = settings(
        workload, run.cluster, [run.options], policies=[(run.policy, run.policy_options)]
    )
    origin |= {
        "policy": run.policy,
        "settings": asked,
        "step": found.step,
        "waiting": problem.num_requests,
    }
    return TraceProblem(problem, origin)


class _FirstDecision:
    """Observer that keeps the state of the first decision at or after a step."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.state: DecodeState | None = None

    def on_step(self, view: StepView) -> None:
        """Keep the state before the decision, if it is the first at or after the step."""
        if self.state is None and view.step >= self.step and view.state is not None:
            self.step, self.state = view.step, view.state


def clusters(lengths: IntArray, count: int) -> IntArray:
    """Return the class of each request, shape (n,), numbered by increasing mean output.

    Parameters
    ----------
    lengths : IntArray
        Shape (n, 2), prompt and output of each request [tokens].
    count : int
        Largest number of classes.
    """
    from scipy.cluster.vq import kmeans2

    spread = lengths.std(axis=0)
    scaled = lengths / np.where(spread > 0, spread, 1.0)
    groups = np.array_split(np.lexsort(lengths.T), min(count, len(lengths)))
    first = np.unique([scaled[group].mean(axis=0) for group in groups], axis=0)
    with warnings.catch_warnings():
        # SciPy warns of an empty cluster, which is left out here.
        warnings.simplefilter("ignore")
        _, labels = kmeans2(scaled, first, minit="matrix", iter=50)
    _, labels = np.unique(labels, return_inverse=True)
    means = np.bincount(labels, weights=lengths[:, 1]) / np.bincount(labels)
    rank = np.empty(len(means), dtype=np.int64)
    rank[np.argsort(means, kind="stable")] = np.arange(len(means))
    return np.asarray(rank[labels])


def _lost(
    lengths: IntArray, centres: IntArray, problem: FluidProblem, total: Fraction
) -> dict[str, float]:
    """Return the shares of variance that the classes explain, and their error in mean work."""
    within = ((lengths - centres) ** 2).sum(axis=0)
    whole = ((lengths - lengths.mean(axis=0)) ** 2).sum(axis=0)
    # If all lengths are equal, the classes are exact.
    kept = np.where(whole > 0, 1 - within / np.where(whole > 0, whole, 1), 1)
    # Python integers, because the sum of squared outputs may exceed 64 bits.
    work = sum((o + 1) * (2 * s + o) // 2 for s, o in lengths.tolist())
    error = float(problem.work_rate / total * len(lengths) / work - 1)
    return {
        "prompt_variance_kept": round(float(kept[0]), 6) + 0.0,
        "output_variance_kept": round(float(kept[1]), 6) + 0.0,
        "work_error": round(error, 6),
    }


def _arrival_rate(workload: Workload) -> Fraction:
    remedy = "give a rate (requests per second)"
    times = workload.exact_arrivals(remedy)
    span = times[-1] - times[0]
    if span == 0:
        raise InputError(workload.name, "all requests arrive at one time", remedy)
    return Fraction(len(workload) - 1) / span


def _fitting(workload: Workload, most: int | None, *, leave_out: bool) -> tuple[BoolArray, int]:
    """Return which requests have prompt + output <= ``most``, and how many do not."""
    check_kind(workload, Workload, "workload", "a Workload first")
    truth(leave_out, "leave_out_oversized")
    if most is None:
        return np.ones(len(workload), dtype=np.bool_), 0
    oversized = np.asarray(workload.prompt_tokens + workload.output_tokens > most)
    if not leave_out:
        refuse_oversized(oversized, most, "raise memory, or add leave_out_oversized=True")
    return ~oversized, int(np.count_nonzero(oversized))


def _length(seconds: object, where: str) -> Fraction | None:
    return None if seconds is None else exact_number(seconds, where, positive=True)


def _rounding(unit: str, length: Fraction | None) -> str:
    return (
        _AT_ONCE.format(unit=unit)
        if length is None
        else _ROUNDING.format(unit=unit, length=length)
    )


def _origin(workload: Workload, requests: int, left_out: int, rounding: str) -> dict[str, object]:
    return {
        "source": workload.name,
        **workload.provenance,
        "requests": requests,
        "oversized_left_out": left_out,
        "rounding": rounding,
    }
