"""A policy of the toolkit as the request router of a deployment of Ray Serve.

``request_router_config=RequestRouterConfig(request_router_class="bfio.live.ray_serve:PolicyRouter",
request_router_kwargs={"policy": "br-0"})``. Only this module imports Ray.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from ray.serve.request_router import (
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

from bfio.decode.options import Dispatch
from bfio.live.adapters import SERVERS, Choices
from formulations.named_objects import load_object

#: Longest time between two decisions about a waiting request [s].
_PERIOD_S = 0.1


def words(request: PendingRequest) -> int:
    """Return the number of words in the arguments of a request, as an estimate of its tokens."""
    given = [*request.args, *request.kwargs.values()]
    return max(1, sum(len(str(value).split()) for value in given))


class PolicyRouter(RequestRouter):  # type: ignore[misc]  # Ray is not typed here
    """A request router in which a policy chooses the replica of each request.

    Requests wait in this router until the policy sends them. A replica has
    ``max_ongoing_requests`` slots, minus the requests of other routers that Ray has reported.
    """

    def initialize_state(
        self, policy: str = "br-0", servers: int = SERVERS, tokens: str = "", **run: Any
    ) -> None:
        """Initialise the router from the keywords of the configuration.

        Parameters
        ----------
        policy : str
            Name and options of the policy.
        servers : int
            Largest number of replicas at a time.
        tokens : str
            ``module:function`` that returns the prompt tokens of a ``PendingRequest``; by default
            its words are counted.
        **run : object
            Fields of `bfio.decode.options.RunOptions`.
        """
        self._choices = Choices(policy, Dispatch.POOLED, servers, **run)
        self._tokens: Any = load_object(tokens, "counter of tokens") if tokens else words
        self._known: dict[str, PendingRequest] = {}
        self._on: dict[str, ReplicaID] = {}
        self._stir = asyncio.Event()

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Wait until the policy sends the request, and return the replica that it chooses."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True
        name = pending_request.metadata.internal_request_id
        self._known[name] = pending_request
        self._on.pop(name, None)
        size = self._tokens(pending_request)
        try:
            while True:
                self._look()
                found = self._choices.server_of(name, size)
                if found in self.curr_replicas:
                    self._on[name] = found
                    return [[self.curr_replicas[found]]]
                self._stir.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stir.wait(), _PERIOD_S)
        except asyncio.CancelledError:
            self._forget(name)
            raise

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Free the slot of a request."""
        self._forget(internal_request_id)

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._on.pop(name, None)
        self._choices.end(name)
        self._stir.set()

    def _look(self) -> None:
        """Update the replicas and their free slots, and remove cancelled requests."""
        for name in [name for name, each in self._known.items() if each.future.cancelled()]:
            self._forget(name)
        mine = list(self._on.values())
        slots = {}
        for replica_id, replica in self.curr_replicas.items():
            seen = self.replica_queue_len_cache.get(replica_id) or 0
            others = max(0, seen - mine.count(replica_id))
            slots[replica_id] = replica.max_ongoing_requests - others
        self._choices.serve(slots)
