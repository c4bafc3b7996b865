"""The tests of predictions detect every mutant of the tested code.

Each mutant has one mistake in a kernel or predictor. The property tests run on it: equal engines,
no knowledge of the future, a step less with each token, the gate at one half, the floor. Kernels
run as plain Python, with the machine-code implementations of operations on whole arrays.
"""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, product
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings

from bfio.decode import refresh as asking
from bfio.decode.adaptive import rehearsal
from bfio.decode.machine import endings
from bfio.prediction import length_history, predictor
from bfio.prediction.predictors import past_lengths
from tests.decode import test_refresh
from tests.decode.machine import test_every_policy
from tests.decode.machine.equality import as_plain_python
from tests.mutants import Mutant, mutants
from tests.prediction import test_evaluation, test_length_history, test_no_future

#: As tests of properties run on mistakes: the same inputs each time, the first failure is enough.
_QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
#: A mistake after which a test does not come back is noticed, too [s of processor time].
_PATIENCE_S = 60.0
#: What is mistaken, and the tests that may notice first.
MODULES: dict[ModuleType, ModuleType] = {
    endings: test_refresh,
    asking: test_refresh,
    predictor: test_length_history,
    length_history: test_length_history,
    past_lengths: test_length_history,
}


#: The functions of predictions among those of endings.
PREDICTIONS = re.compile(
    "(predict(?!ed_by_)|forget|leave_ring|learn_lengths|enlist|strike)[a-z_]*:"
)
#: Mistakes that are none.
EQUIVALENT = {
    # Any number below 0 ends a list.
    "predict_due: calendar.first[slot] = -1 -> calendar.first[slot] = -2",
    "enlist: calendar.previous[request] = -1 -> calendar.previous[request] = -2",
}


def _battery(module: ModuleType) -> Iterator[Callable[[], object]]:
    """Yield the tests of predictions, those first that may notice a mistake in a module."""
    yield from _all_of(MODULES[module])
    yield from _cases(test_every_policy.test_policies_see_the_same)
    for tests in {test_refresh, test_length_history} - {MODULES[module]}:
        yield from _all_of(tests)
    yield from _cases(test_no_future.test_lengths_of_the_future_change_no_decision)
    yield from _cases(test_evaluation.test_a_walk_has_every_kth_age)


def _all_of(module: ModuleType) -> Iterator[Callable[[], object]]:
    tests = [test for name, test in vars(module).items() if name.startswith("test_")]
    quick = [test for test in tests if not _marks(test, "deep")]
    # Long runs notice most, and those that draw nothing take least.
    quick.sort(key=lambda test: ("long_run" not in test.__name__, hasattr(test, "hypothesis")))
    return chain.from_iterable(_cases(test) for test in quick)


def _marks(test: Callable[..., object], name: str) -> list[pytest.Mark]:
    return [mark for mark in getattr(test, "pytestmark", []) if mark.name == name]


def _cases(test: Callable[..., object]) -> Iterator[Callable[[], object]]:
    """Yield the calls that pytest would make of a test."""
    tables = [_lines(*mark.args) for mark in _marks(test, "parametrize")]
    for lines in product(*tables):
        yield partial(_call, test, {name: value for line in lines for name, value in line.items()})


def _lines(names: str | tuple[str, ...], values: list[Any]) -> list[dict[str, Any]]:
    if isinstance(names, str):
        return [{names: value} for value in values]
    return [dict(zip(names, value, strict=True)) for value in values]


def _call(test: Callable[..., object], named: dict[str, object]) -> None:
    if hasattr(test, "hypothesis"):
        with patch.object(test, "_hypothesis_internal_use_settings", _QUICK):
            test(**named)
    else:
        test(**named)


def _is_noticed(module: ModuleType) -> bool:
    """Whether a test fails on what is planted in a module, or does not come back."""
    with as_plain_python():
        return any(_fails(test) for test in _battery(module))


def _fails(test: Callable[[], object]) -> bool:
    """Whether a test fails, or does not come back."""
    try:
        with _patience():
            test()
    except pytest.skip.Exception:
        return False
    except (Exception, pytest.fail.Exception, _EndlessError):
        return True
    return False


class _EndlessError(BaseException):
    """No `Exception`, which Hypothesis would catch in order to run the same input again."""


@contextmanager
def _patience() -> Iterator[None]:
    """Raise an error in a test that does not come back.

    Its timer is none of `bfio.common.plugins.patience`, which runs within tests. It goes off again
    if the error was lost, as in a callback of the garbage collector.
    """

    def on_alarm(number: int, frame: object) -> None:
        raise _EndlessError

    before = signal.signal(signal.SIGVTALRM, on_alarm)
    signal.setitimer(signal.ITIMER_VIRTUAL, _PATIENCE_S, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    ("module", "place", "test"),
    [
        (
            endings,
            "predict: due = last + 1 if in_ring else last - look_ahead "
            "-> due = last + 2 if in_ring else last - look_ahead",
            test_refresh.test_both_engines_predict_alike_in_a_long_run,
        ),
        (
            endings,
            "predict: prediction.turn[request] = step + prediction.refresh - age % "
            "prediction.refresh -> prediction.turn[request] = step + prediction.refresh + age % "
            "prediction.refresh",
            test_every_policy.test_policies_see_the_same,
        ),
        (
            asking,
            "Refresh.remaining: self.admitted(state) -> pass",
            test_every_policy.test_policies_see_the_same,
        ),
        (
            rehearsal,
            "loads_grow: return bool((remaining_waiting(state, waiting_requests(state)) > 1)"
            ".any()) -> return bool((remaining_waiting(state, waiting_requests(state)) >= 1)"
            ".any())",
            test_every_policy.test_policies_see_the_same,
        ),
        (
            asking,
            "Refresh.remaining: left: IntArray = self._last[active] - step + 1 "
            "-> left: IntArray = self._last[active] - step + 2",
            test_refresh.test_what_policies_see_is_what_was_predicted,
        ),
        (
            asking,
            "Refresh.begin_step: due = (ages % self._predictor.refresh == 0) | "
            "(self._last[active] < step) "
            "-> due = (ages % self._predictor.refresh == 0) | (self._last[active] <= step)",
            test_refresh.test_requests_are_asked_about_at_multiples_of_q_and_at_the_floor,
        ),
        (
            length_history,
            "gated_steps: closed = (longer == 0) | (ended * gate[1] < longer * gate[0]) "
            "-> closed = (longer == 0) | (ended * gate[1] <= longer * gate[0])",
            test_length_history.test_survival_is_the_definition,
        ),
        (
            length_history,
            "_steps_left: if longer == 0 or ended * gate[1] < longer * gate[0]: "
            "-> if longer == 0 or ended * gate[1] <= longer * gate[0]:",
            test_refresh.test_both_engines_predict_alike_in_a_long_run,
        ),
    ],
    ids=[
        "turn and floor",
        "restart",
        "late start",
        "growth",
        "decrement",
        "floor",
        "gate",
        "gate of kernels",
    ],
)
def test_a_mistake_is_noticed(module: ModuleType, place: str, test: Callable[..., object]) -> None:
    """By the test of the property that it breaks."""
    (mutant,) = (found for found in mutants(module) if found.place == place)
    with as_plain_python(), mutant.planted():
        assert any(_fails(case) for case in _cases(test))


@pytest.mark.deep
@pytest.mark.parametrize("module", [endings, length_history], ids=lambda m: m.__name__)
def test_without_a_mistake_there_is_nothing_to_notice(module: ModuleType) -> None:
    """The tests pass on what is right, kernels as plain Python."""
    assert not _is_noticed(module)


@pytest.mark.deep
@pytest.mark.parametrize(
    "mutant",
    [m for m in mutants(endings) if PREDICTIONS.match(m.place) and m.place not in EQUIVALENT],
    ids=lambda m: m.place,
)
def test_every_mistake_in_kernels_is_noticed(mutant: Mutant) -> None:
    """One after the other, by some test of predictions."""
    with mutant.planted():
        assert _is_noticed(endings)
