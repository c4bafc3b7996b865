"""Complete runs of `adaptive`: available information, initial settings, and benefit."""

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import measure_steady
from bfio.decode.policies.adaptive import Adaptive, AdaptiveOptions
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.testing.states import make_state
from bfio.workloads.workload import Workload
from tests.decode.machine.test_greedy import lengths

CLUSTER = Cluster(workers=4, slots=8)


def run(workload: Workload, policy: str = "adaptive", **options: object) -> Run:
    """Simulate, loads growing in the window."""
    options = {"pool": 16, "projection": "growing", **options}
    return simulate(workload, policy, CLUSTER, **options)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_no_length_is_known_before_it_ends(engine: str) -> None:
    """After 60 steps all that have not ended turn out much longer: nothing was otherwise."""
    requests = lengths(300, seed=4)
    first = run(requests, steps=60, engine=engine)
    outputs = requests.output_tokens.copy()
    outputs[first.finish_step < 0] += 1000
    second = run(Workload(requests.prompt_tokens, outputs), steps=60, engine=engine)
    assert first.statistics["rehearsals"] > 3  # type: ignore[operator]
    assert first.statistics == second.statistics
    assert np.array_equal(first.start_step, second.start_step)
    assert np.array_equal(first.worker, second.worker)


def test_until_the_first_rehearsal_one_setting_decides() -> None:
    """γ = 2/3 and β = 2G, until each slot has been taken."""
    requests = lengths(300, seed=4)
    chosen = run(requests, engine="compiled").statistics["chosen"]
    first = chosen[0][0]  # type: ignore[index]
    before = run(requests, steps=first, engine="compiled").statistics
    assert before["rehearsals"] == 0
    assert list(before["decisions"]) == ["steps 2, penalty 2"]  # type: ignore[call-overload]


def test_known_ends_bring_balance() -> None:
    """Without a setting 0.7 of the imbalance of BR-0, or less."""
    requests, found = lengths(1200, seed=3), []
    for policy in ("br-0", "adaptive"):
        steady = measure_steady(run(requests, policy, predictor="oracle", engine="compiled"))
        assert steady is not None
        found.append(float(steady["avg_imbalance"] or 0))
    assert found[1] < 0.7 * found[0]


@pytest.mark.parametrize(("free", "sizes"), [([0, 0], []), ([0, 0], [3]), ([1, 0], [])])
def test_no_decision_where_none_is_left(free: list[int], sizes: list[int]) -> None:
    """A state given by hand, of which nothing was seen: nobody waits, or nothing is free."""
    given = make_state([5, 7], free, sizes, running=[4, 4])
    assert Adaptive(AdaptiveOptions())(given) == [None] * len(sizes)


def test_a_state_of_another_run_starts_it_anew() -> None:
    """Asked about unrelated states it decides all the same, by its first setting."""
    policy = Adaptive(AdaptiveOptions())
    seen = make_state(free=[1, 1], loads=[5, 9], sizes=[3, 7])
    assert policy(seen) == policy(seen)
    assert policy.statistics()["rehearsals"] == 0


@pytest.mark.parametrize(("predictor", "horizon"), [("oracle", 3), ("none", 3), ("oracle", 0)])
def test_a_state_tells_what_its_window_does(predictor: str, horizon: int) -> None:
    """Steps left in order of arrival, and no more than that they outlive the window."""
    requests, told = lengths(60, seed=2), {}

    def first_free(seen: DecodeState) -> list[int | None]:
        told[seen.step] = seen.remaining.tolist()
        free = [g for g, slots in enumerate(seen.free_slots) for _ in range(slots)]
        return [*free[: seen.num_waiting], *[None] * (seen.num_waiting - len(free))]

    found = simulate(requests, first_free, CLUSTER, predictor=predictor, horizon=horizon, pool=16)
    for step, left in told.items():
        runs = (found.start_step < step) & (found.finish_step >= step)
        true = found.finish_step[runs] - step + 1
        known = np.minimum(true, horizon + 1) if predictor == "oracle" else horizon + 1
        assert left == np.broadcast_to(known, true.shape).tolist()
    assert len(told) > 20
