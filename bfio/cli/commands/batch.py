"""``bfio batch``: simulate engines with a token budget, and networks of agents."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.batching.options import BatchOptions
from bfio.cli import so_far
from bfio.cli.command import DONE, INTERRUPTED, Command, SeveralErrors
from bfio.cli.options import (
    Conflict,
    add_by_usage,
    add_common,
    add_engine,
    add_policies,
    add_trace,
    given_options,
    policies_from,
    refuse_first,
    trace_from,
    unread_without_trace,
)
from bfio.cli.output import (
    interruption,
    picture_place,
    plot_runs,
    print_answer,
    print_json,
    print_table,
    progress_bar,
    read_problem,
)
from bfio.cli.problem_command import add_exchange, exchange, is_exchange
from bfio.cli.tables import print_fitting, print_sentences, run_cells
from bfio.common.options import (
    POSITIVE,
    TEXT,
    WHOLE,
    CheckedOptions,
    add_options,
    flag,
    from_namespace,
    option,
    split_pairs,
)
from bfio.common.provenance import version_and_commit
from bfio.common.text import number
from formulations.errors import InputError, naming
from formulations.scalars import exact_number, percent, plain_number
from formulations.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from bfio.batching.run import BatchRun
    from bfio.batching.scenario import Scenario
    from bfio.workloads.workload import Workload
    from formulations.batch_composition.problem import Batch
    from formulations.batching import AgentNetwork

#: Times that may have a deadline, with their names in tables.
DEADLINES = {"ttft": "TTFT", "tbt": "TBT", "e2e": "E2E"}
_MOST_BATCHES = 1000


@dataclass(frozen=True)
class SourceOptions(CheckedOptions):
    """Options of a network from ``--hardware``, and distributions of sizes and arrivals.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    hardware: str | None = option(
        None, TEXT, "NAME", "use engines with published batch times instead of FILE"
    )
    rate: Fraction | None = option(
        None, POSITIVE, "R", "with --hardware: requests/s; with --trace: Poisson arrivals"
    )
    prefill: Fraction | None = option(
        None, POSITIVE, "M", "with --hardware: mean prompt tokens of a request, >= 1"
    )
    decode: Fraction | None = option(
        None, POSITIVE, "M", "with --hardware: mean output tokens of a request, >= 1"
    )
    budget: int = option(
        512, WHOLE, "B", "with --hardware: tokens per batch at most (default 512)"
    )
    engines: int = option(1, WHOLE, "K", "with --hardware: number of parallel engines (default 1)")
    rate_scale: Fraction | None = option(
        None, POSITIVE, "X", "with --trace: multiply the arrival rate by X"
    )
    sizes: str = option(
        "geometric",
        TEXT,
        "LAW",
        "distribution of prompt and output tokens: geometric (default), fixed, poisson",
    )
    arrivals: str = option(
        "poisson", TEXT, "LAW", "arrival process: poisson (default) or bernoulli"
    )
    balancer: str = option(
        "random",
        TEXT,
        "NAME",
        "how requests choose among parallel engines: random (default), least-requests, "
        "least-tokens, first",
    )
    terms: str | None = option(
        None, TEXT, "TERMS", "terms of the batch time besides its tokens [slots], NAME=VALUE:..."
    )


def _conflicts(args: argparse.Namespace) -> Iterator[Conflict]:
    usual, traced, made = SourceOptions(), args.trace is not None, args.hardware is not None
    sized = args.prefill is not None or args.decode is not None
    none, one = args.file is None and not made, "give one of them"
    yield none, "neither FILE nor --hardware is given", one
    yield args.file is not None and made, "FILE and --hardware exclude each other", one
    what, remedy = "--prefill and --decode need --hardware", "write mean token counts into FILE"
    yield sized and not made, what, remedy
    for name in ("budget", "engines"):
        is_given = getattr(args, name) != getattr(usual, name)
        yield is_given and not made, f"{flag(name)} needs --hardware", "write the value into FILE"
    drawn, remedy = args.rate is not None, "write rates into FILE, or add --trace"
    yield drawn and not (made or traced), "--rate cannot be combined with FILE alone", remedy
    for name in ("rate", "prefill", "decode"):
        lacks = made and not traced and getattr(args, name) is None
        yield lacks, f"--hardware needs --{name}", "add it, or --trace FILE"
    yield from unread_without_trace(args, "rate_scale", "skip_bad_rows", "columns")
    remedy = "give the simulated time as --horizon T"
    yield args.horizon is None and not traced, "--horizon is missing", remedy
    which = "--prefill and --decode" if sized else "--sizes"
    what = f"{which} cannot be combined with --trace"
    again = sized or args.sizes != usual.sizes
    yield traced and again, what, "omit them: the trace gives token counts"
    what = "omit it to use the times of the trace, or add --rate"
    own = traced and not drawn and args.arrivals != usual.arrivals
    yield own, "--arrivals needs --rate with --trace", what
    both = traced and drawn and args.rate_scale is not None
    yield both, "--rate and --rate-scale exclude each other", one
    yield traced and drawn and args.horizon is None, "--rate needs --horizon", remedy


def scenarios_of(
    args: argparse.Namespace, sources: SourceOptions, workload: "Workload | None"
) -> "dict[str, Scenario]":
    """Return the scenario of each policy, by the policy's name.

    Raises
    ------
    InputError
        If a name is unknown, an argument contradicts the network, or a file cannot be read.
    """
    from bfio.batching.registry import build
    from bfio.batching.scenario import Balancer, Serving
    from bfio.batching.time_terms import TimeTerms, parse_terms
    from formulations.problem_data import member

    policies = {name: build(name) for name in policies_from(args, "sarathi")}
    network = _network(args, sources)
    orders = _orders(args.priority or [], network)
    common = _common(args, sources, network)
    if workload is not None:
        common = _with_trace(common, sources, workload, args.trace)
    elif not any(stage.rate for stage in network.stages) and not any(common.initial.values()):
        what = "no stage has an arrival rate > 0 and no request is present at the start"
        remedy = "give a stage a rate > 0, or add --initial STAGE=N"
        raise InputError(args.file or "command line", what, remedy)

    balancer = member(Balancer, sources.balancer, "--balancer")
    if balancer is not Balancer.RANDOM and not _has_parallel_engines(common):
        raise InputError("--balancer", "no agent has several engines", "omit it")
    terms = TimeTerms() if sources.terms is None else parse_terms(sources.terms, "--terms")
    scenarios = {}
    for name, policy in policies.items():
        serving = Serving(policy, name, balancer, terms=terms)
        agents = {agent: replace(serving, priority=order) for agent, order in orders.items()}
        scenarios[name] = replace(common, serving=serving, agents=agents)
    return scenarios


def _network(args: argparse.Namespace, sources: SourceOptions) -> "AgentNetwork":
    from bfio.batching.hardware import hardware
    from formulations.batching import AgentNetwork

    if args.file is not None:
        return read_problem(args.file, AgentNetwork.from_json)
    assert sources.hardware is not None
    # With a trace, these means are not used.
    means = sources.rate or 0, sources.prefill or 1, sources.decode or 1
    made = hardware(sources.hardware)
    return made.network(*means, budget=sources.budget, engines=sources.engines)


def _orders(texts: list[str], network: "AgentNetwork") -> Mapping[str, tuple[str, ...]]:
    """Return each agent's stage priorities: last, first, or orders ``AGENT=STAGE>STAGE``."""
    from formulations.stability import named_priority

    if texts in (["last"], ["first"]):
        order = named_priority(network, texts[0], "--priority")
        return {agent: tuple(stages) for agent, stages in order.items()}
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        agent, equals, written = text.partition("=")
        stages = tuple(name.strip() for name in written.split(">"))
        if not equals or not all(stages):
            remedy = "write last, first or AGENT=STAGE>STAGE"
            raise InputError("--priority", f"{text!r:.60} is not an order", remedy)
        if agent in found:
            raise InputError("--priority", f"agent {agent} has two orders", "give it one order")
        found[agent.strip()] = stages
    return found


def _common(
    args: argparse.Namespace, sources: SourceOptions, network: "AgentNetwork"
) -> "Scenario":
    """Return the scenario shared by all policies: network, laws, delays and initial requests."""
    from bfio.batching.laws import Law, LawName
    from bfio.batching.scenario import Scenario

    delays, initial = {}, {}
    for stage, text in _pairs(args.delay, "--delay"):
        mean = exact_number(text, f"--delay {stage}", positive=True)
        delays[stage] = Law(LawName.GEOMETRIC, mean / (network.slot or 1))
    for stage, text in _pairs(args.initial, "--initial"):
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            what = f"{text!r:.40} is not a whole number of requests"
            raise InputError(f"--initial {stage}", what, "write an integer >= 0")
        initial[stage] = int(text)
    with naming(args.file or "command line", "mean", "rate"):
        return Scenario(
            network,
            sizes=sources.sizes,
            arrivals=sources.arrivals,
            delays=delays,
            initial=initial,
        )


def _pairs(texts: list[str] | None, where: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs ``(name, value)`` of arguments ``NAME=VALUE``."""
    for name, value in split_pairs(texts or [], where).items():
        if not name or not value:
            raise InputError(where, f"{name or value!r:.60} is not a pair", "write NAME=VALUE")
        yield name, value


def _with_trace(
    scenario: "Scenario", sources: SourceOptions, workload: "Workload", name: str
) -> "Scenario":
    from bfio.batching.scenario import with_trace

    if sources.rate is not None:
        network = scenario.network
        rate = sources.rate * (network.slot or 1)
        stages = replace(network.stages[0], rate=rate), *network.stages[1:]
        scenario = replace(scenario, network=replace(network, stages=stages))
    drawn = sources.rate is not None
    with naming(name):
        return with_trace(scenario, workload, rate_scale=sources.rate_scale or 1, drawn=drawn)


def _has_parallel_engines(scenario: "Scenario") -> bool:
    return any(agent.engines > 1 for agent in scenario.network.agents)


def given_deadlines(options: BatchOptions) -> list[str]:
    """Return the names of the latencies (see `DEADLINES`) that have a deadline."""
    return [name for name in DEADLINES if getattr(options, f"{name}_deadline") is not None]


def batch_settings(
    args: argparse.Namespace,
    sources: SourceOptions,
    options: BatchOptions,
    scenario: "Scenario",
    workload: "Workload | None",
) -> str:
    """Return one line with the settings of the runs, without their policies.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of the command.
    sources, options
        The options read from them.
    scenario : Scenario
        The scenario of one policy.
    workload : Workload, optional
        The requests of a trace.
    """
    from bfio.workloads.statistics import requests_used

    def told(value: Fraction | None) -> str:
        return number(plain_number(value))

    network = scenario.network
    stages, agents = len(network.stages), len(network.agents)
    if args.file is None:
        (agent,) = network.agents
        engines = counted(agent.engines, "engine")
        parts = [f"{args.hardware}: {engines}, token budget {agent.budget}"]
    else:
        name = "stdin" if args.file == "-" else Path(args.file).name
        parts = [f"{name}: {counted(stages, 'stage')} at {counted(agents, 'agent')}"]
    if workload is not None:
        parts.append(requests_used(workload))

    unit, per = ("slots", "slot") if network.slot is None else ("s", "s")
    if workload is None or sources.rate is not None:
        rate = "" if sources.rate is None else f" of {told(sources.rate)} requests/{per}"
        parts.append(f"{sources.arrivals} arrivals{rate}")
    else:
        scale = sources.rate_scale
        faster = "" if scale is None else f" at {told(scale)} times their rate"
        parts.append(f"timed arrivals{faster}")
    if workload is None:
        parts.append(f"{sources.sizes} sizes")
    if _has_parallel_engines(scenario):
        parts.append(f"balancer {sources.balancer}")
    if sources.terms is not None:
        parts.append(f"terms {sources.terms}")
    for name in ("priority", "delay", "initial"):
        if getattr(args, name):
            parts.append(f"{name} {' '.join(getattr(args, name))}")

    lasts = options.horizon is not None
    parts.append(f"{told(options.horizon)} {unit}" if lasts else "until all have departed")
    if options.warmup:
        parts.append(f"measured from {told(options.warmup)} {unit} on")
    for name in given_deadlines(options):
        limit = getattr(options, f"{name}_deadline")
        parts.append(f"{DEADLINES[name]} within {told(limit)} {unit}")
    return ", ".join([*parts, f"seed {args.seed}", version_and_commit()])


#: Largest numbers of slots and tokens at the beginning of a run that are checked by a second run.
_CHECKED_SLOTS, _CHECKED_TOKENS = 20_000, 200_000
#: Largest number of requests of a batch shown in a table.
_MOST_SHOWN = 12


def theory_of(scenario: "Scenario") -> dict[str, Any] | None:
    """Return the theoretical stability verdict on the network; None without arrivals."""
    from formulations.stability import capacity, theory

    network = scenario.network
    if not any(stage.rate for stage in network.stages):
        return None
    result = capacity(network)
    judged = theory(result)
    return {
        "verdict": judged.verdict.value,
        "source": judged.source,
        "load": plain_number(1 / result.factor),
        "bottlenecks": list(result.bottlenecks),
        "warnings": list(judged.warnings),
    }


def document_of(args: argparse.Namespace, run: "BatchRun") -> dict[str, Any]:
    """Return the JSON document of a run: metrics, checker verdict, remarks and stability."""
    from bfio.batching.replay import violations
    from bfio.batching.run import first_batches
    from bfio.batching.scenario import remarks
    from bfio.batching.simulation import logged_beginning
    from bfio.batching.stability import judge

    document = run.summary() | {"remarks": remarks(run.scenario)}
    beginning = logged_beginning(run, _CHECKED_TOKENS, _CHECKED_SLOTS, args.engine)
    document["violations"] = violations(beginning)
    if args.show_batches is not None:
        shown = first_batches(beginning, args.show_batches)
        document["first_batches"] = [batch.to_mapping() for batch in shown]
    if args.judge:
        verdict = judge(run.scenario, seed=args.seed, engine=args.engine)
        document["stability"] = verdict.to_mapping()
    return document


def print_runs(documents: Sequence[Mapping[str, Any]], deadlines: Sequence[str] = ()) -> None:
    """Print a row per policy, the agents if there are several, remarks and stability verdicts.

    Parameters
    ----------
    documents : sequence of mapping
        JSON documents of the runs, from `document_of`.
    deadlines : sequence of str
        Latencies with a deadline, by their names in `DEADLINES`.
    """
    from bfio.batching.run import METRICS

    columns = [run_cells("policy", documents), *METRICS.cells(documents)]
    for name in deadlines:
        shares = [document[f"{name}_attainment"] for document in documents]
        columns.append((f"{DEADLINES[name]}\nin time", list(map(percent, shares))))
    print_fitting("", columns)
    print_sentences(
        f"Times in {documents[0]['unit']}. TTFT: arrival to end of prefill; TBT: time between "
        "tokens; E2E: arrival to departure. Of full batches: processed tokens / tokens of full "
        "batches without pause. Short batches: share with fewer tokens than budget and request "
        "limit allow."
    )
    for document in documents:
        _print_remarks(document)
        _print_batches(document)


def _print_remarks(document: Mapping[str, Any]) -> None:
    name = document["policy"]
    if len(document["agents"]) > 1:
        parts = (
            f"{agent['agent']} {percent(agent['utilisation'])} of full batches, "
            f"{number(agent['mean_requests'])} requests"
            for agent in document["agents"]
        )
        print_sentences(f"{name}: {'; '.join(parts)}.")
    for remark in document["remarks"]:
        print_sentences(f"{name}: {remark}")
    if document["violations"]:
        print(f"{name}: BROKEN RUN {document['violations']}")
    if (judged := document.get("stability")) is not None:
        drift, large = judged["from_empty"], judged["from_large"]
        print_sentences(
            f"{name}: {judged['verdict']} by simulation ({judged['seeds']} seeds of "
            f"{judged['horizon_slots']:,} slots: from an empty start the queue |X| grows by "
            f"{number(drift['slope'])} ± {number(drift['half_width'])} tokens per slot; of "
            f"{number(large['initial_tokens'])} initial tokens {number(large['final_tokens'])} "
            "remain at the end)"
        )


def print_theory(known: Mapping[str, Any] | None) -> None:
    """Print the theoretical stability verdict. "Stable" is proven only for some policies."""
    from formulations.stability.verdict import Verdict

    if known is None:
        return
    whose = " (for policies that always form the fullest possible batch)"
    print_sentences(
        f"theory: {known['verdict']}, {known['source']}"
        f"{whose if known['verdict'] == Verdict.STABLE else ''}; load {percent(known['load'])} at "
        f"{', '.join(known['bottlenecks'])}"
    )
    for warning in known["warnings"]:
        print_sentences(f"warning: {warning}")


def _print_batches(document: Mapping[str, Any]) -> None:
    name, batches = document["policy"], document.get("first_batches")
    if batches is not None and not batches:
        print(f"{name}: no batch was processed")
    rows = []
    for batch in batches or ():
        tokens = f"{batch['tokens']} of {batch['budget']}"
        loaded = prompts(batch["prefill"]), decoded(batch["decode"])
        rows.append([str(batch["slot"]), str(batch["slots"]), batch["engine"], tokens, *loaded])
    if rows:
        columns = ["slot", "slots", "engine", "tokens", "prompt tokens", "decode tokens of"]
        print_table(f"{name}: the first {len(rows)} batches", columns, rows)


def prompts(loaded: Mapping[str, int]) -> str:
    """Return the prompt tokens of each request in a batch as text, such as ``r1: 5``."""
    return decoded([f"{request}: {tokens}" for request, tokens in loaded.items()])


def decoded(requests: Sequence[str]) -> str:
    """Return as text the requests that emit an output token in a batch."""
    more = len(requests) - _MOST_SHOWN
    shown = [*requests[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return ", ".join(shown) or "–"


#: The policies of section 3 of the paper.
_POLICIES = ("faster-transformer", "vllm", "orca", "sarathi")
#: Arguments that apply to ``--state``. All others concern networks and runs.
_OF_STATES = ("state", "policy", "json", "write", "overwrite", "read_solution")


def next_batches(
    args: argparse.Namespace, add_arguments: "Callable[[argparse.ArgumentParser], None]"
) -> int:
    """Print each policy's next batch in a given state, or write the batch program of the state.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of the command.
    add_arguments : callable
        Adds the arguments of the command to a parser.
    """
    from bfio.batching.program import batch_of
    from bfio.batching.registry import build
    from formulations.batch_composition import BatchProblem, solve, worth
    from formulations.batch_composition.check import violations
    from formulations.batch_composition.solver import WORDS, BatchProgram

    for name in given_options(args, add_arguments, besides=_OF_STATES):
        option = "FILE" if name == "file" else flag(name)
        raise InputError("command line", f"{option} has no effect with --state", "omit it")
    problem = read_problem(args.state, BatchProblem.from_json)
    if is_exchange(args):
        if args.policy:
            raise InputError("--policy", "the batch program of --state has no policy", "omit it")
        named = argparse.Namespace(**vars(args) | {"file": args.state})
        return exchange(named, BatchProgram(problem), "batch --state")

    def told(batch: "Batch") -> dict[str, Any]:
        prefill, decode = batch
        return {
            "tokens": sum(prefill) + sum(decode),
            "worth": worth(problem, prefill, decode),
            "prefill": {str(i): x for i, x in enumerate(prefill) if x},
            "decode": [str(i) for i, y in enumerate(decode) if y],
        }

    best = solve(problem)
    proof = {name: getattr(best, name) for name in ("objective", "method", "proof", "solver")}
    answer: dict[str, Any] = {"budget": problem.budget, "requests": problem.num_requests}
    answer["best"] = told(best.required_solution()) | proof
    answer["policies"] = []
    for name in dict.fromkeys(args.policy or _POLICIES):
        batch = batch_of(build(name), problem, name)
        broken = [WORDS.told(rule, by) for rule, by in violations(problem, *batch).items()]
        entry = {"policy": name, **told(batch), "broken": broken}
        entry["gap"] = None if broken else answer["best"]["worth"] - entry["worth"]
        answer["policies"].append(entry)
    return print_answer(args, answer, lambda: _print_batches_of_state(answer))


def _print_batches_of_state(answer: dict[str, Any]) -> None:
    from formulations.results import origin

    rows = []
    for entry in ({"policy": "optimum", "gap": 0, **answer["best"]}, *answer["policies"]):
        batch = prompts(entry["prefill"]), decoded(entry["decode"])
        row = [entry["policy"], str(entry["tokens"]), *batch, number(entry["worth"])]
        rows.append([*row, number(entry["gap"])])
    columns = ["policy", "tokens", "prompt tokens", "decode tokens of", "worth", "gap"]
    print_table("", columns, rows)
    print(
        f"{counted(answer['requests'], 'request')}, token budget {answer['budget']:,}; gap: worth "
        "of the optimal batch minus worth of this batch."
    )
    for entry in answer["policies"]:
        for broken in entry["broken"]:
            print(f"{entry['policy']}: the batch violates the batch program: {broken}")
    print(origin(answer["best"]["solver"], answer["best"]["proof"]))


_SUMMARY = "simulate token-budget engines and networks of agents: queues, latencies, stability"
_DESCRIPTION = """\
Simulate engines whose batches hold a limited number of tokens (token budget), slot by slot. A slot
is the unit of time. Prints queue lengths, latencies and whether the queues stay bounded, for each
scheduling policy. FILE is the network of "bfio capacity" ("-" is stdin):

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

Terms of --terms [slots], each 0 by default: prefill_attention (per squared chunk length),
decode_attention and chunk_attention (per token of the batch and cached token of its request).
memory [tokens] limits the KV cache; a request beyond it costs swap_token and swap_request, or
recompute_square and recompute_request.

If FILE states the length of a slot ("slot"), times are in seconds, otherwise in slots. Token
counts are drawn around the means of FILE. --trace replaces drawn requests by those of a trace, for
a network of one stage; they arrive at the times of the trace or, with --rate, at Poisson times.
--delay sets the mean time of a tool call before a stage. --judge simulates several seeds and two
initial states to test whether the queue stays bounded, in addition to the theoretical verdict. An
independent checker verifies the first batches of every run.

--state FILE simulates nothing. The file states the budget and each request's remaining tokens:

  {"budget": 7, "requests": [{"prefill": 6, "decode": 2}, {"prefill": 0, "decode": 3}]}

Prints the next batch of each policy beside the optimal batch, which has the largest worth: 1 per
token, or the "weight" of its request, plus the "finish_bonus" of each completed prompt.
"max_requests", "mixing": false and "fewest_requests": true restrict batches. --write FILE.lp
writes the program of the best batch.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="agents, stages, routes (.json)")
    add_policies(parser, "sarathi")
    add_options(parser, BatchOptions)
    add_options(parser, SourceOptions)
    repeatable = {
        "--priority WHICH": "stages that agents serve first: last, first, or AGENT=STAGE>STAGE "
        "(repeatable)",
        "--delay STAGE=MEAN": "mean of the geometric delay before a stage, such as a tool call "
        "(repeatable)",
        "--initial STAGE=N": "requests present at a stage at the start (repeatable)",
    }
    add_by_usage(parser, repeatable, action="append")
    add_trace(parser)
    add_by_usage(parser, {"--judge": "test by simulation whether the queues stay bounded"})
    add_engine(parser, "the queues over time")
    shown = {"--show-batches N": "print the first N batches with their requests"}
    add_by_usage(parser, shown, type=int)
    text = "simulate nothing: print the next batch of each policy for this state"
    add_by_usage(parser, {"--state FILE": text})
    add_exchange(parser)
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    if args.state is not None:
        return next_batches(args, _add_arguments)
    if is_exchange(args):
        option = "--write" if args.write is not None else "--read-solution"
        remedy = "add --state FILE, or use bfio capacity for the program of a network"
        raise InputError(option, "a simulation has no program to write or check", remedy)
    # Reject contradictory arguments and unwritable files before any file is read.
    refuse_first(_conflicts(args))
    picture_place(args.plot)
    if args.show_batches is not None and not 1 <= args.show_batches <= _MOST_BATCHES:
        what = f"{args.show_batches} is out of range"
        raise InputError("--show-batches", what, f"use 1 to {_MOST_BATCHES:,}")
    sources, options = from_namespace(SourceOptions, args), from_namespace(BatchOptions, args)

    from bfio.common.kernel_groups import Engine
    from formulations.problem_data import member

    member(Engine, args.engine, "engine")
    with redirect_stdout(sys.stderr):
        workload = trace_from(args)
        scenarios = scenarios_of(args, sources, workload)

    # Only now, so that bad input is reported before the theory is computed.
    from bfio.batching.laws import ListedArrivals
    from bfio.batching.simulation import simulate
    from bfio.cli.tables import print_sentences
    from bfio.common.provenance import citable_versions

    first = next(iter(scenarios.values()))
    known = theory_of(first)
    settings = batch_settings(args, sources, options, first, workload)
    runs: list[BatchRun] = []
    documents: list[dict[str, Any]] = []
    failures: list[InputError] = []

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

                try:
                    run = simulate(
                        scenario, seed=args.seed, engine=args.engine, tell=tell, options=options
                    )
                    documents.append(document_of(args, run))
                except InputError as error:
                    failures.append(error)
                else:
                    runs.append(run)
                    so_far.keep_shown(partial(show, interrupted=True))
        except KeyboardInterrupt:
            if not runs:
                raise
        if not runs:
            raise SeveralErrors(failures)
    interrupted = len(runs) + len(failures) < len(scenarios)
    show(interrupted=interrupted)
    plot_runs(args, "bfio.batching.run", runs)
    if failures:
        raise SeveralErrors(failures)
    return INTERRUPTED if interrupted else DONE


COMMAND = Command("batch", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
