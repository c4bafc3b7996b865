"""The hindsight latency program in words."""

from formulations.words import Words

WORDS = Words(
    title="the hindsight latency program",
    source="KV-cache paper (arXiv:2502.07115), appendix B.1",
    objective="total latency, completion minus arrival summed over the requests [rounds]",
    variables={"x": "x(c,k) = how many requests of kind c start at round k"},
    broken={
        "start_once": "{kind}: {by} starts too many or too few",
        "memory": "round {0}: the cache holds {by} tokens more than fit",
        "arrival": "request {0} starts {by} rounds before it arrives",
        "objective": "the total latency is off by {by}",
    },
)
