"""Every row of the table of incompatible options refuses a run, only if both options are set."""

from typing import Any

import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.compatibility import (
    FACTS,
    INTERPRETED,
    TOGETHER,
    Asked,
    Clash,
    check_together,
    first_clash,
)
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import choose
from bfio.decode.simulation import simulate
from formulations.errors import InputError
from tests.decode.cases import workload

REQUESTS = workload([3, 4, 5, 2], [2, 3, 1, 2], ["0", "0", "1", "1"])
TIMED = {"arrivals": "timed"}
#: What makes a fact hold: the policy, fields of the machine, options of the run.
SAMPLES: dict[str, tuple[str | None, dict[str, Any], dict[str, Any]]] = {
    "another dispatch": ("adaptive", {}, {"dispatch": "immediate"}),
    "batching": (None, {}, {"batching": "vllm"}),
    "delay": (None, {}, {"delay": 2}),
    "growth by age": (None, {}, {"drift": "age:1,0"}),
    "immediate dispatch": (None, {}, {"dispatch": "immediate"}),
    "interruptions": (None, {}, {"failures": ((1.0, 0, "fail"), (2.0, 0, "recover"))}),
    "mean time": (None, {"mean_time_s": 0.1}, {}),
    "memory": (None, {"memory": 50}, {}),
    "no ties": ("round-robin", {}, {}),
    "no token budget": (None, {}, {}),
    "offered load": (None, {}, {**TIMED, "load": "0.5"}),
    "own tracking": ("adaptive", {}, {}),
    "pauses": ("pausing", {}, {}),
    "pausing program": ("pausing", {}, {}),
    "policy": (None, {}, {}),
    "predicted window": ("br-h", {}, {"predictor": "survival"}),
    "prefill": (None, {}, {**TIMED, "prefill": "workers=1,token_time=1"}),
    "prefix cache": (None, {"prefix_cache": 600}, {}),
    "telemetry": (None, {}, {"telemetry": "delay=2"}),
    "ties": (None, {}, {"ties": "rotating"}),
    "token budget": (None, {"token_budget": 8}, {}),
}


class Looker:
    """A policy of one's own that pauses and looks ahead: of facts that no built-in one shares."""

    max_pauses = 1
    horizon = 3

    def __call__(self, state: Any) -> list[int | None]:
        """Start no request."""
        return [None] * state.num_waiting


def made(*facts: str) -> tuple[Any, Cluster, dict[str, Any]]:
    """Return a policy, a machine and options in which facts hold."""
    parts = [SAMPLES[fact] for fact in facts]
    names = [name for name, _, _ in parts if name is not None]
    policy: Any = names[0] if names else "jsq"
    if "pauses" in facts and facts != ("pauses", "pausing program"):
        policy = Looker()
    machine = {name: value for _, given, _ in parts for name, value in given.items()}
    options = {name: value for _, _, given in parts for name, value in given.items()}
    return policy, Cluster(2, 2, **machine), options


@pytest.mark.parametrize("row", TOGETHER, ids=lambda row: f"{row.first} and {row.second}")
def test_each_row_refuses_a_run(row: Clash) -> None:
    """Where both facts of a row hold there is an error in its words, or in those of an earlier."""
    policy, cluster, options = made(row.first, row.second)
    with pytest.raises(InputError) as error:
        simulate(REQUESTS, policy, cluster, **options)
    assert row.what in str(error.value)
    assert row.remedy in str(error.value)


@pytest.mark.parametrize("fact", SAMPLES)
def test_a_sample_makes_its_fact_hold(fact: str) -> None:
    """The facts have one sample each, which makes it hold."""
    assert set(SAMPLES) == set(FACTS)
    policy, cluster, options = made(fact)
    chosen = choose(policy, {})
    steps = getattr(chosen.make(), "horizon", 0)
    pauses = getattr(chosen.make(), "max_pauses", None) is not None
    asked = Asked("p", chosen.spec, cluster, RunOptions(**options), steps, pauses)
    assert FACTS[fact](asked)


def test_a_plain_run_meets_no_row() -> None:
    """What no option is given for goes with everything, on both engines."""
    asked = Asked("jsq", choose("jsq", {}).spec, Cluster(2, 2), RunOptions())
    check_together(asked)
    assert first_clash(asked, (*TOGETHER, *INTERPRETED)) is None


@pytest.mark.parametrize("row", INTERPRETED, ids=lambda row: f"{row.first} and {row.second}")
def test_the_compiled_engine_says_what_it_does_not_know(row: Clash) -> None:
    """It refuses each row of its own in its words; the other engine runs it."""
    policy, cluster, options = made(row.first, row.second)
    with pytest.raises(InputError, match=row.what):
        simulate(REQUESTS, policy, cluster, engine="compiled", **options)
    assert simulate(REQUESTS, policy, cluster, **options).is_drained
