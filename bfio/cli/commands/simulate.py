"""``bfio simulate``: one policy on one workload."""

import argparse
from typing import TYPE_CHECKING

from bfio.cli import options
from bfio.cli.command import DONE, INTERRUPTED, Command
from bfio.cli.interrupt import orderly_interrupt
from bfio.cli.output import console, print_json, print_table, progress_bar
from bfio.common.number_text import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bfio.common.metrics import MetricTable
    from bfio.decode.metrics import RunPart

#: Widths from which on a table has room for the meaning of each metric, and for its unit.
_WITH_MEANING, _WITH_UNIT = 90, 70

_DESCRIPTION = """\
Simulate one policy on the barrier-synchronised decode engine and print every metric, over the
whole run and over its steady part.

  bfio simulate --policy br-0
  bfio simulate --trace azure.csv.gz --policy bf-io --horizon 20 --projection growing
  bfio simulate --trace azure.csv.gz --arrivals timed --rate-scale 4 --policy jsq
  bfio simulate --policy my_module:my_policy

Interrupted (Ctrl-C), it prints what the run gave so far.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy", required=True, metavar="NAME", help="a policy, or module:function of your own"
    )
    options.add_metrics(parser, "all")
    options.add_simulation(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.cli.tables import print_sentences
    from bfio.common.provenance import citable_versions
    from bfio.decode.observers import ProgressObserver
    from bfio.decode.settings import remarks, settings
    from bfio.decode.simulation import describe_run, simulate

    options.check_policies(args, [args.policy])
    metrics = options.metrics_from(args)
    energy_model = options.energy_from(args)
    workload = options.workload_from(args)
    with progress_bar() as bar, orderly_interrupt() as stop:
        task = bar.add_task(args.policy, total=len(workload))
        run = simulate(
            workload,
            args.policy,
            options.cluster_from(args),
            policy_options=options.policy_options_from(args),
            observers=[ProgressObserver(lambda view: bar.update(task, completed=view.completed))],
            stop=stop,
            engine=args.engine,
            options=options.run_options_from(args),
        )
        bar.update(task, completed=run.completed)
        interrupted = stop()
    document = describe_run(run, args.policy, energy_model, metrics.table)
    document["interrupted"] = interrupted
    if args.json:
        print_json(
            document | {"workload": dict(workload.provenance), "versions": citable_versions()}
        )
    else:
        limits = [run.statistics]
        policies = [(args.policy, run.policy_options)]
        print_sentences(
            settings(workload, run.cluster, [run.options], limits, energy_model, policies)
        )
        _print(document, metrics.table, args.metrics and metrics.shown)
        for remark in remarks(workload, [run]):
            print_sentences(remark)
    return INTERRUPTED if interrupted else DONE


def _print(
    document: dict[str, object], table: "MetricTable[RunPart]", shown: "Sequence[str] | None"
) -> None:
    steady = document["steady"]
    rows = [
        [
            entry.name,
            number(document[entry.name]),  # type: ignore[arg-type]
            number(steady[entry.name] if isinstance(steady, dict) else None),
            entry.unit,
            entry.description,
        ]
        for entry in table
        if not shown or entry.name in shown
    ]
    # A narrow terminal has room for what cannot be looked up.
    width = console().width
    columns = 5 if width >= _WITH_MEANING else 4 if width >= _WITH_UNIT else 3
    print_table(
        f"{document['policy']}: {number(document['wall_s'])} s of simulation",  # type: ignore[arg-type]
        ("metric", "whole run", "steady", "unit", "meaning")[:columns],
        [row[:columns] for row in rows],
    )
    if document["statistics"]:
        print("policy:", ", ".join(f"{k} {v}" for k, v in document["statistics"].items()))  # type: ignore[attr-defined]


COMMAND = Command(
    name="simulate",
    summary="simulate one policy on a trace or a synthetic workload",
    description=f"{_DESCRIPTION}\n{options.POLICIES}",
    add_arguments=_add_arguments,
    run=_run,
)
