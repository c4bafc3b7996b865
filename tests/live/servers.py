"""An emulated fleet and a router in front of it, over loopback in the event loop of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import uvicorn

from bfio import Cluster
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import choose
from bfio.live.decisions import Decisions
from bfio.live.emulator import Emulator, listen, server_of
from bfio.live.fleet import Fleet
from bfio.live.log import RunLog
from bfio.live.options import RouteOptions
from bfio.live.router import Router
from bfio.live.upstream import Upstream, addresses


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
    **options: Any,
) -> AsyncIterator[Live]:
    """Serve a fleet and a router with this policy; options are those of the router."""
    emulator = Emulator(Fleet(cluster), speed)
    async with served(emulator.app) as fleet_url:
        table = Decisions(choose(policy), cluster, run or RunOptions())
        workers = addresses([f"{fleet_url}*{cluster.workers}"])
        router = Router(table, Upstream(workers), RouteOptions(**options), log)
        async with (
            served(router.app) as url,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client,
        ):
            yield Live(emulator, router, (fleet_url, url), client)
