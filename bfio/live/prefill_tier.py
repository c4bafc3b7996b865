"""The prefill workers of the emulator, which compute prompts and keep their KV caches.

A router sends a probe: a request for one token, with ``do_remote_decode`` in its
``kv_transfer_params``. The answer contains a handle, with which a decode worker takes the cache,
once (BalanceRoute, D.2; names as in vLLM). Times are those of `bfio.decode.features.prefill`: a
worker computes one prompt at a time, and the answer is sent after the transfer. A cache that no
decode worker takes within ``ttl_s`` is dropped.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily
from starlette.responses import JSONResponse, Response

from bfio.live.fleet import answer_fault, apply_fault
from bfio.live.service import Completion, application, body_of, send_document, send_error
from bfio.live.wire import PATHS, Payload, WireError, rank_of, read_payload, usage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.types import Send

    from bfio.decode.option_kinds import PrefillTier

#: Path under which the emulator serves its prefill workers.
PREFIX = "/prefill"


class PrefillWorker:
    """One prefill worker."""

    def __init__(self) -> None:
        self.is_up, self.errors = True, 0
        self.turn = asyncio.Lock()  # Locked while the worker computes a prompt.
        self.tasks: set[asyncio.Task[dict[str, Any]]] = set()


class PrefillWorkers:
    """Prefill workers behind HTTP.

    Parameters
    ----------
    options : PrefillTier
        Number of workers, and times.
    speed : float or None
        Seconds of fleet time per wall-clock second; None if computations take no time.
    model : str
        Name of the model.
    """

    def __init__(self, options: PrefillTier, speed: float | None, model: str) -> None:
        self.options, self.speed, self.model = options, speed, model
        self.workers = [PrefillWorker() for _ in range(options.workers)]
        #: By block of the cache: its worker, and the timer that drops the cache.
        self.held: dict[int, tuple[int, asyncio.TimerHandle | None]] = {}
        self._made = 0
        self.app = application(
            self._complete,
            routes={"/health": self._health},
            orders={"/bfio/faults": self._fault},
            metrics=self,
        )

    def take(self, params: dict[str, Any]) -> None:
        """Hand the cache behind a handle to a decode worker.

        Raises
        ------
        WireError
            With status 500 if the cache is unknown, already taken, dropped, or lost with its
            worker.
        """
        blocks = params.get("remote_block_ids")
        block = blocks[0] if isinstance(blocks, list) and len(blocks) == 1 else None
        if type(block) is not int or block not in self.held:
            what = "There is no cache for these kv_transfer_params; compute the prompt again."
            raise WireError(500, what)
        _, timer = self.held.pop(block)
        if timer is not None:
            timer.cancel()

    def die(self, number: int) -> None:
        """Let a worker die: its prompts and its caches are lost."""
        worker = self.workers[number]
        worker.is_up = False
        for task in worker.tasks:
            task.cancel()
        for block in [block for block, (owner, _) in self.held.items() if owner == number]:
            self.take({"remote_block_ids": [block]})

    async def compute(self, number: int, prompt: int) -> dict[str, Any]:
        """Compute a prompt on a worker, and return the handle of its cache."""
        options, ttl_s = self.options, self.options.ttl_s
        async with self.workers[number].turn:
            await self._pass(options.overhead_s + options.token_time_s * prompt)
        await self._pass(options.transfer_time_s * prompt)
        self._made += 1
        timer, block = None, self._made
        if self.speed is not None and ttl_s < math.inf:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(ttl_s / self.speed, self.held.pop, block, None)
        self.held[block] = number, timer
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": f"prefill-{number}",
            "remote_block_ids": [block],
        }

    async def _pass(self, seconds: float) -> None:
        if self.speed is not None:
            await asyncio.sleep(seconds / self.speed)

    async def _complete(self, request: Request) -> Response:
        path = request.url.path.removeprefix(PREFIX)
        payload = read_payload(await request.body(), PATHS[path])
        params = payload.fields.get("kv_transfer_params") or {}
        if payload.stream or params.get("do_remote_decode") is not True:
            what = "A prefill worker does not stream, and decodes only the first token"
            remedy = "send kv_transfer_params with do_remote_decode, without stream"
            raise WireError(400, f"{what}; {remedy}.", "kv_transfer_params")
        number = rank_of(request.headers, len(self.workers)) or 0
        worker = self.workers[number]
        if not worker.is_up:
            raise WireError(503, f"Prefill worker {number} is down; send to another one.")
        answer_fault(worker, f"Prefill worker {number}")
        return _Answer(self, payload, number)

    async def _health(self, request: Request) -> Response:
        if not self.workers[rank_of(request.headers, len(self.workers)) or 0].is_up:
            raise WireError(503, "The prefill worker is down.")
        return Response()

    async def _fault(self, request: Request) -> Response:
        apply_fault(self, await body_of(request), ("die", "return", "error"))
        return JSONResponse(self.state())

    def state(self) -> list[dict[str, Any]]:
        """Return the state of the workers for JSON: prompts in computation, and caches held."""
        owners = [number for number, _ in self.held.values()]
        return [
            {"is_up": worker.is_up, "computing": len(worker.tasks), "held": owners.count(g)}
            for g, worker in enumerate(self.workers)
        ]

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, under the names of vLLM."""
        share = len(self.held) / self.options.places if self.options.places else 0.0
        usage = GaugeMetricFamily(
            "vllm:kv_cache_usage_perc", "Share of the places in use.", labels=["engine"]
        )
        for g in range(len(self.workers)):
            usage.add_metric([str(g)], share)
        yield usage


class _Answer(Completion):
    """The answer to a probe: one token, and the handle of the cache."""

    def __init__(self, tier: PrefillWorkers, payload: Payload, number: int) -> None:
        super().__init__(is_stream=False)
        self._model, self._payload, self._number = tier.model, payload, number
        tasks = tier.workers[number].tasks
        self._task = asyncio.create_task(tier.compute(number, payload.prompt_tokens))
        tasks.add(self._task)
        self._task.add_done_callback(tasks.discard)

    def cancel(self) -> None:
        """Cancel the computation of the prompt."""
        self._task.cancel()

    async def stream(self, send: Send) -> None:
        """Send the answer as one JSON object, because a probe never asks for a stream."""
        await self.whole(send)

    async def whole(self, send: Send) -> None:
        """Send the answer as one JSON object."""
        await asyncio.wait([self._task])
        if self._task.cancelled():
            what = f"Prefill worker {self._number} lost the request; send it again."
            await send_error(send, WireError(503, what))
            return
        text = {"message": {"role": "assistant", "content": " w0"}}
        choice = text if self._payload.is_chat else {"text": " w0"}
        document = {
            "object": "chat.completion" if self._payload.is_chat else "text_completion",
            "model": self._model,
            "choices": [{"index": 0, "finish_reason": "length"} | choice],
            "usage": usage_of(self._payload.prompt_tokens, 1),
            "kv_transfer_params": self._task.result(),
        }
        await send_document(send, document)
