"""``bfio worst``: search small instances for the worst ratio of a policy's cost to the optimum."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from bfio.cli import so_far
from bfio.cli.command import DONE, Command
from bfio.cli.options import add_action, add_by_usage, add_common, add_time_limit
from bfio.cli.output import interruption, print_answer, print_table
from bfio.common.text import number
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.worst_cases.case import Found

_SUMMARY = "search small instances for the largest ratio of a policy's cost to the optimum"
_DESCRIPTION = """\
Search small instances for the largest ratio of a policy's cost to the optimum in hindsight. The
search covers a bounded space, one instance per class of equivalent instances. It prints the worst
instance with the schedules of policy and optimum, both verified by independent checkers.

  bfio worst cache --requests 4 --memory 6 --convention A         Algorithm 1: 9/8
  bfio worst cache --policy mc-sf --requests 3 --memory 5 --last-arrival 3
  bfio worst cache --requests 4 --memory 6 --convention A --method bilevel
  bfio worst cache --requests 20 --memory 20 --method local --steps 500 --seed 1
  bfio worst cache --requests 160 --memory 44 --longest 8 --method steady
  bfio worst barrier --policy fcfs --requests 4 --prompt 2 --longest 2
  bfio worst barrier --policy br-0 --requests 3 --longest 2 --criterion steps
  bfio worst barrier --policy bf-io --longest 20 --method adversary

cache: one worker with a KV cache, all prompts of equal length; the cost is the total latency.
barrier: workers in lockstep, all requests arrive at step 0. Costs by --criterion: peaks, sum over
steps of the largest load (default); steps, their number; imbalance, with work conserved; latency.

methods: exhaustive (default) proves that no instance in the space is worse. bilevel proves it by
integer programs that contain policy and optimum (cache, shortest first, all arrivals 0). local is
simulated annealing; its ratio is a lower bound of the worst. adversary builds an instance that is
bad for every policy without information on output lengths (barrier, peaks; --longest is the output
of its long requests). steady compares a queue of equal requests (--longest, --memory) with a
schedule that starts equally many in every round (cache).

Ratios are exact; "none" means that the optimum costs 0 and the policy more (docs/worst-cases.md).
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    systems = parser.add_subparsers(metavar="SYSTEM", required=True, title="systems")
    cache = add_action(systems, "cache", _cache, "one worker with a KV cache (bfio hindsight)")
    add = partial(add_by_usage, cache)
    text = "algorithm of bfio hindsight (default semi-online)"
    add({"--policy NAME": text}, default="semi-online")
    add({"--memory M": "largest memory (6)"}, type=int, default=6)
    add({"--least-memory M": "smallest memory (default: any)"}, type=int)
    add({"--prompt S": "common prompt (1)"}, type=int, default=1)
    add({"--longest O": "largest output (default: what fits the memory)"}, type=int)
    add({"--last-arrival A": "latest arrival [round] (0)"}, type=int, default=0)
    add({"--convention X": "memory convention A, B or C (default C)"}, default="C")
    barrier = add_action(systems, "barrier", _barrier, "workers in lockstep (bfio makespan)")
    add = partial(add_by_usage, barrier)
    add({"--policy NAME": "policy of bfio compare (default fcfs)"}, default="fcfs")
    add({"--workers G": "workers (2)"}, type=int, default=2)
    add({"--slots B": "slots per worker (1)"}, type=int, default=1)
    largest = {"--prompt S": "largest prompt (3)", "--longest O": "largest output (3)"}
    add(largest, type=int, default=3)
    add({"--criterion NAME": "cost: peaks, steps, imbalance or latency"}, default="peaks")
    known = "output lengths that the policy can see: nothing (default), active or all"
    add({"--known WHICH": known}, default="nothing")
    when = "waiting requests are pooled (default) or assigned immediately"
    add({"--dispatch WHEN": when}, default="pooled")
    for system in (cache, barrier):
        add = partial(add_by_usage, system)
        add({"--requests N": "number of requests (4)"}, type=int, default=4)
        add({"--method NAME": "search method (default exhaustive)"}, default="exhaustive")
        add({"--steps N": "instances that local evaluates (2000)"}, type=int, default=2000)
        add_time_limit(system)
        add_common(system)


def _run(args: argparse.Namespace) -> int:
    from bfio.common.provenance import citable_versions
    from bfio.worst_cases.search import worst_case
    from formulations.arrays import integer

    def show(found: "Found", *, interrupted: bool) -> None:
        def document() -> dict[str, Any]:
            about = {"seed": args.seed, "versions": citable_versions()}
            return found.to_mapping() | about | interruption(interrupted)

        print_answer(args, document, lambda: _print(found))

    target, space = args.act(args)
    found = worst_case(
        target,
        space,
        args.method,
        steps=args.steps,
        seed=integer(args.seed, "--seed", maximum=2**63 - 1),
        time_limit=args.time_limit,
        watch=lambda best: so_far.keep_shown(
            # The programs of bilevel are few, and some take long.
            lambda: show(best(), interrupted=True),
            at_once=args.method == "bilevel",
        ),
    )
    show(found, interrupted=False)
    return DONE


def _cache(args: argparse.Namespace) -> tuple[Any, Any]:
    from bfio.worst_cases.cache import CacheSpace, CacheTarget

    names = ("requests", "memory", "least_memory", "prompt", "last_arrival", "longest")
    space = {name: getattr(args, name) for name in (*names, "convention")}
    return CacheTarget(args.policy), CacheSpace(**space)


def _barrier(args: argparse.Namespace) -> tuple[Any, Any]:
    from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget

    names = ("requests", "workers", "slots", "prompt", "criterion")
    space = {name: getattr(args, name) for name in names}
    target = BarrierTarget(args.policy, args.known, args.dispatch)
    return target, BarrierSpace(**space, output=args.longest)


def _print(found: "Found") -> None:
    case = found.case
    ratio = case.ratio
    told = "none" if ratio is None else f"{ratio} = {number(float(ratio))}"
    proven = "proven largest" if found.is_maximal else "a lower bound of the largest ratio"
    print(f"{case.target.name}: ratio {told} ({proven})")
    print(f"space: {found.space}")
    tried = counted(found.tried, "instance")
    print(f"{found.method}: {tried} tried, optima computed for {found.solved:,}")
    print(f"cost {case.cost:,}, {'least' if case.proven else 'better schedule'} {case.least:,}")
    document = case.problem.to_mapping()
    if "memory" in document:
        print(f"memory {document['memory']}")
    mine, other = (
        [f"{start} on {worker}" for start, worker in zip(*schedule, strict=True)]
        if schedule and isinstance(schedule[0], tuple)
        else list(map(str, schedule))
        for schedule in (case.schedule, case.other)
    )
    rows = [
        [str(i), *(str(request[key]) for key in ("arrival", "prompt", "output")), a, b]
        for i, (request, a, b) in enumerate(zip(document["requests"], mine, other, strict=True))
    ]
    least = "optimum" if case.proven else "better"
    head = ("request", "arrival", "prompt", "output", "policy", least)
    print_table("starts" if mine and " " not in mine[0] else "starts and workers", head, rows)


COMMAND = Command("worst", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
