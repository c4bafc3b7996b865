"""The capacity program in words, and what its dual prices mean."""

from formulations.words import Words

CAPACITY = Words(
    title="the largest load that a network of agents can carry",
    source="throughput-optimal paper, (2.7) and (4.1) to (4.3); it states no program",
    objective="the negative of the common factor on all rates from outside",
    variables={
        "rate": "rate(k) = tasks of stage k per slot",
        "factor": "factor = the common factor on all rates",
    },
    broken={
        "traffic": "stage {0} has {by} tasks per slot fewer than come to it",
        "work": "agent {0} gets {by} tokens per slot more than full batches process",
        "virtual": "stages never served together (pair {0}) take {by} of the time too much",
    },
)

#: What the dual price of each family of rows is.
PRICES = {
    "traffic": "traffic(k): factor that one more task per slot of stage k costs, negative",
    "work": "work(j): factor that one more token per slot of agent j adds",
    "virtual": "virtual(v): factor that one more unit of the common time of pair v adds",
}
