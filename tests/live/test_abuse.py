"""Requests that no client should send: each gets an error of the API or a clean end."""

import asyncio
import json
import logging
import os
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from bfio import Cluster
from tests.live.servers import live
from tests.live.test_router import is_empty, is_error

COUNT = 2000 if os.environ.get("BFIO_TEST_PROFILE") == "deep" else 200
#: Requests at once.
TOGETHER = 25
JUNK: list[Any] = [
    None, True, -1, 0, 2**63, 1e400, "", "x", "\ud800", "\0", [], {}, [[]], [None], {"a": 1},
    [1, "a"], [2**70], "a " * 5000, [{"role": "user"}], [{"role": 3, "content": [{"text": 4}]}],
]  # fmt: skip
FIELDS = (
    "prompt", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "n",
    "model", "kv_transfer_params", "return_token_ids", "temperature", "stop", "echo", "\ud800",
)  # fmt: skip
HEADERS = (
    b"X-data-parallel-rank: 99", b"X-data-parallel-rank: -1", b"Expect: 100-continue",
    b"Content-Length: 3", b"Content-Length: x", b"Transfer-Encoding: chunked", b"Host:",
    b"Connection: upgrade\r\nUpgrade: websocket", b"X: " + b"a" * 100_000, b"\xff\xfe: 1",
    b"Content-Encoding: gzip", b"Cookie", b"Authorization: Bearer x\r\n folded",
)  # fmt: skip


def mutated(rng: Random) -> bytes:
    """Return a request with up to three things wrong."""
    is_chat = rng.random() < 0.3
    prompt = {"messages": [{"role": "user", "content": "a b"}]} if is_chat else {"prompt": "a b"}
    fields: dict[str, Any] = prompt | {
        "max_tokens": rng.randint(1, 8),
        "stream": rng.random() < 0.5,
    }
    for _ in range(rng.randint(0, 2)):
        fields[rng.choice(FIELDS)] = rng.choice(JUNK)
    body = bytearray(json.dumps(fields).encode())
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    if rng.random() < 0.1:
        del body[rng.randrange(len(body)) :]
    path = b"/v1/chat/completions" if is_chat else b"/v1/completions"
    verb, path = (b"POST", path) if rng.random() < 0.9 else (b"BREW", b"/%00/\xff")
    size = len(body) + (rng.choice((-1, 0, 1, 10**9)) if rng.random() < 0.2 else 0)
    lines = [
        verb + b" " + path + b" HTTP/1.1",
        b"Host: a",
        b"Connection: close",
        b"Content-Length: %d" % max(0, size),
    ]
    lines += rng.sample(HEADERS, rng.randint(0, 1))
    return b"\r\n".join(lines) + b"\r\n\r\n" + bytes(body)


async def answered(address: tuple[str, int], request: bytes, rng: Random) -> bytes:
    """Send a request in one of many ways, and return what comes back."""
    manner = rng.choice(("plain", "half", "slow writer", "slow reader", "gone"))
    reader, writer = await asyncio.open_connection(*address, limit=2**10)
    answer = b""
    try:
        for start in range(0, 600, 60) if manner == "slow writer" else ():
            writer.write(request[start : start + 60])
            await asyncio.sleep(0.002)
        writer.write(request[600 if manner == "slow writer" else 0 :])
        if manner == "half":
            writer.write_eof()
        await asyncio.sleep(0.05 * rng.random() if manner in ("gone", "slow reader") else 0)
        if manner != "gone":
            # A server that waits for the rest of a request does so in vain.
            answer = await asyncio.wait_for(reader.read(2**12), 0.5)
            if not answer.startswith(b"HTTP/1.1 100"):
                answer += await asyncio.wait_for(reader.read(), 30.0)
    except OSError:
        pass
    finally:
        writer.transport.abort()
    # To a server, a client that sends no more has left.
    return b"" if manner == "half" and b" 200 OK" in answer[:20] else answer


def is_clean(answer: bytes) -> bool:
    """Whether an answer is empty, an error of the API or of HTTP, or complete."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not answer or b" 100 " in head[:20]:
        return True
    status = int(head.split()[1])
    if status == 200:
        return b"[DONE]" in body or is_whole(body)
    if b"application/json" in head:
        return is_error(json.loads(body))
    return 400 <= status < 500 and body.startswith(b"Invalid HTTP request")


def is_whole(body: bytes) -> bool:
    """Whether a chunked body is one completion."""
    return "usage" in json.loads(b"".join(body.split(b"\r\n")[1:2]) or body)


async def abused(count: int, seed: int, handler: logging.Handler) -> int:
    """Send mutated requests, and return how many were answered; nothing may be left."""
    rng, problems = Random(seed), []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: problems.append(told))
    async with live(Cluster(workers=2, slots=8), "br-0", speed=1000.0, tick_s=0.001) as both:
        await both.until(lambda: bool(both.router.models))
        # The server has silenced its log.
        log = logging.getLogger("uvicorn.error")
        log.setLevel(logging.ERROR)
        log.addHandler(handler)
        place, gate = urlsplit(both.url), asyncio.Semaphore(TOGETHER)
        address, before = (str(place.hostname), int(place.port or 0)), len(asyncio.all_tasks())

        async def send(request: bytes, chance: Random) -> bool:
            async with gate:
                answer = await answered(address, request, chance)
            assert is_clean(answer), (request[:300], answer[:300])
            return bool(answer)

        sent = [(mutated(rng), Random(rng.random())) for _ in range(count)]
        got = await asyncio.gather(*(send(*each) for each in sent))
        await is_empty(both)
        assert both.router.errors == 0
        await both.until(lambda: len(asyncio.all_tasks()) <= before + 2)
        assert (await both.complete(prompt="a", max_tokens=2))[0] == 200
        log.removeHandler(handler)
    assert problems == []
    return sum(got)


@pytest.mark.parametrize("seed", [0])
def test_mutated_requests_end_cleanly(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Errors of the API or clean ends, no traceback in a log, no task and no slot left."""
    assert asyncio.run(abused(COUNT, seed, caplog.handler)) > COUNT // 3
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
