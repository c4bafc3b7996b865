"""A loop without unused features gives the same run; without used features it differs."""

from unittest.mock import patch

import pytest

from bfio.common.compilable import features_of
from bfio.decode.cluster import Cluster
from bfio.decode.machine import kernel, whole_run
from bfio.decode.machine.whole_run import PARTS
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import find
from tests.decode.machine.equality import as_plain_python
from tests.decode.machine.test_every_policy import Drawing


def same(policy: str, seed: int) -> bool:
    """Whether both engines give the same run, the loop linked with what it uses alone."""
    try:
        return Drawing(seed).run(policy).differences() == []
    except AssertionError:
        raise
    except Exception:
        # A loop that lacks a phase may leave arrays in a state that others do not expect.
        return False


@pytest.mark.parametrize("policy", ["jsq", "round-robin", "least-kv", "max-min"])
def test_a_loop_of_what_a_run_uses_gives_the_same_run(policy: str) -> None:
    """Runs of any features, each with the loop of its own."""
    with as_plain_python():
        assert [seed for seed in range(12) if not same(policy, seed)] == []


@pytest.mark.parametrize("part", sorted(set(PARTS) - {"predictions", "interruptions"}))
def test_a_feature_left_out_is_noticed(part: str) -> None:
    """Each feature does something in some run: a loop that lacks it gives another one.

    Only policies that look ahead read predictions: `test_every_policy` has one as plain Python.
    Without interruptions failures are never over, and the clock stands still.
    """
    rest = {name: used for name, used in PARTS.items() if name != part}
    used = whole_run.parts_used
    # The first seeds show all other features.
    seeds = [*([73] if part == "age" else []), *range(300)]
    with (
        as_plain_python(),
        patch.object(whole_run, "parts_linked", lambda *run: used(*run) & frozenset(rest)),
    ):
        assert not all(same("jsq", seed) for seed in seeds)


def test_every_feature_is_one_that_the_loop_knows() -> None:
    """The names in the table are those that functions are marked with."""
    assert features_of(whole_run.decide_of(whole_run.loop_of(find("jsq")))) <= set(PARTS)
    found: set[str] = set()
    for value in vars(kernel).values():
        if hasattr(value, "__recipe__"):
            found |= features_of(value)
    assert found == set(PARTS)


def test_a_run_without_features_has_the_plain_loop() -> None:
    """Any feature takes the loop that knows all of them."""
    plain = whole_run.loop_of(find("jsq"), whole_run.parts_linked(Cluster(2, 2), RunOptions()))
    assert plain == whole_run.loop_of(find("jsq"))
    run = Cluster(2, 2, memory=9), RunOptions(delay=2)
    assert whole_run.parts_used(*run) == {"delay", "interruptions", "overflow"}
    late = whole_run.loop_of(find("jsq"), whole_run.parts_linked(*run))
    assert (late.name, late.parts) == (plain.name + whole_run.WITH_FEATURES, frozenset(PARTS))
