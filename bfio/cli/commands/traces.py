"""``bfio traces``: list formats; inspect, convert and download traces; write their problems."""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from bfio.cli import options
from bfio.cli.command import DONE, Command
from bfio.cli.output import drawn, picture_place, print_answer, print_json, print_table
from bfio.common.options import add_options
from bfio.common.text import number
from formulations.errors import InputError
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.from_trace import TraceProblem
    from bfio.workloads.workload import Workload

_SUMMARY = "list trace formats; inspect, convert and fetch traces; write problems out of them"
_DESCRIPTION = """\
Work with traces of requests.

  bfio traces list                         formats, synthetic workloads, fetchable traces
  bfio traces inspect FILE                 lengths, correlation, arrivals, rows left out
  bfio traces geometric FILE... --plot P   are output lengths geometric? what does age tell?
  bfio traces convert FILE OUT.csv.gz      write a trace in bfio's own format
  bfio traces fetch azure-conv-2023 DIR    fetch a published trace

Problems out of a trace, each for the command of its name (to-step: for bfio solve):

  bfio traces to-hindsight FILE OUT.json --requests 20 --memory 20000 --round-s 1/20
  bfio traces to-makespan FILE OUT.json --requests 20 --workers 2 --slots 4
  bfio traces to-fluid FILE OUT.json --memory 500000 --classes 8
  bfio traces to-step FILE OUT.json --workers 4 --slots 16 --step 100 --look-ahead 10

The format of FILE (CSV or JSONL, .gz or not) is detected from its header. For any other table name
the columns to read: --columns arrival=ts,prompt=input,output=generated
"""
_GEOMETRIC = """\
Fit the geometric distribution on 1, 2, ... to the output lengths of traces (p = 1/mean) and test
the fit (figure 5 of BF-IO judges it by eye). The critical value of the Kolmogorov-Smirnov distance
is simulated from samples of the fitted distribution, with p fitted to each sample.

  bfio traces geometric azure.csv.gz
  bfio traces geometric azure.csv.gz mooncake.jsonl --plot lengths.png

Geometric lengths are memoryless: at every age, the hazard is 1/mean and the mean residual life is
the mean. The table shows hazard * mean and residual / mean by age, with 95 % intervals; both are 1
for geometric lengths. The age of a request is its number of emitted tokens.
"""


_SYNTHETIC = {"--synthetic NAME": "name of a synthetic workload, instead of FILE"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, title="actions")
    action, add = partial(options.add_action, actions), options.add_by_usage
    listing = action("list", _list, "list formats, synthetic workloads and fetchable traces")
    inspect = action("inspect", _inspect, "print statistics of a trace or a synthetic workload")
    add(inspect, {"trace FILE": "a trace file"}, nargs="?")
    add(inspect, _SYNTHETIC)
    _add_geometric(actions)
    convert = action("convert", _convert, "write a trace in bfio's own CSV format")
    add(convert, {"trace FILE": "a trace file", "out OUT": "file to write (.csv or .csv.gz)"})
    convert.set_defaults(synthetic=None)
    fetch = action("fetch", _fetch, "fetch a published trace")
    add(fetch, {"name NAME": "name of the trace (see bfio traces list)"})
    add(fetch, {"destination PLACE": "output file or folder"}, nargs="?", default=".")
    fetch.add_argument("--url", help="download the file from this mirror")
    add_problem_actions(actions)
    for sub in (inspect, convert):
        add(sub, {"--requests N": "read only the first N requests"}, type=int)
        options.add_reading(sub)
    for sub in (convert, fetch):
        add(sub, {"--overwrite": "replace an existing file"})
    for sub in (listing, inspect, convert, fetch):
        options.add_common(sub)


def _add_geometric(actions: Any) -> None:
    summary = "test whether output lengths are geometric; print hazard and mean residual life by"
    how = {"description": _GEOMETRIC, "formatter_class": argparse.RawDescriptionHelpFormatter}
    geometric = options.add_action(actions, "geometric", _geometric, f"{summary} age", **how)
    add = partial(options.add_by_usage, geometric)
    add({"traces FILE": "trace files"}, nargs="*")
    add(_SYNTHETIC)
    add({"--requests N": "read only the first N requests of each"}, type=int)
    add({"--plot FILE": "plot one row of panels per trace"})
    options.add_reading(geometric)
    options.add_common(geometric)


def _run(args: argparse.Namespace) -> int:
    args.act(args)
    return DONE


def _list(args: argparse.Namespace) -> None:
    from bfio.workloads import formats, synthetic_names
    from bfio.workloads.fetch import public_traces

    known, drawn, public = formats(), dict(synthetic_names()), public_traces()
    if args.json:
        columns = [
            {"name": f.name, "description": f.description, "columns": list(f.columns)}
            for f in known
        ]
        sources = [{"name": t.name, "url": t.url, "licence": t.licence} for t in public]
        print_json({"formats": columns, "synthetic": drawn, "public": sources})
        return
    print_table(
        "Formats (detected from the header)",
        ("name", "columns", "description"),
        [[f.name, ", ".join(f.columns), f.description] for f in known],
    )
    title = "Synthetic workloads (--synthetic NAME)"
    print_table(title, ("name", "distribution"), [[name, text] for name, text in drawn.items()])
    print_table(
        "Published traces (bfio traces fetch NAME)",
        ("name", "licence", "content"),
        [[t.name, t.licence, t.description] for t in public],
    )


def _inspect(args: argparse.Namespace) -> None:
    from bfio.workloads import describe

    workload = options.workload_from(args)
    document = describe(workload)
    if args.json:
        print_json(document)
        return
    lengths: list[Mapping[str, Any]] = [document["prompt_tokens"], document["output_tokens"]]  # type: ignore[list-item]
    print_table(
        f"{document['name']}: {counted(len(workload), 'request')}",
        ("[tokens]", "prompt", "output"),
        [[name, *(number(column[name]) for column in lengths)] for name in lengths[0]],
    )
    print("correlation of prompt and output:", number(document["correlation"]))  # type: ignore[arg-type]
    if document["distinct_prompts"] is not None:
        print(f"distinct prompts: {document['distinct_prompts']:,} of {document['requests']:,}")
    for title in ("arrivals", "provenance"):
        part = document[title]
        if isinstance(part, Mapping):
            print_table(title, ("", ""), [[str(k), _shown(v)] for k, v in part.items()])
        else:
            print(f"{title}: none")


def _geometric(args: argparse.Namespace) -> None:
    from bfio.cli.tables import print_remarks, print_sentences
    from bfio.prediction.geometric import geometric_figure, geometric_fit

    place = picture_place(args.plot)
    found = {}
    for file in dict.fromkeys(args.traces or [None]):
        workload = options.workload_from(argparse.Namespace(**{**vars(args), "trace": file}))
        fit = geometric_fit(workload.output_tokens, f"{workload.name}: outputs")
        # Files of the same name in two folders are two traces.
        name = workload.name if workload.name not in found else str(file)
        found[name] = workload.output_tokens, fit

    plots = drawn(place, lambda: geometric_figure(found))
    documents = [{"name": name} | fit.to_mapping() for name, (_, fit) in found.items()]

    def show() -> None:
        for name, (_, fit) in found.items():
            print_table(
                f"{name}: {fit.count:,} outputs, mean {number(1 / fit.p)} tokens",
                ("ages", "alive", "ends", "hazard · mean (95 %)", "residual / mean (95 %)"),
                fit.cells(),
            )
            print_sentences(f"{name}: {fit.verdict}.")
        print_remarks((), plots.found)

    print_answer(args, {"traces": documents, "plots": plots.found}, show)
    plots.check()


def _convert(args: argparse.Namespace) -> None:
    from bfio.workloads import write_trace

    workload = options.workload_from(args)
    write_trace(workload, args.out, overwrite=args.overwrite)
    document = {"file": args.out, "requests": len(workload)} | dict(workload.provenance)
    facts = ", ".join(f"{k} {_shown(v)}" for k, v in workload.provenance.items())
    text = f"{args.out}: {counted(len(workload), 'request')}\n{facts}"
    print_answer(args, document, lambda: print(text))


def _fetch(args: argparse.Namespace) -> None:
    from bfio.workloads.fetch import fetch_trace

    fetched = fetch_trace(args.name, args.destination, url=args.url, overwrite=args.overwrite)
    document = {
        "file": str(fetched.path),
        "url": fetched.url,
        "format": fetched.format,
        "bytes": fetched.num_bytes,
        "sha256": fetched.sha256,
    }
    rows = [[name, str(value)] for name, value in document.items()]
    print_answer(args, document, partial(print_table, str(fetched.path), ("", ""), rows))


def _shown(value: object) -> str:
    return number(value) if isinstance(value, int | float) else str(value)


COMMAND = Command("traces", _SUMMARY, _DESCRIPTION, _add_arguments, _run)


def add_problem_actions(actions: Any) -> None:
    """Add ``to-hindsight``, ``to-makespan``, ``to-fluid`` and ``to-step``."""
    for name, (command, add, told) in _PROBLEMS.items():
        summary = f"write a problem of bfio {command}: {told}"
        how = {"description": f"{summary}."}
        parser = options.add_action(actions, f"to-{name}", partial(_write, name), summary, **how)
        parser.set_defaults(synthetic=None)
        files = {"trace FILE": "a trace file", "out OUT": f"file for bfio {command} (.json)"}
        options.add_by_usage(parser, files)
        add(parser)
        group = parser.add_argument_group("requests")
        whole = partial(options.add_by_usage, group, type=int)
        whole({"--requests N": "take the next N"})
        whole({"--skip N": "leave out the first N (default 0)"}, default=0)
        options.add_reading(group)
        options.add_by_usage(parser, {"--overwrite": "replace an existing OUT"})
        options.add_common(parser)


def _write(name: str, args: argparse.Namespace) -> None:
    made = _made(name, args)
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
    print(f"next: bfio {_PROBLEMS[name][0]} {args.out}")


def _made(name: str, args: argparse.Namespace) -> "TraceProblem[Any]":
    """Return the problem, made by the function of `bfio.from_trace` from the given arguments."""
    from bfio import from_trace

    makers: dict[str, Callable[..., TraceProblem[Any]]] = {
        "hindsight": from_trace.latency_problem,
        "makespan": from_trace.makespan_problem,
        "fluid": from_trace.fluid_problem,
        "step": from_trace.step_problem,
    }
    workload = _chosen(args)
    if name == "step":
        args.cluster, args.options = options.cluster_from(args), options.run_options_from(args)
    names = signature(makers[name]).parameters.keys() & vars(args).keys()
    given = {key: value for key in names if (value := getattr(args, key)) is not None}
    return makers[name](workload, **given)


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
    options.add_by_usage(parser, {"--memory M": text}, type=int, required=required)
    text = "leave out and count requests that exceed the memory alone (default: error)"
    options.add_by_usage(parser, {"--skip-oversized": text}, dest="leave_out_oversized")


def _add_hindsight(parser: argparse.ArgumentParser) -> None:
    _add_memory(parser, "KV cache of the worker [tokens]", required=True)
    text = "length of a round [s], exact (0.05 or 1/20); default: all requests arrive at round 0"
    options.add_by_usage(parser, {"--round-s S": text})
    text = "rounds that a request occupies: A, B or C (default; docs/hindsight-latency.md)"
    options.add_by_usage(parser, {"--convention NAME": text}, default="C")


def _add_makespan(parser: argparse.ArgumentParser) -> None:
    machine = {"--workers G": "workers", "--slots B": "slots of each worker"}
    options.add_by_usage(parser, machine, type=int, required=True)
    text = "most tokens of each worker at any step (default: no limit)"
    _add_memory(parser, text, required=False)
    text = "length of a step [s], exact (0.05 or 1/20); default: all requests arrive at step 0"
    options.add_by_usage(parser, {"--step-s S": text})


def _add_fluid(parser: argparse.ArgumentParser) -> None:
    _add_memory(parser, "KV cache of each worker [tokens]", required=True)
    add = partial(options.add_by_usage, parser)
    text = "largest number of classes, found by k-means over prompts and outputs (default 8)"
    add({"--classes K": text}, type=int, default=8)
    text = "requests per second of all classes (default: those after the first one, over the span)"
    add({"--rate R": text})
    add({"--workers G": "workers (default 1)"}, type=int, default=1)
    machine = "default: the BF-IO simulator's"
    add({"--d0 S": f"fixed time of an iteration [s] ({machine})"})
    add({"--d1 S": f"time per token [s] ({machine})"})


def _add_step(parser: argparse.ArgumentParser) -> None:
    from bfio.decode.cluster import Cluster
    from bfio.decode.options import RunOptions

    text = "policy of the run, NAME:option=value:... (default br-0)"
    options.add_by_usage(parser, {"--policy NAME": text}, default="br-0")
    steps = {
        "--step K": "take the first decision at or after this decode step (default 0)",
        "--look-ahead H": "steps H of the window after the present one (default 0)",
    }
    options.add_by_usage(parser, steps, type=int, default=0)
    add_options(parser.add_argument_group("machine"), Cluster)
    add_options(parser.add_argument_group("run"), RunOptions)


#: For each problem: the command that solves it, a function that adds its arguments, and a summary.
_PROBLEMS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], str]] = {
    "hindsight": ("hindsight", _add_hindsight, "start times of least latency for one KV cache"),
    "makespan": ("makespan", _add_makespan, "workers in lockstep, all requests known"),
    "fluid": ("fluid", _add_fluid, "classes of requests with rates"),
    "step": ("solve", _add_step, "the state of a run at one step"),
}
