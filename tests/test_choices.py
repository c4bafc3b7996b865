"""Check arguments of public functions that accept a fixed set of names."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import EnumMeta, StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bfio
from bfio.hindsight.makespan import hindsight_of_run
from formulations.errors import InputError
from formulations.fluid import (
    FluidProblem,
    FluidWorker,
    LimitedProgram,
    RequestClass,
    ServiceLimits,
    ThroughputProgram,
    admission_price_violations,
    admission_violations,
    build_limited_throughput,
    build_throughput,
    knapsack,
    limited_bound,
    limited_violations,
    solve_limited_throughput,
    solve_throughput,
)
from formulations.hindsight_latency import LatencyProblem
from formulations.hindsight_makespan import MakespanProblem
from formulations.thresholds import batch_limit_thresholds
from tests.reference import home, public_names

ZERO = Fraction(0)
ZEROS, ONES = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
LOAD = FluidProblem(
    (RequestClass(Fraction(1), 5, 4), RequestClass(Fraction(2), 3, 9)),
    (FluidWorker(Fraction(1, 10), Fraction(1, 100), 20),),
)
WORKLOAD = bfio.synthetic("demo", 20, seed=1)
RUN = bfio.simulate(WORKLOAD, "fcfs", bfio.Cluster(workers=2, slots=2), pool=5)
#: What shows what the argument did; `Any`, as no type checker would let a text be given.
CHOICES: dict[tuple[str, str], Callable[[Any], object]] = {
    ("solve_throughput", "objective"): lambda o: solve_throughput(LOAD, objective=o).value,
    ("ThroughputProgram", "objective"): lambda o: (
        ThroughputProgram(LOAD, objective=o).solved().value
    ),
    ("build_throughput", "objective"): lambda o: str(
        build_throughput(LOAD, objective=o).objective.expr
    ),
    ("solve_limited_throughput", "objective"): lambda o: (
        solve_limited_throughput(LOAD, latency=Fraction(1), objective=o).value
    ),
    ("LimitedProgram", "objective"): lambda o: (
        LimitedProgram(LOAD, ServiceLimits(), objective=o).solved().value
    ),
    ("build_limited_throughput", "objective"): lambda o: str(
        build_limited_throughput(LOAD, ServiceLimits(), objective=o).objective.expr
    ),
    ("limited_bound", "objective"): lambda o: limited_bound(
        LOAD, ServiceLimits(), {ZERO: ZERO}, o
    ),
    ("limited_violations", "objective"): lambda o: limited_violations(
        LOAD, [Fraction(1, 10), ZERO], ServiceLimits(), Fraction(3), o
    ),
    ("knapsack", "objective"): lambda o: knapsack(LOAD, objective=o).value,
    ("admission_violations", "objective"): lambda o: admission_violations(
        LOAD, [[Fraction(1)], [ZERO]], Fraction(3), o
    ),
    ("admission_price_violations", "objective"): lambda o: admission_price_violations(
        LOAD, [ZERO], [ZERO, ZERO], o
    ),
    ("batch_limit_thresholds", "rule"): lambda r: batch_limit_thresholds(LOAD.classes, 9, r),
    ("hindsight_of_run", "objective"): lambda o: (
        hindsight_of_run(RUN, WORKLOAD, objective=o).value
    ),
    ("hindsight_of_run", "revealed"): lambda r: hindsight_of_run(
        RUN, WORKLOAD, revealed=r
    ).problem.arrival.tolist(),
    ("LatencyProblem", "convention"): lambda c: (
        LatencyProblem(memory=9, arrival=ZEROS, prompt=ONES, output=ONES, convention=c).convention
    ),
    ("MakespanProblem", "objective"): lambda o: (
        MakespanProblem(
            workers=1, slots=1, arrival=ZEROS, prompt=ONES, output=ONES, objective=o
        ).objective
    ),
    ("StepProblem", "objective"): lambda o: (
        bfio.StepProblem(
            base=ONES[:, None], contribution=ONES[:, None], capacity=ONES, objective=o
        ).objective
    ),
}


def _arguments() -> Iterator[tuple[str, str, type[StrEnum]]]:
    """Yield function, argument and enum of every public default that is a name."""
    of_runs = {field.name for field in fields(bfio.RunOptions)}
    for name in public_names():
        value, last = home(name), name.rpartition(".")[2]
        if not callable(value) or isinstance(value, EnumMeta) or last.endswith("Result"):
            continue
        if last in ("Claim", "TimeColumn", "TraceFormat", "assess"):
            continue
        try:
            arguments = inspect.signature(value).parameters.values()
        except ValueError:
            continue
        for argument in arguments:
            if isinstance(argument.default, StrEnum) and argument.name not in of_runs:
                yield last, argument.name, type(argument.default)


KINDS = {(name, argument): kind for name, argument, kind in _arguments()}


def test_every_choice_of_the_surface_is_here() -> None:
    """Every public argument with an enum is tested in this module."""
    assert set(KINDS) == set(CHOICES)


@pytest.mark.parametrize(("function", "argument"), KINDS)
def test_a_choice_is_taken_as_text(function: str, argument: str) -> None:
    """A choice given as text acts like its enum member; an unknown text lists all choices."""
    call = CHOICES[function, argument]
    members = list(KINDS[function, argument])
    found = [call(member) for member in members]
    assert [call(member.value) for member in members] == found
    assert any(one != found[0] for one in found[1:])
    with pytest.raises(InputError, match=f"{argument}: 'else' is unknown; use one of "):
        call("else")
