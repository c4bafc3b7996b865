"""Arguments of a simulated run: machine, arrivals, what policies know, and the policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from bfio.common.import_closure import users_digest
from bfio.decode import predictor_registry as predictors
from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, parse_drift
from bfio.decode.energy import EnergyModel
from bfio.decode.engine import run_options
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_parsing import parse_policy
from bfio.decode.policy_registry import find
from bfio.decode.simulation import ENGINES
from bfio.decode.state import DecodeState
from bfio.studies.row_kinds.arguments import Arguments
from formulations.errors import InputError
from formulations.rationals import exact_rational

MACHINE_ARGUMENTS = (
    "workers", "slots", "step_overhead", "token_time", "mean_time", "params",
)  # fmt: skip
RUN_ARGUMENTS = (
    "arrivals", "pool", "pool_per_worker", "pool_per_slot", "rate_scale", "dispatch", "projection",
    "predictor", "drift", "engine", "steps", "warm_up",
)  # fmt: skip
POLICY_ARGUMENTS = (
    "policy", "horizon", "threshold", "candidates", "alpha", "beta", "gamma", "key", "choices",
    "cap_threshold", "backend", "objective", "time_limit",
)  # fmt: skip
_RATIONAL = ("alpha", "beta", "gamma")


@dataclass(frozen=True)
class RunPlan:
    """A run that is fully decided but for its requests.

    Parameters
    ----------
    policy : str
        Policy with its options.
    cluster : Cluster
        The machine.
    policy_options : PolicyOptions
        Options of named policies.
    options : dict
        Keywords of `bfio.decode.simulation.simulate`.
    energy : EnergyModel
        Constants of the energy metrics.
    warm_up : int
        Steps at the beginning that the saturated part leaves out.
    """

    policy: str
    cluster: Cluster
    policy_options: PolicyOptions
    options: dict[str, Any]
    energy: EnergyModel
    warm_up: int

    @property
    def is_timed(self) -> bool:
        """Whether requests come at their arrival times."""
        return bool(self.options["arrivals"] == "timed")


def run_plan(arguments: Arguments, policy: str | None = None) -> RunPlan:
    """Read everything about a run but its requests, and check it.

    Parameters
    ----------
    arguments : Arguments
        Those of a row.
    policy : str, optional
        By default the argument ``policy``.

    Raises
    ------
    InputError
        If an argument is out of its domain or the policy does not exist.
    """
    name = policy or arguments.optional_text("policy")
    if name is None:
        raise InputError("argument policy", "missing", "name a policy")
    cluster = cluster_of(arguments)
    plan = RunPlan(
        policy=name,
        cluster=cluster,
        policy_options=_policy_options(arguments),
        options=_options(arguments, cluster),
        energy=_energy(arguments),
        warm_up=arguments.whole("warm_up", 0),
    )
    return checked_plan(plan)


def cluster_of(arguments: Arguments) -> Cluster:
    """Return the machine."""
    times = {
        "step_overhead_s": arguments.optional_number("step_overhead"),
        "token_time_s": arguments.optional_number("token_time"),
        "mean_time_s": arguments.optional_number("mean_time"),
    }
    given = {name: value for name, value in times.items() if value is not None}
    usual = Cluster()
    return Cluster(
        arguments.whole("workers", usual.workers), arguments.whole("slots", usual.slots), **given
    )


def checked_plan(plan: RunPlan) -> RunPlan:
    """Return the plan if the engine will accept it.

    Raises
    ------
    InputError
        If it will not.
    """
    options = {key: value for key, value in plan.options.items() if key != "engine"}
    run_options(_no_policy, **options)
    name, _ = parse_policy(plan.policy, plan.policy_options)
    if options["dispatch"] not in find(name).dispatch:
        raise InputError(
            f"policy {name}", "cannot bind a request when it arrives", 'use dispatch = "pooled"'
        )
    return plan


def policy_digest(policy: str) -> str:
    """Return a digest of the sources of a user's own policy, empty for a built-in one.

    The version of the code that a row carries covers its kind only.
    """
    name, _ = parse_policy(policy, PolicyOptions())
    return users_digest(name) if ":" in name else ""


def _no_policy(state: DecodeState) -> Sequence[int | None]:
    return [None] * state.num_waiting


def _policy_options(arguments: Arguments) -> PolicyOptions:
    given: dict[str, Any] = {}
    for name in POLICY_ARGUMENTS[1:]:
        if arguments.has(name):
            exact = name in _RATIONAL
            given[name] = arguments.rational(name, "") if exact else arguments.given[name]
    return PolicyOptions(**given)


def _options(arguments: Arguments, cluster: Cluster) -> dict[str, Any]:
    engine = arguments.text("engine", "auto")
    if engine not in ENGINES:
        raise InputError(
            "argument engine", f"{engine!r} is unknown", f"use one of {', '.join(ENGINES)}"
        )
    predictor = arguments.text("predictor", "none")
    predictors.check(predictor)
    return {
        "arrivals": arguments.text("arrivals", "pool"),
        "pool": _pool(arguments, cluster),
        "rate_scale": _rate(arguments),
        "dispatch": arguments.text("dispatch", "pooled"),
        "projection": arguments.text("projection", "constant"),
        "predictor": predictor,
        "drift": _drift(arguments),
        "steps": arguments.optional_whole("steps", minimum=1),
        "seed": arguments.whole("seed", 0),
        "engine": engine,
    }


def _pool(arguments: Arguments, cluster: Cluster) -> int:
    arguments.exclude("pool", "pool_per_worker", "pool_per_slot")
    for name, units in (
        ("pool_per_worker", cluster.workers),
        ("pool_per_slot", cluster.total_slots),
    ):
        per_unit = arguments.optional_whole(name, minimum=1, maximum=10**6)
        if per_unit is not None:
            return per_unit * units
    return arguments.whole("pool", 128, minimum=1)


def _rate(arguments: Arguments) -> Fraction:
    return exact_rational(arguments.rational("rate_scale", "1"), "argument rate_scale")


def _drift(arguments: Arguments) -> Drift:
    return parse_drift(str(arguments.rational("drift", "llm")), "argument drift")


def _energy(arguments: Arguments) -> EnergyModel:
    parameters = arguments.optional_number("params")
    return EnergyModel() if parameters is None else EnergyModel(parameters=parameters)
