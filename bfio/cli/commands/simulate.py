"""``bfio simulate``: simulate one policy on one workload."""

import argparse
from typing import TYPE_CHECKING, Any

from bfio.cli import options
from bfio.cli.command import DONE, INTERRUPTED, Command
from bfio.cli.output import console, print_json, print_table, progress_bar
from bfio.cli.so_far import orderly_interrupt
from bfio.common.text import number

if TYPE_CHECKING:
    from bfio.decode.run import Run
    from bfio.workloads.workload import Workload

#: Minimum terminal widths for the columns "meaning" and "unit" of the table [characters].
_WITH_MEANING, _WITH_UNIT = 90, 70

_SUMMARY = "simulate one policy on a trace or a synthetic workload"
_DESCRIPTION = """\
Simulate one policy on the barrier-synchronised decode engine and print every metric, over the
whole run and over the part of it that is measured (docs/metrics.md).

  bfio simulate --policy br-0
  bfio simulate --trace azure.csv.gz --policy br-h --projection growing
  bfio simulate --trace azure.csv.gz --arrivals timed --rate-scale 4 --policy jsq
  bfio simulate --policy my_module:my_policy

After Ctrl-C the metrics of the steps so far are printed.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a policy, or module:function of your own"
    options.add_by_usage(parser, {"--policy NAME": text}, required=True)
    options.add_metrics(parser, "all")
    options.add_repeat(parser, 1)
    options.add_simulation(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.cli.tables import measured_text, print_remarks, print_sentences
    from bfio.common.metrics import Column
    from bfio.common.provenance import citable_versions
    from bfio.decode.measured import repeats
    from bfio.decode.observers import ProgressObserver, StepView
    from bfio.decode.settings import remarks, settings
    from bfio.decode.simulation import describe_run, simulate

    options.chosen_policies(args, [args.policy])
    metrics = options.metrics_from(args)
    energy_model = options.energy_from(args)
    workload = options.workload_from(args)
    cluster, asked = options.cluster_from(args), options.run_options_from(args)
    passes = repeats(workload, cluster, asked, args.repeat)
    total = len(workload) * (1 if passes == 1 else 1 + passes)
    with progress_bar() as bar, orderly_interrupt() as stop:
        task = bar.add_task(args.policy, total=total)

        def run_on(requests: "Workload", before: int) -> "Run":
            def show(view: StepView) -> None:
                bar.update(task, completed=before + view.completed)

            made = simulate(
                requests,
                args.policy,
                cluster,
                observers=[ProgressObserver(show)],
                stop=stop,
                engine=args.engine,
                options=asked,
                **options.policy_options_from(args),
            )
            bar.update(task, completed=before + made.completed)
            return made

        run = run_on(workload, 0)
        measured = run if passes == 1 else run_on(workload.repeated(passes), run.completed)
        interrupted = stop()
    document: dict[str, Any] = describe_run(
        run, args.policy, energy_model, metrics.table, measured
    )
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
        part: Any = document["measured"] or {}
        widths = part.get("half_widths", {})
        rows = []
        for entry in metrics.table:
            name = entry.name
            if not args.metrics or name in (metrics.shown or [name]):
                cell = Column(name).text(part.get(name), widths.get(name))
                rows.append([name, number(document[name]), cell, entry.unit, entry.description])
        # On a narrow terminal omit meaning and unit, which are in the documentation.
        width = console().width
        columns = 5 if width >= _WITH_MEANING else 4 if width >= _WITH_UNIT else 3
        told = f"; measured: {measured_text([document])}, ± 95 %" if part else ""
        print_table(
            f"{document['policy']}: {number(document['wall_s'])} s of simulation{told}",
            ("metric", "whole run", "measured", "unit", "meaning")[:columns],
            [row[:columns] for row in rows],
        )
        if statistics := document["statistics"]:
            print("policy:", ", ".join(f"{name} {value}" for name, value in statistics.items()))
        print_remarks(remarks(workload, [run], [measured]))
    return INTERRUPTED if interrupted else DONE


COMMAND = Command(
    "simulate", _SUMMARY, f"{_DESCRIPTION}\n{options.POLICIES}", _add_arguments, _run
)
