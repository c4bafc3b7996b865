"""Adapters to let a policy route inside verl and TensorRT-LLM; Ray Serve: `bfio.live.ray_serve`.

The hooks of these libraries report only a part of the state that a policy reads. `Choices` keeps
the other part in the table of the live router (`bfio.live.decisions`): the server and the prompt
of each request. Hooks do not report tokens while a request runs, so the load of a request is its
prompt length until it ends. This module does not import verl or TensorRT-LLM: the adapters only
have the methods that these libraries call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from bfio.decode.cluster import Cluster
from bfio.decode.options import Dispatch, RunOptions
from bfio.decode.policy_registry import choose
from bfio.live.decisions import WAITING, Decisions
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

#: Default of the largest number of servers at a time.
SERVERS = 64
#: Largest number of unfinished requests at a time.
_ROWS = 2**12


class Choices:
    """A policy over servers that come and go.

    Parameters
    ----------
    policy : str
        Name and options of the policy, such as ``br-h:horizon=20``.
    dispatch : Dispatch
        ``POOLED``: a request may wait until the policy sends it. ``IMMEDIATE``: each request is
        sent to a server on arrival, and waits in the queue of that server.
    servers : int
        Largest number of servers at a time.
    **run : object
        Fields of `bfio.decode.options.RunOptions`, such as ``predictor`` and ``ties``.

    Raises
    ------
    InputError
        If the policy or an option is unknown, or cannot be used with live requests.
    """

    def __init__(
        self, policy: str, dispatch: Dispatch, servers: int = SERVERS, **run: Any
    ) -> None:
        options = RunOptions(dispatch=dispatch, **run)
        self._table = Decisions(choose(policy), Cluster(servers, 1), options, rows=_ROWS)
        self._table.slots[:] = 0
        self._columns: dict[Hashable, int] = {}
        self._servers: dict[int, Hashable] = {}
        #: By request: its row in the table, and whether `server_of` has returned its server.
        self._rows: dict[Hashable, tuple[int, bool]] = {}

    @property
    def loads(self) -> dict[Hashable, int]:
        """Sum of the prompts of the requests on each server [tokens]."""
        loads = self._table.loads()
        return {server: int(loads[g]) for server, g in self._columns.items()}

    def serve(self, slots: Mapping[Any, int]) -> None:
        """Set the available servers, and the number of requests of this router that each accepts.

        Requests on servers that are no longer listed return to the pool.

        Raises
        ------
        InputError
            If there are more servers than the parameter ``servers`` of `Choices` allows.
        """
        for server in self._columns.keys() - slots.keys():
            g = self._columns.pop(server)
            del self._servers[g]
            self._table.set_slots(g, 0)
            for request, (row, _) in self._rows.items():
                if self._table.worker[row] == g:
                    self._table.again(row)
                    self._rows[request] = row, False
        for server, most in slots.items():
            if server not in self._columns:
                free = set(range(len(self._table.slots))) - self._servers.keys()
                if not free:
                    what = f"{len(slots)} servers are more than the limit"
                    raise InputError("servers", what, "raise the parameter servers")
                self._columns[server] = min(free)
                self._servers[min(free)] = server
            self._table.set_slots(self._columns[server], max(0, most))

    def server_of(self, request: Hashable, tokens: int) -> Hashable | None:
        """Return the server of a request, or None if the policy lets it wait.

        The policy decides about all waiting requests. If this method has already returned a server
        for the request, a second call means that this server refused the request, and the policy
        decides about the request again.

        Raises
        ------
        InputError
            If the policy fails, or there are too many unfinished requests.
        """
        row, is_told = self._rows.get(request, (-1, False))
        if row < 0:
            if self._table.is_full:
                what = f"{_ROWS} requests are unfinished, which is the limit"
                raise InputError("requests", what, "send new requests after some have ended")
            row = self._table.arrive(max(1, tokens), 1)
        elif is_told:
            self._table.again(row)
        self._rows[request] = row, False
        if self._table.status[row] == WAITING:
            self._decide()
        if self._table.status[row] == WAITING:
            return None
        self._rows[request] = row, True
        return self._servers[int(self._table.worker[row])]

    def end(self, request: Hashable) -> None:
        """Remove a request that has ended or was cancelled; do nothing if it is unknown."""
        row, _ = self._rows.pop(request, (-1, False))
        if row >= 0:
            self._table.leave(row, finished=False)

    def _decide(self) -> None:
        self._table.end_step()
        for taken in self._table.decide():
            for row, _ in taken.admitted:
                self._table.start(row)


class VerlRouter:
    """The ``router_class`` of verl's rollout: a policy chooses the server of each generation.

    The YAML file of verl names this class and the policy: ``router_class:
    bfio.live.adapters.VerlRouter`` and ``policy: br-0``; other entries are fields of `RunOptions`.
    verl expects a server for each request immediately, so dispatch is immediate, and policies that
    need a pool are refused. The server of each turn of a conversation is chosen separately.

    Parameters
    ----------
    servers : dict
        Handles of servers by name.
    router_kwargs : dict
        Entries of the YAML file.
    """

    def __init__(self, servers: dict[str, Any], router_kwargs: dict[str, Any]) -> None:
        run = {name: value for name, value in router_kwargs.items() if name != "router_class"}
        self._choices = Choices(run.pop("policy"), Dispatch.IMMEDIATE, **run)
        self._servers: dict[str, Any] = {}
        #: Unfinished requests by server, each with the sequence number of its `acquire_server`.
        self._under_way: dict[str, list[tuple[str | None, int]]] = {}
        self._count = 0
        self.add_servers(servers)

    def require_acquire_fields(self) -> list[str]:
        """Return the fields that `acquire_server` reads."""
        return ["prompt_ids"]

    def require_release_fields(self) -> list[str]:
        """Return the fields that `release_server` reads."""
        return ["request_id"]

    def acquire_server(
        self, request_id: str, prompt_ids: list[int] | None = None
    ) -> tuple[str, Any]:
        """Return the name and the handle of the server of a request.

        Raises
        ------
        RuntimeError
            If there is no server.
        """
        self._count += 1
        found = self._choices.server_of(self._count, len(prompt_ids or ()))
        if found is None:
            self._choices.end(self._count)
            raise RuntimeError("No available servers: add one")
        name = str(found)
        self._under_way[name].append((request_id, self._count))
        return name, self._servers[name]

    def release_server(self, server_id: str, request_id: str | None = None) -> None:
        """Remove a request that has ended; without ``request_id``, the oldest of the server."""
        under_way = self._under_way.get(server_id, [])
        for i, (name, number) in enumerate(under_way):
            if request_id in (None, name):
                self._choices.end(number)
                del under_way[i]
                return

    def add_servers(self, servers: dict[str, Any]) -> None:
        """Add servers by name."""
        self._servers |= servers
        for name in servers:
            self._under_way.setdefault(name, [])
        self._choices.serve(dict.fromkeys(self._servers, 1))

    def remove_servers(self, server_ids: list[str]) -> None:
        """Remove servers; their requests no longer count as unfinished."""
        for name in server_ids:
            self._servers.pop(name, None)
            for _, number in self._under_way.pop(name, []):
                self._choices.end(number)
        self._choices.serve(dict.fromkeys(self._servers, 1))

    def get_all_servers(self) -> list[str]:
        """Return the names of the servers."""
        return list(self._servers)

    def get_inflight_count(self, server_id: str) -> int:
        """Return the number of requests on a server."""
        return len(self._under_way.get(server_id, []))

    def get_total_inflight(self) -> int:
        """Return the number of requests on all servers."""
        return sum(map(len, self._under_way.values()))

    def get_status(self) -> dict[str, Any]:
        """Return the numbers of requests by server."""
        counts = {name: len(requests) for name, requests in self._under_way.items()}
        return {
            "servers": counts,
            "total_inflight": self.get_total_inflight(),
            "active_servers": len(counts),
        }

    def clear_sticky_cache(self) -> dict[str, Any]:
        """Return the loads; there is no cache to clear, as no conversation stays on its server."""
        return {"cleared_entries": 0, "server_loads": self.get_status()["servers"]}


class RankRouter:
    """Mixin for TensorRT-LLM's ``DefaultADPRouter``: a policy for attention data parallelism.

    Every rank computes the same decisions from the same states. The hook reports the number of
    requests and prompt tokens of each rank, but not single requests. So the policy sees running
    requests of equal size with these sums. The hook has no pool: a request that the policy lets
    wait goes to the rank with the fewest tokens among those with a free slot. A request that names
    its rank goes to this rank if the rank has a free slot.
    """

    #: The policy with its options, and fields of `RunOptions`.
    policy: str = "br-0"
    run: ClassVar[dict[str, Any]] = {}
    _table: Decisions | None = None

    def route_requests(
        self, all_rank_states: list[Any], new_requests: list[Any], max_num_active_requests: int
    ) -> tuple[dict[int, list[Any]], int]:
        """Return the new requests of each rank, and the largest number of requests of a rank then.

        Parameters
        ----------
        all_rank_states : list
            ``RankState`` of each rank, in order: requests and prompt tokens.
        new_requests : list
            ``RequestQueueItem`` with ``request.input_token_ids``.
        max_num_active_requests : int
            Slots of a rank.
        """
        counts = [state.num_active_requests for state in all_rank_states]
        tokens = [state.num_active_tokens for state in all_rank_states]
        found: dict[int, list[Any]] = {rank: [] for rank in range(len(counts))}

        def send(item: Any, rank: int) -> None:
            found[rank].append(item)
            counts[rank] += 1
            tokens[rank] += _prompt_of(item)

        waiting = []
        for item in new_requests:
            params = getattr(item.request, "py_scheduling_params", None)
            rank = getattr(params, "attention_dp_rank", None)
            if rank is not None and counts[rank] < max_num_active_requests:
                send(item, rank)
            else:
                waiting.append(item)
        answer = self._decided(counts, tokens, waiting, max_num_active_requests)
        for item, rank in zip(waiting, answer, strict=True):
            if rank is not None:
                send(item, rank)
        for item, rank in zip(waiting, answer, strict=True):
            if rank is None:
                free = [g for g in found if counts[g] < max_num_active_requests]
                send(item, min(free or found, key=tokens.__getitem__))
        return found, max(counts)

    def _decided(
        self, counts: list[int], tokens: list[int], waiting: list[Any], slots: int
    ) -> list[int | None]:
        if self._table is None:
            machine = Cluster(len(counts), slots)
            self._table = Decisions(choose(self.policy), machine, RunOptions(**self.run))
        table, rows = self._table, []
        for g, (count, sum_) in enumerate(zip(counts, tokens, strict=True)):
            for i in range(count):
                row = table.arrive(sum_ // count + (i < sum_ % count), 1)
                table.worker[row] = g
                table.start(row)
                rows.append(row)
        mine = [table.arrive(max(1, _prompt_of(item)), 1) for item in waiting]
        table.end_step()
        sent = dict(pair for taken in table.decide() for pair in taken.admitted)
        for row in [*rows, *mine]:
            table.leave(row, finished=False)
        return [sent.get(row) for row in mine]


def _prompt_of(item: Any) -> int:
    return len(getattr(item.request, "input_token_ids", None) or ())
