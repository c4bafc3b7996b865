"""Arguments shared by several commands, and functions that read them."""

import argparse
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import bfio.decode.policies
from bfio.cli.command import OneLineParser
from bfio.common.options import add_options, flag, from_namespace
from bfio.common.text import TableForm
from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.options import RunOptions
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from bfio.decode.metrics import MetricChoice
    from bfio.decode.policy_registry import ChosenPolicy
    from bfio.workloads.workload import Workload

#: Names of the policies, read from the source of their modules. Importing them would load numpy.
_NAMES = sorted(
    name
    for folder in bfio.decode.policies.__path__
    for module in Path(folder).glob("*.py")
    for name in re.findall(r'^ +name="(.+)",$', module.read_text("utf-8"), re.MULTILINE)
)
#: Part of help texts.
POLICIES = textwrap.fill(
    f"policies: {', '.join(_NAMES)}; or module:function of your own. Options of one policy "
    "follow its name, br-h:gamma=9/10:beta=20; an option for all policies is an argument, "
    "--gamma 9/10. docs/policies.md describes each policy.",
    width=99,
    break_on_hyphens=False,
)
#: Number of requests of a synthetic workload without ``--requests``.
_SYNTHETIC_REQUESTS = 4000


#: A check of arguments: whether they contradict each other, the fault, and the remedy.
Conflict: TypeAlias = tuple[bool, str, str]


def refuse_first(conflicts: "Iterable[Conflict]") -> None:
    """Raise an `InputError` for the first of these checks that finds contradictory arguments."""
    for is_there, what, remedy in conflicts:
        if is_there:
            raise InputError("command line", what, remedy)


def unread_without_trace(
    args: argparse.Namespace, *names: str, remedy: str = "add --trace, or omit the option"
) -> "Iterator[Conflict]":
    """Yield for each named argument the check that it is not given without ``--trace``."""
    for name in names:
        is_unread = args.trace is None and getattr(args, name) not in (None, False)
        yield is_unread, f"{flag(name)} has no effect without --trace", remedy


def given_options(
    args: argparse.Namespace,
    add_arguments: "Callable[[argparse.ArgumentParser], None]",
    besides: "Collection[str]" = (),
) -> list[str]:
    """Return the names of the arguments that differ from their defaults.

    Parameters
    ----------
    args : argparse.Namespace
        The arguments of the command.
    add_arguments : callable
        Adds the arguments to compare to a parser.
    besides : collection of str
        Names of arguments to ignore.
    """
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    known, _ = parser.parse_known_args([""])
    names = [name for name in vars(known) if name not in besides]
    return [name for name in names if getattr(args, name) != parser.get_default(name)]


def add_by_usage(
    parser: argparse._ActionsContainer, table: "Mapping[str, str]", **how: Any
) -> None:
    """Add arguments by their usage, such as ``--state FILE`` or ``--judge``, each with its help.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser, or a group of its arguments.
    table : mapping of str to str
        The help for each usage. An argument without a value is a flag.
    **how : object
        Further keywords of ``add_argument`` for all these arguments.
    """
    for usage, text in table.items():
        name, _, metavar = usage.partition(" ")
        own: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
        parser.add_argument(name, help=text, **own, **how)


def add_action(
    chooser: Any, name: str, act: "Callable[[argparse.Namespace], Any]", summary: str, **how: Any
) -> argparse.ArgumentParser:
    """Add an action of a command, and return its parser; ``act`` of its arguments performs it."""
    parser: argparse.ArgumentParser = chooser.add_parser(name, help=summary, **how)
    parser.set_defaults(act=act)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    add_by_usage(parser, {"--json": "print one JSON document, nothing else"})


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--seed``."""
    add_json(parser)
    add_seed(parser)


def add_seed(parser: argparse._ActionsContainer) -> None:
    """Add ``--seed``."""
    add_by_usage(parser, {"--seed N": "random seed (default 0)"}, type=int, default=0)


def add_time_limit(parser: argparse.ArgumentParser, default: str = "none") -> None:
    """Add ``--time-limit``; its help shows the text ``default``."""
    text = f"limit of each solve [s] (default {default}); problems left unproven are counted"
    add_by_usage(parser, {"--time-limit SECONDS": text}, type=_seconds)


def add_work_limit(parser: argparse.ArgumentParser) -> None:
    """Add ``--work-limit``."""
    text = "limit of each solve in ticks of about a microsecond, equal on every machine"
    add_by_usage(parser, {"--work-limit TICKS": f"{text} (default none)"}, type=int)


def add_workload(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the arguments that choose the requests, and return their group."""
    group = parser.add_argument_group("requests")
    source = group.add_mutually_exclusive_group()
    sources = {
        "--trace FILE": "trace file (CSV or JSONL, .gz or not); format detected (bfio traces)",
        "--synthetic NAME": "generated workload (default demo; see bfio traces list)",
    }
    add_by_usage(source, sources)
    number = {"--requests N": "use only the first N requests (synthetic: 4000)"}
    add_by_usage(group, number, type=int)
    text = "draw new arrival times: poisson:rate=300, gamma, on-off, mmpp, diurnal or surges"
    add_by_usage(group, {"--arrival-law LAW": f"{text} (docs/workloads.md)"})
    add_reading(group)
    return group


def add_reading(parser: argparse._ActionsContainer) -> None:
    """Add the options for reading a trace file."""
    table = {
        "--columns ROLE=NAME,...": "columns of a trace of unknown format: "
        "arrival=NAME,prompt=NAME,output=NAME (arrival in seconds or ISO 8601; arrival_ms, "
        "arrival_us, arrival_ns; prefix is added to prompt)",
        "--skip-bad-rows": "skip and count damaged trace rows instead of stopping",
    }
    add_by_usage(parser, table)


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add ``--trace`` and the options for reading the trace."""
    add_by_usage(parser, {"--trace TRACE": "trace file with the requests (bfio traces)"})
    add_reading(parser)


def add_policies(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--policy``, which may be repeated to compare policies of an engine."""
    text = f"NAME:option=value:... (default {default}); repeatable, to compare policies"
    add_by_usage(parser, {"--policy NAME": text}, action="append")


def add_engine(parser: argparse.ArgumentParser, plotted: str) -> None:
    """Add ``--engine`` and ``--plot``."""
    text = "auto (default: compiled where faster), compiled, or reference; results are equal"
    add_by_usage(parser, {"--engine E": text}, default="auto")
    add_by_usage(parser, {"--plot FILE": f"draw {plotted} (.png, .pdf, .svg)"})


def policies_from(args: argparse.Namespace, default: str) -> list[str]:
    """Return the names of the policies of an engine.

    Raises
    ------
    InputError
        If a name occurs twice.
    """
    names: list[str] = args.policy or [default]
    if len(set(names)) < len(names):
        raise InputError("--policy", "a policy is named twice", "name each once")
    return names


def trace_from(args: argparse.Namespace) -> "Workload | None":
    """Return the requests of the trace; None without ``--trace``."""
    from bfio.workloads import read_trace

    if args.trace is None:
        return None
    return read_trace(args.trace, columns=args.columns, skip_bad_rows=args.skip_bad_rows)


def add_simulation(parser: argparse.ArgumentParser) -> None:
    """Add all arguments of a simulation: requests, machine, run, policy options."""
    requests = add_workload(parser)
    text = "use the first share of the requests only to train predictors, not in the run"
    add_by_usage(requests, {"--train-share SHARE": f"{text} (default: none)"})
    machine = parser.add_argument_group("machine")
    add_options(machine, Cluster)
    add_options(machine, EnergyModel)
    run = parser.add_argument_group("run")
    add_options(run, RunOptions)
    text = "auto (default: compiled where possible), compiled, or reference; results are equal"
    add_by_usage(run, {"--engine E": text}, default="auto")
    add_policy_options(parser)
    add_common(parser)


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Add policy options: of the policies named before ``--help``, otherwise of all."""
    group = parser.add_argument_group(
        "options of policies",
        "--help after --policy NAME or --policies A,B lists only their options",
    )
    named_by = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--policy", "--policies"):
        named_by.add_argument(name, default="", nargs="?")

    def add_late(words: "Sequence[str]") -> None:
        named = None
        if not {"-h", "--help"}.isdisjoint(words):
            found, _ = named_by.parse_known_args(list(words))
            texts = f"{found.policy or ''},{found.policies or ''}".split(",")
            named = [name for text in texts if (name := text.partition(":")[0].strip())]
        if named == []:
            return
        from bfio.decode.policy_registry import all_options

        for option, tables in all_options().items():
            of = {who: entry for who, entry in tables.items() if named is None or who in named}
            meanings = []
            for text in dict.fromkeys(entry.help for entry in of.values()):
                names = [who for who, entry in of.items() if entry.help == text]
                meanings.append(f"{', '.join(names)}: {text}")
            for first in list(of.values())[:1]:
                group.add_argument(
                    flag(option),
                    type=first.kind.from_text,
                    default=argparse.SUPPRESS,
                    metavar=first.metavar,
                    help="; ".join(meanings),
                )

    if isinstance(parser, OneLineParser):
        parser.add_late = add_late
    else:
        add_late(())


def add_repeat(parser: argparse._ActionsContainer, default: int | str) -> None:
    """Add ``--repeat``."""
    text = "repeat the requests N times in the measured run, or auto: as often as the measured"
    text += f" part needs (default {default}; docs/metrics.md)"
    add_by_usage(parser, {"--repeat N": text}, type=_repeat, default=default)


def _repeat(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def workload_from(args: argparse.Namespace) -> "Workload":
    """Return the workload of the arguments; ``--train-share`` removes the training requests."""
    from bfio.workloads import read_trace, synthetic
    from bfio.workloads.workload import training_share
    from formulations.arrays import integer

    if args.requests is not None:
        integer(args.requests, "--requests", minimum=1)
    if args.trace is not None and args.synthetic is not None:
        raise InputError("--synthetic", f"excludes --trace {args.trace}", "give one of the two")
    if args.trace is None and args.columns is not None:
        raise InputError("--columns", "has no effect without --trace", "add --trace FILE")
    if args.trace is None:
        count = args.requests or _SYNTHETIC_REQUESTS
        requests = synthetic(args.synthetic or "demo", count, args.seed)
    else:
        how = {"columns": args.columns, "skip_bad_rows": args.skip_bad_rows}
        requests = read_trace(args.trace, **how, limit=args.requests)
    if (share := getattr(args, "train_share", None)) is not None:
        requests = requests.after(training_share(share, "--train-share"))
    if (law := getattr(args, "arrival_law", None)) is not None:
        from bfio.workloads.generators import parse_arrivals, with_arrivals

        # As in studies, arrivals are drawn for the requests that are run, without the training
        # part.
        requests = with_arrivals(requests, parse_arrivals(law, "--arrival-law"), args.seed)
    return requests


def add_metrics(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--metrics``."""
    text = "metrics to show, by their names in --json, or module:function of your own"
    add_by_usage(parser, {"--metrics A,B,C": f"{text} (default: {default})"})


def metrics_from(args: argparse.Namespace) -> "MetricChoice":
    """Return the metrics to measure and the metrics to show."""
    from bfio.decode.metrics import chosen_metrics, named_metrics
    from bfio.decode.options import ArrivalMode
    from formulations.problem_data import member

    arrivals = member(ArrivalMode, args.arrivals, "--arrivals")
    named, has_limits = named_metrics(args.metrics), args.slo is not None
    return chosen_metrics(named, arrivals, has_limits=has_limits)


def cluster_from(args: argparse.Namespace) -> Cluster:
    """Return the cluster (workers, slots, step time) of the arguments."""
    return from_namespace(Cluster, args)


def energy_from(args: argparse.Namespace) -> EnergyModel:
    """Return the energy model of the arguments."""
    return from_namespace(EnergyModel, args)


def policy_options_from(args: argparse.Namespace) -> dict[str, Any]:
    """Return the policy options given as arguments, by name."""
    from bfio.decode.policy_registry import all_options

    return {name: getattr(args, name) for name in all_options() if hasattr(args, name)}


def chosen_policies(
    args: argparse.Namespace, policies: "Sequence[str]", others: "Iterable[str]" = ()
) -> "list[ChosenPolicy]":
    """Return the policies with their options, after a check of all options of the run.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of `add_simulation`.
    policies : sequence of str
        Names of policies, optionally followed by options.
    others : iterable of str
        Policy options that another part of the command reads.

    Raises
    ------
    InputError
        If an option is out of its domain, or nothing reads it.
    """
    from bfio.decode.policy_registry import check_options_are_read, choose
    from bfio.prediction.registry import find

    cluster, run, given = cluster_from(args), run_options_from(args), policy_options_from(args)
    energy_from(args)
    find(args.predictor)
    chosen = [choose(policy, given, flag) for policy in policies]
    check_options_are_read(chosen, given, run, cluster, others, flag)
    return chosen


def run_options_from(args: argparse.Namespace) -> RunOptions:
    """Return the options of the run."""
    return from_namespace(RunOptions, args, seed=args.seed)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of seconds > 0")
    return value


def add_table_form(parser: argparse._ActionsContainer) -> None:
    """Add the option for the form of tables."""
    parser.add_argument(
        "--table",
        choices=[form.value for form in TableForm],
        default=TableForm.TEXT.value,
        help="how tables are printed: text (default); for papers markdown, latex (booktabs), csv",
    )
