"""Reading fluid problems: exact numbers, and errors that name their place."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given

from bfio.testing.instances import fluid_problems
from formulations import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from tests.formulations.fluid.cases import golden, plain

I0: dict[str, Any] = {
    "classes": [
        {"rate": 1, "prompt": 1, "output": 1},
        {"rate": 1, "prompt": 1, "output": 2},
    ],
    "d0": 0.5,
    "d1": "1/18",
    "memory": 9,
}


def test_decimals_are_exact() -> None:
    """JSON's 0.1 is a tenth, 1e-7 a ten-millionth, and 1/18 has to be text."""
    document = I0 | {"d0": 0.1, "d1": 1e-7}
    worker = FluidProblem.from_json(json.dumps(document)).workers[0]
    assert (worker.d0, worker.d1) == (Fraction(1, 10), Fraction(1, 10**7))
    assert FluidProblem.from_mapping(I0) == golden()


@given(fluid_problems(max_workers=3, confined=True))
def test_documents_round_trip(problem: FluidProblem) -> None:
    """What is written is read back."""
    assert FluidProblem.from_json(json.dumps(problem.to_mapping())) == problem


def test_derived_data() -> None:
    """L = 3, l' = 2: stages hold 3, 4, 5 tokens; w = 12, mean 4; K = 9/(1/2 + 9/18) = 9."""
    kind = RequestClass(Fraction(1), 3, 2)
    assert plain(kind.work, kind.iterations, kind.footprint) == (12, 3, 4)
    worker = golden().workers[0]
    assert worker.capacity == 9
    # d0/(d0 + d1 C)^2 = (1/2)/1.
    assert worker.capacity_per_token == Fraction(1, 2)


def test_workers_are_a_number_or_a_list() -> None:
    """Two equal workers, or two objects whose missing keys default to those of the document."""
    twins = FluidProblem.from_mapping(I0 | {"workers": 2})
    assert twins.workers == (golden().workers[0],) * 2
    mixed = FluidProblem.from_mapping(I0 | {"workers": [{}, {"memory": 4, "d0": "1"}]})
    assert mixed.workers == (golden().workers[0], FluidWorker("1", "1/18", 4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d1": None}, "d1"),
        ({"d0": 0}, "d0: 0 is not allowed for a rate or time"),
        ({"d0": -0.5}, "d0"),
        ({"d0": "1/0"}, "not a rational number"),
        ({"memory": 0}, "memory: 0 is out of range"),
        ({"memory": 9.0}, "expected an integer"),
        ({"memory": True}, "expected an integer"),
        ({"classes": []}, "classes: found 0"),
        ({"classes": 3}, "classes: a number"),
        ({"classes": [3]}, r"classes\[0\]: a number"),
        ({"workers": 0}, "workers: 0"),
        ({"workers": [{"speed": 2}]}, r"workers\[0\].speed: unknown"),
        ({"workers": []}, "workers: found 0"),
        ({"seed": 2}, "seed: unknown"),
    ],
)
def test_bad_documents(change: dict[str, Any], message: str) -> None:
    """The field at fault is named."""
    with pytest.raises(InputError, match=message):
        FluidProblem.from_mapping(I0 | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0}, r"classes\[1\].rate: 0 is not allowed"),
        ({"rate": -1}, r"classes\[1\].rate"),
        ({"rate": True}, r"classes\[1\].rate"),
        ({"rate": "fast"}, r"classes\[1\].rate"),
        ({"rate": float("nan")}, r"classes\[1\].rate"),
        ({"prompt": 0}, r"classes\[1\].prompt"),
        ({"output": -1}, r"classes\[1\].output"),
        ({"output": 1.5}, r"classes\[1\].output"),
        ({"workers": [0, 0]}, "occurs twice"),
        ({"workers": []}, "not a list of worker indices"),
        ({"workers": [1]}, "there is no worker 1"),
        ({"kind": 1}, r"classes\[1\].kind: unknown"),
    ],
)
def test_bad_classes(change: dict[str, Any], message: str) -> None:
    """The class and field at fault are named."""
    rows = [I0["classes"][0], I0["classes"][1] | change]
    with pytest.raises(InputError, match=message):
        FluidProblem.from_mapping(I0 | {"classes": rows})


def test_missing_times() -> None:
    """Without workers of their own, d0, d1 and memory are needed."""
    with pytest.raises(InputError, match="memory: missing"):
        FluidProblem.from_mapping({"classes": I0["classes"], "d0": 1, "d1": 1})
    with pytest.raises(InputError, match=r"workers\[0\].d1: missing"):
        FluidProblem.from_mapping({"classes": I0["classes"], "workers": [{"d0": 1, "memory": 3}]})


def test_one_worker_where_one_is_needed() -> None:
    """The equilibrium and thresholds are of one worker."""
    assert golden().single_worker().memory == 9
    with pytest.raises(InputError, match="found 2"):
        FluidProblem.from_mapping(I0 | {"workers": 2}).single_worker()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('"classes": [3]', r"classes\[0\]: a number; .* rate, prompt, output; optional: workers"),
        ('"workers": [3]', r"workers\[0\]: a number; .* d0, d1, memory; optional: those that"),
        ('"workers": [{}, {"d0": NaN}]', r"workers\[1\]\.d0: NaN is not a finite number"),
        ('"memory": -1e999', r"^memory: -1e999 is not"),
        ('"deep": [[[[[[NaN]]]]]]', r"^deep(\[0\]){6}: NaN is not"),
        ('"a": ' + "[" * 400 + "NaN" + "]" * 400, r"^document: NaN is not"),
    ],
)
def test_errors_of_a_text(change: str, message: str) -> None:
    """Errors distinguish required and optional keys, and name the place of a non-finite number."""
    text = json.dumps(I0)[:-1] + f", {change}}}"
    text = text.replace(json.dumps(I0["classes"]), "[]") if "classes" in change else text
    text = text.replace('"classes": [], ', "").replace('"memory": 9, "mem', '"mem')
    with pytest.raises(InputError, match=message):
        FluidProblem.from_json(text)


def test_an_object_is_asked_for() -> None:
    """The error for a non-object lists its required and optional keys."""
    with pytest.raises(InputError, match="classes, d0, d1, memory; optional: workers"):
        FluidProblem.from_json("3")
    with pytest.raises(InputError, match=r"^document: NaN"):
        FluidProblem.from_json("NaN")


def test_a_rate_of_0_may_be_left_out() -> None:
    """That remedy is for classes alone."""
    with pytest.raises(InputError, match="leave the class out, or use a number > 0"):
        RequestClass(Fraction(0), 1, 1)
    with pytest.raises(InputError, match="time; use a number > 0"):
        FluidWorker(Fraction(0), Fraction(1), 9)
