"""Instances of the fluid programs: the golden one, and strategies over all data."""

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from formulations.fluid import FluidProblem, FluidWorker, RequestClass


def golden(memory: int = 9, d0: object = "1/2", d1: object = "1/18") -> FluidProblem:
    """Return I0 of appendix A.3: l = (1, 1), l' = (1, 2), λ = (1, 1).

    w = ((1+1)(1+1/2), (2+1)(1+1)) = (3, 6), A = 9. With d0 = 1/2 and d1 = 1/18, ρ = 1/2,
    ΔT* = (1/2)/(1/2) = 1, n* = (2, 3) and M* = 9.
    """
    return fluid(memory, [(1, 1, 1), (1, 1, 2)], d0, d1)


def fluid(
    memory: int, rows: list[tuple[Any, int, int]], d0: Any = "1/2", d1: Any = "1/18"
) -> FluidProblem:
    """Return a problem of one worker from (rate, prompt, output)."""
    classes = tuple(RequestClass(*row) for row in rows)
    return FluidProblem(classes, (FluidWorker(d0, d1, memory),))


def plain(*values: object) -> tuple[object, ...]:
    """Return the values as a tuple; fractions compare equal to whole numbers."""
    return values


positive_rates = st.builds(Fraction, st.integers(1, 400), st.integers(1, 60))
workers = st.builds(
    FluidWorker,
    d0=st.builds(Fraction, st.integers(1, 50), st.integers(1, 1000)),
    d1=st.one_of(
        st.just(Fraction(0)), st.builds(Fraction, st.integers(1, 20), st.integers(100, 10**7))
    ),
    memory=st.one_of(st.integers(1, 200), st.integers(1, 10**6), st.just(10**12)),
)


@st.composite
def request_classes(draw: st.DrawFn, num_workers: int | None = None) -> RequestClass:
    """Draw a class; with ``num_workers`` it may be confined to some of them."""
    allowed = None
    if num_workers is not None:
        chosen = draw(st.sets(st.integers(0, num_workers - 1), max_size=num_workers))
        allowed = tuple(sorted(chosen)) or None
    return RequestClass(
        draw(positive_rates), draw(st.integers(1, 300)), draw(st.integers(0, 300)), allowed
    )


@st.composite
def problems(draw: st.DrawFn, *, max_workers: int = 1, confined: bool = False) -> FluidProblem:
    """Draw a problem of up to 6 classes, stable or not, with any memory."""
    machines = draw(st.lists(workers, min_size=1, max_size=max_workers))
    kind = request_classes(len(machines) if confined else None)
    return FluidProblem(tuple(draw(st.lists(kind, min_size=1, max_size=6))), tuple(machines))


@st.composite
def stable_problems(draw: st.DrawFn) -> FluidProblem:
    """Draw a problem of one worker with a load below 1, by slowing its arrivals."""
    problem = draw(problems())
    worker = problem.workers[0]
    target = draw(st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]))
    load = worker.d1 * problem.work_rate
    factor = min(Fraction(1), target / load) if load else Fraction(1)
    classes = tuple(RequestClass(k.rate * factor, k.prompt, k.output) for k in problem.classes)
    return FluidProblem(classes, problem.workers)
