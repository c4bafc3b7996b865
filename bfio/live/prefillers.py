"""The prefill workers of a router: choice of the worker for each prompt, and their requests.

A prompt goes to the prefill worker that holds the fewest requests of this router; ties go to the
lowest index. A worker holds a request from the probe (the request for one token that computes the
prompt) until the first token from a decode worker, which shows that the cache has been
transferred. Workers whose KV cache was nearly full at the last sample get no prompts; a failed
sample counts as full (BalanceRoute, D.1 to D.3).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from bfio.live.upstream import LostError
from bfio.live.wire import WireError

if TYPE_CHECKING:
    from bfio.live.upstream import Upstream

#: Share of KV cache in use from which a worker gets no prompts; and time limit of a sample [s].
_FULL, _SAMPLE_S = 0.9, 5.0
#: Names of the metric of this share in vLLM and SGLang.
_USAGES = ("vllm:kv_cache_usage_perc", "sglang:token_usage")
#: Fields that ask an engine to keep the cache for another engine, as for vLLM's KV connectors.
_ASKED = {
    "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
    "remote_block_ids": None, "remote_host": None, "remote_port": None,
}  # fmt: skip


class Handle(NamedTuple):
    """The cache of a prompt on a prefill worker."""

    worker: int
    prompt_tokens: int  #: Length of the prompt, as the worker counts it [tokens].
    params: dict[str, Any]  #: ``kv_transfer_params`` for a decode worker.


class Prefillers:
    """The prefill workers of a router.

    Parameters
    ----------
    upstream : Upstream
        Connections to the prefill workers.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        #: Per worker: number of requests held, and last sampled share of the KV cache in use.
        self.held = [0] * len(upstream.workers)
        self.usage = [1.0] * len(upstream.workers)
        self._stir = asyncio.Event()

    async def handle(self, path: str, fields: dict[str, Any]) -> Handle:
        """Let a prefill worker compute a prompt as soon as a worker has room; return the handle.

        Raises
        ------
        LostError
            If the worker is lost, or answers with a status of 500 or more.
        WireError
            If the worker refuses the request, or returns no handle.
        """
        while (worker := self._choice()) is None:
            self._stir.clear()
            await self._stir.wait()
        self.held[worker] += 1
        try:
            told = await self.upstream.ask(worker, path, _probe(fields))
            assert isinstance(told, dict)
            found = Handle(worker, int(told["usage"]["prompt_tokens"]), told["kv_transfer_params"])
            if not isinstance(found.params, dict):
                raise TypeError
        except BaseException as error:
            self.held[worker] -= 1
            if isinstance(error, LostError):
                if error.is_down:
                    self.usage[worker] = 1.0
                raise LostError(f"prefill worker {worker}: {error}", is_down=False) from None
            if isinstance(error, KeyError | TypeError | ValueError | AssertionError):
                what = f"Prefill worker {worker} returns no kv_transfer_params"
                raise WireError(502, f"{what}; start it with a KV connector.") from None
            raise
        return found

    def release(self, handle: Handle) -> None:
        """Stop counting a request whose cache is transferred or whose handle is not used."""
        self.held[handle.worker] -= 1

    async def sample(self, worker: int) -> None:
        """Read and store the share of a worker's KV cache in use."""
        usage = 1.0
        try:
            async with asyncio.timeout(_SAMPLE_S):
                text = await self.upstream.ask(worker, "/metrics")
            usage = _usage(str(text), self.upstream.workers[worker].rank)
        except (LostError, WireError, TimeoutError, ValueError):
            pass
        self.usage[worker] = usage
        self._stir.set()

    def _choice(self) -> int | None:
        open_ones = [g for g, usage in enumerate(self.usage) if usage < _FULL]
        return min(open_ones, key=self.held.__getitem__, default=None)


def _probe(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the probe of a request: its payload, but for one token and a handle."""
    probe = fields | {"stream": False, "min_tokens": 1, "kv_transfer_params": _ASKED}
    for name in {"max_tokens", "max_completion_tokens"} & probe.keys() | {"max_tokens"}:
        probe[name] = 1
    probe.pop("stream_options", None)
    return probe


def _usage(text: str, rank: int | None) -> float:
    """Return the largest share of the KV cache among the engines of an address."""
    shares = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in _USAGES
        and (rank is None or sample.labels.get("engine", str(rank)) == str(rank))
    ]
    return max(shares, default=1.0)
