"""``bfio compare``: compare policies on the same requests by a table and plots."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.cli import options, so_far
from bfio.cli.command import DONE, INTERRUPTED, Command, SeveralErrors
from bfio.cli.output import Written, interruption, plot_folder, print_json, progress_bar
from formulations.errors import InputError
from formulations.scalars import integer

if TYPE_CHECKING:
    from bfio.decode.comparison import Comparison, RunPair
    from bfio.workloads.workload import Workload

DEFAULT_POLICIES = "fcfs,jsq-tokens,br-0,br-h,bf-io"

_SUMMARY = "compare policies on the same requests: table, trajectories, idle fractions"
_DESCRIPTION = """\
Run several policies on the same requests and print the table of BF-IO: imbalance, gap, idle
share, throughput, time per output token (TPOT) and energy. A first table covers the measured part
of each run, which is the same for all policies (docs/metrics.md); too few requests are repeated. A
second table covers the whole run, from empty to drained. Plots show the load of each worker
(BF-IO, fig. 6), idle fractions (fig. 1) and power over time (figs. 2 and 7).

  bfio compare
  bfio compare --trace azure.csv.gz --pool 64 --policies fcfs,br-0,bf-io,br-h:gamma=9/10
  bfio compare --synthetic bursty --workers 8 --policies fcfs,my_module:my_policy --json

Policies are separated by commas; options of one policy follow its name after colons.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = partial(options.add_by_usage, parser)
    policies = {"--policies A,B,C": "policies to compare (default %(default)s)"}
    add(policies, default=DEFAULT_POLICIES)
    usual = "columns of BF-IO's table; with timed arrivals also latency, TTFT and queueing delay"
    options.add_metrics(parser, usual)
    add({"--output DIR": "folder of the plots (default out)"}, default="out")
    add({"--no-plots": "write no plots"})
    options.add_table_form(parser)
    options.add_repeat(parser, "auto")
    text = "number of processes (default 1, so that times are comparable)"
    add({"--jobs N": text}, type=int, default=1)
    options.add_simulation(parser)


def run_and_show(args: argparse.Namespace) -> int:
    """Compare the chosen policies, print the table and write the plots."""
    from bfio.decode.comparison import MAX_JOBS
    from bfio.decode.metrics import MetricChoice

    folder = plot_folder(args)
    metrics = options.metrics_from(args)
    integer(args.jobs, "--jobs", minimum=1, maximum=MAX_JOBS)
    workload = options.workload_from(args)
    policies = [name.strip() for name in args.policies.split(",") if name.strip()]
    options.chosen_policies(args, policies)
    comparison, failures = _run_policies(args, workload, policies)
    # After a signal there is no time for plots.
    interrupted = len(comparison.runs) + len(failures) < len(policies)
    comparison = replace(comparison, metrics=metrics)
    try:
        documents = comparison.documents()
    except InputError as error:
        # Keep the built-in metrics of the runs if a user's own metric fails.
        failures.append(error)
        comparison = replace(comparison, metrics=MetricChoice())
        documents = comparison.documents()
    plots = Written[Path]()
    if folder is not None and not interrupted:
        from bfio.common.figure_style import save
        from bfio.decode.energy import has_energy
        from bfio.decode.plots import idle_fraction_figure, power_figure, trajectory_figure

        makes = [
            lambda: save(trajectory_figure(comparison), folder / "load_trajectory.png"),
            lambda: save(idle_fraction_figure(comparison), folder / "idle_fraction.png"),
        ]
        if all(map(has_energy, comparison.measured)):
            makes.append(lambda: save(power_figure(comparison), folder / "power.png"))
        plots = Written(*makes)
    _show(args, comparison, documents, plots.found, interrupted=interrupted)
    plots.check()
    if failures:
        raise SeveralErrors(failures)
    return INTERRUPTED if interrupted else DONE


def _run_policies(
    args: argparse.Namespace, workload: "Workload", policies: list[str]
) -> "tuple[Comparison, list[InputError]]":
    """Run the policies with a progress bar, and keep completed runs after an interruption."""
    from bfio.decode.comparison import RunTask, compare_each, compared
    from bfio.decode.measured import repeats

    energy_model = options.energy_from(args)
    cluster, asked = options.cluster_from(args), options.run_options_from(args)
    task = RunTask(
        workload,
        cluster,
        options.policy_options_from(args),
        args.engine,
        asked,
        repeats(workload, cluster, asked, args.repeat),
    )
    runs: dict[str, RunPair] = {}
    failures: list[InputError] = []

    def comparison() -> "Comparison":
        return compared(tuple(runs), list(runs.values()), energy_model, workload)

    def show() -> None:
        done = comparison()
        _show(args, done, done.documents(), [], interrupted=True)

    with progress_bar() as bar:
        tasks = {name: bar.add_task(name, total=task.num_requests) for name in policies}
        try:
            each = compare_each(
                task,
                policies,
                jobs=args.jobs,
                progress=lambda name, done: bar.update(tasks[name], completed=done),
            )
            for name, found in zip(policies, each, strict=True):
                if isinstance(found, InputError):
                    failures.append(found)
                    continue
                bar.update(tasks[name], completed=task.num_requests)
                runs[name] = found
                so_far.keep_shown(show)
        except KeyboardInterrupt:
            if not runs:
                raise
        except InputError as error:
            # It concerns all policies that have not run, e.g. a killed process.
            failures += [error] * max(1, len(policies) - len(runs) - len(failures))
        if not runs:
            raise SeveralErrors(failures)
    return comparison(), failures


def _show(
    args: argparse.Namespace,
    comparison: "Comparison",
    documents: list[dict[str, Any]],
    plots: list[Path],
    *,
    interrupted: bool,
) -> None:
    from bfio.cli.tables import (
        comparison_tables,
        print_comparison,
        print_for_papers,
        print_remarks,
        print_sentences,
    )
    from bfio.common.provenance import citable_versions
    from bfio.common.text import TableForm

    if args.json:
        workload = comparison.workload
        assert workload is not None
        source = {"name": workload.name, "requests": len(workload)} | dict(workload.provenance)
        head = {"policies": documents, "workload": source, "plots": plots}
        print_json(head | {"versions": citable_versions()} | interruption(interrupted))
        return
    if args.table != TableForm.TEXT:
        tables = comparison_tables(documents, comparison.metrics, comparison.settings)
        print_for_papers(tables, TableForm(args.table), comparison.remarks())
        return
    print_sentences(comparison.settings)
    print_comparison(documents, comparison.metrics)
    told = ["interrupted: only policies whose runs had ended are shown"] if interrupted else []
    print_remarks([*told, *comparison.remarks()], plots)


COMMAND = Command(
    "compare", _SUMMARY, f"{_DESCRIPTION}\n{options.POLICIES}", _add_arguments, run_and_show
)
