"""The request router of Ray Serve; `make test-live` runs it where Ray is installed."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from bfio.decode.state import DecodeState

ray = pytest.importorskip("ray", reason="Ray Serve is installed by make test-live alone")
serve = pytest.importorskip("ray.serve")
RequestRouterConfig = pytest.importorskip("ray.serve.config").RequestRouterConfig

REPLICAS, SLOTS, REQUESTS = 3, 2, 200
_NUMBERS = itertools.count()


def last_open(state: DecodeState) -> list[int | None]:
    """Send each request to the last server with a free slot."""
    free, answer = state.free_slots.tolist(), list[int | None]()
    for _ in range(state.num_waiting):
        open_ones = [g for g, slots in enumerate(free) if slots > 0]
        answer.append(open_ones[-1] if open_ones else None)
        if open_ones:
            free[open_ones[-1]] -= 1
    return answer


class Worker:
    """A replica that answers after a time, with its name and the most requests it has had."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, prompt: str, seconds: float) -> tuple[str, str, int]:
        """Answer a prompt."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(seconds)
        self.now -= 1
        return prompt, serve.get_replica_context().replica_id.unique_id, self.most


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Run Ray, without any HTTP."""
    ray.init(num_cpus=REPLICAS + 2, include_dashboard=False, log_to_driver=False)
    serve.start(proxy_location="Disabled")
    yield
    serve.shutdown()
    ray.shutdown()


def deployed(policy: str, slots: int = SLOTS, **more: Any) -> Any:
    """Deploy the replicas behind a policy, and return their handle."""
    router = RequestRouterConfig(
        request_router_class="bfio.live.ray_serve:PolicyRouter",
        request_router_kwargs={"policy": policy} | more,
    )
    deployment = serve.deployment(
        num_replicas=REPLICAS,
        max_ongoing_requests=slots,
        request_router_config=router,
        ray_actor_options={"num_cpus": 0.5},
    )(Worker)
    # No replica of an earlier test is there while the next ones start. Ray keeps the router of an
    # application by its name, whatever policy a later one asks for.
    for name in serve.status().applications:
        serve.delete(name)
    return serve.run(deployment.bind(), name=f"test{next(_NUMBERS)}", route_prefix=None)


async def answered(handle: Any, together: bool, count: int) -> list[tuple[str, str, int]]:
    """Send requests at once or one by one."""
    asked = [(f"r{i} " * (1 + 37 * i % 101), 0.002 * (i % 7)) for i in range(count)]
    if together:
        return list(await asyncio.gather(*(handle.remote(*each) for each in asked)))
    return [await handle.remote(*each) for each in asked]


@pytest.mark.parametrize("policy", ["br-0", "br-h:horizon=5", "jsq", "adp-router"])
def test_every_request_is_answered_once(
    cluster: None, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """More requests than slots: each comes back once, and no replica has more than its slots."""
    handle = deployed(policy)
    began = time.monotonic()
    told = asyncio.run(answered(handle, together=True, count=REQUESTS))
    took = time.monotonic() - began
    assert [prompt.split()[0] for prompt, _, _ in told] == [f"r{i}" for i in range(REQUESTS)]
    assert max(most for _, _, most in told) <= SLOTS
    counts = sorted([name for _, name, _ in told].count(name) for name in {t[1] for t in told})
    assert len(counts) == REPLICAS
    with capsys.disabled():
        print(f"\nray serve, {policy}: {REQUESTS} requests in {took:.1f} s, by replica {counts}")


def test_the_policy_decides(cluster: None) -> None:
    """A policy of one's own that takes the last server: one replica gets nearly all."""
    handle = deployed(f"{__name__}:last_open", slots=40)
    told = asyncio.run(answered(handle, together=False, count=20))
    # Ray tells the ends of requests late, so slots are plenty.
    assert Counter(name for _, name, _ in told).most_common(1)[0][1] >= 16
