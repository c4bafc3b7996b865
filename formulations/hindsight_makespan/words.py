"""The hindsight makespan program in words."""

from formulations.words import Words

WORDS = Words(
    title="the hindsight makespan program",
    source="BF-IO (arXiv:2601.17855), section 3: the barrier, with all requests known",
    objective="wall-clock time [s], imbalance [tokens] or total latency [steps]",
    variables={
        "x": "x(c,g,k) = how many requests of kind c start on lane g at step k; lanes are the "
        "workers, numbered as they are first used (one lane for latency)",
        "peak": "peak(k) = load of the most loaded worker at step k",
        "busy": "busy(k) = 1 if anything runs at step k",
        "full": "full(k) = 1 if every slot is used at step k",
    },
    broken={
        "start_once": "{kind}: {by} starts too many or too few",
        "slots": "step {1}: worker {0} runs {by} requests more than it has slots, or is not busy",
        "barrier": "step {1}: worker {0} is {by} tokens above the peak",
        "filled": "step {0} is called full with {by} slots free",
        "waiting": "step {1}: {by} of {kind} wait while slots are free",
        "gapless": "step {0} is idle, and a later one is not",
        "memory": "step {1}: worker {0} holds {by} tokens more than its memory",
        "arrival": "request {0} starts {by} steps before it arrives",
        "workers": "request {0} is on a worker that is not there",
        "work_conserving": "step {0}: {by} requests wait while slots are free",
        "objective": "the objective is off by {by}",
    },
)
