"""The workers behind a router: addresses, requests, streams, health and models.

Only configured addresses are called. A worker is an address, or a rank of an address that serves
several (header ``X-data-parallel-rank``).
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

import aiohttp

from bfio.live.wire import RANK_HEADER, EventReader, WireError
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

#: Time to connect to a worker, and for an answer to a health check [s].
_CONNECT_S = 5.0
#: Time for which an idle connection is used again: less than engines keep theirs [s].
_KEEP_S = 3.0
#: Longest error body of a worker that is passed on [bytes].
_MOST_ERROR = 10_000
#: Asks for the usage in every event; engines that do not know it ignore it.
USAGE = {"include_usage": True, "continuous_usage_stats": True}


class LostError(Exception):
    """A worker cannot be reached, broke its stream, or answered a status of 500 or more.

    Parameters
    ----------
    message : str
        What happened.
    is_down : bool
        Whether the worker takes no requests now.
    """

    def __init__(self, message: str, *, is_down: bool) -> None:
        super().__init__(message)
        self.is_down = is_down


class Address(NamedTuple):
    """The address of one worker."""

    url: str
    rank: int | None = None  #: Rank behind the address; None if it serves one worker.

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request to the worker."""
        return {} if self.rank is None else {RANK_HEADER: str(self.rank)}


def addresses(texts: Iterable[str], where: str = "--workers") -> list[Address]:
    """Return the workers of addresses: ``URL``, or ``URL*N`` for N ranks behind one.

    Raises
    ------
    InputError
        If a text is no address, or a worker is named twice.
    """
    found: list[Address] = []
    for text in texts:
        url, star, count = text.strip().partition("*")
        url = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            is_address = False
        if not is_address or (star and not (count.isdecimal() and 1 <= int(count) <= 10_000)):
            remedy = "give http://HOST:PORT, or http://HOST:PORT*N for N ranks behind it"
            raise InputError(where, f"{text!r:.60} is no worker", remedy)
        url = url.rstrip("/")
        found += [Address(url, rank) for rank in range(int(count))] if star else [Address(url)]
    if len(set(found)) < len(found):
        raise InputError(where, "a worker is named twice", "name each once")
    return found


class Upstream:
    """The workers of a router; use it as an asynchronous context."""

    def __init__(self, workers: list[Address]) -> None:
        self.workers = workers
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the connections."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_S),
            timeout=timeout,
            read_bufsize=2**18,
        )
        return self

    async def __aexit__(self, *problem: object) -> None:
        """Close the connections."""
        assert self._session is not None
        await self._session.close()

    async def events(
        self, worker: int, path: str, body: dict[str, Any]
    ) -> AsyncIterator[list[bytes]]:
        """Send a request to a worker, and yield the data of events that came together.

        Raises
        ------
        LostError
            If the worker or its stream is lost.
        WireError
            If the worker refuses the request: its own error, as it came.
        """
        assert self._session is not None
        address, reader = self.workers[worker], EventReader()
        try:
            async with self._session.post(
                address.url + path, json=body, headers=address.headers
            ) as answer:
                if answer.status != 200:
                    raise await _refusal(answer)
                while piece := await answer.content.readany():
                    events = reader.feed(piece)
                    if b"[DONE]" in events:
                        yield events[: events.index(b"[DONE]")]
                        return
                    yield events
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            # A kept connection that the worker has closed meanwhile says nothing about it.
            is_down = isinstance(
                error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
            )
            raise LostError(f"{type(error).__name__}: {error}", is_down=is_down) from None
        raise LostError("the stream ended before its last event", is_down=False)

    async def ask(
        self, worker: int, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any] | str:
        """Return the whole answer to a request: its JSON document, or its text.

        Raises
        ------
        LostError
            If the worker cannot be reached or answers a status of 500 or more.
        WireError
            If the worker refuses the request: its own error, as it came.
        """
        assert self._session is not None
        address, verb = self.workers[worker], "GET" if body is None else "POST"
        try:
            async with self._session.request(
                verb, address.url + path, json=body, headers=address.headers
            ) as answer:
                if answer.status >= 400:
                    raise await _refusal(answer)
                text = await answer.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise LostError(f"{type(error).__name__}: {error}", is_down=True) from None
        is_json = "json" in answer.headers.get("content-type", "")
        return json.loads(text) if is_json else text

    async def is_healthy(self, worker: int) -> bool:
        """Whether a worker answers ``/health``."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self.ask(worker, "/health")
        except (LostError, WireError, TimeoutError, ValueError):
            return False
        return True


async def _refusal(answer: aiohttp.ClientResponse) -> Exception:
    text = (await answer.content.read(_MOST_ERROR)).decode(errors="replace")
    if answer.status >= 500:
        return LostError(f"status {answer.status}: {text[:200]}", is_down=answer.status == 503)
    try:
        told = json.loads(text)["error"]
        message, param = str(told["message"]), told.get("param")
    except (ValueError, KeyError, TypeError, AttributeError):
        message, param = f"The worker refuses the request: {text[:200]}", None
    return WireError(answer.status, message, param if isinstance(param, str) else None)
