"""Serve requests through emulator, router and client, each its own process, over loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from bfio.workloads.workload import Workload


@contextmanager
def service(*arguments: str) -> Iterator[str]:
    """Run a command of bfio that serves, and yield its address."""
    command = [sys.executable, "-m", "bfio", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        service.last=process
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield next(word.rstrip(";") for word in line.split() if word.startswith("http"))
        finally:
            process.terminate()


async def replay(url: str, requests: Workload, arrivals_s: Sequence[float]) -> None:
    """Send each request at its time, and read its stream to the end."""
    loop = asyncio.get_running_loop()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector, timeout=aiohttp.ClientTimeout()) as session:

        async def send(row: int, at: float) -> None:
            await asyncio.sleep(at - loop.time())
            fields = {
                "prompt": [int(requests.prompt_keys[row]) if requests.prompt_keys is not None else 1]
                * int(requests.prompt_tokens[row]),
                "max_tokens": int(requests.output_tokens[row]),
                "stream": True,
            }
            async with session.post("/v1/completions", json=fields) as answer:
                answer.raise_for_status()
                async for _ in answer.content.iter_any():
                    pass

        began = loop.time()
        await asyncio.gather(*(send(row, began + at) for row, at in enumerate(arrivals_s)))
