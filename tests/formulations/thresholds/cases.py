"""Instances of the threshold programs."""

from fractions import Fraction

from hypothesis import strategies as st

from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.thresholds import NestedProblem, PromptGroup, WaitProblem

rates = st.builds(Fraction, st.integers(1, 30), st.integers(1, 12))
d0s = st.builds(Fraction, st.integers(1, 12), st.integers(2, 12))


def worker_for(d0: Fraction, work: Fraction, load: Fraction, memory: int = 10**9) -> FluidWorker:
    """Return a worker on which a work rate is the given load."""
    return FluidWorker(d0, load / work, memory)


loads = st.sampled_from(
    [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(4, 5), Fraction(1), Fraction(3, 2)]
)


@st.composite
def wait_problems(draw: st.DrawFn, max_classes: int = 3) -> WaitProblem:
    """Draw classes and a load (also critical or overloaded), sometimes with little memory."""
    classes = tuple(
        RequestClass(draw(rates), draw(st.integers(1, 12)), draw(st.integers(0, 8)))
        for _ in range(draw(st.integers(1, max_classes)))
    )
    work = sum((kind.rate * kind.work for kind in classes), Fraction(0))
    memory = draw(st.sampled_from([1, 30, 300, 3000, 10**9]))
    worker = worker_for(draw(d0s), work, draw(loads), memory)
    return WaitProblem(
        FluidProblem(classes, (worker,)),
        strict=draw(st.booleans()),
        within_memory=draw(st.booleans()),
    )


@st.composite
def prompt_groups(draw: st.DrawFn, max_classes: int = 4) -> PromptGroup:
    """Draw lengths and rates, and segments that merge some of them."""
    outputs = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=max_classes)))
    ends = [output for output in outputs[:-1] if draw(st.booleans())]
    return PromptGroup(
        prompt=draw(st.integers(1, 9)),
        outputs=tuple(outputs),
        rates=tuple(draw(rates) for _ in outputs),
        boundaries=(*ends, outputs[-1]),
    )


@st.composite
def nested_problems(draw: st.DrawFn, max_classes: int = 4) -> NestedProblem:
    """Draw one group and a load (also critical or overloaded), sometimes with little memory."""
    problem = _problem(draw, (draw(prompt_groups(max_classes)),))
    (group,) = problem.groups
    return NestedProblem.single(
        prompt=group.prompt,
        outputs=group.outputs,
        rates=group.rates,
        worker=problem.worker,
        boundaries=group.boundaries,
        strict=problem.strict,
        within_memory=problem.within_memory,
    )


@st.composite
def grouped_problems(draw: st.DrawFn, max_groups: int = 3) -> NestedProblem:
    """Draw several groups; prompts may be equal, as with WAIT."""
    groups = draw(st.lists(prompt_groups(max_classes=2), min_size=1, max_size=max_groups))
    return _problem(draw, tuple(groups))


def _problem(draw: st.DrawFn, groups: tuple[PromptGroup, ...]) -> NestedProblem:
    free = NestedProblem(groups, FluidWorker(Fraction(1), Fraction(0), 1))
    pairs = zip(free.arriving, free.weights, strict=True)
    work = sum((rate * s for rate, s in pairs), Fraction(0))
    memory = draw(st.sampled_from([1, 100, 1000, 10**9]))
    return NestedProblem(
        groups,
        worker_for(draw(d0s), work, draw(loads), memory),
        strict=draw(st.booleans()),
        within_memory=draw(st.booleans()),
    )


def spec_example() -> NestedProblem:
    """Return l = 10, l' = (2, 4, 8, 16), λ = (.2, .4, .8, 1.6), d0 = 1, d1 = 1e-4.

    Λ = (3, 2.8, 2.4, 1.6) and s = (33, 27, 66, 180): 10 + 11 + 12, 13 + 14, ...
    """
    rates = tuple(Fraction(text) for text in ("0.2", "0.4", "0.8", "1.6"))
    worker = FluidWorker(Fraction(1), Fraction(1, 10**4), 10**6)
    return NestedProblem.single(10, (2, 4, 8, 16), rates, worker)
