"""Bad arguments in Python: an error of one line that names the argument, never a traceback."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from fractions import Fraction
from inspect import signature
from typing import Any

import numpy as np
import pytest

import bfio
from bfio import from_trace
from bfio.batching.scenario import Scenario
from bfio.gap import GapObserver
from bfio.hindsight.latency import solve_latency
from bfio.hindsight.makespan import solve_makespan
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.simulation import serve
from bfio.pausing import solve_pausing
from bfio.prediction.options import EvaluationOptions
from bfio.testing import check_contract, improvement_ratio, make_state
from bfio.workloads import Geometric, Poisson, describe, with_arrivals
from formulations.batching import AgentNetwork, single_engine
from formulations.errors import InputError
from formulations.fluid import (
    FluidProblem,
    FluidWorker,
    RequestClass,
    equilibrium,
    solve_equilibrium,
)
from formulations.hindsight_latency import LatencyProblem
from formulations.hindsight_makespan import MakespanProblem
from formulations.pausing import PausingProblem
from formulations.second import SecondProblem
from formulations.stability import loads

REQUESTS = bfio.synthetic("demo", 20, seed=1)
MACHINE = bfio.Cluster(workers=2, slots=4)
RUN: dict[str, Any] = {"workload": REQUESTS, "policy": "fcfs", "cluster": MACHINE}
OF_TRACE: dict[str, Any] = {"workload": REQUESTS, "memory": 10**6}
ROWS: dict[str, Any] = {"arrival": [0], "prompt": [1], "output": [1]}
ONE, EACH, NONE = Fraction(1), np.ones(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
STEP = bfio.StepProblem(np.array([1, 1]), np.array([[1], [2]]), np.array([[3]]))
CLASSES, WORKER = (RequestClass(ONE, 1, 1),), FluidWorker(ONE, ONE / 9, 9)
NETWORK = single_engine("0.6", 1, 12, budget=10)
#: A valid call of each function; all its arguments are made bad, or those named besides.
CALLS: tuple[tuple[Callable[..., Any], dict[str, Any], Iterable[str]], ...] = (
    (bfio.simulate, RUN, [each.name for each in fields(bfio.RunOptions)]),
    (bfio.simulate, RUN, ("stop", "observers", "keep_trajectory", "options", *RUN)),
    (bfio.compare, {"workload": REQUESTS, "policies": "fcfs", "cluster": MACHINE},
     ("jobs", "metrics", "progress", "repeat", "options", "policies", "energy_model")),
    (bfio.measure_gap, RUN, ("observer", "horizon", "options", *RUN)),
    (GapObserver, {}, ("method", "horizon", "gamma", "objective", "work_limit", "every", "keep")),
    (bfio.solve, {"problem": STEP}, ()),
    (check_contract, {"policy": "fcfs", "examples": 1}, ()),
    (bfio.evaluate_predictor, {"workload": REQUESTS, "predictor": "oracle"}, ()),
    (bfio.Cluster, {}, ()),
    (bfio.Workload, {"prompt_tokens": [1, 2], "output_tokens": [1, 2]}, ()),
    (bfio.synthetic, {"name": "demo", "num_requests": 5, "seed": 1}, ()),
    (bfio.StepProblem, {"capacity": [1, 1], "base": [[1], [2]], "contribution": [[3]]}, ()),
    (LatencyProblem, {"memory": 9, **ROWS}, ()),
    (MakespanProblem, {"workers": 1, "slots": 1, **ROWS}, ()),
    (FluidWorker, {"d0": 1, "d1": 1, "memory": 9}, ()),
    (RequestClass, {"rate": 1, "prompt": 1, "output": 9}, ()),
    (from_trace.latency_problem, OF_TRACE, ()),
    (from_trace.makespan_problem, {"workload": REQUESTS, "workers": 2, "slots": 2}, ()),
    (from_trace.fluid_problem, OF_TRACE | {"rate": 1}, ()),
    (from_trace.step_problem, RUN, (*RUN, "step", "look_ahead")),
    (improvement_ratio, {"policy": "br-0", "workers": 55, "slots": 1, "rounds": 1}, ()),
    (make_state, {"loads": [1], "free": [1], "sizes": [1]}, ()),
    (bfio.EnergyModel, {}, ()),
    (describe, {"workload": REQUESTS}, ()),
    (with_arrivals, {"workload": REQUESTS, "arrivals": Poisson(1.0), "seed": 1},
     ("workload", "seed")),
    (Poisson, {"rate": 1.0}, ()),
    (Geometric, {"mean": 3.0}, ()),
    (REQUESTS.part, {"which": [0, 1]}, ()),
    (equilibrium, {"classes": CLASSES, "worker": WORKER}, ("worker",)),
    (FluidProblem, {"classes": CLASSES, "workers": [WORKER]}, ()),
    (AgentNetwork, {"agents": NETWORK.agents, "stages": NETWORK.stages},
     ("agents", "stages", "routes", "fork_join")),
    (Scenario, {"network": NETWORK}, ()),
    (serve, {"instance": CacheInstance(9, **ROWS), "algorithm": "mc-sf"},
     ("instance", "limits", "seed", "predicted")),
    (CacheInstance, {"memory": 9, **ROWS}, ("memory", "convention", *ROWS)),
    (SecondProblem, {"step": STEP, "most": 9}, ()),
    (loads, {"network": NETWORK}, ()),
    *((solver, {"problem": problem}, ("problem",)) for solver, problem in (
        (solve_latency, LatencyProblem(9, **ROWS)),
        (solve_makespan, MakespanProblem(1, 1, **ROWS)),
        (solve_pausing, PausingProblem(EACH, NONE, NONE, NONE, EACH, 1)),
        (solve_equilibrium, FluidProblem(CLASSES, (WORKER,))),
    )),
)  # fmt: skip
BAD: tuple[Any, ...] = (object(), -1, "nonsense\nline", float("nan"), [], True)
#: What is no mistake: an empty list of events or requests, a name of any text, a flag.
GOOD: dict[str, tuple[Any, ...]] = {
    "failures": ([],), "stragglers": ([],), "cancellations": ([],), "observers": ([],),
    "routes": ([],), "fork_join": ([],), "which": ([],), "weights": ([],),
    "contribution": ([],), "sizes": ([],), "contributions": ([],),
    "name": ("nonsense\nline",), "rate_scale": (True,), "keep_trajectory": (True,),
    "leave_out_oversized": (True,), "work_conserving": (True,),
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "valid", "names"), CALLS, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_bad_argument_is_one_line(
    function: Callable[..., Any], valid: dict[str, Any], names: Iterable[str]
) -> None:
    """Each argument gets each bad value; the error speaks of arguments, not of flags."""
    function(**valid)
    for name in names or signature(function).parameters:
        for value in BAD:
            if any(type(value) is type(good) and value == good for good in GOOD.get(name, ())):
                continue
            with pytest.raises(InputError) as caught:
                pytest.fail(f"{name}={value!r} gives {function(**valid | {name: value})}")
            assert "\n" not in str(caught.value)
            assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (bfio.Cluster, ("slots", "step_overhead_s", "token_time_s", "speed")),
        (EvaluationOptions, ("every", "online", "seed")),
    ],
)
def test_none_is_no_number(function: Callable[..., Any], names: Iterable[str]) -> None:
    """Only where it is the default, which it is not here."""
    for name in names:
        with pytest.raises(InputError, match=f"{name}: expected a"):
            function(**{name: None})
