"""``bfio gap``: how far each decision of a policy is from the optimum of its step."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.cli import options, so_far
from bfio.cli.command import DONE, INTERRUPTED, Command
from bfio.cli.output import (
    Written,
    interruption,
    output_folder,
    plot_folder,
    print_json,
    print_table,
    progress_bar,
)
from bfio.common.number_text import number, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bfio.common.table_text import TextTable
    from bfio.decode.gap import GapObserver, GapReport
    from bfio.decode.policies.bf_io import BFIOOptions
    from bfio.workloads.workload import Workload

#: Options of policies that the gap is taken with.
_OF_GAP = ("gamma", "objective", "work_limit", "time_limit")
#: Most steps that one run is asked for.
_MOST_STEPS = 10_000
_DESCRIPTION = """\
Replay a policy and solve every step it decided to proven optimality. The regret of a step is what
the decision costs minus the optimum over the same number of admitted requests, in tokens. Reports
its distribution, the share of steps decided optimally and the worst step; steps whose optimum is
not proven within --work-limit are counted apart, never dropped. The certified gap is given for
every step: what the decision costs minus the best proven bound, which is the optimum if proven.
--dump-steps K writes the K steps whose regret may be largest (objective minus bound, steps without
a bound first, of equals the earliest) as problems that bfio solve reads, with their provenance.

  bfio gap --policy br-0
  bfio gap --policy fcfs --trace azure.csv.gz --requests 2000
  bfio gap --policy br-h --gap-horizon 20 --projection growing --every 10 --json
  bfio gap --policy fcfs --dump-steps 3 --output steps
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", default="br-0", metavar="NAME", help="policy (default br-0)")
    group = parser.add_argument_group("gap")
    group.add_argument(
        "--method", default="exact", metavar="M", help="exact (default), cp-sat or brute-force"
    )
    group.add_argument(
        "--gap-horizon", type=int, default=0, metavar="H", help="look-ahead of the program (0)"
    )
    group.add_argument(
        "--every", type=int, default=1, metavar="N", help="solve each N-th decision"
    )
    group.add_argument(
        "--dump-steps",
        type=int,
        default=0,
        metavar="K",
        help="write the K steps of the largest possible regret, as problems for bfio solve",
    )
    group.add_argument(
        "--output", default="out", metavar="DIR", help="folder of the histogram and the steps"
    )
    group.add_argument("--no-plots", action="store_true", help="write no plot")
    options.add_table_form(group)
    options.add_simulation(parser)


def _run(args: argparse.Namespace) -> int:
    folder = plot_folder(args)
    options.chosen_policies(args, [args.policy], _OF_GAP)
    workload = options.workload_from(args)
    observer = _observer(args)
    if args.dump_steps:
        output_folder(args)
    interrupted = False

    def tell(done: int) -> None:
        bar.update(task, completed=done)
        if observer.rows:
            so_far.keep_shown(show)

    def show() -> None:
        # Steps are written once, when it is known which are the worst.
        _show(args, workload, observer, observer.report(), [], [], interrupted=True)

    with progress_bar() as bar:
        task = bar.add_task(args.policy, total=len(workload))
        try:
            report = _replay(args, workload, observer, tell)
        except KeyboardInterrupt:
            if not observer.rows:
                raise
            report, interrupted = observer.report(), True
    dumped = Written(lambda: _dumped(args, workload, observer))
    plots = Written[Path]()
    if folder is not None and report.regrets() and not interrupted:
        plots = Written(lambda: _write_plot(folder, args.policy, report))
    steps = [step for steps in dumped.found for step in steps]
    _show(args, workload, observer, report, plots.found, steps, interrupted=interrupted)
    dumped.check()
    plots.check()
    return INTERRUPTED if interrupted else DONE


def _observer(args: argparse.Namespace) -> "GapObserver":
    from bfio.decode.gap import GapObserver
    from formulations.arrays import integer

    program = _program(args)
    return GapObserver(
        method=args.method,
        horizon=integer(args.gap_horizon, "--gap-horizon", maximum=5000),
        gamma=program.gamma,
        objective=program.objective,
        work_limit=program.work_limit,
        time_limit=program.time_limit,
        every=integer(args.every, "--every", minimum=1),
        keep=integer(args.dump_steps, "--dump-steps", maximum=_MOST_STEPS),
    )


def _program(args: argparse.Namespace) -> "BFIOOptions":
    """Return the options of the program, which are those of `bf-io`."""
    from bfio.common.options import flag, with_values
    from bfio.decode.policies.bf_io import BFIOOptions

    given = options.policy_options_from(args)
    own = {name: given[name] for name in _OF_GAP if name in given}
    return with_values(BFIOOptions(), own, {name: flag(name) for name in own})


def _replay(
    args: argparse.Namespace, workload: "Workload", observer: "GapObserver", tell: Any
) -> "GapReport":
    from bfio.decode.gap import measure_gap
    from bfio.decode.observers import ProgressObserver
    from bfio.decode.policy_registry import given_to

    cluster, asked = options.cluster_from(args), options.run_options_from(args)
    report = measure_gap(
        workload,
        args.policy,
        cluster,
        observer=observer,
        observers=[ProgressObserver(lambda view: tell(view.completed), every=10)],
        engine=args.engine,
        options=asked,
        **given_to(args.policy, options.policy_options_from(args), asked, cluster),
    )
    tell(len(workload))
    return report


def _show(
    args: argparse.Namespace,
    workload: "Workload",
    observer: "GapObserver",
    report: "GapReport",
    plots: list[Path],
    steps: list[dict[str, Any]],
    *,
    interrupted: bool,
) -> None:
    from bfio.cli.tables import print_for_papers, print_sentences
    from bfio.common.table_text import TableForm
    from bfio.decode.settings import by_the_clock, idle_features, unused

    limits = _limits(observer)
    document = report.to_mapping()
    if args.json:
        from bfio.common.provenance import citable_versions

        head = {"policy": args.policy, "method": args.method, "horizon": args.gap_horizon}
        program = _program(args)
        head |= {"objective": program.objective.value, "gamma": getattr(args, "gamma", "1")}
        tail: dict[str, Any] = {"workload": dict(workload.provenance), "dumped": steps}
        tail["plots"] = [str(path) for path in plots]
        tail["run_options"] = _run_options(args) | limits
        tail |= {"versions": citable_versions()} | interruption(interrupted)
        print_json(head | document | limits | tail)
        return
    said = _settings(args, workload, observer)
    name = args.policy.partition(":")[0]
    cluster, asked = options.cluster_from(args), options.run_options_from(args)
    told = list(unused(workload, asked, _policies(args, observer)))
    told += [*idle_features([name], workload, cluster, asked), *report.unseen]
    told += by_the_clock("gap", limits, document["clocked"], document["solved"])
    table = replace(_table(args.policy, args.gap_horizon, document), settings=said)
    if args.table != TableForm.TEXT:
        print_for_papers([table], TableForm(args.table), [*told, _counts(document)])
        return
    print_sentences(said)
    _print(table, document)
    for remark in told:
        print_sentences(remark)
    for path in plots:
        print(f"plot: {path}")
    for step in steps:
        print(f"step {step['step']}, regret at most {_regret(step, report.scale)}: {step['file']}")


def _regret(step: dict[str, Any], scale: int) -> str:
    at_most = step["regret_at_most"]
    return "unknown" if at_most is None else f"{number(at_most / scale)} tokens"


def _in_force(args: argparse.Namespace) -> dict[str, object]:
    """Return the options of the policy with the values in force."""
    (chosen,) = options.chosen_policies(args, [args.policy], _OF_GAP)
    used = chosen.in_force(options.run_options_from(args), options.cluster_from(args))
    return used | ({"horizon": chosen.look_ahead()} if chosen.is_own else {})


def _run_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return every option of the run."""
    from bfio.decode.prediction.registry import in_force
    from bfio.decode.simulation import plain_options

    return plain_options(
        options.cluster_from(args),
        options.run_options_from(args),
        options.energy_from(args),
        policy=_in_force(args),
        predictor=in_force(args.predictor),
    )


def _policies(
    args: argparse.Namespace, observer: "GapObserver"
) -> "list[tuple[str, Mapping[str, object]]]":
    """Return the policy and the program, with the options of each that are not usual."""
    from bfio.decode.policies.bf_io import BFIOOptions

    program, usual = _program(args), BFIOOptions()
    changed = {n: getattr(program, n) for n in _OF_GAP if getattr(program, n) != getattr(usual, n)}
    return [(args.policy, _in_force(args)), ("gap", {"horizon": observer.horizon} | changed)]


def _limits(observer: "GapObserver") -> dict[str, float | None]:
    """Return where solves stop."""
    return {"work_limit": observer.work_limit, "time_limit": observer.time_limit}


def _settings(args: argparse.Namespace, workload: "Workload", observer: "GapObserver") -> str:
    from bfio.decode.settings import settings

    return settings(
        workload,
        options.cluster_from(args),
        [options.run_options_from(args)],
        [_limits(observer)],
        options.energy_from(args),
        _policies(args, observer),
    )


def _dumped(
    args: argparse.Namespace, workload: "Workload", observer: "GapObserver"
) -> list[dict[str, Any]]:
    """Write the steps that were asked for."""
    from bfio.cli.step_files import write_steps
    from bfio.decode.gap import RULE

    origin = {
        "policy": args.policy,
        "settings": _settings(args, workload, observer),
        "workload": dict(workload.provenance),
        "gap_horizon": observer.horizon,
        "every": args.every,
        "rule": RULE,
    }
    return write_steps(Path(args.output), observer.worst, origin)


def _window(horizon: int) -> str:
    return f", summed over {horizon + 1} look-ahead steps" if horizon else ""


def _table(policy: str, horizon: int, document: dict[str, Any]) -> "TextTable":
    from bfio.common.table_text import TextTable
    from bfio.decode.gap import COLUMNS

    kinds = ("regret_per_step", "regret_per_step_full_use", "certified_gap_per_step")
    names = ("count", "share_optimal", "mean", "median", "p95", "p99", "max")
    show = {"share_optimal": percent}
    return TextTable(
        f"{policy}: regret per step [tokens{_window(horizon)}]",
        ("", *COLUMNS),
        [
            [name, *(show.get(name, number)(document[kind][name]) for kind in kinds)]
            for name in names
        ],
    )


def _counts(document: dict[str, Any]) -> str:
    return (
        f"decisions {document['decisions']}, solved {document['solved']}, "
        f"proven {document['proven']} ({percent(document['proven_share'])}), "
        f"bounded only {document['unproven']}"
    )


def _print(table: "TextTable", document: dict[str, Any]) -> None:
    print_table(table.title, table.heading, table.lines)
    print(_counts(document))
    print(
        f"over the proven steps: mean objective {number(document['objective_mean'])}, "
        f"mean optimum {number(document['optimum_mean'])}, worst step {document['worst_step']}"
    )
    if document["relative_certified_gap"] is not None:
        share = percent(document["relative_certified_gap"])
        print(f"over all solved steps: the certified gap is {share} of the objective")
    seconds = document["solve_seconds"]
    if seconds["count"]:
        print(f"solve time: median {number(seconds['median'] * 1e3)} ms, ", end="")
        print(f"p99 {number(seconds['p99'] * 1e3)} ms, max {number(seconds['max'] * 1e3)} ms")
    ticks = document["solve_ticks"]
    if ticks["count"]:
        print(f"work [ticks]: median {number(ticks['median'])}, ", end="")
        print(f"p99 {number(ticks['p99'])}, max {number(ticks['max'])}")


def _write_plot(folder: Path, policy: str, report: "GapReport") -> Path:
    from bfio.decode.plots import regret_figure, save

    return save(regret_figure(report, policy), folder / "regret.png")


COMMAND = Command(
    name="gap",
    summary="measure how far a policy's decisions are from the optimum of each step",
    description=f"{_DESCRIPTION}\n{options.POLICIES}",
    add_arguments=_add_arguments,
    run=_run,
)
