"""The workers behind a router: addresses, requests, streams, health and models.

Only configured addresses are called. A worker is an address, or one of several ranks behind an
address (header ``X-data-parallel-rank``).
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

#: Time limit to connect to a worker, and to receive the answer to a health check [s].
_CONNECT_S = 5.0
#: Longest error body of a worker that is forwarded [bytes].
_MOST_ERROR = 10_000
#: Stream options that ask for the usage in every event; engines ignore unknown options.
USAGE = {"include_usage": True, "continuous_usage_stats": True}


class LostError(Exception):
    """A worker cannot be reached, broke its stream, or answered a status of 500 or more.

    Parameters
    ----------
    message : str
        Description of the failure.
    is_down : bool
        Whether the worker accepts no requests at present.
    """

    def __init__(self, message: str, *, is_down: bool) -> None:
        super().__init__(message)
        self.is_down = is_down


class Address(NamedTuple):
    """The address of one worker."""

    url: str
    rank: int | None = None  #: Rank behind the address; None if the address is one worker.

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request to the worker."""
        return {} if self.rank is None else {RANK_HEADER: str(self.rank)}


def addresses(texts: Iterable[str], where: str = "--workers") -> list[Address]:
    """Return the workers given by texts ``URL``, or ``URL*N`` for N ranks behind one URL.

    Raises
    ------
    InputError
        If a text is not an address, or a worker is listed twice.
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
        raise InputError(where, "a worker is listed twice", "list each worker once")
    return found


class _Answer(asyncio.Protocol):
    """The answer to one request on its own connection, processed piece by piece.

    Parameters
    ----------
    take : callable
        Function of the status and a piece of the body; returns whether no more data is needed.
    """

    def __init__(self, take: Callable[[int, bytes], bool]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # If a request is cancelled while it connects, no task reads the result of this future.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.is_json = False
        self._take = take
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._has_length = self._is_whole = False
        self.status = 0  # 0 before it is received.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read the headers that define the form and length of the body."""
        name = name.lower()
        self._has_length |= name in (b"content-length", b"transfer-encoding")
        self.is_json |= name == b"content-type" and b"json" in value

    def on_headers_complete(self) -> None:
        """Read the status."""
        self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        """Store a piece of the body; errors raised here would be wrapped by the parser."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Record the end of the body."""
        self._is_whole = True

    def data_received(self, data: bytes) -> None:
        """Parse a piece of the answer, and pass its body to ``take``."""
        if self.done.done():
            return
        try:
            self._parser.feed_data(data)
            pieces, self._pieces = self._pieces, []
            if pieces and self._take(self.status, b"".join(pieces)):
                self._is_whole = True
        except httptools.HttpParserError as error:
            self._end(LostError(f"its answer is not HTTP: {error}", is_down=False))
        except Exception as error:  # Raised in the caller.
            self._end(error)
        else:
            if self._is_whole:
                self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Complete an answer that ends with its connection; otherwise report the loss."""
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
        """Send a request to a worker, and pass the data of its events to ``take``.

        ``take`` is called with all events that arrive together, without a switch of tasks. If it
        returns True, the stream ends.

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
        """Pass the body of an answer to ``take``; return whether its content type is JSON."""
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
        """Return whether a worker answers ``/health`` with success."""
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
