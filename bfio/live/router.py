"""The router: a stateful proxy between clients and the workers of a barrier (BalanceRoute, 5).

Requests wait in a pool. At each boundary between two steps, the policy decides which requests go
to which worker (`bfio.live.decisions`). The tokens stream back through the router, which updates
its table by them, so no engine needs a change. A boundary is reached when every running request
has reported a token since the last boundary. If only requests are missing that were sent too late
for the step, the boundary is ``tick_s`` seconds after the last token. Workers that are not in
lockstep have no common boundary; the router waits for at most ten times ``tick_s``.

With immediate dispatch (D.6), a request is sent to a worker when it arrives, and waits there.

With prefill workers, a prefill worker computes the prompt of a request before the request enters
the pool, and the request is sent with the handle of its KV cache (D.2). A handle can be used only
once, so a request that returns to the pool is prefilled again.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response

from bfio.live.chunk import Chunk
from bfio.live.decisions import BOUND, HELD, RUNNING, WAITING, Decisions
from bfio.live.service import (
    Completion,
    addresses_of,
    application,
    listen,
    send_body,
    send_document,
    send_error,
    server_of,
    start_events,
)
from bfio.live.upstream import USAGE, LostError, Upstream
from bfio.live.wire import (
    DEFAULT_TOKENS,
    DONE,
    PATHS,
    Payload,
    WireError,
    event,
    read_payload,
)
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import Send

    from bfio.live.log import RunLog
    from bfio.live.options import RouteOptions
    from bfio.live.prefillers import Handle, Prefillers

#: First and longest pause before a failed request is sent again [s].
_BACKOFF_S, _LONGEST_BACKOFF_S = 0.05, 2.0
#: Time between two health checks; and between two points of the plot on the status page [s].
_HEALTH_S, _POINT_S = 1.0, 0.5
#: Number of points of the plot on the status page.
_POINTS = 360
#: Largest number of events that may wait for a slow client; with more, its request is cancelled.
_MOST_UNREAD = 10_000
#: Longest body of a request [bytes].
_MOST_BODY = 2**24
#: Number of objects created between two runs of the garbage collector.
_ALLOCATIONS = 20_000
#: Reasons why a request ends; the status page counts all but the first as aborted.
FINISHED, REFUSED, EXPIRED, FAILED, CANCELLED = (
    "finished", "refused", "expired", "failed", "cancelled",
)  # fmt: skip


class Ticket:
    """One request of a client, from its arrival to its end."""

    def __init__(self, payload: Payload, path: str, number: int, row: int, key: int) -> None:
        self.payload, self.path, self.number, self.row = payload, path, number, row
        self.key = key  # Equal for equal prompts.
        self.came, self.waits_since = time.monotonic(), time.monotonic()
        self.sent_s: float | None = None
        self.first_s: float | None = None
        self.worker, self.tokens, self.attempts = -1, 0, 0
        self.is_fresh = False  # Whether it was sent and has not reported a token since.
        #: Entries not yet sent to the client: events; at the end, an error or None.
        self.unread: list[Chunk | WireError | None] = []
        self._reader: asyncio.Future[None] | None = None  # Waits for an entry.
        self.text: list[str] = []
        self.ids: list[int] = []
        self.task: asyncio.Task[None] | None = None
        self.handle: Handle | None = None  # None after its first token.
        self.prompt = payload.prompt_tokens  # By the worker's count, if reported [tokens].
        self.has_left = False  # Whether its row in the table is free again.
        self.end = ""

    def tell(self, entry: Chunk | WireError | None) -> None:
        """Add an event, an error or the end (None) for the client."""
        self.unread.append(entry)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def told(self) -> list[Chunk | WireError | None]:
        """Wait for entries for the client, and return all of them."""
        while not self.unread:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        taken, self.unread = self.unread, []
        return taken


class Router:
    """A policy in front of workers.

    Parameters
    ----------
    table : Decisions
        The table of requests, with the policy.
    upstream : Upstream
        The workers.
    options : RouteOptions
        Limits and times.
    log : RunLog, optional
        Log to which decisions and requests are written.
    prefill : Prefillers, optional
        The prefill workers; by default workers compute their own prompts.
    """

    def __init__(
        self,
        table: Decisions,
        upstream: Upstream,
        options: RouteOptions,
        log: RunLog | None = None,
        prefill: Prefillers | None = None,
    ) -> None:
        self.table, self.upstream, self.options, self.log = table, upstream, options, log
        self.prefill = prefill
        self.own_slots = table.slots.copy()
        self.tickets: dict[int, Ticket] = {}
        self.ends = dict.fromkeys((FINISHED, REFUSED, EXPIRED, FAILED, CANCELLED), 0)
        self.arrived = self.sent = self.decided = self.tokens = self.errors = 0
        self.decide_s = 0.0
        self.models: set[str] = set()
        self.points: deque[dict[str, Any]] = deque(maxlen=_POINTS)
        self._began = time.monotonic()
        #: Rows of running requests that must report a token before the next boundary.
        self._due: set[int] = set()
        self._stepping = False  # Whether a request ran at the last decision.
        self._stir = asyncio.Event()
        self._last_token = self._decided_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self.app = application(
            self._complete,
            routes={
                "/": self._page,
                "/v1/models": self._models,
                "/health": self._health,
                "/bfio/state": self._state,
            },
            orders={},
            metrics=self,
            lifespan=self._running,
        )

    @asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(each()) for each in (self._dispatch, self._watch, self._reap)]
        try:
            yield
        finally:
            for task in [*tasks, *self._tasks]:
                task.cancel()
            await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)
            if self.log is not None:
                self.log.close()

    # What clients call.

    async def _complete(self, request: Request) -> Response:
        path = request.url.path
        payload = read_payload(await self._body(request), PATHS[path])
        if payload.model is not None and self.models and payload.model not in self.models:
            known = ", ".join(sorted(self.models))
            raise WireError(404, f"Unknown model {payload.model:.60}; use {known}.", "model")
        if payload.prompt_tokens > (most := int(self.table.memory.max())):
            raise WireError(400, f"The prompt is longer than {most} tokens; shorten it.", "prompt")
        text = json.dumps(payload.fields.get("prompt") or payload.fields.get("messages"))
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        key = int.from_bytes(digest, "big", signed=True)
        if self.table.num_waiting >= self.options.pool or self.table.is_full:
            ticket = Ticket(payload, path, self.arrived, -1, key)
            self.arrived += 1
            ticket.end = REFUSED
            self._ended(ticket)
            raise _try_later(f"The pool of waiting requests is full ({self.options.pool})")
        most = payload.max_tokens or DEFAULT_TOKENS
        row = self.table.arrive(payload.prompt_tokens, most, key)
        ticket = self.tickets[row] = Ticket(payload, path, self.arrived, row, key)
        self.arrived += 1
        self._again(ticket)
        return _Answer(self, ticket)

    async def _body(self, request: Request) -> bytes:
        pieces, size, most = [], 0, _MOST_BODY
        try:
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    what = f"The body is longer than {most} bytes; send a shorter one."
                    raise WireError(413, what)
                pieces.append(piece)
        except ClientDisconnect:
            raise WireError(400, "The body ended early; send the complete body.") from None
        return b"".join(pieces)

    async def _models(self, request: Request) -> Response:
        entry = {"object": "model", "created": 0, "owned_by": "workers"}
        listed = [{"id": name} | entry for name in sorted(self.models)]
        return JSONResponse({"object": "list", "data": listed})

    async def _health(self, request: Request) -> Response:
        if not self.table.slots.any():
            raise WireError(503, "No worker is up.", headers={"retry-after": "1"})
        return Response()

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(files("bfio.live").joinpath("page.html").read_text("utf-8"))

    async def _state(self, request: Request) -> Response:
        return JSONResponse(self.state() | {"points": list(self.points)})

    def state(self) -> dict[str, Any]:
        """Return the state of the router as a JSON object: counts, and workers."""
        table = self.table
        running, bound = (
            np.bincount(table.worker[table.status == status], minlength=len(table.slots)).tolist()
            for status in (RUNNING, BOUND)
        )
        return {
            "policy": table.name,
            "seconds": time.monotonic() - self._began,
            "step": table.step,
            "waiting": table.num_waiting,
            "arrived": self.arrived,
            "sent": self.sent,
            "tokens": self.tokens,
            "decisions": self.decided,
            "decide_s": self.decide_s,
            "policy_errors": self.errors,
            "ends": dict(self.ends),
            "regret": None if self.log is None else self.log.regret(),
            "prefill": [
                {"held": held, "usage": usage}
                for held, usage in zip(self.prefill.held, self.prefill.usage, strict=True)
            ]
            if self.prefill
            else [],
            "workers": [
                {"slots": slots, "load": load, "running": runs, "bound": sent}
                for slots, load, runs, sent in zip(
                    table.slots.tolist(), table.loads().tolist(), running, bound, strict=True
                )
            ],
        }

    def collect(self) -> Iterator[Any]:
        """Yield the metrics."""
        told = self.state()
        for name, text in (
            ("arrived", "Requests received."),
            ("sent", "Requests sent to workers, repetitions included."),
            ("tokens", "Tokens received from workers."),
            ("decisions", "Decisions of the policy."),
            ("policy_errors", "Decisions that the policy failed to make."),
        ):
            yield CounterMetricFamily(f"bfio_route_{name}", text, told[name])
        yield CounterMetricFamily(
            "bfio_route_decide_seconds", "Time of all decisions.", told["decide_s"]
        )
        yield GaugeMetricFamily("bfio_route_waiting", "Requests in the pool.", told["waiting"])
        ends = CounterMetricFamily("bfio_route_ends", "Requests that ended.", labels=["reason"])
        for reason, count in told["ends"].items():
            ends.add_metric([reason], count)
        yield ends
        for name, text in (
            ("slots", "Slots; 0 while the worker is down."),
            ("load", "Tokens."),
            ("running", "Running requests."),
            ("bound", "Requests sent that have not started."),
        ):
            family = GaugeMetricFamily(f"bfio_route_worker_{name}", text, labels=["worker"])
            for g, worker in enumerate(told["workers"]):
                family.add_metric([str(g)], worker[name])
            yield family

    # The dispatcher.

    async def _dispatch(self) -> None:
        while True:
            await self._stir.wait()
            self._stir.clear()
            if self._due and not self.table.immediate:
                await self._settle()
            self._decide()

    async def _settle(self) -> None:
        """Wait for the boundary, but at most for ten times ``tick_s``."""
        clock, tick = time.monotonic, self.options.tick_s
        latest = clock() + 10 * tick
        while self._due:
            # If only requests sent too late are missing, a pause means that the step is over.
            # Otherwise a pause means nothing, as tokens of a step may arrive with pauses.
            is_over = self._last_token > self._decided_s and all(
                self.tickets[row].is_fresh for row in self._due
            )
            rest = min(self._last_token if is_over else clock(), latest - tick) + tick - clock()
            if rest <= 0:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stir.wait(), rest)
            self._stir.clear()

    def _decide(self) -> None:
        table, began = self.table, time.perf_counter()
        has_token = self._last_token > self._decided_s
        self._decided_s = time.monotonic()
        # A request that was sent too late for the last step does not belong to it.
        late = sum(self.tickets[row].is_fresh for row in self._due)
        is_boundary = not self._due or (has_token and len(self._due) == late)
        ends_step = is_boundary and has_token and self._stepping
        # Requests sent in the middle of a step start with the next one.
        is_within = table.immediate and not is_boundary
        if not is_within:
            table.end_step()
        try:
            taken = table.decide()
        except InputError as error:
            self._policy_failed(error)
            return
        finally:
            if not is_within:
                self._due = set(np.flatnonzero(table.status == RUNNING).tolist())
                self._stepping = bool(self._due)
        spent = time.perf_counter() - began
        for decision in taken:
            self.decided += 1
            self.decide_s += spent / len(taken)
            if self.log is not None:
                numbers = [self.tickets[row].number for row in decision.rows]
                self.log.decision(decision, numbers, table.step)
            for row, worker in decision.admitted:
                self._send(self.tickets[row], worker)
        if self.log is not None and not is_within and (ends_step or self._stepping):
            at = self._last_token if ends_step else self._decided_s
            self.log.step(at, table, late if ends_step else None)

    def _policy_failed(self, error: InputError) -> None:
        """Answer every waiting request with status 500, because the policy cannot decide."""
        self.errors += 1
        if self.log is not None:
            self.log.event("error", message=str(error))
        for row in self.table.rows_of(WAITING).tolist():
            self._finish(self.tickets[row], FAILED, WireError(500, f"The router failed: {error}."))

    def _send(self, ticket: Ticket, worker: int) -> None:
        ticket.worker, ticket.is_fresh = worker, True
        ticket.sent_s = ticket.sent_s or time.monotonic()
        self.sent += 1
        self._start(ticket, self._stream(ticket, worker))

    def _start(self, ticket: Ticket, work: Coroutine[Any, Any, None]) -> None:
        ticket.task = task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _prefilled(self, ticket: Ticket, prefill: Prefillers) -> None:
        """Let a prefill worker compute the prompt of a request, then move it to the pool."""
        try:
            handle = await prefill.handle(ticket.path, _continued(ticket))
        except LostError as error:
            await self._retry(ticket, None, str(error))
            return
        except WireError as error:
            self._finish(ticket, FAILED, error)
            return
        if ticket.end:
            prefill.release(handle)
            return
        ticket.handle, ticket.prompt = handle, max(1, handle.prompt_tokens - ticket.tokens)
        self.table.prompt[ticket.row] = ticket.prompt
        self.table.again(ticket.row)
        self._stir.set()

    async def _stream(self, ticket: Ticket, worker: int) -> None:
        """Forward the stream of a worker to the client, and update the table by its tokens."""
        before, goes_on = ticket.tokens, False

        def take(events: list[bytes]) -> bool:
            nonlocal goes_on
            for data in events:
                if self._read(ticket, Chunk(data), before):
                    # Immediately, so that the next decision sees the request in the pool.
                    goes_on = True
                    self._again(ticket)
                    break
            return goes_on

        try:
            await self.upstream.stream(worker, ticket.path, _continued(ticket), take)
            if not goes_on:
                self._finish(ticket, FINISHED, None)
        except LostError as error:
            if error.is_down:
                self._down(worker)
            await self._retry(ticket, worker, str(error))
        except WireError as error:
            self._finish(ticket, FAILED, error)
        except ValueError:
            await self._retry(ticket, worker, "an event of its stream is not JSON")

    def _read(self, ticket: Ticket, chunk: Chunk, before: int) -> bool:
        """Process an event of a stream; return whether the worker asks to resend the request."""
        if ticket.end:
            return False
        if chunk.error is not None:
            # Engines that fail in the middle of an answer report the error within the stream.
            raise LostError(f"an error in its stream: {chunk.error}", is_down=False)
        row, table, tokens = ticket.row, self.table, chunk.count(before, ticket.tokens)
        if chunk.usage is not None:
            prompt = max(1, chunk.usage[0] - before)
            if prompt != ticket.prompt:
                ticket.prompt = prompt
                if not ticket.has_left:
                    table.prompt[row] = prompt
            if before:
                chunk.tell_usage(prompt, ticket.tokens + tokens)
        if tokens > 0:
            self._last_token = time.monotonic()
            ticket.first_s = ticket.first_s or self._last_token
            ticket.tokens += tokens
            self.tokens += tokens
            if not ticket.has_left:
                if ticket.is_fresh and table.status[row] == BOUND:
                    table.start(row)
                    if not self._due:
                        self._stir.set()
                table.emit(row, tokens)
        ticket.text.append(chunk.text)
        ticket.ids += chunk.ids
        if chunk.stops:
            chunk.go_on()
        if len(ticket.unread) >= _MOST_UNREAD:
            raise WireError(429, "The client reads too slowly; its request was cancelled.")
        ticket.tell(chunk)
        if chunk.ends:
            self._leave(ticket, finished=True)
        elif not ticket.has_left:
            self._reported(ticket)
        return chunk.stops

    def _reported(self, ticket: Ticket) -> None:
        row, ticket.is_fresh = ticket.row, False
        if ticket.handle is not None and self.prefill is not None:
            self.prefill.release(ticket.handle)
            ticket.handle = None
        if row in self._due:
            self._due.discard(row)
            if not self._due:
                self._stir.set()

    # Ends, retries and losses.

    def _again(self, ticket: Ticket) -> None:
        """Move a new or interrupted request to the pool, after its prefill if there is a tier."""
        if ticket.end:
            return
        if ticket.tokens >= (ticket.payload.max_tokens or DEFAULT_TOKENS):
            self._finish(ticket, FINISHED, None)
            return
        ticket.waits_since = time.monotonic()
        if self.prefill is None:
            self.table.again(ticket.row)
        else:
            self.table.hold(ticket.row)
            self._start(ticket, self._prefilled(ticket, self.prefill))
        self._reported(ticket)
        self._stir.set()

    async def _retry(self, ticket: Ticket, worker: int | None, why: str) -> None:
        """Send a request again that a worker (None: a prefill worker) has lost.

        After the last allowed attempt, end the request with an error instead.
        """
        if ticket.has_left:
            # All tokens have arrived; only the end of the stream is missing.
            self._finish(ticket, FINISHED, None)
            return
        ticket.attempts += 1
        if self.log is not None:
            self.log.event("lost", number=ticket.number, worker=worker, message=why)
        if ticket.attempts > self.options.retries:
            who = "A prefill worker" if worker is None else f"Worker {worker}"
            what = f"{who} failed ({why:.200}) and so did {ticket.attempts - 1}"
            self._finish(ticket, FAILED, WireError(502, f"{what} further attempts."))
            return
        self.table.hold(ticket.row)
        ticket.waits_since = time.monotonic()
        self._reported(ticket)
        self._stir.set()
        await asyncio.sleep(min(_BACKOFF_S * 2 ** (ticket.attempts - 1), _LONGEST_BACKOFF_S))
        self._again(ticket)

    def _finish(self, ticket: Ticket, reason: str, last: WireError | None) -> None:
        """End a request, unless it has ended: free its row, notify its client, and count it."""
        if ticket.end:
            return
        ticket.end = reason
        self._leave(ticket, finished=reason == FINISHED and ticket.tokens > 0)
        ticket.tell(last)
        self._ended(ticket)

    def _ended(self, ticket: Ticket) -> None:
        """Count and log the end of a request."""
        self.ends[ticket.end] += 1
        if self.log is not None:
            self.log.request(ticket, self._began)

    def _leave(self, ticket: Ticket, *, finished: bool) -> None:
        """Free the row of a request, as soon as its last token has arrived or it is cancelled."""
        if not ticket.has_left:
            ticket.has_left = True
            self.table.leave(ticket.row, finished=finished)
            del self.tickets[ticket.row]
            self._reported(ticket)
            self._stir.set()

    def cancel(self, ticket: Ticket) -> None:
        """End the request of a client that has disconnected."""
        if not ticket.end:
            self._finish(ticket, CANCELLED, None)
            if ticket.task is not None:
                ticket.task.cancel()

    def _down(self, worker: int) -> None:
        if self.table.slots[worker] > 0:
            self.table.set_slots(worker, 0)
            if self.log is not None:
                self.log.event("worker", worker=worker, is_up=False)

    async def _watch(self) -> None:
        """Check workers that are down, read the models, and update the points of the page."""
        checked = 0.0
        while True:
            if time.monotonic() >= checked + _HEALTH_S:
                checked = time.monotonic()
                workers = range(len(self.own_slots))
                checks = [self._check(worker) for worker in workers]
                if self.prefill is not None:
                    checks += [self.prefill.sample(g) for g in range(len(self.prefill.held))]
                await asyncio.gather(*checks)
            self._keep_point()
            if self.log is not None:
                self.log.flush()
            await asyncio.sleep(_POINT_S)

    async def _check(self, worker: int) -> None:
        is_up = await self.upstream.is_healthy(worker)
        if not is_up:
            self._down(worker)
        elif self.table.slots[worker] == 0:
            self.table.set_slots(worker, int(self.own_slots[worker]))
            self._stir.set()
            if self.log is not None:
                self.log.event("worker", worker=worker, is_up=True)
        if is_up and not self.models:
            with suppress(LostError, WireError, TypeError, KeyError, ValueError):
                listed = await self.upstream.ask(worker, "/v1/models")
                self.models = {entry["id"] for entry in listed["data"]}  # type: ignore[index]

    def _keep_point(self) -> None:
        loads = self.table.loads().tolist()
        self.points.append(
            {
                "seconds": round(time.monotonic() - self._began, 2),
                "loads": loads,
                "waiting": self.table.num_waiting,
                "regret": None if self.log is None else self.log.regret(),
            }
        )

    async def _reap(self) -> None:
        """End requests that have waited in the pool for longer than their time to live."""
        while True:
            await asyncio.sleep(min(1.0, self.options.ttl_s / 4))
            latest = time.monotonic() - self.options.ttl_s
            for row in [*self.table.rows_of(WAITING), *self.table.rows_of(HELD)]:
                if (ticket := self.tickets[int(row)]).waits_since < latest:
                    waited = f"The request waited {self.options.ttl_s:g} s for a slot"
                    self._finish(ticket, EXPIRED, _try_later(waited))
                    if ticket.task is not None:
                        ticket.task.cancel()


class _Answer(Completion):
    """The answer to a client: a stream of events, or one JSON object merged from the events."""

    def __init__(self, router: Router, ticket: Ticket) -> None:
        super().__init__(is_stream=ticket.payload.stream)
        self._router, self._ticket = router, ticket

    def cancel(self) -> None:
        """Cancel the request."""
        self._router.cancel(self._ticket)

    async def stream(self, send: Send) -> None:
        """Send the events that the client asked for; events that arrive together in one piece."""
        ticket, started, ended = self._ticket, False, False
        payload, last = ticket.payload, None
        while not ended:
            pieces: list[bytes] = []
            for entry in await ticket.told():
                if isinstance(entry, WireError):
                    if not started and not pieces:
                        await send_error(send, entry)
                        return
                    pieces.append(event(entry.body))
                elif entry is None:
                    # Engines report the usage in a separate event or with the last text.
                    if last is not None:
                        pieces.append(event(last.document | {"choices": []}))
                else:
                    if payload.include_usage and entry.usage is not None:
                        last = entry
                    pieces.append(entry.shown(payload))
                    continue
                pieces.append(DONE)
                ended = True
            if not started:
                await start_events(send)
                started = True
            if text := b"".join(pieces):
                await send_body(send, text, more=not ended)

    async def whole(self, send: Send) -> None:
        """Send the events merged into one JSON object."""
        whole: dict[str, Any] = {}
        ended = False
        while not ended:
            for entry in await self._ticket.told():
                if isinstance(entry, WireError):
                    await send_error(send, entry)
                    return
                if entry is None:
                    ended = True
                else:
                    _merge(whole, entry.document)
        whole["object"] = "chat.completion" if self._ticket.payload.is_chat else "text_completion"
        for choice in whole.get("choices", []):
            if "delta" in choice:
                choice["message"] = {"role": "assistant"} | choice.pop("delta")
        await send_document(send, whole)


def _merge(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Merge the next event into an answer: join texts, and merge list entries of equal index."""
    for name, value in part.items():
        known = whole.get(name)
        if isinstance(value, dict) and isinstance(known, dict) and name != "usage":
            _merge(known, value)
        elif isinstance(value, list) and isinstance(known, list):
            for entry in value:
                place = entry.get("index") if isinstance(entry, dict) else None
                same = [e for e in known if place is not None and e.get("index") == place]
                if same:
                    _merge(same[0], entry)
                else:
                    known.append(entry)
        elif name in _JOINED and isinstance(value, str) and isinstance(known, str):
            whole[name] = known + value
        elif value is not None or name not in whole:
            whole[name] = value


#: Fields of events that are pieces of one text.
_JOINED = ("text", "content", "reasoning_content", "reasoning", "refusal", "arguments")


def _continued(ticket: Ticket) -> dict[str, Any]:
    """Return the payload for a worker: that of the client, continued after the tokens so far."""
    payload = ticket.payload
    fields = payload.fields | {"stream": True, "stream_options": USAGE}
    # Remove cache handles of the client: engines would connect to the host that a handle names.
    fields.pop("kv_transfer_params", None)
    if ticket.handle is not None:
        fields["kv_transfer_params"] = ticket.handle.params
    is_list = isinstance(fields.get("prompt"), list)
    if is_list:
        fields["return_token_ids"] = True
    if ticket.tokens == 0:
        return fields
    rest = (payload.max_tokens or DEFAULT_TOKENS) - ticket.tokens
    fields["max_tokens"] = rest
    if "max_completion_tokens" in fields:
        fields["max_completion_tokens"] = rest
    text = "".join(ticket.text)
    if payload.is_chat:
        fields["messages"] = [*fields["messages"], {"role": "assistant", "content": text}]
        fields |= {"add_generation_prompt": False, "continue_final_message": True}
    elif is_list:
        fields["prompt"] = [*fields["prompt"], *ticket.ids]
    else:
        fields["prompt"] = fields["prompt"] + text
    return fields


def _try_later(what: str) -> WireError:
    return WireError(503, f"{what}; try again later.", headers={"retry-after": "1"})


def serve(router: Router, announce: Callable[[str], None]) -> None:
    """Serve a router until the process is interrupted; ``announce`` gets its address.

    Raises
    ------
    InputError
        If the address cannot be used.
    """
    options = router.options
    sockets = listen(options.host, options.port)
    announce(*addresses_of(sockets, options.host))
    # Loaded modules stay in memory, and events form no cycles, so collect garbage less often.
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)
    with suppress(KeyboardInterrupt):
        server_of(router.app).run(sockets)
