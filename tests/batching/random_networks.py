"""Random small networks of agents, with any load."""

from fractions import Fraction

import numpy as np

from formulations.batching import Agent, AgentNetwork, BatchTime, Route, Stage
from formulations.stability import capacity


def random_network(rng: np.random.Generator, load: Fraction) -> AgentNetwork:
    """Return up to three agents and two types, of which one may fork; ``load`` at the bottleneck.

    Full batches are the fastest, as Theorem 1 (b) needs it.
    """
    agents = tuple(_agent(rng, f"a{j}") for j in range(int(rng.integers(1, 4))))
    stages: list[Stage] = []
    routes: list[Route] = []
    forks = bool(rng.integers(0, 2))
    for i in range(int(rng.integers(1, 3))):
        own = [_stage(rng, f"t{i}", agents, k) for k in range(int(rng.integers(1, 4)))]
        joins = i == 0 and forks
        stages += own
        routes += _tree(rng, own) if joins else _routes(rng, own)
    fork_join = ("t0",) if forks else ()
    network = AgentNetwork(agents, tuple(stages), tuple(routes), fork_join)
    return network.scaled(load * capacity(network).factor)


def _agent(rng: np.random.Generator, name: str) -> Agent:
    while True:
        c, a, b0 = int(rng.integers(1, 5)), int(rng.integers(0, 2)), int(rng.integers(0, 5))
        time, budget = BatchTime(Fraction(c), Fraction(a), b0), int(rng.integers(2, 16))
        if time.rate_check(budget).holds:
            return Agent(name, budget, time, int(rng.integers(1, 3)))


def _stage(rng: np.random.Generator, kind: str, agents: tuple[Agent, ...], k: int) -> Stage:
    prefill, decode = (Fraction(int(x), 2) for x in rng.integers(2, 13, size=2))
    agent = agents[int(rng.integers(0, len(agents)))].name
    rate = Fraction(int(rng.integers(1, 5)) if k == 0 else 0)
    return Stage(kind, agent, prefill, decode, rate, f"{kind}-{k}")


def _tree(rng: np.random.Generator, stages: list[Stage]) -> list[Route]:
    """Every stage but the first follows one before it."""
    return [
        Route(stages[int(rng.integers(0, j))].name, stages[j].name) for j in range(1, len(stages))
    ]


def _routes(rng: np.random.Generator, stages: list[Stage]) -> list[Route]:
    """Take some of all pairs; requests depart with a chance of a quarter or more."""
    routes = []
    for stage in stages:
        for other in stages:
            if rng.random() < 0.4:
                share = Fraction(3, 4 * len(stages))
                routes.append(Route(stage.name, other.name, share))
    return routes
