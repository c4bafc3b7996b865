"""``bfio batch``: engines with a token budget and networks of agents, simulated."""

import argparse
import sys
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any

from bfio.batching.options import BatchOptions
from bfio.cli import so_far
from bfio.cli.batch_scenario import (
    SourceOptions,
    batch_settings,
    checked_sources,
    given_deadlines,
    scenarios_of,
)
from bfio.cli.batch_state import next_batches, refuse_exchange
from bfio.cli.command import DONE, INTERRUPTED, Command
from bfio.cli.exchange import add_exchange
from bfio.cli.options import (
    add_common,
    add_engine,
    add_policies,
    add_trace,
    trace_from,
)
from bfio.cli.output import interruption, plot_runs, print_json, progress_bar
from bfio.common.options import add_options, from_namespace

if TYPE_CHECKING:
    from bfio.batching.run import BatchRun

_SUMMARY = "token-budget engines and networks of agents, simulated: queues, latencies, stability"
_DESCRIPTION = """\
Simulate engines with a token budget, slot by slot: who is in the next batch, how long do requests
wait, does the queue stay bounded? FILE is the network of "bfio capacity" ("-" reads stdin):

  {"agents": [{"name": "gpu", "budget": 10, "overhead": 1}],
   "stages": [{"agent": "gpu", "prefill": 1, "decode": 12, "rate": "0.6"}]}

  bfio batch engine.json --horizon 20000 --policy sarathi --policy vllm
  bfio batch engine.json --horizon 20000 --sizes fixed --arrivals bernoulli --policy vllm --judge
  bfio batch network.json --horizon 5000 --sizes poisson --priority last --plot queues.png
  bfio batch --hardware llama-3-70b-2xa100 --rate 10 --prefill 129 --decode 112 --horizon 3600
  bfio batch --hardware llama-3-70b-2xa100 --trace azure.csv.gz --tbt-deadline 0.2 --json
  bfio batch engine.json --horizon 50 --policy orca --policy sarathi --show-batches 10
  bfio batch --state state.json

Policies, compared if several are given (docs/batching.md says what each does):
  sarathi             kp=K  kd=K  limit=M  prefill=ORDER  decode=ORDER    (default)
  orca                the same
  vllm-chunked        limit=M
  vllm                limit=M
  faster-transformer  group=M  limit=M
  sjf                 limit=M
  module:function     a function of the state of an engine
ORDER: arrival, entry, shortest, or longest for prompts.

Terms of --terms, in slots, 0 if left out: prefill_attention (per square of a chunk),
decode_attention, chunk_attention (per token and token of its request in the cache); memory
[tokens] and what caches beyond it cost: swap_token and swap_request, or recompute_square and
recompute_request.

Times are seconds if the network says how long a slot is ("slot"), and slots otherwise. Sizes are
drawn around the means of FILE. --trace takes the requests of a trace for a network of one stage,
at its own times or, with --rate, at Poisson times. --delay gives the mean time that a tool takes
before a request comes to a stage. --judge tells from several seeds and two initial states whether
the queue stays bounded; what theory says stands beside it. The beginning of every run is run again
with a log, which a checker that knows no policy holds against the rules.

--state FILE has what is left of each request, and the budget; nothing is simulated:

  {"budget": 7, "requests": [{"prefill": 6, "decode": 2}, {"prefill": 0, "decode": 3}]}

Each policy's next batch stands beside the best one, which is worth most: a token 1, or its
request's "weight"; a completed prompt its "finish_bonus". "max_requests", "mixing": false and
"fewest_requests": true restrict it. --write FILE.lp writes that program.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="agents, stages, routes (.json)")
    add_policies(parser, "sarathi")
    add_options(parser, BatchOptions)
    add_options(parser, SourceOptions)
    parser.add_argument(
        "--priority",
        action="append",
        metavar="WHICH",
        help="stages that agents serve first: last, first, or AGENT=STAGE>STAGE, repeated",
    )
    parser.add_argument(
        "--delay",
        action="append",
        metavar="STAGE=MEAN",
        help="geometric delay before a stage, such as the call of a tool; repeat it",
    )
    parser.add_argument(
        "--initial",
        action="append",
        metavar="STAGE=N",
        help="requests that are there when the run begins; repeat it",
    )
    add_trace(parser)
    parser.add_argument("--judge", action="store_true", help="judge stability by simulation")
    add_engine(parser, "the queues")
    parser.add_argument(
        "--show-batches", type=int, metavar="N", help="the first N batches, who is in each"
    )
    parser.add_argument(
        "--state", metavar="FILE", help="no run: the next batch of each policy in this state"
    )
    add_exchange(parser)
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    if args.state is not None:
        return next_batches(args, _add_arguments)
    refuse_exchange(args)
    sources = checked_sources(args)
    options = from_namespace(BatchOptions, args)

    from bfio.common.engine_choice import Engine
    from formulations.problem_data import member

    member(Engine, args.engine, "engine")
    with redirect_stdout(sys.stderr):
        workload = trace_from(args)
        scenarios = scenarios_of(args, sources, workload)

    # Not before: bad input is refused at once.
    from bfio.batching.laws import ListedArrivals
    from bfio.batching.simulation import simulate
    from bfio.cli.batch_table import document_of, print_runs, print_theory, theory_of
    from bfio.cli.tables import print_sentences
    from bfio.common.provenance import citable_versions

    first = next(iter(scenarios.values()))
    known = theory_of(first)
    settings = batch_settings(args, sources, options, first, workload)
    runs: list[BatchRun] = []
    documents: list[dict[str, Any]] = []

    def show(*, interrupted: bool) -> None:
        if args.json:
            source = None if workload is None else dict(workload.provenance)
            whole = {"settings": settings, "runs": documents, "theory": known, "seed": args.seed}
            whole |= {"workload": source, "versions": citable_versions()}
            print_json(whole | interruption(interrupted))
            return
        print_sentences(settings)
        print_theory(known)
        print_runs(documents, given_deadlines(options))

    with progress_bar() as bar, redirect_stdout(sys.stderr):
        try:
            for name, scenario in scenarios.items():
                duration = options.slots("horizon", scenario.network.slot)
                laws = scenario.arrival_laws
                total = sum(len(law.slots) for law in laws if isinstance(law, ListedArrivals))
                task = bar.add_task(name, total=duration or total)

                def tell(slot: int, departed: int, task: Any = task, end: Any = duration) -> None:
                    bar.update(task, completed=departed if end is None else slot)

                run = simulate(
                    scenario, seed=args.seed, engine=args.engine, tell=tell, options=options
                )
                documents.append(document_of(args, run))
                runs.append(run)
                so_far.keep_shown(partial(show, interrupted=True))
        except KeyboardInterrupt:
            if not runs:
                raise
    interrupted = len(runs) < len(scenarios)
    show(interrupted=interrupted)
    plot_runs(args, "bfio.batching.figure", runs)
    return INTERRUPTED if interrupted else DONE


COMMAND = Command("batch", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
