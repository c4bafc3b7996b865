"""The compiled engines give the run of the reference, column by column and event by event."""

from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common import kernel_groups
from bfio.common.kernel_groups import Engine
from bfio.common.numba_parts import uses_private_parts
from bfio.wait.arrivals import poisson_instance
from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.policy import StageInstance, StagePolicy
from bfio.wait.registry import build
from bfio.wait.replay import violations
from bfio.wait.run import StageRun, StageVerdict
from bfio.wait.simulation import compile_kernels, serve
from formulations.errors import InputError
from tests.wait.cases import FOUR_LENGTHS, I0, Setting, instances, policies, settings_of_runs


def differences(one: StageRun, other: StageRun) -> list[str]:
    """Return the names of all columns in which two runs differ."""
    found = [
        name
        for name in ("verdict", "reason", "duration")
        if getattr(one, name) != getattr(other, name)
    ]
    for name in ("prefilled", "first_token", "completion"):
        if not np.array_equal(getattr(one, name), getattr(other, name)):
            found.append(name)
    tables = (
        (one.batches, other.batches),
        (one.evictions, other.evictions),
        (one.log.events(), other.log.events()),
    )
    for mine, yours in tables:
        for field in fields(mine):
            if not np.array_equal(getattr(mine, field.name), getattr(yours, field.name)):
                found.append(f"{type(mine).__name__}.{field.name}")
    return found


@given(st.data())
def test_both_engines_give_the_same_run(data: st.DataObject) -> None:
    """Any built-in policy, any ending; both runs pass the checker and complete what arrived."""
    drawn: StageInstance = data.draw(instances())
    policy: StagePolicy = data.draw(policies(drawn))
    setting: Setting = data.draw(settings_of_runs)
    reference = setting.serve(drawn, policy, "reference")
    compiled = setting.serve(drawn, policy, "compiled")
    assert differences(reference, compiled) == []
    assert violations(reference) == {}
    assert violations(compiled) == {}
    # Proposition 2, path by path: nobody completes more tokens than arrive.
    arrived = drawn.arrival <= reference.observed
    assert reference.tokens(reference.is_completed) <= reference.tokens(arrived)
    if isinstance(policy, FirstComeFirstServed):
        assert reference.overflows == 0
    if setting == Setting(None, None, 10**8):
        assert reference.verdict is StageVerdict.FINISHED


@pytest.mark.deep
@given(st.data())
def test_both_engines_agree_on_longer_instances(data: st.DataObject) -> None:
    """The same with more requests and longer outputs."""
    drawn: StageInstance = data.draw(instances(max_requests=80, max_output=25, max_memory=300))
    policy: StagePolicy = data.draw(policies(drawn))
    setting: Setting = data.draw(settings_of_runs)
    runs = [setting.serve(drawn, policy, engine) for engine in ("reference", "compiled")]
    assert differences(*runs) == []
    assert violations(runs[1]) == {}


@pytest.mark.parametrize(
    ("text", "evicts"),
    [
        ("wait", False),
        ("wait:thresholds=1,1", False),
        ("nested-wait:thresholds=4,3:segments=1,2", False),
        ("nested-wait:thresholds=5:segments=1", False),
        ("new-first:limit=3", True),
        ("new-first:limit=4:mixed=no", True),
        ("ongoing-first:limit=3:tokens=7", False),
        ("fcfs", True),
    ],
)
def test_they_agree_on_poisson_arrivals(text: str, evicts: bool) -> None:
    """I0 for 200 s: exact times that are no small numbers, evictions at the memory's limit."""
    data, policy = poisson_instance(I0, 200, seed=5), build(text, I0)
    reference, compiled = (
        serve(data, policy, horizon_s=200, engine=engine) for engine in ("reference", "compiled")
    )
    assert differences(reference, compiled) == []
    assert violations(reference) == {}
    assert (len(reference.evictions) > 0) == evicts


def test_a_difference_is_noticed() -> None:
    """One threshold more changes the run; the comparison says in what."""
    data = poisson_instance(FOUR_LENGTHS, 60, seed=1)
    ends = "segments=2,4,8,16"
    runs = [
        serve(data, build(f"nested-wait:thresholds={n},4,4,3:{ends}", FOUR_LENGTHS))
        for n in (4, 5)
    ]
    assert {"completion", "StageBatches.start", "Events.request"} <= set(differences(*runs))


@pytest.mark.skipif(not uses_private_parts(), reason="plain Numba keeps no kernels on disk")
def test_the_engine_is_chosen_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Auto takes the reference for short runs, and for policies that are not built in.

    Two microseconds a stage event: the long run saves 12 ms, the short one a tenth of one.
    """
    compile_kernels()
    monkeypatch.setattr(kernel_groups, "CODE_S", 0.003)
    monkeypatch.setattr(kernel_groups, "_saveable_s", {})
    short, long = poisson_instance(I0, 10, seed=1), poisson_instance(I0, 1200, seed=1)
    fcfs = build("fcfs", I0)
    engines = [
        serve(data, policy, horizon_s=10).engine
        for data, policy in ((short, fcfs), (long, fcfs), (long, lambda state: state.held))
    ]
    assert engines == [Engine.REFERENCE, Engine.COMPILED, Engine.REFERENCE]


def test_engines_that_cannot_run_are_refused() -> None:
    """A user's policy, or one derived from a built-in class, is not compiled."""

    class Mine(FirstComeFirstServed):
        """It may decide otherwise."""

    data = poisson_instance(I0, 10, seed=1)
    for policy in (lambda state: state.held, Mine()):
        with pytest.raises(
            InputError, match="'compiled' does not support this policy, only built-in ones"
        ):
            serve(data, policy, engine=Engine.COMPILED)
    with pytest.raises(InputError, match="engine: 'fast' is unknown; use one of auto, compiled"):
        serve(data, Mine(), engine="fast")


@pytest.mark.parametrize("horizon", [0, -1, Fraction(2**62)])
def test_a_horizon_out_of_range_is_refused(horizon: Fraction | int) -> None:
    """It must lie within the clock."""
    with pytest.raises(InputError, match="horizon"):
        serve(poisson_instance(I0, 10), build("fcfs", I0), horizon_s=horizon)
