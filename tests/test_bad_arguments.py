"""Bad arguments in Python: an error of one line that names the argument, never a traceback."""

import random
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from fractions import Fraction
from inspect import signature
from typing import Any

import numpy as np
import pytest

import bfio
from bfio import from_trace
from bfio.batching.scenario import Scenario
from bfio.calibration.measurements import read_steps
from bfio.decode.energy import energy_account, power_over_time
from bfio.decode.metrics import measure, measure_steady, measured_of
from bfio.gap import GapObserver
from bfio.hindsight.latency import solve_latency
from bfio.hindsight.makespan import solve_makespan
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.simulation import serve
from bfio.pausing import solve_pausing
from bfio.prediction.options import EvaluationOptions
from bfio.testing import check_contract, improvement_ratio, make_state
from bfio.wait.arrivals import even_instance, poisson_instance
from bfio.wait.registry import build as wait_policy
from bfio.workloads import (
    Diurnal,
    Empirical,
    GammaRenewal,
    Geometric,
    Homogeneous,
    Lognormal,
    OnOff,
    Poisson,
    Uniform,
    describe,
    detect_format,
    generate,
    is_overloaded,
    overloaded,
    read_pmf,
    resample,
    with_arrivals,
    write_trace,
)
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
FLUID = FluidProblem(CLASSES, (WORKER,))
DONE = bfio.simulate(REQUESTS, "fcfs", MACHINE)
RNG = np.random.default_rng(1)
LAWS: dict[str, Any] = {"prompts": Geometric(3.0), "outputs": Geometric(3.0)}
#: Name of the count of a law's `sample`, and the law.
DRAWN: tuple[tuple[str, Any], ...] = (
    *(("num_samples", law) for law in (
        Geometric(3.0), Lognormal(3.0, 1.0), Uniform(1, 3), Empirical([1, 2], [0.5, 0.5]),
    )),
    *(("num_requests", law) for law in (
        Poisson(3.0), GammaRenewal(3.0, 1.0), OnOff(3.0, 1.0, 1.0, 1.0), Diurnal(3.0, 1.0, 1.0),
    )),
)  # fmt: skip
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
    (with_arrivals, {"workload": REQUESTS, "arrivals": Poisson(1.0), "seed": 1}, ()),
    (generate, {"num_requests": 5, **LAWS, "arrivals": Poisson(1.0), "rng": RNG}, ()),
    (resample, {"workload": REQUESTS, "num_requests": 5, "rng": RNG},
     ("workload", "num_requests", "arrivals", "rng")),
    (overloaded, {"steps": 9, "total_slots": 4, **LAWS, "rng": RNG}, ()),
    *((law.sample, {count: 3, "rng": RNG}, ("rng",)) for count, law in DRAWN),
    (is_overloaded, {"pending": [[1]], "free_slots": [0]}, ()),
    (REQUESTS.head, {"num_requests": 3}, ()),
    (REQUESTS.repeated, {"times": 3}, ()),
    (measure, {"run": DONE}, ("run", "energy_model")),
    (measured_of, {"run": DONE}, ("run",)),
    (measure_steady, {"run": DONE}, ("run",)),
    (power_over_time, {"run": DONE, "model": bfio.EnergyModel()}, ()),
    (energy_account, {"run": DONE, "model": bfio.EnergyModel()}, ("run", "model", "reading")),
    (bfio.StepProblem.from_state, {"state": make_state([1], [1], [1])}, ("state", "look_ahead")),
    (wait_policy, {"text": "wait", "problem": FLUID}, ()),
    (poisson_instance, {"problem": FLUID, "duration": 9}, ()),
    (even_instance, {"problem": FLUID, "duration": 9}, ()),
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
        (solve_equilibrium, FLUID),
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


@pytest.mark.parametrize(
    "call",
    [
        bfio.read_trace,
        detect_format,
        read_pmf,
        read_steps,
        from_trace.latency_problem(REQUESTS, 10**6).write,
        lambda path: write_trace(REQUESTS, path),
        lambda path: bfio.write(STEP, path),
    ],
)
@pytest.mark.parametrize("path", [3, None, object(), ["a.csv"]])
def test_a_file_name_is_a_text_or_a_path(call: Callable[..., Any], path: object) -> None:
    """And no number."""
    with pytest.raises(InputError, match=r"(path|file): an? .* is not a file name"):
        call(path)


@pytest.mark.parametrize("rng", [random.Random(1), 3, None])
def test_draws_need_a_generator_of_numpy(rng: Any) -> None:
    """Also where a law draws nothing."""
    with pytest.raises(InputError, match=r"rng: .* numpy.random.default_rng\(SEED\)"):
        generate(3, Homogeneous(1), Homogeneous(1), rng=rng)


@pytest.mark.parametrize("law", ["poisson:rate=3", Poisson, None])
def test_a_text_is_no_law(law: Any) -> None:
    """Nor is a class; the remedy is a law."""
    with pytest.raises(InputError, match=r"arrivals: .* Poisson\(rate=300\)"):
        with_arrivals(REQUESTS, law, seed=1)


def test_one_number_per_worker_may_be_an_array() -> None:
    """As it may be a list; the entries are checked alike."""
    assert bfio.Cluster(2, np.array([4, 5])) == bfio.Cluster(2, [4, 5])  # type: ignore[arg-type]
    speeds: Any = np.array([1.0, 2.0])
    assert bfio.Cluster(2, 4, speed=speeds).speed == (1.0, 2.0)
    for slots in (np.array([4.0, 5.0]), np.array([4, 5, 6]), np.array([[4, 5]]), np.array([4, 0])):
        with pytest.raises(InputError, match="slots"):
            bfio.Cluster(2, slots)  # type: ignore[arg-type]


RAGGED, PAIR = [[1, 2], [3]], [1, 1]


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (bfio.Workload, (RAGGED, PAIR), r"prompt_tokens\[0\]: expected an integer"),
        (bfio.Workload, (PAIR, PAIR, RAGGED), r"arrival_times\[0\]: \[1, 2\] is not a time"),
        (bfio.StepProblem, (PAIR, RAGGED, RAGGED), r"base\[1\]: 1 entry where 2"),
        (bfio.StepProblem, (None, [[1], [2]], [[1]]), "capacity: .*; write a list$"),
        (bfio.Workload.from_frame, ({},), "frame: has no columns"),
        (is_overloaded, ([[1]], [0, 0]), r"pending\[1\]: expected a list"),
    ],
)
def test_what_is_wrong_and_the_remedy(
    function: Callable[..., Any], given: tuple[Any, ...], message: str
) -> None:
    """In one line, of an entry if it is one."""
    with pytest.raises(InputError, match=message):
        function(*given)


def test_an_array_of_one_name_is_no_name() -> None:
    """Although numpy holds them equal."""
    name: Any = np.array(["imbalance"])
    with pytest.raises(InputError, match=r"objective: array\(.* is unknown"):
        replace(STEP, objective=name)


def test_a_cancellation_names_a_request_by_number() -> None:
    """The remedy gives no bound where there is none to speak of."""
    said = "cancellations, event 0: .*; write a whole number without a decimal point"
    with pytest.raises(InputError, match=said):
        bfio.simulate(REQUESTS, "fcfs", MACHINE, arrivals="timed", cancellations=[(0.0, "a")])


def test_one_is_singular() -> None:
    """In the text of a workload."""
    assert repr(bfio.Workload(EACH, EACH)) == "<Workload workload: 1 request>"
    assert repr(bfio.Workload(NONE, NONE)) == "<Workload workload: 0 requests>"
