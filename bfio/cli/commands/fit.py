"""``bfio fit``: fit the constants of step times or batch times to measurements."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bfio.cli.command import DONE, Command
from bfio.cli.options import add_by_usage, add_common, given_options
from bfio.cli.output import drawn, picture_place, print_answer, print_table
from bfio.common.options import flag
from formulations.errors import InputError, check_known
from formulations.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable


#: A tenth of a millisecond [s]. Published constants are multiples of it.
_SLOT = "0.0001"
#: Arguments that apply to a fit of batches. All others concern steps.
_OF_BATCHES = ("file", "kind", "plot", "free_tokens", "slot", "json", "seed")
#: Token budgets for which the speed of full batches is printed.
_BUDGETS = (128, 256, 512, 1024)


def add_batches(parser: argparse.ArgumentParser) -> None:
    """Add the options that only a fit of batch times reads."""
    group = parser.add_argument_group("--kind batches (docs/batching.md)")
    add_by_usage(group, {"--free-tokens N": "b0 if known; fitted by default"}, type=int)
    text = f"length of a slot [s] of the printed engine (default {_SLOT})"
    add_by_usage(group, {"--slot S": text})


def fit_batches(
    args: argparse.Namespace, add_arguments: "Callable[[argparse.ArgumentParser], None]"
) -> int:
    """Fit c, a and b0 of the batch time (2.3), and print them with the resulting engine.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of the command.
    add_arguments : callable
        Adds the arguments of the command to a parser.
    """
    from bfio.batching.hardware import fit_batch_time, read_batches
    from bfio.cli.tables import print_remarks
    from bfio.common.provenance import citable_versions
    from bfio.common.text import number
    from formulations.scalars import exact_number

    for name in given_options(args, add_arguments, besides=_OF_BATCHES):
        raise InputError(flag(name), "has no effect with --kind batches", "omit it")
    slot = exact_number(args.slot or _SLOT, "--slot", positive=True)
    if args.free_tokens is not None and args.free_tokens < 0:
        raise InputError("--free-tokens", f"{args.free_tokens} is below 0", "use 0 or more")
    place = picture_place(args.plot)
    tokens, durations = read_batches(Path(args.file))
    fit = fit_batch_time(tokens, durations, free_tokens=args.free_tokens)
    time = fit.batch_time(slot).to_mapping()

    plots = drawn(place, lambda: fit.figure(tokens, durations))
    rates = {budget: budget / fit.seconds(budget) for budget in _BUDGETS}
    engine = {"slot": str(slot), "agents": [{"name": "engine", "budget": 512, **time}]}
    warning = None
    if fit.overhead_s < fit.per_token_s * fit.free_tokens:
        warning = (
            "c < a*b0: batches of b0 tokens are faster per token than larger ones, so Theorem 1 "
            "(b) does not apply to budgets above b0 (docs/capacity.md)"
        )
    budgets = [
        {"budget": budget, "duration_s": fit.seconds(budget), "tokens_per_s": rate}
        for budget, rate in rates.items()
    ]
    answer = {"file": args.file, "batches": len(tokens), **asdict(fit), "budgets": budgets}
    answer |= {"warning": warning, "engine": engine, "plots": plots.found}
    rows = [
        ["overhead c [ms]", number(1000 * fit.overhead_s)],
        ["per token a [ms]", number(1000 * fit.per_token_s)],
        ["free tokens b0", f"{fit.free_tokens:,}"],
        ["R²", number(fit.r_squared)],
        *([f"full batch of {b:,} [tokens/s]", number(rate)] for b, rate in rates.items()),
    ]

    def show() -> None:
        print_table(f"{args.file}: {len(tokens):,} batches", ("", "estimate"), rows)
        if warning:
            print(f"warning: {warning}")
        print_remarks((), plots.found)
        print(json.dumps(engine))

    print_answer(args, lambda: answer | {"versions": citable_versions()}, show)
    plots.check()
    return DONE


_KINDS = ("steps", "batches")
_SUMMARY = "fit the constants of step times or batch times to measurements"
_DESCRIPTION = """\
Fit the constants of the step time to measured steps, so that simulations model your machine
instead of the published one. Loads are KV-cache tokens:

  duration = C + t_l * max load + t_m * mean load

  bfio fit steps.csv
  bfio fit steps.csv --plot steps.png --json
  bfio fit steps.csv --per-worker              own C_g and t_g of each worker
  bfio measure steps.csv                       measure a GPU first

  bfio fit out/log                             steps of bfio route --log, then the simulation

FILE has a header and a row per step: duration_s [s]; load_0, load_1, ... [tokens], the load of
each worker, or max_load with mean_load or total_load (with --workers G). Other columns are
ignored. CSV or JSON Lines, .gz or not. The last line gives the arguments that replace the
published constants by the fitted ones. docs/fit.md: losses, intervals, limits. A folder is the
log of a router: its requests are simulated with the fitted constants, beside what was measured.

  bfio fit batches.csv --kind batches          c + a * max(0, tokens - b0), by least squares

fits the batch time of an engine with a token budget. FILE is CSV with the columns tokens and
duration_s. The last lines are the engine as input of "bfio capacity" and "bfio batch".
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_by_usage(parser, {"file FILE": "a step or batch per row, or a log"})
    kinds = {"--kind KIND": "content of FILE: steps (default), batches"}
    add_by_usage(parser, kinds, default="steps")
    table = {
        "--loss NAME": "loss: huber (default; robust against slow outliers) or squares (preserves "
        "total time)",
        "--no-mean": "omit the term of the mean load, as BF-IO does",
        "--per-worker": "also fit the constants of each worker",
    }
    add_by_usage(parser, table)
    workers = {"--workers G": "number of workers behind the column total_load"}
    add_by_usage(parser, workers, type=int)
    table = {
        "--duration NAME": "name of the column of durations in seconds (default duration_s)",
        "--plot FILE": "draw durations, fit and residuals",
    }
    add_by_usage(parser, table)
    add_batches(parser)
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.calibration.fit import fit_step_time, goodness_rows
    from bfio.calibration.measurements import read_steps
    from bfio.cli.tables import print_remarks
    from bfio.common.provenance import citable_versions
    from bfio.common.regression import Loss
    from bfio.common.text import number
    from formulations.problem_data import member
    from formulations.scalars import percent

    check_known("--kind", args.kind, _KINDS)
    if args.kind == "batches":
        return fit_batches(args, _add_arguments)
    for name in given_options(args, add_batches):
        what, remedy = "has no effect without --kind batches", "add --kind batches, or omit it"
        raise InputError(flag(name), what, remedy)
    loss = member(Loss, args.loss or "huber", "--loss")
    place = picture_place(args.plot)
    folder, replay = Path(args.file), None
    if folder.is_dir():
        for name in ("workers", "duration"):
            if getattr(args, name) is not None:
                raise InputError(flag(name), "has no effect on a log", "omit it")
        from bfio.live.replay import Replay

        replay = Replay(folder)
        steps = replay.steps
    else:
        steps = read_steps(args.file, workers=args.workers, duration=args.duration)
    fit = fit_step_time(steps, loss=loss, with_mean=not args.no_mean, per_worker=args.per_worker)
    plots = drawn(place, fit.plot)
    sides: dict[str, dict[str, float]] = {} if replay is None else replay.beside(fit)

    def show() -> None:
        title = f"{args.file}: {counted(len(fit.steps), 'step')}, loss {fit.loss}"
        print_table(title, ("", "estimate (95 %)"), fit.rows())
        if (own := fit.own) is not None:
            rows = []
            for worker in own.workers:
                constants = (worker.overhead, worker.token_time)
                told = ["–" if constant is None else str(constant) for constant in constants]
                rows.append([str(worker.worker), f"{worker.critical_steps:,}", *told])
            heading = ("worker", "slowest in", "overhead [s]", "token time [s/token]")
            print_table("each worker", heading, rows)
            mean = ("mean_time [s/token]", str(own.mean_time))
            print_table("", ("constants per worker", ""), [mean, *goodness_rows(own.goodness)])
        if sides:
            rows = []
            for name in sides["measured"]:
                measured, simulated = (side[name] for side in sides.values())
                change = percent(simulated / measured - 1)
                rows.append([name, number(measured), number(simulated), change])
            print_table("requests of the log", ("", *sides, "difference"), rows)
        print_remarks([f"note: {note}." for note in fit.notes], plots.found)
        print(fit.flags)
        if own is not None and own.flags is not None:
            print(f"or constants per worker: {own.flags}")

    document = {"file": args.file} | fit.to_mapping() | {"plots": plots.found} | sides
    print_answer(args, lambda: document | {"versions": citable_versions()}, show)
    plots.check()
    return DONE


COMMAND = Command("fit", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
