"""Solve the fluid model of a scenario (appendix C) numerically: the large-scale limit of runs.

Tasks of stage k are fluid in two phases, ``Z_p`` and ``Z_d`` [tasks]. Each agent processes
``b/t(b)`` tokens per slot while it has any (C.17). It serves phases and classes in the order of
its policy. Processed tokens give completed tasks, ``B_f' = m_f F_f'`` (C.13), which go to the
decode phase, to the next stage, or depart (C.10), (C.11). Time is discretized into small steps. In
a step an agent serves the fluid present at its start, so the error is of the order of a step.

Only work-conserving policies that mix prefill and decode in a batch are supported.
"""

from dataclasses import dataclass

import numpy as np

from bfio.batching.policy import TokenBudgetPolicy
from bfio.batching.scenario import Scenario
from formulations.arrays import FloatArray, integer
from formulations.batching import AgentNetwork
from formulations.errors import InputError


@dataclass(frozen=True)
class FluidTrajectory:
    """Amounts of fluid per stage over time."""

    time: FloatArray
    prefilling: FloatArray
    decoding: FloatArray
    work: FloatArray


def fluid_trajectory(scenario: Scenario, duration: int, *, steps: int = 10_000) -> FluidTrajectory:
    """Return the trajectory of the fluid from the initial state of a scenario.

    Parameters
    ----------
    scenario : Scenario
        Scenario with built-in policies that mix phases, without forks or delays.
    duration : int
        Simulated time [slots].
    steps : int
        Number of time steps of equal length.

    Raises
    ------
    InputError
        If the model does not support the scenario.
    """
    integer(duration, "duration", minimum=1)
    integer(steps, "steps", minimum=1, maximum=10**7)
    _check(scenario)
    network, num = scenario.network, len(scenario.network.stages)
    length = duration / steps
    means = np.array([law.means for law in scenario.size_laws])
    arriving = np.array([law.rate for law in scenario.arrival_laws]) * length
    capacity = [float(agent.rate) * length for agent in network.agents]
    orders = [_order(scenario, j) for j in range(len(network.agents))]
    routing = _routing(network)
    there = np.zeros((steps + 1, 2, num))
    there[0, 0] = [scenario.initial.get(stage.name, 0) for stage in network.stages]
    for k in range(steps):
        done = _served(there[k], means, capacity, orders)
        there[k + 1] = there[k] - done
        there[k + 1, 0] += arriving + done[1] @ routing
        there[k + 1, 1] += done[0]
    work = there[:, 0] * means.sum(axis=1) + there[:, 1] * means[:, 1]
    time = np.linspace(0.0, float(duration), steps + 1)
    return FluidTrajectory(time, there[:, 0], there[:, 1], work)


def _served(
    there: FloatArray,
    means: FloatArray,
    capacity: list[float],
    orders: list[list[tuple[int, int]]],
) -> FloatArray:
    """Return the tasks of each phase and stage completed in a step, shape (2, n)."""
    done = np.zeros_like(there)
    for most, order in zip(capacity, orders, strict=True):
        left = most
        for phase, stage in order:
            tokens = min(left, float(there[phase, stage] * means[stage, phase]))
            done[phase, stage] = tokens / means[stage, phase]
            left -= tokens
    return done


def _order(scenario: Scenario, agent: int) -> list[tuple[int, int]]:
    """Return (phase, stage) pairs in the order in which an agent serves them."""
    network = scenario.network
    policy = scenario.serving_of(network.agents[agent].name).policy
    assert isinstance(policy, TokenBudgetPolicy)
    phases = (1, 0) if policy.decode_first else (0, 1)
    stages = network.stages_at(agent)
    ranks = sorted({scenario.ranks[k] for k in stages})
    return [
        (phase, k)
        for rank in ranks
        for phase in phases
        for k in stages
        if scenario.ranks[k] == rank
    ]


def _routing(network: AgentNetwork) -> FloatArray:
    routing = np.zeros((len(network.stages), len(network.stages)))
    for k, followers in enumerate(network.successors):
        for target, chance in followers:
            routing[k, target] = float(chance)
    return routing


def _check(scenario: Scenario) -> None:
    network = scenario.network
    if network.fork_join or scenario.delays:
        remedy = "simulate the scenario instead"
        raise InputError("scenario", "the fluid model supports neither forks nor delays", remedy)
    for agent in network.agents:
        policy = scenario.serving_of(agent.name).policy
        if not isinstance(policy, TokenBudgetPolicy) or not policy.mixes:
            what = f"agent {agent.name} has no built-in policy that mixes phases"
            raise InputError("scenario", what, "use sarathi, orca or another mixing policy")
