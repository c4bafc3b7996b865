"""Small scenarios from the paper, and random ones."""

from fractions import Fraction

from hypothesis import strategies as st

from bfio.batching.laws import ArrivalName, Law, LawName
from bfio.batching.policy import Mixing, Order, TokenBudgetPolicy
from bfio.batching.scenario import Balancer, Scenario, Serving
from bfio.batching.time_terms import TimeTerms
from formulations.batching import Agent, AgentNetwork, BatchTime, Route, Stage

SARATHI = TokenBudgetPolicy()
ORCA = TokenBudgetPolicy(decode_first=False)
VLLM = TokenBudgetPolicy(mixing=Mixing.PREFILL_FIRST)
FASTER_TRANSFORMER = TokenBudgetPolicy(mixing=Mixing.DECODE_FIRST)


def in_groups(size: int) -> TokenBudgetPolicy:
    """Return FasterTransformer with groups of a given size."""
    return TokenBudgetPolicy(mixing=Mixing.GROUPS, group=size)


def _rational(least: int, most: int, of: int) -> st.SearchStrategy[Fraction]:
    return st.integers(least, most).map(lambda k: Fraction(k, of))


@st.composite
def policies(draw: st.DrawFn) -> TokenBudgetPolicy:
    """Return a built-in policy with any valid options."""
    mixing = draw(st.sampled_from(Mixing))
    prefill_order = draw(st.sampled_from(Order))
    decode_order = draw(st.sampled_from([o for o in Order if o is not Order.LONGEST]))
    by_size = (Order.SHORTEST, Order.LONGEST)
    limits = mixing is not Mixing.GROUPS
    return TokenBudgetPolicy(
        mixing=mixing,
        decode_first=draw(st.booleans()),
        kp=draw(st.integers(0, 3)) if limits and prefill_order not in by_size else 0,
        kd=draw(st.integers(0, 4)) if limits and decode_order not in by_size else 0,
        limit=draw(st.integers(0, 5)) if limits else 0,
        group=draw(st.integers(1, 4)),
        prefill_order=prefill_order,
        decode_order=decode_order,
    )


@st.composite
def servings(draw: st.DrawFn, stages: list[str]) -> Serving:
    """Return a strategy for the serving rule of an agent with these stages."""
    terms = TimeTerms()
    if draw(st.booleans()):
        swaps = draw(st.booleans())
        overflow = ("swap_token", "swap_request")
        if not swaps:
            overflow = ("recompute_square", "recompute_request")
        names = ("prefill_attention", "decode_attention", "chunk_attention", *overflow)
        values = {name: draw(_rational(0, 3, 4)) for name in names}
        terms = TimeTerms(memory=draw(st.integers(1, 12)), **values)
    return Serving(
        policy=draw(policies()),
        name="any",
        balancer=draw(st.sampled_from(Balancer)),
        priority=tuple(draw(st.permutations(stages))[: draw(st.integers(0, len(stages)))]),
        terms=terms,
    )


@st.composite
def networks(draw: st.DrawFn) -> AgentNetwork:
    """Return a network of at most three agents, with a routed and a fork–join type."""
    agents = tuple(
        Agent(
            f"a{j}",
            draw(st.integers(1, 12)),
            BatchTime(draw(_rational(1, 7, 2)), draw(_rational(0, 3, 4)), draw(st.integers(0, 4))),
            draw(st.integers(1, 3)),
            draw(st.booleans()),
        )
        for j in range(draw(st.integers(1, 3)))
    )
    stages, routes = [], []
    for kind in ("routed", "forked")[: draw(st.integers(1, 2))]:
        num = draw(st.integers(1, 4))
        for k in range(num):
            agent = draw(st.sampled_from(agents))
            # Fixed prompts must fit into budgets of agents that do not cut them.
            prefill = draw(st.integers(1, min(agent.budget, 6)))
            rate = draw(_rational(0, 6, 20)) if kind == "routed" or k == 0 else Fraction(0)
            decode = draw(st.integers(1, 6))
            stages.append(Stage(kind, agent.name, prefill, decode, rate, f"{kind}{k}"))  # type: ignore[arg-type]
        if kind == "routed":
            pairs = [(i, j) for i in range(num) for j in range(num)]
            chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4))
            routes += [Route(f"routed{i}", f"routed{j}", Fraction(1, 5)) for i, j in chosen]
        else:
            routes += _forks(draw, num)
    return AgentNetwork(agents, tuple(stages), tuple(routes), _forking(stages))


def _forks(draw: st.DrawFn, num: int) -> list[Route]:
    """Return precedences in which every stage but the first follows an earlier one."""
    routes = []
    for j in range(1, num):
        before = draw(st.lists(st.integers(0, j - 1), unique=True, min_size=1))
        routes += [Route(f"forked{i}", f"forked{j}") for i in before]
    return routes


def _forking(stages: list[Stage]) -> tuple[str, ...]:
    return ("forked",) if any(stage.request_type == "forked" for stage in stages) else ()


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Return a scenario of any kind, small enough to be simulated slot by slot."""
    network = draw(networks())
    agents = {
        agent.name: draw(servings([network.stages[k].name for k in network.stages_at(j)]))
        for j, agent in enumerate(network.agents)
    }
    may_not_cut = any(not agent.chunked for agent in network.agents)
    law = LawName.FIXED if may_not_cut else draw(st.sampled_from(LawName))
    later = [stage.name for k, stage in enumerate(network.stages) if network.predecessors[k]]
    first = [stage.name for k, stage in enumerate(network.stages) if not network.predecessors[k]]
    delayed = draw(st.lists(st.sampled_from(later), unique=True)) if later else []
    return Scenario(
        network,
        agents=agents,
        sizes=law,
        arrivals=draw(st.sampled_from(ArrivalName)),
        delays={name: Law(LawName.GEOMETRIC, Fraction(3)) for name in delayed},
        initial={name: draw(st.integers(0, 3)) for name in first if name in ("routed0",)},
    )
