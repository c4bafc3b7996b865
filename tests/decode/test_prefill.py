"""The prefill tier: by hand, at random, in both engines, forged records and invalid input."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import measure
from bfio.decode.option_kinds import PrefillTier
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.settings import settings
from bfio.decode.simulation import simulate
from formulations.errors import InputError
from tests.decode.cases import nobody, workload
from tests.decode.machine.equality import assert_same_run

#: One worker with one slot: a step lasts 1 s and half a second per token.
ALONE = Cluster(workers=1, slots=1, step_overhead_s=1.0, token_time_s=0.5)


def computed(
    prompts: list[int], outputs: list[int], times: list[str], tier: str, **options: Any
) -> Run:
    """Run requests behind a prefill tier, and check the replay."""
    requests = workload(prompts, outputs, times)
    given = {"arrivals": "timed", "prefill": tier, **options}
    run = simulate(requests, "fcfs", ALONE, **given)
    assert run_violations(run, requests, ALONE) == {}
    return run


def test_prefill_and_transfer_come_first() -> None:
    """2 s and 4 s on one worker, then a quarter of a second per token."""
    run = computed([2, 4], [1, 1], ["0", "0"], "workers=1,token_time=1,transfer=0.25")
    assert run.ready_s is not None
    assert run.ready_s.tolist() == [2.5, 7.0]
    assert run.start_s.tolist() == [2.5, 7.0]
    assert run.idle_before_s.tolist() == [2.5, 2.5]
    found = measure(run)
    assert found["queueing_delay_mean_s"] == 4.75
    assert found["ttft_mean_s"] == ((2.5 + 2) + (7 + 3)) / 2
    assert found["ready_delay_mean_s"] == 4.75


def test_shorter_prompts_overtake_on_other_workers() -> None:
    """Requests 1, 2 and 0 are ready at 1, 2 and 9 s; of those that wait the oldest starts."""
    run = computed([9, 1, 1], [1, 9, 1], ["0"] * 3, "workers=2,token_time=1,transfer=0")
    assert run.ready_s is not None
    assert run.ready_s.tolist() == [9.0, 1.0, 2.0]
    # Request 1 runs from 1 s to 28 s.
    assert run.start_step.tolist() == [9, 0, 10]
    assert run.reveal_step.tolist() == [4, 0, 1]


def test_a_full_pool_holds_prefill_workers() -> None:
    """Request 2 is computed at 8 s, and the only place is free at 10 s; 3 is computed after it."""
    tier = "workers=1,token_time=1,transfer=0.25,places=1"
    run = computed([2, 4, 2, 2], [3, 1, 1, 1], ["0", "0", "1", "1"], tier)
    assert run.ready_s is not None
    assert run.held_s is not None
    assert run.held_s.tolist() == [0.0, 0.0, 2.0, 1.0]
    assert run.ready_s.tolist() == [2.5, 7.0, 10.5, 13.5]
    assert measure(run)["prefill_held_s"] == 3.0


def test_who_waits_too_long_goes_through_prefill_again() -> None:
    """Request 1 is ready at 2 s and expires at 7 s; it is behind 2, which is computed then."""
    tier = "workers=1,token_time=1,transfer=0,ttl=5"
    run = computed([1, 1, 3], [6, 1, 1], ["0", "0", "5"], tier)
    # Steps of request 0: 1 + 1.5, 2, 2.5, 3, 3.5, 4 = 16.5 s to 17.5 s.
    assert run.start_s.tolist()[:7] == [1.0, 2.5, 4.5, 7.0, 10.0, 13.5, 17.5]
    assert run.expiries is not None
    assert run.ready_s is not None
    # 1 again from 8 s to 9 s, expired at 14 s; ready a third time at 15 s. 2 expires at 13 s, and
    # is ready again at 18 s.
    assert run.expiries.tolist() == [[1, 1, 3], [2, 4, 5], [1, 4, 6]]
    assert run.ready_s.tolist() == [1.0, 17.0, 16.0]
    assert (measure(run)["expired"], measure(run)["expired_tokens"]) == (3, 5)
    assert run.waiting.tolist() == [0, 1, 1, 0, 2, 1, 1, 0]


def test_clients_give_up_before_the_pool() -> None:
    """Of requests 0 to 3 the first is computed, 1 is held, 2 and 3 wait; then 1 and 2 give up."""
    tier = "workers=1,token_time=1,transfer=0,places=1"
    run = computed(
        [1, 1, 1, 1, 1], [4, 1, 1, 1, 1], ["0"] * 5, tier, cancellations=((3.0, 2), (3.0, 3))
    )
    assert run.held_s is not None
    assert run.cancel_step.tolist() == [-1, -1, 2, 2, -1]
    # At 4.5 s the worker is free of request 2, and takes up 4.
    assert run.held_s[2] == 1.5
    assert run.start_step[4] == 5


def test_who_gives_up_makes_room_at_once() -> None:
    """Both are computed at 0.5 s, and there is one place; at 2.5 s request 1 gives it up."""
    tier = "workers=2,token_time=0,overhead=0.5,transfer=0,places=1"
    both = computed([2, 2], [1, 1], ["0", "0"], tier, cancellations=((0.5, 0),))
    # Request 0 has come and gone when nothing runs yet: request 1 is ready in that moment.
    assert both.reveal_step.tolist() == [0, 0]
    assert both.start_s.tolist() == [0.5]
    three = computed([2, 2, 2], [1, 1, 1], ["0"] * 3, f"{tier},ttl=9", cancellations=((1.0, 1),))
    assert three.ready_s is not None
    # Request 0 runs from 0.5 s to 2.5 s, when request 1 leaves the pool; 2, held by a prefill
    # worker from 1 s on, is ready at 2.5 s, and starts then.
    assert three.start_step.tolist() == [0, -1, 1]
    assert three.ready_s.tolist() == [0.5, 0.5, 2.5]


def test_who_expires_and_gives_up_after_the_last_step() -> None:
    """Request 1 is ready at 0.5 s, expires at 1.1 s and gives up at 2 s, in a step up to 2.5 s."""
    tier = "workers=2,token_time=0,overhead=0.5,transfer=0,ttl=0.6"
    run = computed([2, 2], [1, 1], ["0", "0"], tier, cancellations=((2.0, 1),))
    assert run.reveal_step.tolist() == [0, -1]
    assert run.waiting.tolist() == [1]
    assert run.expiries is not None
    assert run.expiries.tolist() == [[1, 0, 1], [1, 1, 1]]


def test_a_request_that_returns_waits_anew() -> None:
    """Of three on one slot, two lose their caches in the pool, whose ages begin again at 0."""
    three = workload([1, 1, 1], [6, 6, 1], ["0"] * 3)
    steps = Cluster(1, 1, step_overhead_s=1.0, token_time_s=0.0)
    tier = "workers=1,token_time=0.1,transfer=0,ttl=2"
    run = simulate(three, "fcfs", steps, arrivals="timed", prefill=tier)
    assert run.expiries is not None
    stays = [(int(ready), int(lost)) for _, ready, lost in run.expiries]
    stays += [
        (int(ready), int(start))
        for ready, start in zip(run.reveal_step, run.start_step, strict=True)
    ]
    ages = [step - ready for ready, end in stays for step in range(ready, end)]
    assert len(stays) > 3
    assert measure(run)["waiting_age_mean"] == pytest.approx(sum(ages) / len(ages))


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_caches_expire_while_a_worker_is_down(engine: str) -> None:
    """However often they do: the policy is not to blame, and the worker recovers."""
    tier = "workers=1,token_time=0,overhead=0.25,transfer=0,ttl=0.5"
    events = ((0.0, 0, "fail"), (60.0, 0, "recover"))
    run = computed([2, 2], [3, 3], ["0", "0"], tier, failures=events, engine=engine)
    assert run.start_s[0] == 60.0
    assert run.expiries is not None
    assert len(run.expiries) == 169


def test_a_policy_that_starts_nobody_is_told() -> None:
    """Though the clock could jump from expiry to expiry for ever."""
    requests = workload([2, 2], [1, 1], ["0", "0"])
    with pytest.raises(InputError, match="stalled"):
        simulate(requests, nobody, ALONE, arrivals="timed", prefill="workers=1,token_time=1,ttl=2")


@pytest.mark.parametrize("dispatch", ["pooled", "immediate"])
def test_compiled_runs_are_the_same(dispatch: str) -> None:
    """400 requests that expire and are held, on workers that overflow and fail."""
    rng = np.random.default_rng(5)
    prompts, outputs = rng.integers(1, 100, 400).tolist(), rng.integers(1, 60, 400).tolist()
    requests = workload(prompts, outputs, [str(k / 8) for k in range(400)])
    run = assert_same_run(
        requests,
        "fcfs",
        Cluster(3, 8, 0.25, 0.0002, memory=400),
        arrivals="timed",
        dispatch=dispatch,
        failures="random:mtbf=40:mttr=5:until=10000",
        cancellations="random:patience=60",
        prefill="workers=2,token_time=0.002,overhead=0.05,transfer=0.001,ttl=1.5,places=6",
    )
    assert run.expiries is not None
    assert run.held_s is not None
    assert len(run.expiries) > 100
    assert (run.held_s > 0).sum() > 20
    assert run_violations(run, requests, run.cluster) == {}


def test_forged_records_are_caught() -> None:
    """Ready too early or late, held for another time, expired for no reason."""
    requests = workload([2, 4, 2], [3, 1, 1], ["0", "0", "1"])
    tier = "workers=1,token_time=1,transfer=0.25,ttl=5,places=1"
    run = simulate(requests, "fcfs", ALONE, arrivals="timed", prefill=tier)
    assert run_violations(run, requests, ALONE) == {}
    assert run.ready_s is not None
    for forged in (
        replace(run, ready_s=run.ready_s - 0.25),
        replace(run, held_s=np.zeros(3)),
        replace(run, expiries=np.array([[2, 1, 2]])),
        replace(run, expiries=None),
        replace(run, reveal_step=run.reveal_step + np.array([0, 0, -1])),
    ):
        assert "prefill" in run_violations(forged, requests, ALONE)


@pytest.mark.parametrize(
    ("tier", "message"),
    [
        ("workers=2", "no token_time"),
        ("token_time=1", "no workers"),
        ("workers=0,token_time=1", "prefill workers"),
        ("workers=1.5,token_time=1", "'1.5' is not a value of workers"),
        ("workers=1,token_time=-1", "prefill token_time_s: -1"),
        ("workers=1,token_time=nan", "prefill token_time_s"),
        ("workers=1,token_time=1,ttl=0", "prefill ttl: 0.0 s"),
        ("workers=1,token_time=1,places=0", "prefill places"),
        ("workers=1,workers=1,token_time=1", "'workers' occurs twice"),
        ("worker=1", "unknown option 'worker'"),
        ("fast", "unknown option 'fast'"),
    ],
)
def test_tiers_that_make_no_sense(tier: str, message: str) -> None:
    """One line says what."""
    with pytest.raises(InputError, match=message) as caught:
        computed([2], [1], ["0"], tier)
    assert "\n" not in str(caught.value)


def test_what_does_not_go_together() -> None:
    """A pool of waiting requests that refills knows no arrivals; `adaptive` counts on order."""
    one = workload([2], [1], ["0"])
    with pytest.raises(InputError, match="prefill: changes nothing without arrivals=timed"):
        simulate(one, "fcfs", ALONE, prefill="workers=1,token_time=1")
    tier: dict[str, Any] = {"arrivals": "timed", "prefill": "workers=1,token_time=1"}
    with pytest.raises(InputError, match="prefill ends in another order"):
        simulate(one, "adaptive", ALONE, **tier)


def test_settings_name_the_tier() -> None:
    """As it is given, without what is as by default."""
    tier = PrefillTier.parsed("places=8,token_time=5e-5,workers=2", "prefill")
    assert tier == PrefillTier(2, 5e-5, places=8)
    run = computed([2], [1], ["0"], "workers=2,token_time=5e-5,places=8")
    line = settings(workload([2], [1], ["0"]), ALONE, [run.options])
    assert "prefill tier workers=2,token_time=5e-05,places=8" in line
