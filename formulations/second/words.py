"""The second program in words."""

from formulations.step.words import WORDS as STEP
from formulations.words import Words

WORDS = Words(
    title="the second program of a step: which of its optima",
    source="docs/second.md",
    objective="cost of the requests that start, plus the objective of the window",
    variables={
        **STEP.variables,
        "window_M": "window_M(k) = time of the most loaded worker at step k of the window",
        "window_m": "window_m(k) = time of the least loaded worker at step k of the window",
    },
    broken={
        **STEP.broken,
        "most": "the first objective is {by} above its limit",
        "window_peak": "window step {1}: worker {0} is {by} above the peak window_M({1})",
        "window_floor": "window step {1}: worker {0} is {by} below the floor window_m({1})",
    },
)
