"""Speed of the compiled engines in stage events (one prompt and one stage each)."""

import time

import pytest

from bfio.wait.arrivals import poisson_instance
from bfio.wait.registry import build
from bfio.wait.simulation import compile_kernels, serve
from formulations.fluid import FluidProblem
from tests.wait.cases import I0

#: Ten lengths, 250 stages on average, as in the paper's clustered data, at half the load.
LONG = FluidProblem.from_mapping(
    {
        "classes": [
            {"rate": rate, "prompt": 60, "output": 50 * (j + 1)}
            for j, rate in enumerate((23, 11, 8, 7, 6, 4, 3, 2, 1, 1))
        ],
        "d0": "0.01",
        "d1": "2.6e-7",
        "memory": 10**6,
    }
)


#: Policies with options that suit each load; the short outputs of I0 leave least to save.
CASES = [
    (LONG, 1000, "wait"),
    (LONG, 1000, "nested-wait"),
    (LONG, 1000, "new-first:limit=500"),
    (LONG, 1000, "ongoing-first:limit=500"),
    (LONG, 1000, "fcfs"),
    (I0, 300_000, "wait"),
    (I0, 300_000, "wait:thresholds=1,1"),
    (I0, 300_000, "nested-wait"),
    (I0, 300_000, "new-first:limit=6"),
    (I0, 300_000, "ongoing-first:limit=6"),
    (I0, 300_000, "fcfs"),
]


@pytest.mark.deep
@pytest.mark.parametrize(("problem", "horizon", "policy"), CASES)
def test_a_million_stage_events_per_second(
    problem: FluidProblem, horizon: int, policy: str
) -> None:
    """Of processor time, for the whole call; more than a million events in each run."""
    compile_kernels()
    data, made = poisson_instance(problem, horizon, seed=1), build(policy, problem)
    begin = time.process_time()
    run = serve(data, made, horizon_s=horizon, engine="compiled")
    seconds = time.process_time() - begin
    events = int(run.batches.prompts.sum())
    assert events > 10**6
    assert events / seconds > 10**6
