"""An emulated fleet and a router in front of it, over loopback in the event loop of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import uvicorn

from bfio import Cluster
from bfio.decode.option_kinds import PrefillTier
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import choose
from bfio.live.decisions import Decisions
from bfio.live.emulator import Emulator
from bfio.live.fleet import Fleet
from bfio.live.log import RunLog
from bfio.live.options import RouteOptions
from bfio.live.prefillers import Prefillers
from bfio.live.router import Router
from bfio.live.service import listen, server_of
from bfio.live.upstream import Upstream, addresses
from bfio.live.wire import EventReader


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Serve an application and yield its address."""
    (bound,) = listen("127.0.0.1", 0)
    server = _Server(server_of(app).config)
    task = asyncio.create_task(server.serve([bound]))
    while not server.started:
        await asyncio.sleep(0.001)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve an application and yield a session with its address as its base."""
    connector = aiohttp.TCPConnector(limit=0)
    async with served(app) as url, aiohttp.ClientSession(url, connector=connector) as session:
        yield session


async def stream(
    session: aiohttp.ClientSession, fields: dict[str, Any], **headers: str
) -> AsyncIterator[dict[str, Any]]:
    """Yield the events of a streamed completion; it must end with ``[DONE]``."""
    reader, last = EventReader(), b""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with session.post(
        "/v1/completions", json={"stream": True} | fields, headers=named
    ) as answer:
        assert answer.status == 200, await answer.text()
        async for piece in answer.content.iter_any():
            for last in reader.feed(piece):
                if last != b"[DONE]":
                    yield json.loads(last)
    assert last == b"[DONE]"


class Live:
    """The two servers of a test and a client of both."""

    def __init__(
        self, emulator: Emulator, router: Router, urls: tuple[str, str], client: Any
    ) -> None:
        self.emulator, self.router, self.client = emulator, router, client
        self.fleet_url, self.url = urls

    async def complete(self, path: str = "/v1/completions", **fields: Any) -> tuple[int, Any]:
        """Send one completion and return status and document."""
        async with self.client.post(self.url + path, json=fields) as answer:
            return answer.status, await answer.json()

    async def order(self, path: str, **fields: Any) -> Any:
        """Send an order to the emulator and return its answer."""
        async with self.client.post(self.fleet_url + path, json=fields) as answer:
            return await answer.json()

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.0005)


@asynccontextmanager
async def live(
    cluster: Cluster,
    policy: Any,
    *,
    speed: float | None = 100.0,
    run: RunOptions | None = None,
    log: RunLog | None = None,
    prefill: PrefillTier | None = None,
    **options: Any,
) -> AsyncIterator[Live]:
    """Serve a fleet and a router with this policy; options are those of the router."""
    emulator = Emulator(Fleet(cluster), speed, prefill=prefill)
    async with served(emulator.app) as fleet_url:
        table = Decisions(choose(policy), cluster, run or RunOptions())
        workers = addresses([f"{fleet_url}*{cluster.workers}"])
        tier = None
        if prefill is not None:
            tier = Prefillers(Upstream(addresses([f"{fleet_url}/prefill*{prefill.workers}"])))
        router = Router(table, Upstream(workers), RouteOptions(**options), log, tier)
        async with (
            served(router.app) as url,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client,
        ):
            yield Live(emulator, router, (fleet_url, url), client)
