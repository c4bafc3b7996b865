"""The workers behind a router: addresses, requests, streams, health and models.

Only configured addresses are called. A worker is an address, or a rank of an address that serves
several (header ``X-data-parallel-rank``).
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import httptools

from bfio.live.wire import RANK_HEADER, EventReader, WireError
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Time to connect to a worker, and for an answer to a health check [s].
_CONNECT_S = 5.0
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
            is_address &= url.isascii() and parts.username is None
            _ = parts.port
        except ValueError:
            is_address = False
        if not is_address or (star and not (count.isdecimal() and 1 <= int(count) <= 10_000)):
            remedy = "give http://HOST:PORT, or http://HOST:PORT*N for N ranks behind it"
            raise InputError(where, f"{text!r:.60} is not a worker", remedy)
        url = url.rstrip("/")
        found += [Address(url, rank) for rank in range(int(count))] if star else [Address(url)]
    if len(set(found)) < len(found):
        raise InputError(where, "a worker is named twice", "name each once")
    return found


class _Answer(asyncio.Protocol):
    """The answer on a connection of its own, read as it comes.

    Parameters
    ----------
    take : callable
        Gets the status and a piece of the body; returns whether it has all that it wants.
    """

    def __init__(self, take: Callable[[int, bytes], bool]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A request that is cancelled while it connects leaves nobody who asks for the end.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.is_json = False
        self._take = take
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._has_length = self._is_whole = False
        self.status = 0  # 0 before it has come.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read what tells the form of the body."""
        name = name.lower()
        self._has_length |= name in (b"content-length", b"transfer-encoding")
        self.is_json |= name == b"content-type" and b"json" in value

    def on_headers_complete(self) -> None:
        """Read the status."""
        self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        """Keep a piece: what is raised here would be wrapped by the parser."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        self._is_whole = True

    def data_received(self, data: bytes) -> None:
        """Read a piece of the answer."""
        if self.done.done():
            return
        try:
            self._parser.feed_data(data)
            pieces, self._pieces = self._pieces, []
            if pieces and self._take(self.status, b"".join(pieces)):
                self._is_whole = True
        except httptools.HttpParserError as error:
            self._end(LostError(f"its answer is not HTTP: {error}", is_down=False))
        except Exception as error:  # Whoever has asked gets it.
            self._end(error)
        else:
            if self._is_whole:
                self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        """End an answer whose length is that of the connection, or tell of the loss."""
        is_whole = error is None and not self._has_length and self.status > 0
        lost = LostError(f"the connection ended early: {error or 'closed'}", is_down=False)
        self._end(None if is_whole else lost)

    def _end(self, error: Exception | None) -> None:
        if not self.done.done():
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)


class Upstream:
    """The workers of a router."""

    def __init__(self, workers: list[Address]) -> None:
        self.workers = workers

    async def stream(
        self, worker: int, path: str, body: dict[str, Any], take: Callable[[list[bytes]], bool]
    ) -> None:
        """Send a request to a worker; ``take`` gets the data of events that come together.

        It gets them when they come, without a switch of tasks, and may end the stream by True.

        Raises
        ------
        LostError
            If the worker or its stream is lost.
        WireError
            If the worker refuses the request: its own error, as it came.
        """
        reader, is_over = EventReader(), False

        def read(piece: bytes) -> bool:
            nonlocal is_over
            events = reader.feed(piece)
            if b"[DONE]" in events:
                is_over = True
                del events[events.index(b"[DONE]") :]
            is_over |= take(events)
            return is_over

        await self._exchange(worker, path, body, read)
        if not is_over:
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
        pieces: list[bytes] = []

        def read(piece: bytes) -> bool:
            pieces.append(piece)
            return False

        is_json = await self._exchange(worker, path, body, read)
        text = b"".join(pieces).decode(errors="replace")
        return json.loads(text) if is_json else text

    async def _exchange(
        self, worker: int, path: str, body: dict[str, Any] | None, take: Callable[[bytes], bool]
    ) -> bool:
        """Pass the body of an answer on; return whether it is one of JSON."""
        refusal = b""

        def read(status: int, piece: bytes) -> bool:
            nonlocal refusal
            if status // 100 == 2:
                return take(piece)
            refusal += piece
            return len(refusal) > _MOST_ERROR

        address, answer = self.workers[worker], _Answer(read)
        url = urlsplit(address.url)
        is_tls = url.scheme == "https"
        try:
            async with asyncio.timeout(_CONNECT_S):
                transport, _ = await asyncio.get_running_loop().create_connection(
                    lambda: answer, url.hostname or "", url.port or (443 if is_tls else 80),
                    ssl=is_tls or None,
                )  # fmt: skip
        except (OSError, TimeoutError) as error:
            raise LostError(f"{type(error).__name__}: {error}", is_down=True) from None
        try:
            transport.write(_request(address, path, body))
            await answer.done
        finally:
            transport.abort()
        if answer.status // 100 != 2:
            raise _refusal(answer.status, refusal[:_MOST_ERROR].decode(errors="replace"))
        return answer.is_json

    async def is_healthy(self, worker: int) -> bool:
        """Whether a worker answers ``/health``."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self.ask(worker, "/health")
        except (LostError, WireError, TimeoutError, ValueError):
            return False
        return True


def _request(address: Address, path: str, body: dict[str, Any] | None) -> bytes:
    url, text = urlsplit(address.url), b"" if body is None else json.dumps(body).encode()
    headers = {"host": url.netloc, "accept": "*/*", "connection": "close"} | address.headers
    if body is not None:
        headers |= {"content-type": "application/json", "content-length": str(len(text))}
    lines = [f"{'GET' if body is None else 'POST'} {url.path}{path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + text


def _refusal(status: int, text: str) -> Exception:
    if not 400 <= status < 500:
        return LostError(f"status {status}: {text[:200]}", is_down=status == 503)
    try:
        told = json.loads(text)["error"]
        message, param = str(told["message"]), told.get("param")
    except (ValueError, KeyError, TypeError, AttributeError):
        message, param = f"The worker refuses the request: {text[:200]}", None
    return WireError(status, message, param if isinstance(param, str) else None)
