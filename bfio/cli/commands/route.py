"""``bfio route``: a policy in front of OpenAI-compatible workers."""

import argparse
from functools import partial
from pathlib import Path

from bfio.cli import options, so_far
from bfio.cli.command import DONE, Command
from bfio.common.options import add_options, flag, from_namespace, options_of
from bfio.decode.cluster import Cluster
from bfio.decode.options import RunOptions
from bfio.live.options import RouteOptions
from formulations.errors import InputError
from formulations.words import counted

_SUMMARY = "put a policy in front of OpenAI-compatible workers"
_DESCRIPTION = """\
Route the completions of clients to workers by any policy of bfio compare, or by your own function.
Requests wait in a pool until the policy sends them; http://localhost:8000/ shows the loads. With
--log, bfio gap --log says how far each decision was from the optimum of its step.
Needs: pip install 'bfio[serve]'.

  bfio route --workers http://localhost:8100*8 --slots 24 --policy br-h --predictor survival
  bfio route --workers http://a:8000,http://b:8000 --policy my_module:my_policy --log out/log

URL*N stands for N data-parallel ranks behind one address (header X-data-parallel-rank).
docs/router.md has the tutorial.
"""
#: Options of the machine and of runs that a router has.
_OF_MACHINES = ("slots", "memory", "speed", "step_overhead", "token_time")
_OF_RUNS = ("dispatch", "margin", "projection", "predictor", "window_knows", "ties")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = partial(options.add_by_usage, parser)
    text = "addresses of the workers, separated by commas; URL*N: N ranks behind one address"
    add({"--workers URL,URL": text}, required=True)
    text = "prefill workers, as --workers: a request goes to the one that holds the fewest, and"
    text += " with the handle of its cache to a worker (default: workers compute prompts)"
    add({"--prefill URL,URL": text})
    add({"--policy NAME": "policy and its options (default br-0)"}, default="br-0")
    add({"--log DIR": "folder for decisions and requests; no text of prompts"})
    add_options(parser.add_argument_group("service"), RouteOptions)
    machine, run = (parser.add_argument_group(title) for title in ("machine", "run"))
    add_options(machine, Cluster, _OF_MACHINES)
    add_options(run, RunOptions, _OF_RUNS)
    options.add_seed(run)
    options.add_policy_options(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.decode.policy_registry import check_options_are_read, choose
    from bfio.live.decisions import Decisions

    try:
        from bfio.live.log import RunLog
        from bfio.live.prefillers import Prefillers
        from bfio.live.router import Router, serve
        from bfio.live.upstream import Upstream, addresses
    except ModuleNotFoundError as error:
        what = f"{error.name} is not installed"
        raise InputError("route", what, "pip install 'bfio[serve]'") from None

    service = from_namespace(RouteOptions, args)
    workers = addresses(args.workers.split(","))
    prefill = None
    if args.prefill is not None:
        prefill = Prefillers(Upstream(addresses(args.prefill.split(","), "--prefill")))
    machine, run = (
        {e.field: getattr(args, e.name) for e in options_of(of) if e.name in names}
        for of, names in ((Cluster, _OF_MACHINES), (RunOptions, _OF_RUNS))
    )
    cluster = Cluster(workers=len(workers), **machine)
    run["seed"] = args.seed
    asked = RunOptions(**run)
    given = options.policy_options_from(args)
    chosen = choose(args.policy, given, flag)
    check_options_are_read([chosen], given, asked, cluster, place=flag)
    table = Decisions(chosen, cluster, asked)
    log = None
    if args.log is not None:
        about = {"policy": args.policy, "policy_options": given, "workers": workers}
        log = RunLog(Path(args.log), about | {"machine": machine, "run": run})
    router = Router(table, Upstream(workers), service, log, prefill)

    def announce(url: str) -> None:
        print(
            f"{args.policy} over {counted(len(workers), 'worker')} at {url}; Ctrl-C ends it",
            flush=True,
        )

    so_far.serves()
    serve(router, announce)
    return DONE


COMMAND = Command("route", _SUMMARY, f"{_DESCRIPTION}\n{options.POLICIES}", _add_arguments, _run)
