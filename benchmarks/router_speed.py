"""Rows that time the streams that pass through a router, beside a plain proxy and none.

Workers that compute nothing send each stream a token in equal intervals, with the time at which it
left. Clients read these times. The streams are apart, so tokens do not come in bursts.
"""

import asyncio
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bfio.live.service import listen
from bfio.live.wire import DONE, event
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments

ARGUMENTS = ("command", "streams", "tokens", "interval_s")
_PATH = "/v1/completions"
_SENT = re.compile(rb'"text":"([\d.]+)"')
#: Longest time until a service listens [s].
_PATIENCE_S = 120.0


def workers() -> Starlette:
    """Return workers that send ``max_tokens`` tokens, one every ``interval`` seconds."""

    async def complete(request: Request) -> Response:
        asked = json.loads(await request.body())
        tokens, interval = asked["max_tokens"], asked["interval"]

        async def stream() -> AsyncIterator[bytes]:
            begin = time.monotonic() + interval * random.random()
            for token in range(tokens):
                await asyncio.sleep(begin + token * interval - time.monotonic())
                ends = "length" if token + 1 == tokens else None
                choice = {"index": 0, "text": f"{time.monotonic():.6f}", "finish_reason": ends}
                counts = {"prompt_tokens": 1, "completion_tokens": token + 1}
                yield event({"id": "a", "choices": [choice], "usage": counts})
            yield DONE

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "a"}]})

    async def health(request: Request) -> Response:
        return Response()

    return _app(complete, Route("/v1/models", models), Route("/health", health))


def proxy(url: str) -> Starlette:
    """Return a proxy that passes bodies on as they come, made of usual libraries."""
    kept: list[aiohttp.ClientSession] = []

    async def complete(request: Request) -> Response:
        if not kept:
            connector = aiohttp.TCPConnector(limit=0)
            kept.append(aiohttp.ClientSession(url, connector=connector))
        body = await request.body()

        async def stream() -> AsyncIterator[bytes]:
            async with kept[0].post(_PATH, data=body) as answer:
                async for piece in answer.content.iter_any():
                    yield piece

        return StreamingResponse(stream(), media_type="text/event-stream")

    return _app(complete)


def _app(complete: Any, *others: Route) -> Starlette:
    return Starlette(routes=[Route(_PATH, complete, methods=["POST"]), *others])


class _Client(asyncio.Protocol):
    """Reads one stream, and notes how long its tokens were on their way."""

    def __init__(self, body: bytes, delays: list[float]) -> None:
        self.body, self.delays = body, delays
        self.rest = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the request."""
        head = f"POST {_PATH} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
        transport.write(f"{head}content-length: {len(self.body)}\r\n\r\n".encode() + self.body)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Read tokens; close the connection after the last one."""
        now, *parts = time.monotonic(), *(self.rest + data).split(b"\n\n")
        self.rest = parts.pop()
        self.delays += [now - float(sent) for each in parts for sent in _SENT.findall(each)]
        if any(b"[DONE]" in each for each in parts):
            self.transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Note a stream that ended early."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the stream ended early"))


@contextmanager
def serving(command: str, **places: object) -> Iterator[tuple[int, int]]:
    """Run a service on a free port, and yield its port and process once it listens."""
    (found,) = listen("127.0.0.1", 0)
    port = found.getsockname()[1]
    found.close()
    words = shlex.split(command.format(port=port, python=sys.executable, **places))
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            asyncio.run(_until_it_listens(port))
            yield port, process.pid
        finally:
            process.terminate()


async def _until_it_listens(port: int) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


def spent(process: int) -> float:
    """Return the processor time of a process and its children [s]."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(spent(int(child)) for child in children)


async def read(port: int, streams: int, tokens: int, interval: float) -> list[float]:
    """Read streams at once, and return the delay of every token [s]."""
    fields = {"prompt": "a", "max_tokens": tokens, "stream": True, "interval": interval}
    body, delays = json.dumps(fields).encode(), list[float]()
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: _Client(body, delays), "127.0.0.1", port)
        for _ in range(streams)
    ]
    await asyncio.gather(*(client.done for _, client in made))
    assert len(delays) == streams * tokens
    return delays


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Read the arguments of a row."""
    given = Arguments(arguments, ARGUMENTS)
    return Planned("", lambda: measure(given), draws=False)


def measure(given: Arguments) -> RowResult:
    """Read streams of the workers through a service, or directly."""
    asked = (
        given.whole("streams", 100, minimum=1),
        given.whole("tokens", 100, minimum=1),
        given.seconds("interval_s", 0.05),
    )
    with serving("{python} -m benchmarks.router_speed {port}") as (direct, workers):
        url = f"http://127.0.0.1:{direct}"
        if command := given.text("command", ""):
            with serving(command, workers=url) as through:
                return _measured(*through, asked)
        return _measured(direct, workers, asked)


def _measured(port: int, process: int, asked: tuple[int, int, float]) -> RowResult:
    asyncio.run(read(port, 2, 5, 0.0))
    time.sleep(1.0)  # A router has learnt about its workers.
    before = spent(process)
    delays = asyncio.run(read(port, *asked))
    after = spent(process)
    return RowResult(
        values={"chunks": len(delays)},
        timings={
            "chunk_us": 1e6 * (after - before) / len(delays),
            "delay_median_s": float(np.median(delays)),
            "delay_p99_s": float(np.percentile(delays, 99, method="higher")),
        },
    )


KIND = planned_kind(
    "router-speed",
    "time of a chunk of a stream through a router",
    plan,
    descriptions("""
        chunks | | chunks that were sent, and passed
        chunk_us | µs | processor time of the service per chunk, requests included
        delay_median_s | s | median time of a chunk from worker to client
        delay_p99_s | s | 99th percentile of it, as a time that was observed
    """),
)

if __name__ == "__main__":
    app = proxy(sys.argv[2]) if len(sys.argv) > 2 else workers()
    uvicorn.run(app, port=int(sys.argv[1]), log_level="critical", access_log=False)
