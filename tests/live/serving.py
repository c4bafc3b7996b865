"""Serve applications on the loopback address within a test, and read streams from them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from starlette.applications import Starlette

from bfio.live.emulator import listen, server_of
from bfio.live.wire import EventReader


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve an application on a free port, and yield a session with it as its base."""
    sockets, server = listen("127.0.0.1", 0), server_of(app)
    task = asyncio.create_task(server.serve(sockets))
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(
            f"http://127.0.0.1:{sockets[0].getsockname()[1]}", connector=connector
        ) as session:
            yield session
    finally:
        server.should_exit = True
        await task


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
