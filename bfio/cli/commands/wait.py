"""``bfio wait``: WAIT, Nested WAIT and their baselines on one engine."""

import argparse
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.cli import so_far
from bfio.cli.command import DONE, INTERRUPTED, Command
from bfio.cli.files import naming, read_problem
from bfio.cli.options import add_common, add_reading
from bfio.cli.output import interruption, print_json, progress_bar
from bfio.cli.wait_arguments import ArrivalOptions, checked_arrivals
from bfio.common.options import add_options
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from rich.progress import Progress, TaskID

    from bfio.wait.instance import StageInstance
    from bfio.wait.policy import StagePolicy
    from bfio.wait.run import StageRun
    from bfio.workloads.workload import Workload
    from formulations.fluid import FluidProblem

#: What FILE holds, and what thresholds say of it.
_FIELDS = ("classes", "rates", "outputs", "d0", "d1", "memory")
#: Most stage events of a run that is replayed by the checker: more would fill the memory.
_CHECKED_EVENTS = 10**7

_DESCRIPTION = """\
Serve requests on one engine, stage by stage. A request with output o passes stages 0 (its prefill)
to o; stage k counts prompt + k tokens, and a batch of X tokens lasts d0 + d1*X seconds. Who pauses
keeps its tokens.

FILE is JSON as for "bfio fluid" ("-" reads stdin):

  {"classes": [{"rate": 1, "prompt": 1, "output": 1},
               {"rate": 1, "prompt": 1, "output": 2}], "d0": 0.5, "d1": "1/18", "memory": 9}

  bfio wait load.json --horizon 1000
  bfio wait load.json --horizon 1000 --policy wait --policy nested-wait --policy fcfs
  bfio wait load.json --horizon 1000 --scale 16 --seed 3 --json
  bfio wait load.json --trace azure.csv.gz --policy ongoing-first:limit=64 --policy my_module:mine

Policies (docs/wait.md says what each does):
  wait            thresholds=strict|least|printed|balanced|2,2  limit=B
  nested-wait     thresholds=least|printed|corrected|4,3  segments=all|L|1,2  limit=B  slack=S
                  groups=one|prompts
  new-first       limit=B  tokens=X  mixed=yes|no
  ongoing-first   limit=B  tokens=X
  fcfs
  module:function a function of the state, or a class of such objects

Thresholds follow from FILE's classes. Requests are drawn for these over T seconds, and what
completes later does not count; with --drain the run goes on until all have completed. --trace
takes the requests of a trace instead; then classes only make thresholds, and wait serves requests
of their lengths alone. Segments of nested-wait: one for each output length (all), L merged ones,
or their last stages. gap: stages per second of requests that arrived and did not complete.
"of fluid": throughput over the most that any policy can sustain within the memory at FILE's rates;
more than 100 % comes from batches beyond the memory (wait and nested-wait do not look at it:
"overflows") or from drawn requests that differ from their rates. Every run passes a checker.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="classes, times and memory (.json)")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help="name:option=value:... (default wait); repeat it to compare",
    )
    add_options(parser, ArrivalOptions)
    parser.add_argument(
        "--drain", action="store_true", help="go on after T until all requests have completed"
    )
    parser.add_argument("--trace", metavar="TRACE", help="requests of a trace (bfio traces)")
    add_reading(parser)
    parser.add_argument(
        "--engine",
        default="auto",
        metavar="E",
        help="auto (default: compiled where it pays), compiled, or reference; all agree",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw memory and queue (.png, .pdf, .svg)")
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    arrivals = checked_arrivals(args)
    from bfio.cli.wait_table import fluid_limits
    from bfio.common.engine_choice import Engine
    from bfio.wait.registry import check
    from formulations.problem_data import member

    problem = _problem(args.file, arrivals.scale)
    member(Engine, args.engine, "engine")
    names = args.policy or ["wait"]
    if len(set(names)) < len(names):
        raise InputError("--policy", "a policy occurs twice", "name each once")
    with redirect_stdout(sys.stderr):
        # What stands for no policy is refused before anything runs.
        for name in names:
            check(name)
        with naming(args.file, *_FIELDS), naming(args.trace or args.file, "requests"):
            workload = _workload(args)
            data = _requests(arrivals, args.seed, problem, workload)
        policies, failures = _able(args, names, problem, data)
    until = None if args.drain else arrivals.duration
    fluid = fluid_limits(problem) if workload is None else None
    settings = _settings(args, arrivals, problem, workload)
    show = partial(_show, args, fluid, workload, settings)

    def keep(runs: "list[StageRun]") -> None:
        so_far.keep_shown(lambda: show(_documents(runs, checked=False), interrupted=True))

    runs: list[StageRun] = []
    if policies:
        runs, failed = _serve_all(args.engine, data, policies, until, keep)
        failures += failed
    if not runs:
        raise failures[0]
    interrupted = len(runs) + len(failures) < len(names)
    show(_documents(runs), interrupted=interrupted)
    if args.plot is not None:
        _plot(runs, Path(args.plot))
        if not args.json:
            print(f"plot: {args.plot}")
    if failures:
        raise failures[0]
    return INTERRUPTED if interrupted else DONE


def _able(
    args: argparse.Namespace, names: list[str], problem: "FluidProblem", data: "StageInstance"
) -> "tuple[dict[str, StagePolicy], list[InputError]]":
    """Return the policies that can serve the requests, and why the others cannot."""
    from bfio.common.users_code import call_check
    from bfio.wait.registry import build

    policies: dict[str, StagePolicy] = {}
    failures: list[InputError] = []
    for name in names:
        try:
            with naming(args.file, *_FIELDS), naming(args.trace or args.file, "requests"):
                policy = build(name, problem)
                call_check(policy, name, data)
        except InputError as error:
            failures.append(error)
        else:
            policies[name] = policy
    return policies, failures


def _settings(
    args: argparse.Namespace,
    arrivals: ArrivalOptions,
    problem: "FluidProblem",
    workload: "Workload | None",
) -> str:
    from bfio.cli.wait_table import wait_settings
    from bfio.workloads.requests_used import requests_used

    classes = (
        f"{'stdin' if args.file == '-' else Path(args.file).name}: {len(problem.classes)} classes"
    )
    requests = classes if workload is None else requests_used(workload)
    return wait_settings(
        requests,
        arrivals,
        problem,
        is_trace=workload is not None,
        drains=args.drain,
        seed=args.seed,
    )


def _plot(runs: "list[StageRun]", path: Path) -> None:
    from bfio.decode.plots import save
    from bfio.wait.figure import run_figure

    try:
        save(run_figure(runs), path)
    except InputError as error:
        raise InputError("--plot", f"{path} {error.what}", "name another file") from None


def _problem(file: str, scale: "Fraction | None") -> "FluidProblem":
    from bfio.wait.arrivals import scaled
    from formulations.fluid import FluidProblem

    def parse(text: str) -> FluidProblem:
        problem = FluidProblem.from_json(text)
        problem.single_worker()
        return problem

    problem = read_problem(file, parse)
    return problem if scale is None else scaled(problem, scale)


def _workload(args: argparse.Namespace) -> "Workload | None":
    from bfio.workloads import read_trace

    if args.trace is None:
        return None
    return read_trace(args.trace, columns=args.columns, skip_bad_rows=args.skip_bad_rows)


def _requests(
    arrivals: ArrivalOptions,
    seed: int,
    problem: "FluidProblem",
    workload: "Workload | None",
) -> "StageInstance":
    from bfio.wait.arrivals import even_instance, poisson_instance, workload_instance

    if workload is not None:
        return workload_instance(
            workload,
            problem.single_worker(),
            rate=arrivals.rate,
            seed=seed,
            rate_scale=arrivals.rate_scale or 1,
        )
    if arrivals.arrivals == "even":
        return even_instance(problem, arrivals.duration)
    return poisson_instance(problem, arrivals.duration, seed=seed)


def _serve_all(
    engine: str,
    data: "StageInstance",
    policies: "dict[str, StagePolicy]",
    until: "Fraction | None",
    keep: "Callable[[list[StageRun]], None]",
) -> "tuple[list[StageRun], list[InputError]]":
    """Run the policies under a progress bar; interrupted, or where one fails, keep the others."""
    from bfio.wait.simulation import serve

    runs: list[StageRun] = []
    failures: list[InputError] = []
    with progress_bar() as bar:
        tasks = {name: bar.add_task(name, total=len(data)) for name in policies}
        try:
            for name, policy in policies.items():
                tell = partial(_tell, bar, tasks[name])
                try:
                    run = serve(data, policy, name=name, horizon_s=until, engine=engine, tell=tell)
                except InputError as error:
                    failures.append(error)
                else:
                    # What completes after the horizon does not count.
                    tell(int(run.is_completed.sum()))
                    runs.append(run)
                    keep(runs)
        except KeyboardInterrupt:
            if not runs:
                raise
    return runs, failures


def _tell(bar: "Progress", task: "TaskID", completed: int) -> None:
    bar.update(task, completed=completed)


def _documents(runs: "list[StageRun]", *, checked: bool = True) -> list[dict[str, Any]]:
    """Return the figures of the runs and what the checker says; None where it was not asked."""
    from bfio.wait.replay import violations

    return [
        run.summary()
        | {
            "memory": run.instance.memory,
            "violations": violations(run)
            if checked and int(run.batches.prompts.sum()) <= _CHECKED_EVENTS
            else None,
        }
        for run in runs
    ]


def _show(
    args: argparse.Namespace,
    fluid: dict[str, Any] | None,
    workload: "Workload | None",
    settings: str,
    documents: list[dict[str, Any]],
    *,
    interrupted: bool,
) -> None:
    from bfio.cli.tables import print_sentences
    from bfio.cli.wait_table import print_runs

    if args.json:
        from bfio.common.provenance import citable_versions

        source = None if workload is None else dict(workload.provenance)
        run = {"runs": documents, "fluid": fluid, "seed": args.seed, "workload": source}
        print_json(run | {"versions": citable_versions()} | interruption(interrupted))
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
        for said in (document["reason"], document["statistics"].get("error")):
            if said:
                print(f"{document['policy']}: {said}")


COMMAND = Command(
    name="wait",
    summary="WAIT, Nested WAIT and FCFS on one engine: throughput, latency, memory",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    run=_run,
)
