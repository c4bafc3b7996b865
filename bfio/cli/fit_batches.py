"""``bfio fit --kind batches``: the batch time of a token-budget engine from measured batches."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from bfio.cli.command import DONE
from bfio.cli.options import given_options
from bfio.cli.output import drawn, picture_place, print_json, print_table
from bfio.common.options import flag
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure


#: A tenth of a millisecond, in which published constants are whole.
_SLOT = "0.0001"
#: What a fit of batches has a use for; all else is about steps.
_OF_BATCHES = ("file", "kind", "plot", "free_tokens", "slot", "json", "seed")
#: Token budgets whose full batches are told.
_BUDGETS = (128, 256, 512, 1024)


def add_batches(parser: argparse.ArgumentParser) -> None:
    """Add the options of batches."""
    group = parser.add_argument_group("--kind batches (docs/batching.md)")
    group.add_argument(
        "--free-tokens", type=int, metavar="N", help="b0 if it is known; otherwise it is fitted"
    )
    group.add_argument(
        "--slot", metavar="S", help=f"length of a slot [s] for the engine printed ({_SLOT})"
    )


def fit_batches(
    args: argparse.Namespace, add_arguments: "Callable[[argparse.ArgumentParser], None]"
) -> int:
    """Fit c, a and b0 of (2.3), and print them and the engine that they make.

    Parameters
    ----------
    args : argparse.Namespace
        What was given.
    add_arguments : callable
        Adds the arguments of the command to a parser.
    """
    from bfio.batching.hardware import fit_batch_time, read_batches
    from bfio.common.number_text import number
    from bfio.common.provenance import citable_versions
    from formulations.rationals import exact_number

    for name in given_options(args, add_arguments, besides=_OF_BATCHES):
        raise InputError(flag(name), "batches have none", "leave it out")
    slot = exact_number(args.slot or _SLOT, "--slot", positive=True)
    if args.free_tokens is not None and args.free_tokens < 0:
        raise InputError("--free-tokens", f"{args.free_tokens} is below 0", "use 0 or more")
    place = picture_place(args.plot)
    tokens, durations = read_batches(Path(args.file))
    fit = fit_batch_time(tokens, durations, free_tokens=args.free_tokens)
    time = fit.batch_time(slot).to_mapping()

    def figure() -> "Figure":
        from bfio.batching.figure import fit_figure

        return fit_figure(tokens, durations, fit)

    plots = drawn(place, figure)
    rates = {budget: budget / fit.seconds(budget) for budget in _BUDGETS}
    engine = {"slot": str(slot), "agents": [{"name": "engine", "budget": 512, **time}]}
    warning = None
    if fit.overhead_s < fit.per_token_s * fit.free_tokens:
        warning = (
            "c < a*b0: batches of b0 tokens are faster per token than full ones, and Theorem 1 "
            "(b) does not apply (docs/capacity.md)"
        )
    if args.json:
        answer = {"file": args.file, "batches": len(tokens)}
        names = ("overhead_s", "per_token_s", "free_tokens", "r_squared")
        answer |= {name: getattr(fit, name) for name in names}
        answer["budgets"] = [
            {"budget": budget, "duration_s": fit.seconds(budget), "tokens_per_s": rate}
            for budget, rate in rates.items()
        ]
        answer |= {"warning": warning, "engine": engine}
        files = [str(path) for path in plots.found]
        print_json(answer | {"plots": files, "versions": citable_versions()})
        plots.check()
        return DONE
    rows = [
        ["overhead c [ms]", number(1000 * fit.overhead_s)],
        ["per token a [ms]", number(1000 * fit.per_token_s)],
        ["free tokens b0", f"{fit.free_tokens:,}"],
        ["R²", number(fit.r_squared)],
        *([f"full batch of {b:,} [tokens/s]", number(rate)] for b, rate in rates.items()),
    ]
    print_table(f"{args.file}: {len(tokens):,} batches", ("", "estimate"), rows)
    if warning:
        print(f"warning: {warning}")
    for path in plots.found:
        print(f"plot: {path}")
    print(json.dumps(engine))
    plots.check()
    return DONE


def refuse_batches(args: argparse.Namespace) -> None:
    """Refuse options of batches where steps are fitted.

    Raises
    ------
    InputError
        If one is given.
    """
    for name in given_options(args, add_batches):
        raise InputError(flag(name), "steps have none", "add --kind batches, or leave it out")
