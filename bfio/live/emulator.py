"""The emulator: a fleet of workers in lockstep behind the OpenAI-compatible API of vLLM.

`bfio.live.fleet` is the emulated machine. There are two clocks. On a *running* clock, one second
of fleet time takes ``1/speed`` seconds of wall-clock time. The tokens of a step are sent
``settle_s`` wall-clock seconds before the step ends, so that a router can refill freed slots
before the next step begins. On a *stepped* clock, only ``POST /bfio/step`` runs a step, which
takes no wall-clock time. All requests received before take part in this step. So runs can equal
those of the simulator exactly.

Control routes: ``POST /bfio/step``, ``POST /bfio/faults`` (`bfio.live.fleet`), ``GET
/bfio/state``.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from starlette.responses import JSONResponse, Response

from bfio.decode.cluster import NO_LIMIT
from bfio.live.fleet import End, Fleet, Job, answer_fault, apply_fault
from bfio.live.options import STEPPED, EmulateOptions
from bfio.live.prefill_tier import PREFIX, PrefillWorkers
from bfio.live.service import (
    Completion,
    addresses_of,
    application,
    body_of,
    listen,
    send_body,
    send_document,
    send_error,
    server_of,
    start_events,
)
from bfio.live.wire import (
    DEFAULT_TOKENS,
    DONE,
    PATHS,
    RECOMPUTED,
    STEPS_HEADER,
    Payload,
    WireError,
    event,
    rank_of,
    read_payload,
    usage_of,
)
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import Send

    from bfio.decode.cluster import Cluster
    from bfio.decode.option_kinds import PrefillTier

#: Time that ``POST /bfio/step`` waits for the requests that it names [s].
_PATIENCE_S = 30.0
#: Tokens of a block of the KV cache, as reported.
_BLOCK_TOKENS = 16


class Emulator:
    """A fleet behind HTTP.

    Parameters
    ----------
    fleet : Fleet
        The machine.
    speed : float or None
        Seconds of fleet time per wall-clock second; None for the stepped clock.
    settle_s : float
        On a running clock, time from the tokens of a step to the next step [wall-clock s].
    model : str
        Name of the model.
    first_port : int or None
        Port of worker 0 if each worker has its own port; None for one port for all workers.
    prefill : PrefillTier, optional
        Prefill workers, served under ``/prefill``.
    """

    def __init__(
        self,
        fleet: Fleet,
        speed: float | None = 1.0,
        settle_s: float = 0.002,
        model: str = "bfio",
        first_port: int | None = None,
        prefill: PrefillTier | None = None,
    ) -> None:
        self.fleet, self.speed, self.settle_s, self.model = fleet, speed, settle_s, model
        self.first_port = first_port
        self.lag_s = 0.0  #: Delay of the fleet clock behind its schedule by the wall clock [s].
        self._numbers = itertools.count(1)
        self._received = asyncio.Event()
        self.prefill = None if prefill is None else PrefillWorkers(prefill, speed, model)
        self.app = application(
            self._complete,
            routes={
                "/v1/models": self._models,
                "/health": self._health,
                "/bfio/state": self._state,
            },
            orders={"/bfio/step": self._step, "/bfio/faults": self._fault},
            metrics=self,
            lifespan=self._running,
            mounted={} if self.prefill is None else {PREFIX: self.prefill.app},
        )

    # The clock.

    @asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncIterator[None]:
        task = None if self.speed is None else asyncio.create_task(self._run(self.speed))
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _run(self, speed: float) -> None:
        fleet, clock = self.fleet, asyncio.get_running_loop().time
        origin = clock()
        while True:
            step = fleet.begin()
            if step is None:
                self._received.clear()
                with suppress(TimeoutError):
                    # A stalled worker continues at a known time.
                    await asyncio.wait_for(self._received.wait(), None if fleet.is_idle else 0.01)
                # So the tokens of the first step also arrive a whole step after its requests.
                await asyncio.sleep(self.settle_s)
                fleet.now_s = max(fleet.now_s, (clock() - origin) * speed)
                continue
            end = origin + (step.start_s + step.duration_s) / speed
            await asyncio.sleep(max(0.0, end - self.settle_s - clock()))
            fleet.emit()
            await asyncio.sleep(max(self.settle_s, end - clock()))
            self.lag_s = max(0.0, clock() - end)
            fleet.advance()

    # Routes of engines.

    async def _complete(self, request: Request) -> Response:
        is_chat = PATHS[request.url.path]
        payload = read_payload(await request.body(), is_chat)
        if payload.model not in (None, self.model):
            raise WireError(404, f"Unknown model {payload.model}; use {self.model}.", "model")
        number = self._worker_of(request)
        answer_fault(self.fleet.workers[number], f"Worker {number}")
        params = payload.fields.get("kv_transfer_params") or {}
        if params.get("do_remote_prefill"):
            if self.prefill is None:
                raise WireError(500, "There are no prefill workers; start with --prefill.")
            self.prefill.take(params)
        told: asyncio.Queue[tuple[int, int, End | None]] = asyncio.Queue()
        job = Job(
            payload.prompt_tokens,
            payload.max_tokens or DEFAULT_TOKENS,
            lambda tokens, end: told.put_nowait((self.fleet.steps, tokens, end)),
        )
        self.fleet.submit(job, number)
        self._received.set()
        wants_steps = STEPS_HEADER in request.headers
        return _Answer(self, payload, next(self._numbers), number, job, told, wants_steps)

    def _worker_of(self, request: Request) -> int:
        """Return the worker of a request: given by port or header, else the least busy one."""
        workers = self.fleet.workers
        first, last = 0, len(workers)
        if self.first_port is not None:
            first = request.scope["server"][1] - self.first_port
            last = first + 1
        rank = rank_of(request.headers, last - first)
        if rank is not None:
            return first + rank
        open_ones = [g for g in range(first, last) if workers[g].is_up] or [first]
        return min(open_ones, key=lambda g: len(workers[g].running) + len(workers[g].queue))

    async def _models(self, request: Request) -> Response:
        entry = {"id": self.model, "object": "model", "created": 0, "owned_by": "bfio"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def _health(self, request: Request) -> Response:
        number = self._worker_of(request)
        if not self.fleet.workers[number].is_up:
            raise WireError(503, f"Worker {number} is down.")
        return Response()

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, under the names of vLLM."""
        names, workers = ["model_name", "engine"], self.fleet.workers
        columns: list[tuple[type[Any], str, str, list[float]]] = [
            (GaugeMetricFamily, "vllm:num_requests_running", "Requests that run.",
             [len(worker.running) for worker in workers]),
            (GaugeMetricFamily, "vllm:num_requests_waiting", "Requests that wait.",
             [len(worker.queue) for worker in workers]),
            (GaugeMetricFamily, "vllm:kv_cache_usage_perc", "Share of the KV cache in use.",
             [worker.load / worker.memory for worker in workers]),
            (CounterMetricFamily, "vllm:prompt_tokens", "Prompt tokens of started requests.",
             [worker.prompt_tokens for worker in workers]),
            (CounterMetricFamily, "vllm:generation_tokens", "Tokens emitted.",
             [worker.tokens for worker in workers]),
        ]  # fmt: skip
        for kind, name, text, values in columns:
            family = kind(name, text, labels=names)
            for g, value in enumerate(values):
                family.add_metric([self.model, str(g)], value)
            yield family
        blocks = InfoMetricFamily("vllm:cache_config", "KV caches.", labels=["engine"])
        for g, worker in enumerate(workers):
            if worker.memory < NO_LIMIT:
                sizes = (_BLOCK_TOKENS, worker.memory // _BLOCK_TOKENS)
                told = dict(zip(("block_size", "num_gpu_blocks"), map(str, sizes), strict=True))
                blocks.add_metric([str(g)], told)
        yield blocks
        yield GaugeMetricFamily("bfio:steps", "Steps run.", self.fleet.steps)
        yield GaugeMetricFamily("bfio:clock_seconds", "Clock of the fleet.", self.fleet.now_s)
        yield GaugeMetricFamily("bfio:lag_seconds", "Delay of its last step.", self.lag_s)

    # Routes of control.

    async def _state(self, request: Request) -> Response:
        return JSONResponse(self.state())

    def state(self) -> dict[str, Any]:
        """Return the state of the machine as a JSON object: clock, counts, and workers."""
        fleet = self.fleet
        return {
            "step": fleet.steps,
            "now_s": fleet.now_s,
            "submitted": fleet.submitted,
            "ends": {str(end): count for end, count in fleet.ends.items()},
            "prefill": None if self.prefill is None else self.prefill.state(),
            "workers": [
                {
                    "is_up": worker.is_up,
                    "running": len(worker.running),
                    "waiting": len(worker.queue),
                    "load": worker.load,
                }
                for worker in fleet.workers
            ],
        }

    async def _step(self, request: Request) -> Response:
        """Run one step, after ``received`` requests have arrived and not before time ``at_s``."""
        if self.speed is not None:
            raise WireError(409, "The clock runs by itself; start with --clock stepped.")
        order = await body_of(request)
        received, at_s = order.get("received", 0), order.get("at_s", 0.0)
        if type(received) is not int or not isinstance(at_s, int | float):
            raise WireError(400, "Give received as a whole number and at_s as seconds.")
        fleet, give_up = self.fleet, time.monotonic() + _PATIENCE_S
        while fleet.submitted < received:
            self._received.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._received.wait(), give_up - time.monotonic())
            if time.monotonic() >= give_up:
                what = f"{fleet.submitted} of {received} requests have arrived"
                raise WireError(409, f"{what} within {_PATIENCE_S:g} s; send all of them first.")
        fleet.now_s = max(fleet.now_s, float(at_s))
        step = fleet.begin()
        if step is None:
            raise WireError(409, "No request is running; send a request first.")
        fleet.emit()
        fleet.advance()
        return JSONResponse(step._asdict())

    async def _fault(self, request: Request) -> Response:
        apply_fault(self.fleet, await body_of(request))
        self._received.set()
        return JSONResponse(self.state())


class _Answer(Completion):
    """The answer to a completion: a stream of events, or one JSON object."""

    def __init__(
        self,
        emulator: Emulator,
        payload: Payload,
        number: int,
        worker: int,
        job: Job,
        told: asyncio.Queue[tuple[int, int, End | None]],
        wants_steps: bool,
    ) -> None:
        super().__init__(is_stream=payload.stream)
        self._emulator, self._payload, self._worker = emulator, payload, worker
        self._job, self._told, self._wants_steps = job, told, wants_steps
        kind = "chat.completion" if payload.is_chat else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if payload.is_chat else 'cmpl'}-{number}",
            "object": f"{kind}.chunk" if payload.is_chat and payload.stream else kind,
            "created": int(time.time()),
            "model": emulator.model,
        }
        self._sent = 0

    def cancel(self) -> None:
        """Cancel the job."""
        self._emulator.fleet.cancel(self._job, self._worker)

    async def stream(self, send: Send) -> None:
        """Send an event for each piece of the answer."""
        await start_events(send)
        end = None
        while end is None:
            step, tokens, end = await self._told.get()
            if end in (End.LOST, End.CANCELLED):
                # Send no last message, so that the connection closes in the middle of the stream.
                return
            document = self._document(step, tokens, end)
            if self._payload.continuous_usage:
                document["usage"] = self._usage()
            await send_body(send, event(document), more=True)
        if self._payload.include_usage:
            last = self._head | {"choices": [], "usage": self._usage()}
            await send_body(send, event(last), more=True)
        await send_body(send, DONE)

    async def whole(self, send: Send) -> None:
        """Send all pieces as one JSON object."""
        step, all_tokens, end = 0, 0, None
        while end is None:
            step, tokens, end = await self._told.get()
            all_tokens += tokens
        if end in (End.LOST, End.CANCELLED):
            what = f"Worker {self._worker} lost the request; send it again."
            await send_error(send, WireError(500, what))
            return
        document = self._document(step, all_tokens, end)
        document["usage"] = self._usage()
        await send_document(send, document)

    def _document(self, step: int, tokens: int, end: End | None) -> dict[str, Any]:
        ids = range(self._sent, self._sent + tokens)
        text = "".join(f" w{token}" for token in ids)
        is_first, self._sent = self._sent == 0, self._sent + tokens
        choice: dict[str, Any] = {"index": 0}
        if not self._payload.is_chat:
            choice["text"] = text
        elif self._payload.stream:
            role = {"role": "assistant"} if is_first else {}
            choice["delta"] = role | {"content": text}
        else:
            choice["message"] = {"role": "assistant", "content": text}
        if self._payload.fields.get("return_token_ids"):
            choice["token_ids"] = list(ids)
        choice["finish_reason"] = None if end is None else "length"
        if end is End.RECOMPUTED:
            choice |= {"finish_reason": "stop", "stop_reason": RECOMPUTED}
        document = self._head | {"choices": [choice]}
        if self._wants_steps:
            document["bfio"] = {"worker": self._worker, "step": step}
        return document

    def _usage(self) -> dict[str, int]:
        return usage_of(self._payload.prompt_tokens, self._sent)


def new_emulator(cluster: Cluster, options: EmulateOptions) -> Emulator:
    """Return the emulator of a machine.

    Raises
    ------
    InputError
        If the emulator does not model a part of the machine.
    """
    for name in ("prefix_cache", "token_budget"):
        if getattr(cluster, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(flag, "the emulator does not model it", "leave it out")
    return Emulator(
        Fleet(cluster, reserves=options.overflow == "reserve"),
        None if options.clock == STEPPED else float(options.clock),
        options.settle_s,
        options.model,
        options.port if options.addresses == "each" else None,
        options.prefill,
    )


def serve(
    cluster: Cluster, options: EmulateOptions, announce: Callable[[list[str]], None]
) -> None:
    """Serve a machine until the process is interrupted.

    Parameters
    ----------
    cluster : Cluster
        The machine.
    options : EmulateOptions
        Clock, addresses and further options of the emulator.
    announce : callable
        Called with the URLs as soon as the sockets listen.

    Raises
    ------
    InputError
        If an address cannot be used, or the emulator does not model a part of the machine.
    """
    emulator = new_emulator(cluster, options)
    is_each = options.addresses == "each"
    if is_each and options.port == 0:
        what = "0 (any port) cannot be used with one port per worker"
        raise InputError("--port", what, "give the first port")
    sockets = listen(options.host, options.port, cluster.workers if is_each else 1)
    announce(addresses_of(sockets, options.host))
    with suppress(KeyboardInterrupt):
        server_of(emulator.app).run(sockets)
