"""Common parts of the HTTP services, emulator and router: errors, metrics, answers, sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from abc import abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bfio.live.wire import PATHS, WireError
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prometheus_client.registry import Collector
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    Endpoint = Callable[[Request], Awaitable[Response]]

#: Time for which an idle connection stays open [s]. It exceeds the reuse time of load generators,
#: because a request is lost if its connection closes at that moment.
_KEEP_ALIVE_S = 600

#: Longest HTTP head of a request that arrives in several reads [bytes].
_MOST_HEAD = 2**16

#: Key of the server's own `send` in the scope of a request. Starlette's `send` wraps this function
#: three times, which costs time for each event of a stream.
_SERVER = "bfio.send"


def application(
    complete: Endpoint,
    routes: Mapping[str, Endpoint],
    orders: Mapping[str, Endpoint],
    metrics: Collector,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
    mounted: Mapping[str, ASGIApp] = MappingProxyType({}),
) -> ASGIApp:
    """Return a service with ``/metrics``, whose errors have the form of the OpenAI API.

    Parameters
    ----------
    complete : callable
        Answers a request for a completion.
    routes, orders : mapping of str to callable
        Functions by path that answer GET requests, and POST requests.
    metrics : Collector
        Object whose ``collect`` yields the metrics.
    lifespan : callable, optional
        See `starlette.applications.Starlette`.
    mounted : mapping of str to callable
        Further services by path prefix.
    """
    registry = prometheus_client.CollectorRegistry()
    registry.register(metrics)

    async def exposition(request: Request) -> Response:
        text = prometheus_client.generate_latest(registry)
        return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    posted = dict.fromkeys(PATHS, complete) | dict(orders)
    service = Starlette(
        routes=[
            *(Route(path, answer, methods=["POST"]) for path, answer in posted.items()),
            *(Route(path, answer) for path, answer in routes.items()),
            Route("/metrics", exposition),
            *(Mount(path, app) for path, app in mounted.items()),
        ],
        exception_handlers={WireError: _answer_error, HTTPException: _answer_http_error},
        lifespan=lifespan,
    )

    async def direct(scope: Scope, receive: Receive, send: Send) -> None:
        await service({**scope, _SERVER: send}, receive, send)

    return direct


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WireError)
    return JSONResponse(error.body, error.status, headers=error.headers)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}: {error.detail}."
    return JSONResponse(WireError(error.status_code, what).body, error.status_code)


class Completion(Response):
    """Base class of answers to a completion: a stream of events, or one JSON object.

    Parameters
    ----------
    is_stream : bool
        Whether the client asked for a stream.
    """

    def __init__(self, *, is_stream: bool) -> None:
        super().__init__()
        self._is_stream = is_stream

    @abstractmethod
    def cancel(self) -> None:
        """End the request unless it has ended; called after the answer or a disconnection."""

    @abstractmethod
    async def stream(self, send: Send) -> None:
        """Send the events."""

    @abstractmethod
    async def whole(self, send: Send) -> None:
        """Send the JSON object."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; cancel the request if the client disconnects."""
        send = scope.get(_SERVER, send)
        watch = asyncio.create_task(self._watch(receive))
        answer = self.stream(send) if self._is_stream else self.whole(send)
        try:
            # In a separate task: otherwise each event would also wake a dozen callers of this one.
            await asyncio.create_task(answer)
        finally:
            watch.cancel()
            self.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.cancel()


async def body_of(request: Request) -> dict[str, Any]:
    """Return the body of a control request: a JSON object; {} if the body is empty.

    Raises
    ------
    WireError
        With status 400 if the body is not a JSON object.
    """
    try:
        found = json.loads(await request.body() or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise WireError(400, "The body is not a JSON object; send one.")
    return found


async def start_events(send: Send) -> None:
    """Send the HTTP head of a stream of events."""
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_body(send: Send, data: bytes, *, more: bool = False) -> None:
    """Send a piece of the body; the last one unless ``more`` is true."""
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def send_error(send: Send, error: WireError) -> None:
    """Send an error with its status, body and headers."""
    await send_document(send, error.body, error.status, error.headers)


async def send_document(
    send: Send,
    document: Mapping[str, Any],
    status: int = 200,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Send a JSON object with a status and headers."""
    told = {"content-type": "application/json"} | dict(headers)
    encoded = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send_body(send, json.dumps(document).encode())


def listen(host: str, port: int, count: int = 1) -> list[socket.socket]:
    """Return ``count`` sockets that listen on ports from ``port`` on; port 0 is any free port.

    Raises
    ------
    InputError
        If an address cannot be used.
    """
    found: list[socket.socket] = []
    try:
        for number in range(port, port + count):
            found.append(socket.create_server((host, number), backlog=2048))
            # Connections inherit this option. Without it, the end of an answer would wait for an
            # acknowledgement.
            found[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError) as error:
        for each in found:
            each.close()
        what = f"{host}:{port + len(found)} cannot be used ({getattr(error, 'strerror', error)})"
        raise InputError("--port", what, "give another port or host") from None
    return found


class _Protocol(HttpToolsProtocol):
    """The connection of a client, with a limit on the size of headers that httptools lacks."""

    _in_head, _head = False, 0

    def data_received(self, data: bytes) -> None:
        """Process received data; refuse a request whose head is too long."""
        self._head += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._head > _MOST_HEAD:
            self._in_head = False
            self.send_400_response(f"Invalid HTTP request: its head exceeds {_MOST_HEAD} bytes.")

    def on_message_begin(self) -> None:
        """Start counting the bytes of a head."""
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        """Stop counting."""
        super().on_headers_complete()
        self._in_head = False


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server of an application that writes no log and shuts down quickly."""
    # Without websockets, a request to upgrade is answered like any other request.
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    return uvicorn.Server(config)


def addresses_of(sockets: Sequence[socket.socket], host: str) -> list[str]:
    """Return the URLs of listening sockets."""
    return [f"http://{host}:{each.getsockname()[1]}" for each in sockets]
