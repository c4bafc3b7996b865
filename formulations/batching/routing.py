"""The rules of routes between stages: requests leave, and a fork–join type has no cycle."""

from collections.abc import Sequence
from fractions import Fraction

from formulations.batching.stages import Route, Stage
from formulations.errors import InputError, use_one_of


def check_routes(
    stages: Sequence[Stage], routes: Sequence[Route], fork_join: Sequence[str]
) -> None:
    """Check the routes of a network.

    Parameters
    ----------
    stages : sequence of Stage
        With unique names.
    routes : sequence of Route
        Routes between them.
    fork_join : sequence of str
        Types whose routes are all taken.

    Raises
    ------
    InputError
        If a route leads between unknown stages, stages of several types, or is given twice; if
        probabilities out of a stage exceed 1, or requests never leave; if a fork–join type has a
        cycle, a probability, or unequal rates where it begins.
    """
    _check_ends({stage.name: stage for stage in stages}, routes)
    routed = [stage for stage in stages if stage.request_type not in fork_join]
    _check_departures(routed, routes)
    for kind in dict.fromkeys(fork_join):
        own = [stage for stage in stages if stage.request_type == kind]
        _check_fork_join(kind, own, routes)


def _check_ends(known: dict[str, Stage], routes: Sequence[Route]) -> None:
    seen: set[tuple[str, str]] = set()
    for i, route in enumerate(routes):
        for key, name in (("from", route.source), ("to", route.target)):
            if name not in known:
                remedy = use_one_of(name, known)
                raise InputError(f"routes[{i}].{key}", f"there is no stage {name!r}", remedy)
        if known[route.source].request_type != known[route.target].request_type:
            raise InputError(
                f"routes[{i}]",
                f"{route.source} and {route.target} are of different types",
                "give both stages one type",
            )
        if (route.source, route.target) in seen:
            what = f"{route.source} to {route.target} occurs twice"
            raise InputError(f"routes[{i}]", what, "add the probabilities")
        seen.add((route.source, route.target))


def _check_departures(stages: Sequence[Stage], routes: Sequence[Route]) -> None:
    """Rows add up to 1 at most, and from every stage requests can leave.

    Then, and only then, the spectral radius of the routing matrix is below 1.
    """
    import networkx as nx

    staying = {stage.name: Fraction(0) for stage in stages}
    graph = nx.DiGraph()
    graph.add_nodes_from(staying)
    for route in routes:
        if route.source in staying:
            staying[route.source] += route.probability
            graph.add_edge(route.source, route.target)
    for name, total in staying.items():
        if total > 1:
            what = f"the probabilities from {name} add up to {total}"
            raise InputError("routes", what, "make them 1 at most")
    # A set of stages that can be entered and not left has its last part where no edge leads out.
    for part in nx.strongly_connected_components(graph):
        closed = all(target in part for name in part for target in graph[name])
        if closed and all(staying[name] == 1 for name in part):
            raise InputError(
                "routes",
                f"requests never leave {_listed(staying, part)}: the routing matrix has spectral "
                "radius 1",
                "let some depart: make the probabilities out of a stage add up to less than 1",
            )


def _check_fork_join(kind: str, stages: Sequence[Stage], routes: Sequence[Route]) -> None:
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(stage.name for stage in stages)
    for i, route in enumerate(routes):
        if route.source in graph:
            graph.add_edge(route.source, route.target)
            if route.probability != 1:
                what = f"{kind} forks and joins: every route is taken"
                raise InputError(f"routes[{i}].probability", what, "leave it out")
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [source for source, _ in nx.find_cycle(graph)]
        path = " to ".join([*cycle, cycle[0]])
        what = f"{kind} forks and joins, and its routes have the cycle {path}"
        raise InputError("routes", what, "remove a route of the cycle")
    _check_beginnings(kind, stages, {name for name, degree in graph.in_degree if degree == 0})


def _check_beginnings(kind: str, stages: Sequence[Stage], first: set[str]) -> None:
    """Only the first stages have a rate, all the same: each request begins in all of them."""
    rates = {stage.rate for stage in stages if stage.name in first}
    if len(rates) > 1:
        what = f"{kind} begins in several stages at unequal rates"
        raise InputError("stages", what, "give these stages the same rate: each request is in all")
    for stage in stages:
        if stage.name not in first and stage.rate:
            what = f"{stage.name} follows other stages of the fork-join type {kind}"
            raise InputError("stages", f"{what} and has a rate", "leave out its rate")


def _listed(order: dict[str, Fraction], part: set[str]) -> str:
    return ", ".join(name for name in order if name in part)
