"""The step program in words."""

from formulations.words import Words

WORDS = Words(
    title="the BF-IO step program (IO)",
    source="BF-IO (arXiv:2601.17855), section 4, program (IO)",
    objective="imbalance, max-load or gap over the look-ahead window [tokens, or time units]",
    variables={
        "x": "x(i,g) = 1 if waiting request i (from 0, in arrival order) starts on worker g",
        "M": "M(h) = time of the most loaded worker at look-ahead step h",
        "m": "m(h) = time of the least loaded worker at look-ahead step h",
    },
    broken={
        "admit_once": "request {0} starts on more than one worker",
        "capacity": "worker {0} takes {by} requests more than it has free slots",
        "use_slots": "the number of requests that start is off by {by}",
        "peak": "step {1}: worker {0} is {by} above the peak M({1})",
        "floor": "step {1}: worker {0} is {by} below the floor m({1})",
        "token_capacity": "step {1}: worker {0} holds {by} tokens more than fit",
        "required": "request {0} must start now and does not",
        "worker": "request {0} goes to a worker that is not there",
        "objective": "the objective is off by {by}",
    },
)
