"""``bfio predict``: measure the accuracy of output-length predictors on a trace."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.cli import options, so_far
from bfio.cli.command import DONE, Command, SeveralErrors
from bfio.cli.output import drawn, interruption, picture_place, print_json, progress_bar
from bfio.common.options import add_options, from_namespace
from bfio.prediction.options import EvaluationOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bfio.prediction.report import PredictorReport

_SUMMARY = "measure the accuracy of output-length predictors on a trace"
_DESCRIPTION = """\
Measure predictors of output lengths on a trace, as BalanceRoute's Table 3 does.

  bfio predict evaluate --trace azure.csv.gz
  bfio predict evaluate --trace azure.csv.gz --predictor learned oracle --horizon 5 20 80
  bfio predict evaluate --trace azure.csv.gz --online 100 --plot accuracy.png
  bfio predict evaluate --trace azure.csv.gz --min-output 300

Predictors learn from the first half of the trace (--train-share). For each remaining request they
predict at ages 0, 10, 20, ... (--every) until the request ends. Stage 1, whether it ends within H
steps: area under the ROC curve (0.5: chance), Brier score beside that of the base rate,
calibration. Stage 2, when it ends if within H steps: mean error over these points, beside the
least error of a constant. Composite: mean |y - min(remaining, H)| [steps], beside that of the
constant prediction "not within H".

An area near 1 is not enough: compare the Brier score with the base rate, and the stage-2 error
with that of a constant (H/4 if ends are uniform). Definitions: docs/predictors.md.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, title="actions")
    evaluate = actions.add_parser(
        "evaluate",
        help="ROC-AUC, Brier score, calibration, conditional errors and cost of a call",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = partial(options.add_by_usage, evaluate)
    text = "predictors, or module:object of your own (default: all without knowledge of the future"
    add({"--predictor P": f"{text}; noisy-oracle:0.5 and oracle on request)"}, nargs="+")
    text = "look-ahead windows H in steps (default 20)"
    add({"--horizon H": text}, nargs="+", type=int, default=[20])
    add_options(evaluate.add_argument_group("evaluation"), EvaluationOptions)
    add({"--plot FILE": "plot ROC curve, calibration and errors by age"})
    options.add_table_form(evaluate)
    options.add_workload(evaluate)
    options.add_common(evaluate)


def _run(args: argparse.Namespace) -> int:
    from bfio.prediction.evaluation import evaluate_predictor
    from bfio.prediction.report import evaluation_figure
    from formulations.errors import InputError

    how = from_namespace(EvaluationOptions, args, seed=args.seed)
    predictors = _predictors(args)
    place = picture_place(args.plot)
    # The evaluation splits the trace itself, after leaving out the excluded requests.
    workload = options.workload_from(argparse.Namespace(**{**vars(args), "train_share": None}))
    provenance = dict(workload.provenance)
    reports: list[PredictorReport] = []
    failures: list[InputError] = []
    pairs = [
        (look_ahead, name) for look_ahead in dict.fromkeys(args.horizon) for name in predictors
    ]
    with progress_bar() as bar:
        task = bar.add_task("predictors", total=len(pairs))
        for look_ahead, predictor in pairs:
            try:
                reports.append(evaluate_predictor(workload, predictor, look_ahead, options=how))
            except InputError as error:
                failures.append(error)
            else:
                so_far.keep_shown(lambda: _show(args, reports, [], provenance, interrupted=True))
            bar.advance(task)
        if not reports:
            raise SeveralErrors(failures)

    plots = drawn(place, lambda: evaluation_figure(reports))
    _show(args, reports, plots.found, provenance)
    plots.check()
    if failures:
        raise SeveralErrors(failures)
    return DONE


def _predictors(args: argparse.Namespace) -> "Sequence[str]":
    """Return the predictors to evaluate, with names checked before any file is read."""
    from bfio.common.options import MAX_SHOWN
    from bfio.prediction.evaluation import default_predictors
    from bfio.prediction.registry import spelt_out
    from formulations.errors import InputError
    from formulations.scalars import integer

    for look_ahead in args.horizon:
        integer(look_ahead, "--horizon", minimum=1, maximum=MAX_SHOWN)
    predictors = list(dict.fromkeys(args.predictor or default_predictors()))
    seen: dict[tuple[str, object], str] = {}
    for name in predictors:
        if (first := seen.setdefault(spelt_out(name), name)) != name:
            what = f"{name} and {first} are the same predictor"
            raise InputError("--predictor", what, "name each once")
    return predictors


def _show(
    args: argparse.Namespace,
    reports: "Sequence[PredictorReport]",
    plots: list[Path],
    provenance: dict[str, Any],
    *,
    interrupted: bool = False,
) -> None:
    from bfio.cli.tables import print_fitting, print_for_papers, print_remarks, print_sentences
    from bfio.common.text import TableForm, TextTable
    from bfio.prediction.report import COLUMNS, cells

    documents = [report.to_mapping() for report in reports]
    if args.json:
        from bfio.common.provenance import citable_versions

        head = {"reports": documents, "workload": provenance, "plots": plots}
        print_json(head | {"versions": citable_versions()} | interruption(interrupted))
        return
    lines = [
        [f"{report.predictor}, H = {report.look_ahead}", *cells(document)]
        for report, document in zip(reports, documents, strict=True)
    ]
    heading = ["predictor", *COLUMNS.values()]
    title = "Does a request end within H steps, and how soon?"
    table = TextTable(title, heading, lines, reports[0].settings)
    remarks = [remark for report in reports for remark in report.remarks()]
    if args.table != TableForm.TEXT:
        print_for_papers([table], TableForm(args.table), remarks)
        return
    print_sentences(table.settings)
    print_fitting(title, list(zip(heading, zip(*lines, strict=True), strict=True)))
    print_remarks(remarks, plots)


COMMAND = Command("predict", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
