"""The JSON document of a network of agents."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from formulations.batching.batch_time import BatchTime
from formulations.batching.stages import Agent, Route, Stage
from formulations.documents import check_keys, check_list
from formulations.errors import InputError, within

T = TypeVar("T")

#: Type of requests where there is only one and it is not named.
DEFAULT_TYPE = "request"
_AGENT = (("name", "budget", "overhead"), ("per_token", "free_tokens", "engines", "chunked"))
_STAGE = (("agent", "prefill", "decode"), ("type", "rate", "name"))
_ROUTE = (("from", "to"), ("probability",))
_NETWORK = (("agents", "stages"), ("routes", "fork_join", "slot"))


def parts_of(document: object) -> tuple[Any, ...]:
    """Return agents, stages, routes, fork–join types and slot of a document.

    Raises
    ------
    InputError
        Naming the place.
    """
    whole = check_keys(document, "document", *_NETWORK)
    return (
        _each(whole["agents"], "agents", _AGENT, _agent),
        _each(whole["stages"], "stages", _STAGE, _stage),
        _each(whole.get("routes", []), "routes", _ROUTE, _route),
        tuple(check_list(whole.get("fork_join", []), "fork_join")),
        whole.get("slot"),
    )


def mapping_of(
    agents: Sequence[Agent],
    stages: Sequence[Stage],
    routes: Sequence[Route],
    fork_join: Sequence[str],
    slot: Fraction | None,
) -> dict[str, Any]:
    """Return the document that `parts_of` reads."""
    document: dict[str, Any] = {
        "agents": [agent_row(agent) for agent in agents],
        "stages": [
            {"name": stage.name, "type": stage.request_type, "agent": stage.agent}
            | {name: str(getattr(stage, name)) for name in ("prefill", "decode", "rate")}
            for stage in stages
        ],
        "routes": [
            {"from": route.source, "to": route.target, "probability": str(route.probability)}
            for route in routes
        ],
        "fork_join": list(fork_join),
    }
    return document if slot is None else document | {"slot": str(slot)}


def agent_row(agent: Agent) -> dict[str, Any]:
    """Return one agent as the document has it."""
    return {
        "name": agent.name,
        "budget": agent.budget,
        **agent.batch_time.to_mapping(),
        "engines": agent.engines,
        "chunked": agent.chunked,
    }


def _each(
    rows: object,
    where: str,
    keys: tuple[tuple[str, ...], tuple[str, ...]],
    make: Callable[[Mapping[str, Any]], T],
) -> tuple[T, ...]:
    made = []
    for i, row in enumerate(check_list(rows, where)):
        place = f"{where}[{i}]"
        values = check_keys(row, place, *keys)
        made.append(within(place, lambda values=values: make(values)))  # type: ignore[misc]
    return tuple(made)


def _agent(row: Mapping[str, Any]) -> Agent:
    times = {k: row[k] for k in ("overhead", "per_token", "free_tokens") if k in row}
    if row.get("free_tokens") and "per_token" not in row:
        raise InputError("free_tokens", "no token takes time", "give per_token, or leave it out")
    others = {k: row[k] for k in ("engines", "chunked") if k in row}
    return Agent(row["name"], row["budget"], BatchTime(**times), **others)


def _stage(row: Mapping[str, Any]) -> Stage:
    others = {k: row[k] for k in ("rate", "name") if k in row}
    kind = row.get("type", DEFAULT_TYPE)
    return Stage(kind, row["agent"], row["prefill"], row["decode"], **others)


def _route(row: Mapping[str, Any]) -> Route:
    others = {k: row[k] for k in ("probability",) if k in row}
    return Route(row["from"], row["to"], **others)
