"""``bfio gap``: measure the distance of each decision of a policy from the optimum of its step."""

import argparse
import json
from functools import partial
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
from bfio.common.text import number
from formulations.scalars import percent
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.gap import GapReport
    from bfio.workloads.workload import Workload


#: Policy options that define the objective and limits of the gap.
_OF_GAP = ("gamma", "objective", "work_limit", "time_limit")
#: Lines of the table, with the format of their numbers.
_LINES = dict.fromkeys(("count", "share_optimal", "mean", "median", "p95", "p99", "max"), number)
_LINES["share_optimal"] = percent
#: Largest number of steps that can be dumped.
_MOST_STEPS = 10_000
_SUMMARY = "measure how far a policy's decisions are from the optimum of each step"
_DESCRIPTION = """\
Replay a policy and solve the assignment problem of every step to proven optimality. The regret of
a step is the cost of the policy's decision minus the optimum over the same number of admitted
requests, in tokens (with unequal workers, of the fastest). The optimum knows neither --max-wait
nor --benefit, for which a policy may give up balance. Reports the distribution of the regret, the
share of optimal decisions and the worst step. Steps whose optimum is not proven within
--work-limit are counted separately, never dropped. The certified gap is reported for every step:
the cost of the decision minus the best proven bound (the optimum, if proven).
--dump-steps K writes the K steps of the largest possible regret (objective minus bound; steps
without a bound first; ties: earliest first) as problems for bfio solve, with their provenance.

  bfio gap --policy br-0
  bfio gap --policy fcfs --trace azure.csv.gz --requests 2000
  bfio gap --policy br-h --gap-horizon 20 --projection growing --every 10 --json
  bfio gap --policy fcfs --dump-steps 3 --output steps
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_by_usage(parser, {"--policy NAME": "policy (default br-0)"}, default="br-0")
    group = parser.add_argument_group("gap")
    add = partial(options.add_by_usage, group)
    text = "no run: the decisions that a router has logged (bfio route --log DIR); windows are"
    add({"--log DIR": f"{text} those that it saw"})
    add({"--method M": "exact (default), cp-sat or brute-force"}, default="exact")
    horizon = {"--gap-horizon H": "look-ahead steps H of the solved program (default 0)"}
    add(horizon, type=int, default=0)
    add({"--every N": "solve only every N-th decision"}, type=int, default=1)
    text = "write the K steps of the largest possible regret, as problems for bfio solve"
    add({"--dump-steps K": text}, type=int, default=0)
    add({"--output DIR": "folder for the histogram and the steps"}, default="out")
    add({"--no-plots": "write no plot"})
    options.add_table_form(group)
    options.add_simulation(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.decode.observers import ProgressObserver
    from bfio.decode.policy_registry import given_to
    from bfio.gap import measure_gap

    if args.log is not None:
        return _judge(args)
    folder = plot_folder(args)
    options.chosen_policies(args, [args.policy], _OF_GAP)
    workload = options.workload_from(args)
    gap = _Gap(args, workload)
    observer = gap.observer
    if args.dump_steps:
        output_folder(args)
    interrupted = False

    def tell(done: int) -> None:
        bar.update(task, completed=done)
        if observer.rows:
            # Steps are written once at the end, because only then the worst ones are known.
            so_far.keep_shown(lambda: gap.show(observer.report(), [], [], interrupted=True))

    with progress_bar() as bar:
        task = bar.add_task(args.policy, total=len(workload))
        try:
            report = measure_gap(
                workload,
                args.policy,
                gap.cluster,
                observer=observer,
                observers=[ProgressObserver(lambda view: tell(view.completed), every=10)],
                engine=args.engine,
                options=gap.asked,
                **given_to(args.policy, options.policy_options_from(args), gap.asked, gap.cluster),
            )
            tell(len(workload))
        except KeyboardInterrupt:
            if not observer.rows:
                raise
            report, interrupted = observer.report(), True
    dumped = Written(gap.dumped)
    plots = Written[Path]()
    if folder is not None and report.regrets() and not interrupted:
        from bfio.common.figure_style import save

        place = folder / "regret.png"
        plots = Written(lambda: save(report.plot(args.policy), place))
    steps = [step for steps in dumped.found for step in steps]
    gap.show(report, plots.found, steps, interrupted=interrupted)
    dumped.check()
    plots.check()
    return INTERRUPTED if interrupted else DONE


#: Arguments that are read with ``--log``.
_OF_LOGS = (
    "log", "method", "gap_horizon", "every", "dump_steps", "output", "no_plots", "table", "json",
    *_OF_GAP,
)  # fmt: skip


def _judge(args: argparse.Namespace) -> int:
    """Measure the regret of logged decisions."""
    import numpy as np

    from bfio.live.log import about, read_decisions
    from bfio.workloads.workload import Workload
    from formulations.errors import InputError

    given = options.given_options(args, _add_arguments, _OF_LOGS)
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        raise InputError(flag, "is an option of runs, and --log has none", "leave it out")
    path = Path(args.log)
    args.policy = about(path)["policy"]
    one = np.ones(1, dtype=np.int64)
    gap = _Gap(args, Workload(one, one, name=args.log))
    for view in read_decisions(path):
        seen = args.gap_horizon if view.state is None else view.state.projected_loads.shape[1] - 1
        if args.gap_horizon > seen:
            what = f"the router looked {counted(seen, 'step')} ahead"
            raise InputError("--gap-horizon", what, f"give at most {seen}")
        gap.observer.on_step(view)
    gap.show(gap.observer.report(), [], gap.dumped(), interrupted=False)
    return DONE


class _Gap:
    """The arguments of ``bfio gap``, the run they define, and its output."""

    def __init__(self, args: argparse.Namespace, workload: "Workload") -> None:
        from bfio.common.options import flag, with_values
        from bfio.decode.policies.bf_io import BFIOOptions
        from bfio.gap import GapObserver
        from formulations.arrays import integer

        self.args, self.workload = args, workload
        self.cluster, self.asked = options.cluster_from(args), options.run_options_from(args)
        self.energy = options.energy_from(args)
        given = options.policy_options_from(args)
        own = {name: given[name] for name in _OF_GAP if name in given}
        usual = BFIOOptions()
        self.program = with_values(usual, own, {name: flag(name) for name in own})
        in_program = {name: getattr(self.program, name) for name in _OF_GAP}
        self.observer = GapObserver(
            method=args.method,
            horizon=integer(args.gap_horizon, "--gap-horizon", maximum=5000),
            every=integer(args.every, "--every", minimum=1),
            keep=integer(args.dump_steps, "--dump-steps", maximum=_MOST_STEPS),
            **in_program,
        )
        names = ("work_limit", "time_limit")
        self.limits = {name: getattr(self.observer, name) for name in names}
        (chosen,) = options.chosen_policies(args, [args.policy], _OF_GAP)
        self.in_force = chosen.in_force(self.asked, self.cluster)
        if chosen.is_own:
            self.in_force |= {"horizon": chosen.look_ahead()}
        changed = {n: v for n, v in in_program.items() if v != getattr(usual, n)}
        self.policies = [
            (args.policy, self.in_force),
            ("gap", {"horizon": self.observer.horizon} | changed),
        ]

    def settings(self) -> str:
        """Return one line with the settings of the run and the gap."""
        from bfio.common.provenance import version_and_commit
        from bfio.decode.settings import settings

        if self.args.log is not None:
            what = f"live decisions, horizon {self.observer.horizon} (gap)"
            return f"{self.args.log}: {what}, {version_and_commit()}"
        made_of = self.workload, self.cluster, [self.asked], [self.limits]
        return settings(*made_of, self.energy, self.policies)

    def dumped(self) -> list[dict[str, Any]]:
        """Write the steps with the largest certified gaps and return their summaries.

        Existing files are replaced. Each problem states the run as its ``provenance``.
        """
        from bfio.common.files import write_file
        from bfio.gap import RULE

        origin = {
            "policy": self.args.policy,
            "settings": self.settings(),
            "workload": dict(self.workload.provenance),
            "gap_horizon": self.observer.horizon,
            "every": self.args.every,
            "rule": RULE,
        }
        names = ("step", "objective", "optimum", "bound", "regret_at_most")
        written = []
        for rank, kept in enumerate(self.observer.worst, 1):
            row, problem = {name: getattr(kept.row, name) for name in names}, kept.problem
            path = Path(self.args.output) / f"worst-{rank:02}-step-{kept.row.step}.json"
            own = {"rank": rank, "step": kept.row.step, "decision": list(kept.decision)} | row
            own |= {"scale": problem.scale, "digest": problem.digest()}
            document = problem.to_mapping() | {"provenance": origin | own}
            write_file(path, f"{json.dumps(document, allow_nan=False, default=str)}\n".encode())
            written.append({"file": str(path), **row})
        return written

    def show(
        self,
        report: "GapReport",
        plots: list[Path],
        steps: list[dict[str, Any]],
        *,
        interrupted: bool,
    ) -> None:
        """Print the report, the plots and the written steps."""
        from bfio.cli.tables import print_for_papers, print_remarks, print_sentences
        from bfio.common.text import TableForm, TextTable
        from bfio.decode.settings import by_the_clock, idle_features, unused
        from bfio.gap import COLUMNS

        args, document = self.args, report.to_mapping()
        if args.json:
            print_json(self._document(document, plots, steps) | interruption(interrupted))
            return
        name = args.policy.partition(":")[0]
        remarks = [
            *(["interrupted: these are the steps so far"] if interrupted else []),
            *([] if args.log else unused(self.workload, self.asked, self.policies)),
            *([] if args.log else idle_features([name], self.workload, self.cluster, self.asked)),
            *report.unseen,
            *by_the_clock("gap", self.limits, document["clocked"], document["solved"]),
        ]
        window = args.gap_horizon and f", summed over {args.gap_horizon + 1} look-ahead steps"
        kinds = ("regret_per_step", "regret_per_step_full_use", "certified_gap_per_step")
        lines: list[list[str]] = [
            [name, *(show(document[kind][name]) for kind in kinds)]
            for name, show in _LINES.items()
        ]
        title = f"{args.policy}: regret per step [tokens{window or ''}]"
        counts = (
            f"decisions {document['decisions']}, solved {document['solved']}, "
            f"proven {document['proven']} ({percent(document['proven_share'])}), "
            f"bounded only {document['unproven']}"
        )
        if args.table != TableForm.TEXT:
            table = TextTable(title, ("", *COLUMNS), lines, self.settings())
            print_for_papers([table], TableForm(args.table), [*remarks, counts])
            return
        print_sentences(self.settings())
        print_table(title, ("", *COLUMNS), lines)
        print(counts)
        mean, least, worst = (
            number(document[name]) for name in ("objective_mean", "optimum_mean", "worst_step")
        )
        print(
            f"over the proven steps: mean objective {mean}, mean optimum {least}, "
            f"worst step {worst}"
        )
        if document["relative_certified_gap"] is not None:
            share = percent(document["relative_certified_gap"])
            print(f"over all solved steps: the certified gap is {share} of the objective")
        for name, heading, factor, unit in (
            ("solve_seconds", "solve time", 1e3, " ms"),
            ("solve_ticks", "work [ticks]", 1, ""),
        ):
            if (spent := document[name])["count"]:
                told = [f"{k} {number(spent[k] * factor)}{unit}" for k in ("median", "p99", "max")]
                print(f"{heading}: {', '.join(told)}")
        print_remarks(remarks, plots)
        for step in steps:
            most = step["regret_at_most"]
            at_most = "unknown" if most is None else f"{number(most / report.scale)} tokens"
            print(f"step {step['step']}, regret at most {at_most}: {step['file']}")

    def _document(
        self, document: dict[str, Any], plots: list[Path], steps: list[dict[str, Any]]
    ) -> dict[str, Any]:
        from bfio.common.provenance import citable_versions
        from bfio.decode.simulation import plain_options
        from bfio.prediction.registry import in_force

        args = self.args
        head = {"policy": args.policy, "method": args.method, "horizon": args.gap_horizon}
        head |= {"objective": self.program.objective.value, "gamma": getattr(args, "gamma", "1")}
        run = plain_options(
            self.cluster,
            self.asked,
            self.energy,
            policy=self.in_force,
            predictor=in_force(args.predictor),
        )
        tail: dict[str, Any] = {"workload": dict(self.workload.provenance), "dumped": steps}
        tail |= {"plots": plots, "run_options": run | self.limits}
        if args.log is not None:
            tail = {"log": args.log, "dumped": steps}
        return head | document | self.limits | tail | {"versions": citable_versions()}


COMMAND = Command("gap", _SUMMARY, f"{_DESCRIPTION}\n{options.POLICIES}", _add_arguments, _run)
