"""Traffic, loads and capacity: by hand, in closed form, by the program; each proven."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given

from formulations import InputError
from formulations.batching import (
    Agent,
    AgentNetwork,
    BatchTime,
    Route,
    Stage,
    fork_join,
    multi_type,
    rybko_stolyar,
    single_engine,
)
from formulations.batching.network import ONE_SLOT
from formulations.stability import (
    Prices,
    capacity,
    capacity_bound,
    capacity_violations,
    direct_rates,
    last_stage_priority,
    loads,
    loads_of,
    price_violations,
    solve_capacity,
    traffic,
    virtual_stations,
)
from formulations.stability.traffic import feeds
from tests.formulations.batching.cases import networks

LLAMA = BatchTime(Fraction(455), Fraction(3), 64)


def test_the_capacity_of_the_fit() -> None:
    """(129, 112) tokens with b = 512: 512/1799 tokens a slot over 241, 11.809 requests/s."""
    network = single_engine("0.0005", 129, 112, budget=512, batch_time=LLAMA)
    result = capacity(network)
    assert result.factor == Fraction(512, 1799) / (241 * Fraction("0.0005"))
    assert round(float(result.factor * Fraction("0.0005")) * 10_000, 3) == 11.809
    assert result.bottlenecks == ("engine",)
    # One more token per slot adds 1/(λ·241) = 1/0.1205 to the factor.
    assert result.agent_prices == (1 / Fraction("0.1205"),)


def test_parallel_engines_and_types_by_hand() -> None:
    """(4.1): λ(m_p + m_d) = 6 of 4·10 tokens; (4.2): 1·5 + 1/2·8 = 9 of 10."""
    assert loads(single_engine(1, 2, 4, budget=10, engines=4)) == (Fraction(6, 40),)
    assert loads(multi_type([(1, 2, 3), ("1/2", 4, 4)], budget=10)) == (Fraction(9, 10),)


def test_a_loop_by_hand() -> None:
    """Half of all tasks come back: ν = 1 + ν/2 = 2; a third goes on from there."""
    stages = (Stage("r", "e", 1, 1, 1, "a"), Stage("r", "f", 1, 2, 0, "b"))  # type: ignore[arg-type]
    routes = (Route("a", "a", Fraction(1, 2)), Route("a", "b", Fraction(1, 3)))
    agents = (Agent("e", 10, ONE_SLOT), Agent("f", 2, ONE_SLOT))
    network = AgentNetwork(agents, stages, routes)
    assert traffic(network) == (Fraction(2), Fraction(2, 3))
    # 2·2/10 and (2/3)·3/2.
    assert loads(network) == (Fraction(2, 5), Fraction(1))
    assert capacity(network).bottlenecks == ("f",)


def test_a_fork_passes_every_stage_once() -> None:
    """(4.3): each agent gets every request; 20 tokens each of a budget of 20."""
    network = fork_join("0.95", [(10, 10), (5, 15), (15, 5), (12, 8)], budgets=20)
    assert direct_rates(network) == traffic(network) == (Fraction("0.95"),) * 4
    assert loads(network) == (Fraction("0.95"),) * 4
    assert capacity(network).bottlenecks == tuple(f"agent{j}" for j in range(4))


@given(networks())
def test_the_program_and_the_closed_form_agree(network: AgentNetwork) -> None:
    """The factor is the same fraction; both are proven by the checkers."""
    closed, solved = capacity(network), solve_capacity(network)
    assert closed.is_optimal
    assert solved.is_optimal
    assert closed.value == solved.value
    if solved.claimed is not None:
        assert solved.claimed == pytest.approx(float(closed.factor), rel=1e-6)
    at_capacity = network.scaled(closed.factor)
    assert max(loads(at_capacity)) == 1
    assert closed.load_condition == all(load < 1 for load in loads(network))


@given(networks())
def test_traffic_is_what_comes_in(network: AgentNetwork) -> None:
    """The equations hold exactly, and of each routed type as much departs as arrives."""
    flows, direct = traffic(network), direct_rates(network)
    for k, (flow, fed) in enumerate(zip(flows, feeds(network), strict=True)):
        assert flow == direct[k] + sum(share * flows[i] for i, share in fed)
    for kind in set(network.types) - set(network.fork_join):
        own = [k for k, stage in enumerate(network.stages) if stage.request_type == kind]
        left = {k: 1 - sum(share for _, share in network.successors[k]) for k in own}
        assert sum(flows[k] * left[k] for k in own) == sum(network.stages[k].rate for k in own)


@given(networks())
def test_the_checkers_see_what_is_wrong(network: AgentNetwork) -> None:
    """A larger factor, a smaller flow and cheaper prices each break a rule."""
    result = capacity(network)
    flows, prices = result.flows, result.prices
    more = result.factor + Fraction(1, 100)
    assert capacity_violations(network, (), flows, more)
    carried = tuple(flow * more / result.factor for flow in flows)
    assert any(name.startswith("work") for name in capacity_violations(network, (), carried, more))
    half = {j: y / 2 for j, y in prices.work.items()}
    assert price_violations(network, (), replace(prices, work=half))
    assert price_violations(network, (), replace(prices, work={0: Fraction(-1)}))
    free = Prices((Fraction(0),) * len(flows), {})
    assert price_violations(network, (), free)
    assert capacity_bound(network, free) == 0


@given(networks())
def test_one_more_token_at_the_only_bottleneck(network: AgentNetwork) -> None:
    """Its dual price is the slope of the factor, the others' prices are 0."""
    result = solve_capacity(network)
    assume(len(result.bottlenecks) == 1)
    j = network.agent_index[result.bottlenecks[0]]
    agent = network.agents[j]
    # θ = C/(work at factor 1), so the slope is 1/work.
    work = result.loads[agent.name] * agent.rate
    assert result.agent_prices[j] == 1 / work
    assert all(price == 0 for i, price in enumerate(result.agent_prices) if i != j)


def test_rybko_stolyar_by_hand() -> None:
    """ρ = λ·608/768; the virtual station has 2·544·λ/768, full at ρ = 608/1088 = 0.5588."""
    rate = Fraction(9, 10) * 768 / 608
    network = rybko_stolyar(rate)
    assert round(float(rate), 6) == 1.136842
    assert loads(network) == (Fraction(9, 10),) * 2
    (station,) = virtual_stations(network, last_stage_priority(network))
    assert station.name(network) == "A@2 + B@1"
    assert round(float(loads_of(network, [station])["A@2 + B@1"]), 4) == 1.6105
    for solve in (capacity, solve_capacity):
        result = solve(network, [station])
        assert result.is_optimal
        assert result.factor * Fraction(9, 10) == Fraction(608, 1088)
        assert result.bottlenecks == ("A@2 + B@1",)
    assert virtual_stations(network, last_stage_priority(network, reverse=True)) == ()
    assert virtual_stations(network, {}) == ()
    # One agent's priority is not enough, nor are two engines each.
    assert virtual_stations(network, {"1": ["B@1", "A@1"]}) == ()
    doubled = replace(network, agents=tuple(replace(a, engines=2) for a in network.agents))
    assert virtual_stations(doubled, last_stage_priority(doubled)) == ()


@given(networks(max_agents=2))
def test_virtual_stations_only_lower_the_capacity(network: AgentNetwork) -> None:
    """Whatever priority is drawn by name; program and closed form agree with them too."""
    order = {
        agent.name: sorted(network.stages[k].name for k in network.stages_at(j))
        for j, agent in enumerate(network.agents)
    }
    found = virtual_stations(network, order)
    closed = capacity(network, found)
    assert closed.is_optimal
    assert closed.value == solve_capacity(network, found).value
    assert closed.factor <= capacity(network).factor


@pytest.mark.parametrize(
    ("priority", "message"),
    [
        ({"3": []}, "there is no agent '3'"),
        (
            {"1": ["A@1"]},
            r"priority.1: does not list each stage of the agent once; name each once: A@1, B@1",
        ),
        ({"1": ["A@1", "A@1", "B@1"]}, "name each once"),
    ],
)
def test_what_is_no_priority(priority: dict[str, list[str]], message: str) -> None:
    """Each agent's stages are named once."""
    with pytest.raises(InputError, match=message):
        virtual_stations(rybko_stolyar(1), priority)


def test_there_is_no_last_stage_in_a_loop() -> None:
    """A network without arrivals has no capacity."""
    stage = Stage("r", "e", 1, 1, 1)  # type: ignore[arg-type]
    routes = (Route("r@e", "r@e", Fraction(1, 2)),)
    looped = AgentNetwork((Agent("e", 1, ONE_SLOT),), (stage,), routes)
    with pytest.raises(InputError, match="no stage is the last one"):
        last_stage_priority(looped)
    for solve in (capacity, solve_capacity):
        with pytest.raises(InputError, match="all rates are 0"):
            solve(looped.scaled(Fraction(0)))
