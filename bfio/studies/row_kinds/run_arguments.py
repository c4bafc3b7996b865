"""Arguments of a simulated run: machine, arrivals, what policies know, and the policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bfio.common.import_closure import users_digest
from bfio.common.options import from_mapping, names_of
from bfio.decode import predictor_registry as predictors
from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.observers import Observer
from bfio.decode.options import RunOptions
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_parsing import parse_policy
from bfio.decode.policy_registry import find
from bfio.decode.run import Run
from bfio.decode.simulation import check_dispatch, check_engine, simulate
from bfio.studies.row_kinds.arguments import Arguments
from bfio.workloads.workload import Workload
from formulations.errors import InputError

MACHINE_ARGUMENTS = names_of(Cluster, EnergyModel)
RUN_ARGUMENTS = (
    *names_of(RunOptions), "pool_per_worker", "pool_per_slot", "engine", "warm_up",
)  # fmt: skip
POLICY_ARGUMENTS = ("policy", *names_of(PolicyOptions))


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
    engine : str
        Which engine runs.
    options : RunOptions
        How the run is made.
    energy : EnergyModel
        Constants of the energy metrics.
    warm_up : int
        Steps at the beginning that the saturated part leaves out.
    """

    policy: str
    cluster: Cluster
    policy_options: PolicyOptions
    engine: str
    options: RunOptions
    energy: EnergyModel
    warm_up: int

    @property
    def is_timed(self) -> bool:
        """Whether requests come at their arrival times."""
        return self.options.arrivals == "timed"

    def run(
        self,
        workload: Workload,
        *,
        observers: Sequence[Observer] = (),
        keep_trajectory: bool = True,
        horizon: int = 0,
    ) -> Run:
        """Simulate it, with a look-ahead of at least ``horizon``."""
        return simulate(
            workload,
            self.policy,
            self.cluster,
            policy_options=self.policy_options,
            engine=self.engine,
            observers=observers,
            keep_trajectory=keep_trajectory,
            options=replace(self.options, horizon=max(self.options.horizon, horizon)),
        )


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
    text = policy or arguments.optional_text("policy")
    if text is None:
        raise InputError("argument policy", "missing", "name a policy")
    cluster = cluster_of(arguments)
    plan = RunPlan(
        policy=text,
        cluster=cluster,
        policy_options=from_mapping(PolicyOptions, arguments.given),
        engine=check_engine(arguments.text("engine", "auto"), "argument engine"),
        options=_options(arguments, cluster),
        energy=from_mapping(EnergyModel, arguments.given),
        warm_up=arguments.whole("warm_up", 0),
    )
    name, _ = parse_policy(plan.policy, plan.policy_options)
    check_dispatch(name, find(name), plan.options)
    return plan


def cluster_of(arguments: Arguments) -> Cluster:
    """Return the machine."""
    return from_mapping(Cluster, arguments.given)


def policy_digest(policy: str) -> str:
    """Return a digest of the sources of a user's own policy, empty for a built-in one.

    The version of the code that a row carries covers its kind only.
    """
    name, _ = parse_policy(policy, PolicyOptions())
    return users_digest(name) if ":" in name else ""


def _options(arguments: Arguments, cluster: Cluster) -> RunOptions:
    predictors.check(arguments.text("predictor", "none"))
    return from_mapping(
        RunOptions,
        arguments.given,
        pool=_pool(arguments, cluster),
        steps=arguments.optional_whole("steps", minimum=1),
        seed=arguments.whole("seed", 0),
    )


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
