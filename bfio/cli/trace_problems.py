"""``bfio traces to-...``: write problem files out of a trace."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bfio.cli import options
from bfio.cli.output import print_json
from bfio.common.options import add_options
from formulations.errors import InputError

if TYPE_CHECKING:
    from bfio.from_trace import TraceProblem
    from bfio.workloads.workload import Workload


def add_problem_actions(actions: Any) -> None:
    """Add ``to-hindsight``, ``to-makespan``, ``to-fluid`` and ``to-step``."""
    for name, summary, add, make, next_command in (
        (
            "to-hindsight",
            "write a problem of bfio hindsight: start times of least latency for one KV cache",
            _add_hindsight,
            _hindsight,
            "hindsight",
        ),
        (
            "to-makespan",
            "write a problem of bfio makespan: workers in lockstep, all requests known",
            _add_makespan,
            _makespan,
            "makespan",
        ),
        (
            "to-fluid",
            "write a problem of bfio fluid: classes of requests with rates",
            _add_fluid,
            _fluid,
            "fluid",
        ),
        (
            "to-step",
            "write a problem of bfio solve: the state of a run at one step",
            _add_step,
            _step,
            "solve",
        ),
    ):
        parser = actions.add_parser(name, help=summary, description=f"{summary}.")
        parser.add_argument("trace", metavar="FILE", help="a trace file")
        parser.add_argument("out", metavar="OUT", help=f"file for bfio {next_command} (.json)")
        add(parser)
        group = parser.add_argument_group("requests")
        group.add_argument("--requests", type=int, metavar="N", help="take N requests")
        group.add_argument(
            "--skip", type=int, default=0, metavar="N", help="leave out the first N (default 0)"
        )
        options.add_reading(group)
        parser.add_argument("--overwrite", action="store_true", help="replace an existing OUT")
        options.add_common(parser)
        parser.set_defaults(action=_action(make, next_command), synthetic=None)


def _action(
    make: "Callable[[Workload, argparse.Namespace], TraceProblem[Any]]", command: str
) -> Callable[[argparse.Namespace], None]:
    def act(args: argparse.Namespace) -> None:
        made = make(_chosen(args), args)
        made.write(args.out, overwrite=args.overwrite)
        told = {**made.provenance, "written": args.out}
        if args.json:
            print_json(told)
            return
        print(f"{args.out}: {made.provenance['requests']} requests of {args.trace}")
        shown = ("rounding", "oversized_left_out", "classes", "policy", "step", "waiting")
        lost = ("prompt_variance_kept", "output_variance_kept", "work_error")
        for key in (*shown, *lost):
            if key in told:
                print(f"{key.replace('_', ' ')}: {told[key]}")
        print(f"next: bfio {command} {args.out}")

    return act


def _chosen(args: argparse.Namespace) -> "Workload":
    """Return the requests of the trace that the arguments choose."""
    import numpy as np

    from formulations.scalars import integer

    skip = integer(args.skip, "--skip")
    if args.requests is not None:
        args.requests = integer(args.requests, "--requests", minimum=1) + skip
    workload = options.workload_from(args)
    if not skip:
        return workload
    if skip >= len(workload):
        what = f"leaves none of {len(workload)} requests"
        raise InputError("--skip", what, "use a smaller number")
    return workload.part(np.arange(skip, len(workload)))


def _add_memory(parser: argparse.ArgumentParser, text: str, *, required: bool) -> None:
    parser.add_argument("--memory", type=int, metavar="M", required=required, help=text)
    parser.add_argument(
        "--skip-oversized",
        dest="leave_out_oversized",
        action="store_true",
        help="leave out and count requests that exceed the memory alone (default: error)",
    )


def _add_hindsight(parser: argparse.ArgumentParser) -> None:
    _add_memory(parser, "KV cache of the worker [tokens]", required=True)
    text = "length of a round [s], exact (0.05 or 1/20); default: all requests arrive at round 0"
    parser.add_argument("--round-s", metavar="S", help=text)
    text = "rounds that a request occupies: A, B or C (default; docs/hindsight-latency.md)"
    parser.add_argument("--convention", default="C", metavar="NAME", help=text)


def _hindsight(workload: "Workload", args: argparse.Namespace) -> "TraceProblem[Any]":
    from bfio.from_trace import latency_problem

    return latency_problem(
        workload,
        args.memory,
        round_s=args.round_s,
        convention=args.convention,
        leave_out_oversized=args.leave_out_oversized,
    )


def _add_makespan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, metavar="G", required=True, help="workers")
    text = "slots of each worker"
    parser.add_argument("--slots", type=int, metavar="B", required=True, help=text)
    text = "most tokens of each worker at any step (default: no limit)"
    _add_memory(parser, text, required=False)
    text = "length of a step [s], exact (0.05 or 1/20); default: all requests arrive at step 0"
    parser.add_argument("--step-s", metavar="S", help=text)


def _makespan(workload: "Workload", args: argparse.Namespace) -> "TraceProblem[Any]":
    from bfio.from_trace import makespan_problem

    return makespan_problem(
        workload,
        args.workers,
        args.slots,
        step_s=args.step_s,
        memory=args.memory,
        leave_out_oversized=args.leave_out_oversized,
    )


def _add_fluid(parser: argparse.ArgumentParser) -> None:
    _add_memory(parser, "KV cache of each worker [tokens]", required=True)
    text = "largest number of classes, found by k-means over prompts and outputs (default 8)"
    parser.add_argument("--classes", type=int, default=8, metavar="K", help=text)
    text = "requests per second of all classes (default: the mean rate of the trace)"
    parser.add_argument("--rate", metavar="R", help=text)
    parser.add_argument("--workers", type=int, default=1, metavar="G", help="workers (default 1)")
    machine = "default: the BF-IO simulator's"
    parser.add_argument("--d0", metavar="S", help=f"fixed time of an iteration [s] ({machine})")
    parser.add_argument("--d1", metavar="S", help=f"time per token [s] ({machine})")


def _fluid(workload: "Workload", args: argparse.Namespace) -> "TraceProblem[Any]":
    from bfio.from_trace import fluid_problem

    times = {name: getattr(args, name) for name in ("d0", "d1") if getattr(args, name) is not None}
    return fluid_problem(
        workload,
        args.memory,
        classes=args.classes,
        rate=args.rate,
        workers=args.workers,
        leave_out_oversized=args.leave_out_oversized,
        **times,
    )


def _add_step(parser: argparse.ArgumentParser) -> None:
    from bfio.decode.cluster import Cluster
    from bfio.decode.options import RunOptions

    text = "policy of the run, NAME:option=value:... (default br-0)"
    parser.add_argument("--policy", default="br-0", metavar="NAME", help=text)
    text = "take the first decision at or after this decode step (default 0)"
    parser.add_argument("--step", type=int, default=0, metavar="K", help=text)
    text = "steps H of the window after the present one (default 0)"
    parser.add_argument("--look-ahead", type=int, default=0, metavar="H", help=text)
    add_options(parser.add_argument_group("machine"), Cluster)
    add_options(parser.add_argument_group("run"), RunOptions)


def _step(workload: "Workload", args: argparse.Namespace) -> "TraceProblem[Any]":
    from bfio.from_trace import step_problem

    return step_problem(
        workload,
        args.policy,
        options.cluster_from(args),
        step=args.step,
        look_ahead=args.look_ahead,
        options=options.run_options_from(args),
    )
