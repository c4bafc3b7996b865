"""Every keyword of a public solver is read or refused, whatever the method."""

import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bfio
from bfio.hindsight.latency import solve_hindsight
from bfio.programs import kind_of
from bfio.step.exact import solve_exact
from formulations import fluid, hindsight_latency, hindsight_makespan, pausing, stability, step
from formulations import thresholds as wait
from formulations.batching import BatchTime, single_engine
from formulations.errors import InputError
from tests.test_programs import CASES, FLUID

DOCUMENTS = {name: CASES[name][0] for name in ("solve", "hindsight", "makespan", "pause")}
DOCUMENTS["fluid"] = FLUID
PROBLEMS: dict[str, Any] = {
    name: kind_of(document, name).read(document) for name, document in DOCUMENTS.items()
}
BACKENDS, LINEAR = ("cp-sat", "highs", "pyomo", "lp"), ("highs", "pyomo")
EVERY = ("brute-force", *BACKENDS)
NETWORK = single_engine(
    rate=1, prefill=2, decode=2, budget=5, batch_time=BatchTime(Fraction(1), Fraction(0), 0)
)
#: The equilibrium holds 9 tokens.
SMALL = fluid.FluidProblem.from_mapping(DOCUMENTS["fluid"] | {"memory": 8})
WAIT = wait.WaitProblem(PROBLEMS["fluid"])
NESTED = wait.NestedProblem.from_fluid(PROBLEMS["fluid"])
#: Each solver, a tiny problem, its keyword of the method, and the methods.
SOLVERS: tuple[tuple[Callable[..., Any], Any, str, tuple[str, ...]], ...] = (
    (bfio.solve_step, PROBLEMS["solve"], "method", ("exact", "two-stage", *EVERY)),
    *((bfio.solve, PROBLEMS[name], "method", kind_of(DOCUMENTS[name], name).methods)
      for name in DOCUMENTS),
    (step.solve, PROBLEMS["solve"], "backend", BACKENDS),
    (hindsight_latency.solve, PROBLEMS["hindsight"], "backend", BACKENDS),
    (hindsight_makespan.solve, PROBLEMS["makespan"], "backend", BACKENDS),
    (pausing.solve, PROBLEMS["pause"], "backend", ("cp-sat", "highs", "pyomo")),
    (solve_hindsight, PROBLEMS["hindsight"], "", ("",)),
    (solve_exact, PROBLEMS["solve"], "", ("exact",)),
    (fluid.solve_throughput, PROBLEMS["fluid"], "backend", LINEAR),
    (fluid.solve_equilibrium, SMALL, "backend", LINEAR),
    (fluid.solve_limited_throughput, PROBLEMS["fluid"], "", ("",)),
    (wait.solve, WAIT, "method", ("fixed-point", *EVERY)),
    (wait.solve_segments, NESTED, "method", ("brute-force", "cp-sat", "highs", "pyomo")),
    (stability.solve_capacity, NETWORK, "backend", LINEAR),
)  # fmt: skip
NONSENSE = (object(), -1, "nonsense\nline", float("nan"))
#: Keywords that name something: an array of one name is refused, too.
NAMES = ("method", "program", "second", "objective")
#: A value that must change the answer, or be refused.
TELLING: dict[str, Any] = {
    "time_limit": 0, "work_limit": 0, "second": "largest", "slack": 1, "within_memory": True,
    "objective": "decode", "latency": "2.6", "ttft": "2.4", "program": "margin",
}  # fmt: skip
#: Keyword to methods whose answer it does not change, and why.
WITHOUT_EFFECT = {
    "seed": "a proven answer does not depend on it",
    "hint": "a feasible one changes the time only",
    "times": "known bounds change the time only",
    "decodes": "orders of a first schedule, which the search improves",
    "threads": "changes the time only",
    "fallback": "closes only what is open",
    "node_limit": "ends an enumeration that a tiny step does not need",
    "skip": "a phase that a tiny step does not need",
    "model": "tests/formulations/test_changed.py adds rows",
    "virtual": "tests/formulations/stability",
    "method": "a proven answer does not depend on it",
    "backend": "a proven answer does not depend on it",
}
UNREAD = {
    ("time_limit", "exact"): "a tiny step, or a closed form, is over in the first piece of work",
    ("time_limit", "two-stage"): "about a millisecond",
    ("time_limit", "heuristic"): "about a millisecond",
    ("work_limit", "exact"): "a tiny step is over in the first piece of work",
    ("work_limit", "highs"): "presolve is not limited (formulations/deadline.py)",
    ("work_limit", "pyomo"): "presolve is not limited (formulations/deadline.py)",
}


def _calls() -> Iterator[Any]:
    """Yield solver, problem, method, and keyword of every call below."""
    for function, problem, by, methods in SOLVERS:
        for name in list(inspect.signature(function).parameters)[1:]:
            for method in methods:
                given = {by: method} if by and name != by else {}
                told = f"{function.__module__}.{function.__name__}-{type(problem).__name__}"
                yield pytest.param(
                    function, problem, method, given, name, id=f"{told}-{method}-{name}"
                )


@pytest.mark.parametrize(("function", "problem", "method", "given", "name"), list(_calls()))
def test_a_keyword_is_read(
    function: Callable[..., Any], problem: Any, method: str, given: dict[str, str], name: str
) -> None:
    """Nonsense is refused in one line; a telling value changes the answer or is refused."""
    names = (np.array(["exact"]), np.array(["lp", "highs"])) if name in NAMES else ()
    for value in (*NONSENSE, *names):
        with pytest.raises(InputError, match=rf"^({name}|method: .* ignores changes)") as caught:
            function(problem, **given, **{name: value})
        assert "\n" not in str(caught.value)
    if name in WITHOUT_EFFECT or (name, method) in UNREAD:
        return
    usual = function(problem, **given)
    try:
        found = function(problem, **given, **{name: TELLING[name]})
    except InputError:
        return
    assert _answer(found) != _answer(usual)


def _answer(result: Any) -> object:
    names = ("termination", "objective", "value", "thresholds", "memory", "second")
    return type(result), [getattr(result, name, None) for name in names]
