"""``bfio wait``: WAIT, Nested WAIT and their baselines on one engine."""

import argparse
import sys
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any

from bfio.cli import so_far
from bfio.cli.command import DONE, INTERRUPTED, Command
from bfio.cli.options import (
    add_common,
    add_engine,
    add_policies,
    add_trace,
    policies_from,
    trace_from,
)
from bfio.cli.output import interruption, naming, plot_runs, print_json, progress_bar, read_problem
from bfio.cli.wait_arguments import ArrivalOptions, checked_arrivals
from bfio.common.options import add_options
from formulations.errors import InputError

if TYPE_CHECKING:
    from fractions import Fraction

    from bfio.wait.instance import StageInstance
    from bfio.wait.policy import StagePolicy
    from bfio.wait.run import StageRun
    from bfio.workloads.workload import Workload
    from formulations.fluid import FluidProblem

#: What FILE holds, and what thresholds say of it.
_FIELDS = ("classes", "rates", "outputs", "d0", "d1", "memory")
#: Most stage events of a run that is replayed by the checker: more would fill the memory.
_CHECKED_EVENTS = 10**7

_SUMMARY = "WAIT, Nested WAIT and FCFS on one engine: throughput, latency, memory"
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
    add_policies(parser, "wait")
    add_options(parser, ArrivalOptions)
    parser.add_argument(
        "--drain", action="store_true", help="go on after T until all requests have completed"
    )
    add_trace(parser)
    add_engine(parser, "memory and queue")
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    arrivals = checked_arrivals(args)

    from bfio.cli.tables import print_sentences
    from bfio.cli.wait_table import fluid_limits, print_runs, wait_settings
    from bfio.common.engine_choice import Engine
    from bfio.common.provenance import citable_versions
    from bfio.common.users_code import call_check
    from bfio.wait.registry import build, check
    from bfio.wait.replay import violations
    from bfio.wait.simulation import serve
    from formulations.problem_data import member

    problem = _problem(args.file, arrivals.scale)
    member(Engine, args.engine, "engine")
    names = policies_from(args, "wait")
    policies: dict[str, StagePolicy] = {}
    failures: list[InputError] = []
    with redirect_stdout(sys.stderr):
        # What stands for no policy is refused before anything runs.
        for name in names:
            check(name)
        with naming(args.file, *_FIELDS), naming(args.trace or args.file, "requests"):
            workload = trace_from(args)
            data = _requests(arrivals, args.seed, problem, workload)
        for name in names:
            try:
                with naming(args.file, *_FIELDS), naming(args.trace or args.file, "requests"):
                    policy = build(name, problem)
                    call_check(policy, name, data)
            except InputError as error:
                failures.append(error)
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
                    failures.append(error)
                else:
                    # What completes after the horizon does not count.
                    tell(int(run.is_completed.sum()))
                    runs.append(run)
                    so_far.keep_shown(partial(show, interrupted=True, checked=False))
        except KeyboardInterrupt:
            if not runs:
                raise
    if not runs:
        raise failures[0]
    interrupted = len(runs) + len(failures) < len(names)
    show(interrupted=interrupted)
    plot_runs(args, "bfio.wait.figure", runs)
    if failures:
        raise failures[0]
    return INTERRUPTED if interrupted else DONE


def _problem(file: str, scale: "Fraction | None") -> "FluidProblem":
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
) -> "StageInstance":
    from bfio.wait.arrivals import even_instance, poisson_instance, workload_instance

    if workload is not None:
        worker, scale = problem.single_worker(), arrivals.rate_scale or 1
        return workload_instance(workload, worker, rate=arrivals.rate, seed=seed, rate_scale=scale)
    if arrivals.arrivals == "even":
        return even_instance(problem, arrivals.duration)
    return poisson_instance(problem, arrivals.duration, seed=seed)


COMMAND = Command("wait", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
