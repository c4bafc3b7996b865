"""Policies of the toolkit inside other routers: verl's and TensorRT-LLM's; Ray Serve's beside.

Each hook tells a part of a policy's state. `Choices` keeps the rest in the table of the live
router (`bfio.live.decisions`): which request is on which server, and its prompt. Hooks do not
report tokens while a request runs, so loads are prompts until it ends. Nothing of the other
libraries is imported here: their hooks are called by shape. `bfio.live.ray_serve` imports Ray.
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

#: Most servers at once.
SERVERS = 64
#: Most requests at once.
_ROWS = 2**12


class Choices:
    """A policy over servers that come and go.

    Parameters
    ----------
    policy : str
        Its name and options, such as ``br-h:horizon=20``.
    dispatch : Dispatch
        ``POOLED``: a request may wait until the policy sends it. ``IMMEDIATE``: it is sent at
        once, to queue at its server.
    servers : int
        Most servers at once.
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
        #: Per request its row, and whether its server has been told.
        self._rows: dict[Hashable, tuple[int, bool]] = {}

    @property
    def loads(self) -> dict[Hashable, int]:
        """The prompts on each server [tokens]."""
        loads = self._table.loads()
        return {server: int(loads[g]) for server, g in self._columns.items()}

    def serve(self, slots: Mapping[Any, int]) -> None:
        """Set the servers, and how many requests of this router each accepts.

        Requests on servers that are gone return to the pool.

        Raises
        ------
        InputError
            If there are more servers than were announced.
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
                    what = f"{len(slots)} of them at once"
                    raise InputError("servers", what, "announce more servers")
                self._columns[server] = min(free)
                self._servers[min(free)] = server
            self._table.set_slots(self._columns[server], max(0, most))

    def server_of(self, request: Hashable, tokens: int) -> Hashable | None:
        """Return the server of a request, or None if the policy lets it wait.

        The policy decides about all requests that wait. A request that is asked about again
        after its server was told has been refused there, and is decided anew.

        Raises
        ------
        InputError
            If the policy fails, or too many requests are at once.
        """
        row, is_told = self._rows.get(request, (-1, False))
        if row < 0:
            if self._table.is_full:
                raise InputError("requests", f"{_ROWS} at once", "send fewer")
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
        """Forget a request that has ended or was given up; nothing happens if it is unknown."""
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

    Its YAML file names this class and the policy: ``router_class:
    bfio.live.adapters.VerlRouter`` and ``policy: br-0``; other entries are fields of `RunOptions`.
    verl waits for a server, so policies decide at once; those that need a pool are refused.
    Turns of one conversation are decided one by one.

    Parameters
    ----------
    servers : dict
        Handles of servers by name.
    router_kwargs : dict
        The YAML file.
    """

    def __init__(self, servers: dict[str, Any], router_kwargs: dict[str, Any]) -> None:
        run = {name: value for name, value in router_kwargs.items() if name != "router_class"}
        self._choices = Choices(run.pop("policy"), Dispatch.IMMEDIATE, **run)
        self._servers: dict[str, Any] = {}
        #: Requests under way by server, each with the number of its acquisition.
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
        """Note the end of a request; of the oldest one on its server if it has no name."""
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
        """Remove servers; their requests are under way no longer."""
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
        """Return the loads: no conversation is bound to its server."""
        return {"cleared_entries": 0, "server_loads": self.get_status()["servers"]}


class RankRouter:
    """A policy for TensorRT-LLM's attention data parallelism; mix it into ``DefaultADPRouter``.

    Every rank decides from the same states, so all decide alike. The hook tells requests and
    prompt tokens of a rank, not of each request: the policy sees equal requests with these sums.
    The hook has no pool, so a request that the policy lets wait goes to the rank of fewest tokens
    among those with a free slot. Requests that name their rank go there while it has a slot.
    """

    #: The policy with its options, and fields of `RunOptions`.
    policy: str = "br-0"
    run: ClassVar[dict[str, Any]] = {}
    _table: Decisions | None = None

    def route_requests(
        self, all_rank_states: list[Any], new_requests: list[Any], max_num_active_requests: int
    ) -> tuple[dict[int, list[Any]], int]:
        """Return the new requests of each rank, and the most requests of a rank afterwards.

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
