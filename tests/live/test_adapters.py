"""Policies inside other routers: what the hooks of verl and TensorRT-LLM tell is enough."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bfio.decode.options import Dispatch
from bfio.live.adapters import Choices, RankRouter, VerlRouter
from formulations.errors import InputError


class Servers(RuleBasedStateMachine):
    """Requests, refusals, ends, and servers that come and go, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.choices = Choices("br-0", Dispatch.POOLED, 3)
        self.slots: dict[str, int] = {}
        #: Requests with their sizes, and where each was last told to be.
        self.sizes: dict[int, int] = {}
        self.at: dict[int, str] = {}
        self.count = 0

    @rule(slots=st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)))
    def serve(self, slots: dict[str, int]) -> None:
        """Change the servers; what was on one that is gone waits again."""
        self.slots = slots
        self.choices.serve(slots)
        self.at = {name: server for name, server in self.at.items() if server in slots}

    @rule(size=st.integers(0, 50))
    def ask(self, size: int) -> None:
        """Ask about a new request."""
        self.count += 1
        self.sizes[self.count] = max(1, size)
        self.again(self.count)

    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        """Ask about one that waits or was refused."""
        if self.sizes:
            self.again(data.draw(st.sampled_from(sorted(self.sizes))))

    def again(self, name: int) -> None:
        """Ask about a request and keep the answer."""
        self.at.pop(name, None)
        server = self.choices.server_of(name, self.sizes[name])
        if server is not None:
            self.at[name] = str(server)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """End a request, known or not."""
        name = data.draw(st.integers(1, 9))
        self.choices.end(name)
        self.sizes.pop(name, None)
        self.at.pop(name, None)

    @invariant()
    def told_requests_are_on_servers(self) -> None:
        """Compare loads with what was told; with nothing left they are zero."""
        told: Counter[str] = Counter()
        for name, server in self.at.items():
            told[server] += self.sizes[name]
        assert all(self.choices.loads[server] >= told[server] for server in told)
        if not self.sizes:
            assert not any(self.choices.loads.values())


TestServers = Servers.TestCase
TestServers.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def test_verl_acquires_and_releases() -> None:
    """Turns of one conversation are told apart, and a removed server is used no longer."""
    router = VerlRouter({"a": 1, "b": 2}, {"router_class": "x.Y", "policy": "br-0"})
    assert [router.acquire_server("r", [1] * size) for size in (9, 5, 3)] == [
        ("a", 1), ("b", 2), ("b", 2),
    ]  # fmt: skip
    router.release_server("b", request_id="r")
    router.add_servers({"c": 3})
    assert router.acquire_server("s", [1] * 20) == ("c", 3)
    # a: 9, b: 3, c: 20.
    assert router.acquire_server("t") == ("b", 2)
    assert router.get_status()["servers"] == {"a": 1, "b": 2, "c": 1}
    router.remove_servers(["b", "c"])
    assert router.acquire_server("u", [1]) == ("a", 1)
    router.release_server("a")
    assert (router.get_all_servers(), router.get_total_inflight()) == (["a"], 1)
    router.remove_servers(["a"])
    with pytest.raises(RuntimeError, match="No available servers"):
        router.acquire_server("v", [1])
    with pytest.raises(InputError, match="pooled"):
        VerlRouter({}, {"policy": "rolling-horizon"})


def item(size: int, rank: int | None = None) -> Any:
    """Return a request as TensorRT-LLM queues it."""
    params = SimpleNamespace(attention_dp_rank=rank, attention_dp_relax=False)
    request = SimpleNamespace(input_token_ids=[0] * size, py_scheduling_params=params)
    return SimpleNamespace(request=request)


@pytest.mark.parametrize("policy", ["br-0", "br-h:horizon=4", "bf-io", "random", "round-robin"])
@given(
    ranks=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), min_size=1, max_size=4),
    sizes=st.lists(st.tuples(st.integers(0, 40), st.none() | st.just(0)), max_size=6),
)
def test_every_request_gets_a_rank(policy: str, ranks: Any, sizes: Any) -> None:
    """Once, on every rank alike, within the slots while there are some."""
    states = [
        SimpleNamespace(rank=g, num_active_requests=count, num_active_tokens=tokens * (count > 0))
        for g, (count, tokens) in enumerate(ranks)
    ]
    new = [item(*size) for size in sizes]
    routers = [type("Router", (RankRouter,), {"policy": policy})() for _ in range(2)]
    for _ in range(2):
        (found, most), same = (router.route_requests(states, new, 4) for router in routers)
        assert (found, most) == same
        assert sorted(id(each) for group in found.values() for each in group) == sorted(
            map(id, new)
        )
        after = [state.num_active_requests + len(found[state.rank]) for state in states]
        assert most == max(after)
        room = sum(4 - state.num_active_requests for state in states)
        assert max(after) <= 4 or room < len(new)


def test_the_policy_sees_the_tokens_of_ranks() -> None:
    """BF-IO sends the large request to the rank of fewer tokens, though it has more requests."""
    states = [
        SimpleNamespace(rank=0, num_active_requests=1, num_active_tokens=90),
        SimpleNamespace(rank=1, num_active_requests=3, num_active_tokens=30),
    ]
    small, large = item(10), item(50)
    router = type("Router", (RankRouter,), {"policy": "bf-io"})()
    assert router.route_requests(states, [small, large], 4) == ({0: [small], 1: [large]}, 4)
