"""``bfio wait``: simulate WAIT, Nested WAIT and baselines on one engine."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.cli import so_far
from bfio.cli.command import DONE, INTERRUPTED, Command, SeveralErrors
from bfio.cli.options import (
    Conflict,
    add_by_usage,
    add_common,
    add_engine,
    add_policies,
    add_trace,
    policies_from,
    refuse_first,
    trace_from,
    unread_without_trace,
)
from bfio.cli.output import (
    interruption,
    picture_place,
    plot_runs,
    print_json,
    progress_bar,
    read_problem,
)
from bfio.cli.tables import print_fitting, print_sentences, run_cells
from bfio.common.options import (
    POSITIVE,
    TEXT,
    CheckedOptions,
    add_options,
    from_namespace,
    one_of,
    option,
)
from bfio.common.provenance import version_and_commit
from bfio.common.text import number
from formulations.errors import InputError, naming
from formulations.scalars import percent, plain_number
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.wait.policy import StageInstance, StagePolicy
    from bfio.wait.run import StageRun
    from bfio.workloads.workload import Workload
    from formulations.fluid import FluidProblem, VaryingRates


@dataclass(frozen=True)
class ArrivalOptions(CheckedOptions):
    """Options of the arrival process of requests."""

    duration: Fraction | None = option(
        None,
        POSITIVE,
        "T",
        "seconds of arrivals and observation (default with --trace: until all complete)",
        name="horizon",
    )
    arrivals: str | None = option(
        None,
        one_of("poisson", "even", "trace"),
        "MODE",
        "poisson (default), even, or trace (times of the trace; default with --trace)",
    )
    rate: Fraction | None = option(
        None, POSITIVE, "R", "with --trace: Poisson arrivals of R requests/s"
    )
    rate_scale: Fraction | None = option(
        None, POSITIVE, "X", "with --trace: multiply the arrival rate by X"
    )
    profile: str | None = option(
        None, TEXT, "FILE", "Poisson arrivals whose rates vary over time as in FILE (.json)"
    )
    scale: Fraction | None = option(
        None, POSITIVE, "ZETA", "heavy traffic: multiply rates by ZETA, divide d0 and d1 by it"
    )


def _trace_conflicts(args: argparse.Namespace) -> Iterator[Conflict]:
    what = "--arrivals even cannot be combined with --trace"
    yield args.arrivals == "even", what, "use --arrivals trace, or poisson with --rate"
    drawn, given = args.rate is not None, args.arrivals == "trace" or args.rate_scale is not None
    what = "--arrivals poisson needs --rate with --trace"
    yield args.arrivals == "poisson" and not drawn, what, "add --rate"
    remedy = "omit --arrivals trace and --rate-scale"
    yield drawn and given, "--rate draws new arrival times", remedy
    what, remedy = "--profile cannot be combined with --trace", "use --rate-scale, or omit --trace"
    yield args.profile is not None, what, remedy
    remedy = "use --rate-scale, and change d0 and d1 in FILE"
    yield args.scale is not None, "--scale cannot be combined with --trace", remedy
    what = "--horizon and --drain exclude each other with --trace"
    yield args.horizon is not None and args.drain, what, "give one of them"


def _class_conflicts(args: argparse.Namespace) -> Iterator[Conflict]:
    yield args.arrivals == "trace", "--arrivals trace needs --trace", "add --trace"
    remedy = "change the rates in FILE, or use --scale"
    yield from unread_without_trace(args, "rate", "rate_scale", remedy=remedy)
    yield from unread_without_trace(args, "skip_bad_rows", "columns")
    other = args.arrivals == "even" or args.scale is not None
    what = "--profile draws Poisson arrivals at its own rates"
    yield args.profile is not None and other, what, "omit --arrivals and --scale"
    remedy = "give the time during which requests arrive [s] as --horizon T"
    yield args.horizon is None, "--horizon is missing", remedy


_ABOVE = (
    "above 100 %: thresholds ignore the memory (larger batches are overflows), and drawn "
    "requests deviate from the rates"
)


def fluid_limits(problem: "FluidProblem") -> dict[str, Any]:
    """Return the largest sustainable throughput, and the equilibrium of all classes."""
    from formulations.fluid import FluidObjective, equilibrium, knapsack
    from formulations.fluid.solver import oversized

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
        "notes": oversized(problem),
    }


def wait_settings(
    args: argparse.Namespace,
    arrivals: ArrivalOptions,
    problem: "FluidProblem",
    workload: "Workload | None",
) -> str:
    """Return one line with the settings of the runs, without their policies.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of the command.
    arrivals : ArrivalOptions
        The options read from them.
    problem : "FluidProblem"
        The engine and its classes.
    workload : Workload, optional
        The requests of a trace.
    """
    from bfio.workloads.statistics import requests_used

    worker, duration = problem.single_worker(), arrivals.duration
    span = f"{number(plain_number(duration or Fraction(0)))} s"
    if workload is None:
        file = "stdin" if args.file == "-" else Path(args.file).name
        classes = len(problem.classes)
        parts = [f"{file}: {classes} class{'es' * (classes != 1)}"]
    else:
        parts = [requests_used(workload)]
    if arrivals.rate is not None:
        parts.append(f"Poisson arrivals of {plain_number(arrivals.rate)} requests/s")
    elif workload is None:
        of = "" if arrivals.profile is None else f" at the rates of {Path(arrivals.profile).name}"
        parts.append(f"{arrivals.arrivals or 'poisson'} arrivals{of} for {span}")
    else:
        scale = arrivals.rate_scale
        faster = "" if scale is None else f" at {plain_number(scale)} times their rate"
        parts.append(f"timed arrivals{faster}")
    if arrivals.scale is not None:
        parts.append(f"scaled by {plain_number(arrivals.scale)}")
    is_drained = args.drain or duration is None
    parts += [
        f"d0 {worker.d0} s and d1 {worker.d1} s a token",
        f"memory {counted(worker.memory, 'token')}",
        "until all have completed" if is_drained else f"observed for {span}",
    ]
    return ", ".join([*parts, f"seed {args.seed}", version_and_commit()])


def print_runs(documents: Sequence[Mapping[str, Any]], fluid: Mapping[str, Any] | None) -> None:
    """Print one row per run, then the fluid limits and overflows, if there are any."""
    from bfio.wait.run import METRICS

    first = documents[0]
    notes = [
        f"{counted(first['requests'], 'request')} in {number(first['horizon_s'])} s; memory "
        f"{counted(first['memory'], 'token')}"
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
        notes += fluid["notes"]
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
                f"{document['policy']} exceeds the memory: {document['overflows']:,} of "
                f"{document['batches']:,} batches held more than "
                f"{counted(document['memory'], 'token')}, at most {document['peak_memory']:,}. "
                "Such a batch runs, counts as an overflow, and its stages count in all metrics."
            )


#: Fields of FILE, and those that thresholds depend on.
_FIELDS = ("classes", "rates", "outputs", "d0", "d1", "memory")
#: Largest number of stage events of a run that is checked. More would exceed the memory.
_CHECKED_EVENTS = 10**7

_SUMMARY = "simulate WAIT, Nested WAIT and FCFS on one engine: throughput, latency, memory"
_DESCRIPTION = """\
Simulate scheduling policies on one engine, stage by stage. A request with output o passes stages 0
(its prefill) to o. In stage k it holds prompt + k tokens; a batch of X tokens lasts d0 + d1*X
seconds. A paused request keeps its KV cache.

FILE is JSON as for "bfio fluid" ("-" reads stdin):

  {"classes": [{"rate": 1, "prompt": 1, "output": 1},
               {"rate": 1, "prompt": 1, "output": 2}], "d0": 0.5, "d1": "1/18", "memory": 9}

  bfio wait load.json --horizon 1000
  bfio wait load.json --horizon 1000 --policy wait --policy nested-wait --policy fcfs
  bfio wait load.json --horizon 1000 --scale 16 --seed 3 --json
  bfio wait load.json --horizon 1000 --profile day.json --policy nested-wait:thresholds=3,2
  bfio wait load.json --trace azure.csv.gz --policy ongoing-first:limit=64 --policy my_module:mine

day.json: rates of each class from each break on [s], repeated after a period; or sine waves,
of the amplitudes given as shares of the means:

  {"breaks": [0, 60], "rates": [[1, 2], [2, 1]], "period": 120}
  {"means": [1, 1], "amplitudes": [0.5, "1/3"], "period": 120, "phases": [0, "1/2"]}

Policies (docs/wait.md says what each does):
  wait            thresholds=strict|least|printed|balanced|2,2  limit=B
  nested-wait     thresholds=least|printed|corrected|4,3  segments=all|L|1,2  limit=B  slack=S
                  groups=one|prompts
  new-first       limit=B  tokens=X  mixed=yes|no
  ongoing-first   limit=B  tokens=X
  fcfs
  module:function a function of the state, or a class of such objects

Requests of the classes of FILE arrive during T seconds; later completions do not count, unless
--drain continues the run until all have completed. Thresholds and the fluid optimum are computed
from the rates of FILE, which --profile does not change. With --trace the requests are those of a
trace, the classes define only thresholds, and the policy wait accepts only requests with the
lengths of a class. Segments of nested-wait: one per output length (all), L merged ones, or a list
of their last stages. gap: stages per second of requests that arrived and did not complete.
"of fluid": throughput / largest throughput that any policy can sustain within the memory at the
rates of FILE. The load is one of mean memory, so requests larger than the memory count as well (a
note names them). It exceeds 100 % if batches exceed the memory (wait and nested-wait do not check
it: "overflows") or drawn requests deviate from the rates. A checker verifies every run.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="classes, times and memory (.json)")
    add_policies(parser, "wait")
    add_options(parser, ArrivalOptions)
    add_by_usage(parser, {"--drain": "continue after T until all requests have completed"})
    add_trace(parser)
    add_engine(parser, "memory and queue")
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    # Reject contradictory arguments and unwritable files before any file is read.
    refuse_first(_trace_conflicts(args) if args.trace is not None else _class_conflicts(args))
    arrivals = from_namespace(ArrivalOptions, args)
    picture_place(args.plot)

    from bfio.cli.tables import print_sentences
    from bfio.common.kernel_groups import Engine
    from bfio.common.plugins import call_check
    from bfio.common.provenance import citable_versions
    from bfio.wait.registry import build, check
    from bfio.wait.replay import violations
    from bfio.wait.simulation import serve
    from formulations.fluid import varying_rates
    from formulations.problem_data import member, parse_json

    problem = _problem(args.file, arrivals.scale)
    profile = None
    if arrivals.profile is not None:
        profile = read_problem(arrivals.profile, lambda text: varying_rates(parse_json(text)))
    member(Engine, args.engine, "engine")
    names = policies_from(args, "wait")
    policies: dict[str, StagePolicy] = {}
    failures: list[InputError] = []
    with redirect_stdout(sys.stderr):
        # Reject unknown policies before anything runs.
        for name in names:
            check(name)
        with naming(args.file, *_FIELDS), naming(args.trace or args.file, "requests"):
            workload = trace_from(args)
            data = _requests(arrivals, args.seed, problem, workload, profile)
        for name in names:
            try:
                with naming(args.file, *_FIELDS), naming(args.trace or args.file, "requests"):
                    policy = build(name, problem)
                    call_check(policy, name, data)
            except InputError as error:
                failures.append(_of_policy(name, names, error))
            else:
                policies[name] = policy
    until = None if args.drain else arrivals.duration
    fluid = fluid_limits(problem) if workload is None else None
    settings = wait_settings(args, arrivals, problem, workload)
    runs: list[StageRun] = []

    def show(*, interrupted: bool, checked: bool = True) -> None:
        documents = []
        for run in runs:
            is_checked = checked and int(run.batches.prompts.sum()) <= _CHECKED_EVENTS
            broken = violations(run) if is_checked else None
            documents.append(run.summary() | {"memory": data.memory, "violations": broken})
        if args.json:
            source = None if workload is None else dict(workload.provenance)
            said = {"runs": documents, "fluid": fluid, "seed": args.seed, "workload": source}
            print_json(said | {"versions": citable_versions()} | interruption(interrupted))
            return
        print_sentences(settings)
        print_runs(documents, fluid)
        if workload is not None and (skipped := workload.provenance["skipped_bad_rows"]):
            print(f"{args.trace}: {skipped:,} damaged rows left out")
        for document in documents:
            if document["violations"] is None:
                why = "not checked, interrupted" if interrupted else "too long for the checker"
                print(f"{document['policy']}: {why}")
            elif document["violations"]:
                print(f"{document['policy']}: BROKEN RUN {document['violations']}")
            for told in (document["reason"], document["statistics"].get("error")):
                if told:
                    print(f"{document['policy']}: {told}")

    with progress_bar() as bar:
        tasks = {name: bar.add_task(name, total=len(data)) for name in policies}
        try:
            for name, policy in policies.items():

                def tell(completed: int, task: Any = tasks[name]) -> None:
                    bar.update(task, completed=completed)

                try:
                    run = serve(
                        data, policy, name=name, horizon_s=until, engine=args.engine, tell=tell
                    )
                except InputError as error:
                    failures.append(_of_policy(name, names, error))
                else:
                    # Requests that complete after the horizon do not count.
                    tell(int(run.is_completed.sum()))
                    runs.append(run)
                    so_far.keep_shown(partial(show, interrupted=True, checked=False))
        except KeyboardInterrupt:
            if not runs:
                raise
    if not runs:
        raise SeveralErrors(failures)
    interrupted = len(runs) + len(failures) < len(names)
    show(interrupted=interrupted)
    plot_runs(args, "bfio.wait.run", runs)
    if failures:
        raise SeveralErrors(failures)
    return INTERRUPTED if interrupted else DONE


def _of_policy(name: str, names: Sequence[str], error: InputError) -> InputError:
    """Return the error of a policy; with other policies it names this one."""
    if len(names) == 1 or f"policy {name}" in error.where:
        return error
    return InputError(f"policy {name}: {error.where}", error.what, error.remedy)


def _problem(file: str, scale: Fraction | None) -> "FluidProblem":
    from bfio.wait.arrivals import scaled
    from formulations.fluid import FluidProblem

    def parse(text: str) -> FluidProblem:
        problem = FluidProblem.from_json(text)
        problem.single_worker()
        return problem

    problem = read_problem(file, parse)
    return problem if scale is None else scaled(problem, scale)


def _requests(
    arrivals: ArrivalOptions,
    seed: int,
    problem: "FluidProblem",
    workload: "Workload | None",
    profile: "VaryingRates | None",
) -> "StageInstance":
    from bfio.wait.arrivals import (
        even_instance,
        poisson_instance,
        varying_instance,
        workload_instance,
    )

    if workload is not None:
        worker, scale = problem.single_worker(), arrivals.rate_scale or 1
        return workload_instance(workload, worker, rate=arrivals.rate, seed=seed, rate_scale=scale)
    if arrivals.arrivals == "even":
        return even_instance(problem, arrivals.duration)
    if profile is not None:
        return varying_instance(problem, profile, arrivals.duration, seed=seed)
    return poisson_instance(problem, arrivals.duration, seed=seed)


COMMAND = Command("wait", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
