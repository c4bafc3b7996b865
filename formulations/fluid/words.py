"""The fluid programs in words, and what their dual prices mean."""

from formulations.words import Words

_SOURCE = "fluid paper (arXiv:2504.11320)"
_ROUTES = {"x": "x(j,g) = rate of class j that worker g serves [1/s]"}
_WORK = "worker {0} does {by} more work per second than full memory allows"

THROUGHPUT = Words(
    title="the memory-constrained throughput program",
    source=f"{_SOURCE}, throughput (8) under limited memory; it states no linear program",
    objective="the negative of the throughput [stages/s, or decode tokens/s]",
    variables=_ROUTES,
    broken={"rate": "class {0} is admitted at {by} requests/s more than arrive", "work": _WORK},
)
MARGIN = Words(
    title="the capacity margin of several workers",
    source=f"{_SOURCE}, equation (1), for several workers; it states no linear program",
    objective="the negative of the common factor on all rates that the workers can serve",
    variables=_ROUTES | {"margin": "margin = the common factor on all rates"},
    broken={"routed": "class {0} lacks {by} requests/s of its share", "work": _WORK},
)
EQUILIBRIUM = Words(
    title="the fluid equilibrium of one worker",
    source=f"{_SOURCE}, equations (1), (6) and (7)",
    objective="memory in equilibrium [tokens]",
    variables={
        "count": "count(j) = requests of class j in each of its stages",
        "time": "time = length of an iteration [s]",
    },
    broken={
        "served": "class {0}: {by} requests too few in each stage for its rate",
        "duration": "an iteration is {by} s shorter than its tokens take",
    },
)

#: What the dual price of each family of rows is.
PRICES = {
    "rate": "rate(j): throughput that one more request per second of class j adds",
    "work": "work(g): value that one more unit of work per second of worker g adds "
    "[token-iterations/s]",
    "routed": "routed(j): margin that one more request per second of class j costs, negative",
    "served": "served(j): memory that one more request of class j per stage costs",
    "duration": "duration: memory that one more second of every iteration costs",
}
