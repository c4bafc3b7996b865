"""Ties that do not go to the lowest worker: assignments, states of policies, and refusals."""

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.features.ties import OF_WORKERS, in_places
from bfio.decode.options import Dispatch, Ties
from bfio.decode.policy_registry import built_in, choose
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.state import ActiveRequests
from bfio.testing.states import make_state
from bfio.workloads.workload import Workload
from formulations.errors import InputError

#: Twelve requests that come alone: the one before has left.
LONE = Workload(np.full(12, 20), np.full(12, 3), tuple(Fraction(10 * i) for i in range(12)))
FOUR = Cluster(4, 2, step_overhead_s=1.0, token_time_s=1e-6)
SPECS = built_in()
BREAKING = [s.name for s in SPECS.values() if s.breaks_ties and s.interruptible and not s.draws]
COUNTING = ("attention-dp-balance", "pausing")
REFUSING = [s.name for s in SPECS.values() if not (s.breaks_ties and s.interruptible)]


def lone(policy: str, ties: str, **given: Any) -> Run:
    """Run the twelve."""
    return simulate(LONE, policy, FOUR, arrivals="timed", ties=ties, **given)


def counts(run: Run) -> list[int]:
    """Return how many requests went to each worker."""
    return [int(n) for n in np.bincount(run.worker, minlength=4)]


@pytest.mark.parametrize("policy", BREAKING)
def test_lone_requests_go_round(policy: str) -> None:
    """Not all to the lowest worker, which is what happens unasked."""
    assert counts(lone(policy, "lowest")) == [12, 0, 0, 0]
    turned = lone(policy, "rotating")
    assert counts(turned) == [3, 3, 3, 3]
    assert run_violations(turned, LONE, FOUR) == {}


@pytest.mark.parametrize("policy", BREAKING)
def test_random_ties_are_seeded(policy: str) -> None:
    """Equal seeds, equal runs; other seeds, others."""
    first, again, other = (lone(policy, "random", seed=seed) for seed in (1, 1, 2))
    assert first.worker.tolist() == again.worker.tolist() != other.worker.tolist()


@pytest.mark.parametrize("policy", BREAKING)
def test_requests_bound_on_arrival_go_round(policy: str) -> None:
    """Several at one time, too, where each is asked about alone."""
    if Dispatch.IMMEDIATE not in SPECS[policy].dispatch:
        pytest.skip("binds nobody on arrival")
    assert counts(lone(policy, "rotating", dispatch="immediate")) == [3, 3, 3, 3]


@pytest.mark.parametrize("policy", REFUSING)
@pytest.mark.parametrize("ties", ["rotating", "random"])
def test_who_breaks_no_ties_refuses(policy: str, ties: str) -> None:
    """An option that nothing reads is refused."""
    with pytest.raises(InputError, match=r"use ties lowest"):
        lone(policy, ties)


def test_every_policy_is_asked() -> None:
    """One of them draws two workers and breaks the tie between these alone."""
    assert {*BREAKING, *REFUSING} == {*SPECS} - {"power-of-2"}
    assert counts(lone("power-of-2", "random")) != counts(lone("power-of-2", "lowest"))


@pytest.mark.parametrize("policy", [p for p in BREAKING if p not in COUNTING])
def test_nothing_is_kept_by_numbers(policy: str) -> None:
    """A policy made anew for each decision decides alike, so that workers may change places.

    `attention-dp-balance` counts steps and `pausing` rests, neither by worker.
    """
    rng = np.random.default_rng(3)
    load = Workload(rng.integers(1, 60, 60), rng.integers(1, 30, 60))
    chosen = choose(policy)
    kept = simulate(load, chosen.make(), FOUR)
    anew = simulate(load, lambda seen: chosen.make()(seen), FOUR, horizon=chosen.look_ahead())
    assert kept.worker.tolist() == anew.worker.tolist()


def test_every_array_of_workers_changes_places() -> None:
    """Fields of a state are of workers, of requests, or neither; a new one has to be put here."""
    seen = make_state([1, 2, 3], [1, 1, 1], [5, 6])
    of_requests = {"sizes", "ages", "contributions", "needs"}
    neither = {"step", "slots", "rng", "reserves", "binds", "endings"}
    by_hand = {"prefixes", "holdings", "step_units"}
    named = {field.name for field in fields(seen)}
    assert named == {*OF_WORKERS} | of_requests | neither | by_hand


@given(st.permutations(range(3)))
def test_what_is_seen(order: list[int]) -> None:
    """At each place, all that belongs to the worker who stands there."""
    places = np.array(order)
    active = ActiveRequests(*np.array([[0, 1, 2], [2, 0, 2], [9, 4, 7], [0, 0, 1], [1, 1, 1]]))
    units = np.array([1, 2, 3]), np.array([4, 5, 6])
    seen = replace(
        make_state([16, 4, 9], [1, 0, 2], [5]), holdings=lambda: active, step_units=units
    )
    shown = in_places(seen, places)
    for name in OF_WORKERS:
        whole = getattr(seen, name)
        if whole is not None:
            assert getattr(shown, name).tolist() == whole[places].tolist()
    assert places[shown.active.worker].tolist() == active.worker.tolist()
    assert shown.active.load.tolist() == active.load.tolist()
    assert shown.step_units is not None
    assert [each.tolist() for each in shown.step_units] == [
        each[places].tolist() for each in units
    ]


def test_prefixes_stay_with_their_worker() -> None:
    """The rotation spreads new prompts; one that is known still goes where it is cached."""
    hashes = [[7, 8]] * 6 + [[10 * i, 10 * i + 1] for i in range(1, 7)]
    prompts = Workload(np.full(12, 1024), np.full(12, 3), LONE.arrival_times, block_hashes=hashes)
    cached = Cluster(4, 2, step_overhead_s=1.0, token_time_s=1e-6, prefix_cache=10_240)
    run = simulate(prompts, "prefix-affinity", cached, arrivals="timed", ties="rotating")
    assert len({*run.worker[:6].tolist()}) == 1
    assert len({*run.worker[6:].tolist()}) > 1
    assert run_violations(run, prompts, cached) == {}


def test_only_interpreted_runs_know_it() -> None:
    """`auto` interprets, and `compiled` says why not."""
    with pytest.raises(InputError, match="ties other than lowest"):
        lone("jsq", "rotating", engine="compiled")
    assert lone("jsq", Ties.ROTATING).engine == "reference"
