"""Hypothesis strategies of networks of agents, over all data."""

from fractions import Fraction

from hypothesis import strategies as st

from formulations.batching import Agent, AgentNetwork, BatchTime, Route, Stage

rates = st.builds(Fraction, st.integers(1, 40), st.integers(1, 60))
means = st.builds(lambda n, d: Fraction(d + n, d), st.integers(0, 60), st.integers(1, 6))
batch_times = st.builds(
    BatchTime,
    overhead=st.builds(Fraction, st.integers(1, 50), st.integers(1, 4)),
    per_token=st.builds(Fraction, st.integers(0, 9), st.integers(1, 9)),
    free_tokens=st.integers(0, 12),
)


@st.composite
def networks(draw: st.DrawFn, *, max_agents: int = 4, max_stages: int = 6) -> AgentNetwork:
    """Draw a network with routed and fork–join types; every request departs eventually."""
    names = [f"a{j}" for j in range(draw(st.integers(1, max_agents)))]
    agents = [
        Agent(name, draw(st.integers(1, 40)), draw(batch_times), draw(st.integers(1, 3)))
        for name in names
    ]
    stages: list[Stage] = []
    routes: list[Route] = []
    fork_join = []
    for i in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, max_stages // 2))
        forks = draw(st.booleans())
        own, edges = draw(
            fork_join_type(f"t{i}", names, count) if forks else routed_type(f"t{i}", names, count)
        )
        stages, routes = [*stages, *own], [*routes, *edges]
        fork_join += [f"t{i}"] * forks
    return AgentNetwork(tuple(agents), tuple(stages), tuple(routes), tuple(fork_join))


@st.composite
def routed_type(
    draw: st.DrawFn, kind: str, agents: list[str], count: int
) -> tuple[list[Stage], list[Route]]:
    """Draw a type with any routes, cycles included, out of which requests depart."""
    stages = [
        Stage(
            kind,
            draw(st.sampled_from(agents)),
            draw(means),
            draw(means),
            draw(st.one_of(st.just(Fraction(0)), rates)) if k else draw(rates),
            f"{kind}-{k}",
        )
        for k in range(count)
    ]
    routes = []
    for stage in stages:
        # Weights of the targets and, last, of departure, which is positive.
        weights = [draw(st.integers(0, 3)) for _ in stages] + [draw(st.integers(1, 3))]
        for other, weight in zip(stages, weights, strict=False):
            if weight:
                routes.append(Route(stage.name, other.name, Fraction(weight, sum(weights))))
    return stages, routes


@st.composite
def fork_join_type(
    draw: st.DrawFn, kind: str, agents: list[str], count: int
) -> tuple[list[Stage], list[Route]]:
    """Draw a type with routes from earlier to later stages only."""
    edges = [(i, j) for j in range(count) for i in range(j) if draw(st.booleans())]
    rate, later = draw(rates), {j for _, j in edges}
    stages = [
        Stage(
            kind,
            draw(st.sampled_from(agents)),
            draw(means),
            draw(means),
            Fraction(0) if k in later else rate,
            f"{kind}-{k}",
        )
        for k in range(count)
    ]
    return stages, [Route(stages[i].name, stages[j].name) for i, j in edges]
