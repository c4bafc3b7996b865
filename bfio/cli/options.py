"""Arguments that several commands share, and what they turn into."""

import argparse
from typing import TYPE_CHECKING, Any

from formulations.rationals import exact_rational

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.energy import EnergyModel
    from bfio.decode.policy_options import PolicyOptions
    from bfio.workloads.workload import Workload

#: Part of help texts; written out, because asking the registry would import numpy.
POLICIES = """\
policies: fcfs, fcfs-by-index, jsq (fewest requests), jsq-tokens (least load), round-robin, random,
power-of-2, router (4*waiting + running), min-min, max-min, longest-first, throttled, br-0, br-h,
bf-io (exact), or module:function of your own. Options of one policy follow its name:
br-h:horizon=40:gamma=9/10. docs/policies.md says what each does.
"""
#: Requests that a synthetic workload has unless ``--requests`` says otherwise.
_SYNTHETIC_REQUESTS = 4000
#: Limit of each solve in a simulation: one hard step must not hold up thousands of easy ones.
_SOLVE_SECONDS = 1.0


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--seed``."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document, nothing else"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default 0)")


def add_time_limit(parser: argparse._ActionsContainer, default: float | None = None) -> None:
    """Add ``--time-limit``."""
    shown = "none" if default is None else f"{default:g}"
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        default=default,
        metavar="SECONDS",
        help=f"limit of each solve (default {shown}); what it leaves unproven is counted",
    )


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose the requests."""
    group = parser.add_argument_group("requests")
    source = group.add_mutually_exclusive_group()
    source.add_argument(
        "--trace", metavar="FILE", help="CSV or JSONL, .gz or not; format detected (bfio traces)"
    )
    source.add_argument(
        "--synthetic", metavar="NAME", help="a generated workload (default demo; bfio traces list)"
    )
    group.add_argument(
        "--requests", type=int, metavar="N", help="only the first N (synthetic: 4000)"
    )
    group.add_argument(
        "--skip-bad-rows", action="store_true", help="count damaged trace rows instead of stopping"
    )


def add_simulation(parser: argparse.ArgumentParser) -> None:
    """Add everything a simulation takes: requests, machine, run, policy parameters."""
    add_workload(parser)
    add_cluster(parser)
    add_run(parser)
    add_policy_options(parser)
    add_common(parser)


def workload_from(args: argparse.Namespace) -> "Workload":
    """Read or draw the requests."""
    from bfio.workloads import read_trace, synthetic
    from formulations.arrays import integer

    if args.requests is not None:
        integer(args.requests, "--requests", minimum=1)
    if args.trace is not None:
        return read_trace(args.trace, skip_bad_rows=args.skip_bad_rows, limit=args.requests)
    return synthetic(args.synthetic or "demo", args.requests or _SYNTHETIC_REQUESTS, args.seed)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the machine."""
    group = parser.add_argument_group("machine")
    group.add_argument("--workers", type=int, default=16, metavar="G", help="workers (default 16)")
    group.add_argument(
        "--slots", type=int, default=72, metavar="B", help="requests a worker decodes at once (72)"
    )
    group.add_argument(
        "--step-overhead", type=float, metavar="C", help="fixed part of a step [s] (4.8875e-3)"
    )
    group.add_argument(
        "--token-time",
        type=float,
        metavar="T",
        help="time per token of the peak [s] (1.00524902e-7)",
    )
    group.add_argument(
        "--mean-time", type=float, default=0.0, metavar="T", help="time per token of the mean (0)"
    )
    group.add_argument(
        "--drift",
        default="llm",
        metavar="MODEL",
        help="load growth: llm (default), constant, a rate such as 2/3, or increments such as "
        "age:1,0 or global-step:2,1",
    )
    group.add_argument(
        "--params", type=float, default=7e9, metavar="N", help="model parameters, for energy (7e9)"
    )


def cluster_from(args: argparse.Namespace) -> "Cluster":
    """Return the machine."""
    from bfio.decode.cluster import Cluster

    times = {
        "step_overhead_s": args.step_overhead,
        "token_time_s": args.token_time,
        "mean_time_s": args.mean_time,
    }
    given = {name: value for name, value in times.items() if value is not None}
    return Cluster(args.workers, args.slots, **given)


def energy_from(args: argparse.Namespace) -> "EnergyModel":
    """Return the energy model."""
    from bfio.decode.energy import EnergyModel

    return EnergyModel(parameters=args.params)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of how requests arrive and what policies may know."""
    group = parser.add_argument_group("run")
    group.add_argument(
        "--arrivals",
        default="pool",
        metavar="MODE",
        help="pool (default): reveal in trace order up to --pool waiting; timed: at arrival times",
    )
    group.add_argument(
        "--pool", type=int, default=128, metavar="R", help="waiting requests revealed (128)"
    )
    group.add_argument(
        "--rate-scale", default="1", metavar="X", help="with timed arrivals, multiply the rate (1)"
    )
    group.add_argument(
        "--dispatch",
        default="pooled",
        metavar="MODE",
        help="pooled (default), or immediate: bind each request when it is revealed",
    )
    group.add_argument(
        "--projection",
        default="constant",
        metavar="P",
        help="loads over the look-ahead window: constant (default) or growing",
    )
    group.add_argument(
        "--predictor",
        default="none",
        metavar="P",
        help="output lengths: none (default), oracle, or noisy-oracle:0.5 (off by up to 50 %%)",
    )
    group.add_argument(
        "--engine",
        default="auto",
        metavar="E",
        help="auto (default: compiled where possible), compiled, or reference; all agree",
    )
    group.add_argument(
        "--steps", type=int, metavar="K", help="stop after K steps (default: drain)"
    )


def run_options_from(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword options of `bfio.simulate`."""
    from bfio.decode.drift import parse_drift

    return {
        "arrivals": args.arrivals,
        "pool": args.pool,
        "rate_scale": exact_rational(args.rate_scale, "--rate-scale"),
        "dispatch": args.dispatch,
        "projection": args.projection,
        "predictor": args.predictor,
        "drift": parse_drift(args.drift, "--drift"),
        "steps": args.steps,
        "engine": args.engine,
        "seed": args.seed,
    }


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Add the parameters of the policies."""
    group = parser.add_argument_group("policy parameters")
    group.add_argument("--horizon", type=int, metavar="H", help="look-ahead steps (0; br-h 20)")
    group.add_argument(
        "--threshold",
        type=int,
        default=7,
        metavar="N",
        help="br-0, br-h: θ, slots for stage 2 (7)",
    )
    group.add_argument(
        "--candidates", type=int, metavar="K", help="br-0, br-h: requests per subset choice (64)"
    )
    group.add_argument("--alpha", default="1", metavar="A", help="br-0, br-h: reward scale (1)")
    group.add_argument("--beta", metavar="B", help="overflow penalty (br-0: G; br-h: 43)")
    group.add_argument("--gamma", metavar="C", help="discount per step (br-h 0.86; bf-io 1)")
    group.add_argument(
        "--key", default="lexicographic", metavar="K", help="stage 2 order: lexicographic, product"
    )
    group.add_argument(
        "--choices", type=int, default=2, metavar="D", help="power-of-2: workers sampled (2)"
    )
    group.add_argument(
        "--cap-threshold", type=int, metavar="N", help="throttled: load limit [tokens]"
    )
    group.add_argument(
        "--backend", default="exact", metavar="B", help="bf-io: exact, cp-sat, highs or pyomo"
    )
    group.add_argument(
        "--objective", default="imbalance", metavar="O", help="imbalance, max-load or gap"
    )
    add_time_limit(group, default=_SOLVE_SECONDS)


def policy_options_from(args: argparse.Namespace) -> "PolicyOptions":
    """Return the options of all policies."""
    from bfio.decode.policy_options import PolicyOptions

    return PolicyOptions(
        threshold=args.threshold,
        candidates=args.candidates,
        alpha=args.alpha,
        beta=args.beta,
        gamma=args.gamma,
        horizon=args.horizon,
        choices=args.choices,
        cap_threshold=args.cap_threshold,
        key=args.key,
        backend=args.backend,
        time_limit=args.time_limit,
        objective=args.objective,
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds > 0")
    return value
