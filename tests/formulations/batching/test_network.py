"""Batch times and networks of agents: what they say, and what they refuse."""

import json
from fractions import Fraction
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import InputError
from formulations.batching import (
    Agent,
    AgentNetwork,
    BatchTime,
    Stage,
    fork_join,
    multi_type,
    rybko_stolyar,
    single_engine,
)
from tests.formulations.batching.cases import batch_times, networks

LLAMA = BatchTime.in_slots_of("0.1", overhead="45.5", per_token="0.3", free_tokens=64)


@pytest.mark.parametrize(
    ("budget", "slots", "per_second"),
    [(128, 647, 1978.4), (256, 1031, 2483.0), (512, 1799, 2846.0), (1024, 3335, 3070.5)],
)
def test_the_times_of_the_fit(budget: int, slots: int, per_second: float) -> None:
    """45.5 + 0.3 (b − 64) ms in slots of 0.1 ms: 455 + 3·64 = 647 at b = 128, and so on."""
    assert LLAMA.slots(budget) == slots
    assert round(float(LLAMA.rate(budget)) * 10_000, 1) == per_second
    assert LLAMA.rate_check(budget).holds


@given(batch_times, st.integers(1, 40))
def test_the_table_is_the_formula_rounded_up(time: BatchTime, budget: int) -> None:
    """Entry b' is the least whole number of slots that is enough; an idle slot is one slot."""
    table = time.slots_table(budget)
    assert table.shape == (budget + 1,)
    assert table[0] == 1
    for tokens in range(1, budget + 1):
        exact = time.overhead + time.per_token * max(0, tokens - time.free_tokens)
        assert exact <= table[tokens] < exact + 1
        assert time.slots(tokens) == table[tokens]


@given(batch_times, st.integers(1, 40))
def test_the_rate_check_finds_the_fastest_batch(time: BatchTime, budget: int) -> None:
    """The best rate is the highest of all loads, in fractions."""
    rates = {x: Fraction(x, time.slots(x)) for x in range(1, budget + 1)}
    check = time.rate_check(budget)
    assert check.best_rate == max(rates.values()) == rates[check.best_tokens]
    assert check.holds == (rates[budget] == check.best_rate) == (check.warning() is None)


@given(st.integers(1, 40), st.integers(0, 9), st.integers(0, 12), st.integers(1, 40))
def test_whole_times_keep_the_hypothesis_of_the_paper(c: int, a: int, b0: int, b: int) -> None:
    """In whole slots the check holds iff c >= a·b0 or b <= b0 (or a = 0), section 1.3."""
    assert BatchTime(Fraction(c), Fraction(a), b0).rate_check(b).holds == (c >= a * b0 or b <= b0)


def test_a_smaller_batch_may_be_faster() -> None:
    """C = 1, a = 1, b0 = 8, b = 16: t = 9, so 16/9 tokens a slot, but 8 tokens take one slot."""
    check = BatchTime(Fraction(1), Fraction(1), 8).rate_check(16)
    assert (check.full_rate, check.best_tokens, check.best_rate) == (
        Fraction(16, 9),
        8,
        Fraction(8),
    )
    assert "Theorem 1 (b)" in (check.warning() or "")


@given(networks())
def test_documents_and_graphs_hold_all_of_a_network(network: AgentNetwork) -> None:
    """A network is read back from its document and from its graph as it was."""
    document = json.dumps(network.to_mapping())
    assert AgentNetwork.from_json(document) == network
    # A graph lists edges by source, so routes are compared as a set.
    read = AgentNetwork.from_graph(network.to_graph())
    assert set(read.routes) == set(network.routes)
    assert AgentNetwork.from_graph(read.to_graph()) == read
    assert (read.agents, read.stages, read.fork_join) == (
        network.agents,
        network.stages,
        network.fork_join,
    )


def test_the_networks_of_the_paper() -> None:
    """Stages and routes of (4.1) to (4.5)."""
    assert single_engine("0.5", 1, 9, budget=10, engines=4).agents[0].rate == 40
    assert multi_type([(1, 2, 3), (4, 5, 6)], budget=10).types == ("1", "2")
    fork = fork_join("1", [(10, 10), (5, 15), (15, 5), (12, 8)], budgets=20)
    assert [[k for k, _ in after] for after in fork.successors] == [[1, 2], [3], [3], []]
    network = rybko_stolyar("1.1")
    tokens = {
        agent.name: [int(network.stages[k].tokens) for k in network.stages_at(j)]
        for j, agent in enumerate(network.agents)
    }
    assert tokens == {"1": [64, 544], "2": [544, 64]}


ENGINE = {"name": "e", "budget": 10, "overhead": 1}
STAGE = {"agent": "e", "prefill": 2, "decode": 3, "rate": "1/2"}


def document(**parts: Any) -> dict[str, Any]:
    """Return a document of one agent and one stage, with parts replaced."""
    return {"agents": [ENGINE], "stages": [STAGE]} | parts


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"agents": []}, "agents: found 0"),
        ({"agents": [ENGINE, ENGINE]}, r"agents\[1\].name: 'e' occurs twice"),
        ({"agents": [ENGINE | {"budget": 0}]}, r"agents\[0\].budget: 0 is out of range"),
        ({"agents": [ENGINE | {"overhead": 0}]}, r"agents\[0\].overhead: 0"),
        ({"agents": [ENGINE | {"per_token": -1}]}, r"agents\[0\].per_token: -1 is out of range"),
        ({"agents": [ENGINE | {"per_token": 10**9}]}, r"agents\[0\].per_token: a batch takes"),
        ({"agents": [ENGINE | {"engines": 0}]}, r"agents\[0\].engines: 0"),
        ({"agents": [ENGINE | {"chunked": 1}]}, r"agents\[0\].chunked: 1"),
        ({"agents": [ENGINE | {"name": ""}]}, r"agents\[0\].name: ''"),
        ({"stages": [STAGE, STAGE]}, r"stages\[1\].name: 'request@e' occurs twice"),
        (
            {"stages": [STAGE | {"agent": "f"}]},
            r"stages\[0\].agent: there is no 'f'.*one of e",
        ),
        ({"stages": [STAGE | {"rate": "-1"}]}, r"stages\[0\].rate: -1 is out of range"),
        ({"stages": [STAGE | {"prefill": 0}]}, r"stages\[0\].prefill: 0"),
        ({"stages": [STAGE | {"decode": 0.5}]}, r"stages\[0\].decode: a mean of 1/2 tokens"),
        ({"stages": [STAGE | {"tokens": 5}]}, r"stages\[0\].tokens: unknown"),
        ({"fork_join": ["b"]}, r"fork_join\[0\]: there is no type 'b'"),
        ({"fork_join": ["request"] * 2}, r"fork_join\[1\]: 'request' occurs twice"),
        ({"slot": 0}, "slot: 0"),
        ({"routes": [{"from": "request@e", "to": "f"}]}, r"routes\[0\].to: there is no stage 'f'"),
        (
            {"routes": [{"from": "request@e", "to": "request@e"}]},
            "requests never leave request@e: the routing matrix has spectral radius 1",
        ),
        (
            {"routes": [{"from": "request@e", "to": "request@e", "probability": 2}]},
            r"routes\[0\].probability: 2 is more than 1",
        ),
        (
            {
                "routes": [{"from": "request@e", "to": "request@e", "probability": "1/2"}],
                "fork_join": ["request"],
            },
            r"routes\[0\].probability: request is a fork-join type",
        ),
        (
            {
                "agents": [ENGINE | {"chunked": False}],
                "stages": [STAGE | {"prefill": 11}],
            },
            r"stages\[0\]: a mean prompt of 11 tokens exceeds the budget 10 of e",
        ),
    ],
)
def test_what_a_document_may_not_say(parts: dict[str, Any], message: str) -> None:
    """Each fault is reported in one line, with its place."""
    with pytest.raises(InputError, match=message) as caught:
        AgentNetwork.from_mapping(document(**parts))
    assert "\n" not in str(caught.value)


def _chain(edges: list[tuple[str, str, Any]], **graph: Any) -> Any:
    made = nx.DiGraph(agents=[Agent("e", 10, BatchTime(Fraction(1)))], **graph)
    for name in "abc":
        made.add_node(name, agent="e", prefill=1, decode=1, rate=1 if name == "a" else 0)
    for source, target, probability in edges:
        made.add_edge(source, target, probability=probability)
    return made


def test_requests_must_leave() -> None:
    """A trap behind a way out is found: b and c send requests to each other for ever."""
    ways = [("a", "b", "1/2"), ("b", "c", 1), ("c", "b", 1)]
    with pytest.raises(InputError, match="requests never leave b, c"):
        AgentNetwork.from_graph(_chain(ways))
    ways[-1] = ("c", "b", "0.99")
    assert len(AgentNetwork.from_graph(_chain(ways)).routes) == 3
    with pytest.raises(InputError, match="from a add up to 3/2"):
        AgentNetwork.from_graph(_chain([("a", "b", "3/4"), ("a", "c", "3/4")]))


def test_a_fork_join_type_has_no_cycle() -> None:
    """The cycle is named; so is a rate in the middle, and unequal rates at the beginning."""
    forks = {"fork_join": ["request"]}
    around = [("a", "b", 1), ("b", "c", 1), ("c", "a", 1)]
    with pytest.raises(InputError, match="have the cycle a to b to c to a"):
        AgentNetwork.from_graph(_chain(around, **forks))
    graph = _chain([("a", "b", 1), ("b", "c", 1)], **forks)
    graph.nodes["b"]["rate"] = 1
    with pytest.raises(InputError, match="b follows other stages"):
        AgentNetwork.from_graph(graph)
    with pytest.raises(InputError, match="unequal rates"):
        AgentNetwork.from_graph(_chain([("a", "c", 1)], **forks))


def test_only_directed_graphs_are_networks() -> None:
    """An undirected graph, one with parallel edges and a list are refused."""
    graphs: list[Any] = [nx.Graph(), nx.MultiDiGraph(), []]
    for graph in graphs:
        with pytest.raises(InputError, match="not a directed graph"):
            AgentNetwork.from_graph(graph)


def test_routes_stay_within_a_type() -> None:
    """A request keeps its type."""
    parts = document(
        stages=[STAGE | {"type": "x"}, STAGE | {"type": "y"}],
        routes=[{"from": "x@e", "to": "y@e"}],
    )
    with pytest.raises(InputError, match="of different types"):
        AgentNetwork.from_mapping(parts)


def test_parts_of_other_kinds_are_refused() -> None:
    """A batch time that is none, four means that are three."""
    with pytest.raises(InputError, match="give a BatchTime"):
        Agent("e", 1, 5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="four agents"):
        fork_join(1, [(1, 1)] * 3, budgets=5)
    assert Stage("t", "e", 1, 1).name == "t@e"  # type: ignore[arg-type]
