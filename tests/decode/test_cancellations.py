"""Cancelled requests: by hand in every state, at random, and invalid schedules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.features.cancellations import cancellations_of
from bfio.decode.metrics import measure
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.stints import Cause
from bfio.hindsight.makespan import hindsight_of_run
from formulations.errors import InputError
from tests.decode.cases import EXACT, workload
from tests.decode.machine.equality import assert_same_run

#: One worker with one slot: a step lasts 1 s and half a second per token.
ALONE = Cluster(workers=1, slots=1, step_overhead_s=1.0, token_time_s=0.5)


#: Prefill workers that are held by a full pool, and caches that expire in it.
TIER = "workers=2,token_time=0.05,overhead=0.1,transfer=0.01,ttl=1.5,places=3"


def cancelled(
    prompts: list[int], outputs: list[int], events: Any, cluster: Cluster = ALONE, **options: Any
) -> Run:
    """Run requests that all arrive at once, and check the replay."""
    requests = workload(prompts, outputs, ["0"] * len(prompts))
    given = {"arrivals": "timed", "cancellations": events, **options}
    run = simulate(requests, "jsq", cluster, **given)
    assert run_violations(run, requests, cluster) == {}
    return run


def test_who_runs_leaves_its_worker() -> None:
    """Steps of 2 s and 2.5 s: at 3 s request 0 has two tokens, and request 1 starts then."""
    run = cancelled([2, 2], [5, 1], ((3.0, 0),))
    assert run.interruptions.tolist() == [[0, 0, 0, 2, Cause.CANCELLATION]]
    assert run.cancel_step.tolist() == [2, -1]
    assert run.start_step.tolist() == [0, 2]
    assert (run.cancelled, run.completed, run.partial) == (1, 1, 1)
    found = measure(run)
    assert (found["cancelled"], found["cancelled_tokens"], found["tokens"]) == (1, 2, 3)
    assert found["recomputed_tokens"] == 0


def test_who_waits_never_starts() -> None:
    """Request 1 gives up in step 0, 2 takes its turn."""
    run = cancelled([2, 2, 2], [1, 1, 1], ((1.0, 1),))
    assert run.cancel_step.tolist() == [-1, 1, -1]
    assert run.start_step.tolist() == [0, -1, 1]
    assert run.waiting.tolist() == [2, 0]


def test_who_is_bound_leaves_its_queue() -> None:
    """Of requests 0 to 3 bound to one worker the second and the last give up."""
    events = ((1.0, 1), (1.5, 3))
    run = cancelled([2] * 5, [1] * 5, events, dispatch="immediate")
    assert run.start_step.tolist() == [0, -1, 1, -1, 2]
    assert run.waiting.tolist() == [4, 1, 0]


def test_who_is_on_the_host_does_not_come_back() -> None:
    """Of 10 tokens two requests of 4 hold 8, then 10, then 12: request 1 goes and gives up."""
    cluster = replace(ALONE, slots=2, memory=10)
    events = ((14.0, 1),)
    run = cancelled([4, 4], [4, 4], events, cluster, overflow="swap", swap_time_s=10.0)
    assert run.interruptions.tolist() == [[1, 0, 0, 2, Cause.SWAP]]
    assert run.cancel_step.tolist() == [-1, 3]
    assert run.max_load.tolist() == [8, 10, 6, 7]
    assert run.emitted_tokens.tolist() == [4, 2]


def test_who_is_done_stays_done() -> None:
    """Its last step ends at 2 s, and the client gives up at 2 s."""
    run = cancelled([2, 2], [1, 1], ((2.0, 0),))
    assert run.cancelled == 0


def test_a_run_may_end_by_cancellations_alone() -> None:
    """Both give up before the first step: no step runs, and the clock need not go on."""
    run = cancelled([2, 2], [1, 1], ((0.0, 0), (0.0, 1)))
    assert (run.steps, run.cancelled) == (0, 2)
    late = cancelled([2, 2], [1, 5], ((4.0, 1),))
    assert (late.steps, late.cancel_step.tolist()) == (2, [-1, 2])


def test_the_clock_jumps_to_who_gives_up() -> None:
    """The only worker is down from 0 s to 9 s; request 0 gives up at 5 s."""
    down = ((0.0, 0, "fail"), (9.0, 0, "recover"))
    run = cancelled([2, 2], [1, 1], ((5.0, 0),), failures=down)
    assert run.cancel_step.tolist() == [0, -1]
    assert run.start_s.tolist() == [9.0]


@pytest.mark.parametrize("overflow", ["recompute", "swap"])
@pytest.mark.parametrize("dispatch", ["pooled", "immediate"])
def test_everything_at_once(overflow: str, dispatch: str) -> None:
    """Random schedules: each request ends exactly once, each token is emitted once."""
    rng = np.random.default_rng([len(overflow), len(dispatch)])
    interrupted = expired = 0
    for seed in range(20):
        n, G = int(rng.integers(1, 30)), int(rng.integers(1, 4))
        prompts, outputs = rng.integers(1, 12, n), rng.integers(1, 10, n)
        times = np.sort(rng.integers(0, 60, n) / 4)
        requests = workload(prompts.tolist(), outputs.tolist(), [str(t) for t in times])
        cluster = Cluster(
            G, 3, 0.25, 0.05, memory=int((prompts + outputs).max() + rng.integers(20))
        )
        options = {
            "arrivals": "timed",
            "dispatch": dispatch,
            "overflow": overflow,
            "failures": "random:mtbf=4:mttr=1:until=1000",
            "cancellations": f"random:patience=8:share={rng.choice([0.2, 1.0])}",
            "prefill": rng.choice(["none", "workers=1,token_time=0.1", TIER]),
            "telemetry": rng.choice(["none", "delay=3,loss=0.2"]),
            "seed": seed,
        }
        run = simulate(requests, "jsq-tokens", cluster, **options)
        assert run_violations(run, requests, cluster) == {}
        assert run.completed + run.cancelled == n
        done = run.finish_step >= 0
        assert np.array_equal(run.emitted_tokens[done], outputs[done])
        assert (run.emitted_tokens[~done] < outputs[~done]).all()
        assert run.tokens == run.emitted_tokens.sum()
        assert run.max_load.max(initial=0) <= cluster.worker_memory().max()
        interrupted += len(run.interruptions)
        expired += 0 if run.expiries is None else len(run.expiries)
    assert interrupted > 80
    assert expired > 4


@pytest.mark.parametrize("policy", ["fcfs", "br-h", "jsq-tokens"])
def test_compiled_runs_are_the_same(policy: str) -> None:
    """300 requests, a third of whose clients give up, on workers that fail and overflow."""
    rng = np.random.default_rng(5)
    prompts, outputs = rng.integers(1, 100, 300).tolist(), rng.integers(1, 60, 300).tolist()
    requests = workload(prompts, outputs, [str(k / 8) for k in range(300)])
    cluster = Cluster(3, 8, 0.25, 0.0002, memory=400)
    run = assert_same_run(
        requests,
        policy,
        cluster,
        arrivals="timed",
        failures="random:mtbf=40:mttr=5:until=10000",
        cancellations="random:patience=30",
    )
    assert run.cancelled > 50
    assert len(np.unique(run.interruptions[:, 4])) == 3


def test_forged_records_are_caught() -> None:
    """Gone too late, gone for no reason, back after it was gone."""
    requests = workload([2, 2], [5, 1], ["0", "0"])
    run = cancelled([2, 2], [5, 1], ((3.0, 0),))
    for steps in ([3, -1], [-1, -1], [2, 1]):
        forged = replace(run, cancel_step=np.array(steps))
        assert "cancellations" in run_violations(forged, requests, ALONE)
    never = replace(run.options, cancellations="none")
    assert "cancellations" in run_violations(replace(run, options=never), requests, ALONE)


def test_draws_follow_the_seed_and_the_share() -> None:
    """Patience of mean 10 s; a tenth of the requests has one."""
    arrivals = np.arange(20_000.0)
    drawn = cancellations_of("random:patience=10:share=0.1", arrivals, 1)
    assert len(drawn.request) == pytest.approx(2000, rel=0.1)
    assert (drawn.time_s - arrivals[drawn.request]).mean() == pytest.approx(10, rel=0.1)
    assert (np.diff(drawn.time_s) >= 0).all()
    again, other = (cancellations_of("random:patience=10:share=0.1", arrivals, s) for s in (1, 2))
    assert np.array_equal(drawn.time_s, again.time_s)
    assert not np.array_equal(drawn.request, other.request)


def test_a_file_says_the_same_as_rows(tmp_path: Path) -> None:
    """One line per client."""
    file = tmp_path / "gone.csv"
    file.write_text("time_s,request\n3,0\n")
    assert cancelled([2, 2], [5, 1], str(file)).cancel_step.tolist() == [2, -1]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ("random", "has no patience > 0"),
        ("random:patience=0", "has no patience > 0"),
        ("random:patience=1:share=0", r"has no share in \(0, 1\]"),
        ("random:mean=3", "unknown option 'mean'"),
        ("no-such-file.csv", "cannot read 'no-such-file.csv'"),
        (((2.0, 0), (1.0, 1)), "event 1: an event at 1.0 s follows an event at 2.0 s"),
        (((float("nan"), 0),), "event 0: the time of the event is nan s"),
        (((1.0, 2),), "request 2 is not one of the 2"),
        (((1.0, 0), (2.0, 0)), "request 0 is cancelled twice"),
    ],
)
def test_schedules_that_make_no_sense(events: Any, message: str) -> None:
    """One line says where and what."""
    with pytest.raises(InputError, match=message):
        cancelled([2, 2], [1, 1], events)


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        (((1.5, 0), (2.5, 1)), (2, 3, 2)),
        (((1.0, 0),), (1, 1, 1)),
        (((0.0, 0), (0.0, 1)), (2, 0, 0)),
    ],
)
def test_who_leaves_after_the_last_step_is_counted(events: Any, counts: tuple[int, ...]) -> None:
    """Nobody is left then, so the run has no further step."""
    requests = [2] * len(events), [5] * len(events), ["0"] * len(events)
    steps = Cluster(1, 1, step_overhead_s=1.0, token_time_s=0.0)
    run = simulate(workload(*requests), "fcfs", steps, arrivals="timed", cancellations=events)
    found = measure(run)
    assert run.cancel_step.max() == run.steps
    assert tuple(found[n] for n in ("cancelled", "cancelled_tokens", "interruptions")) == counts


def test_what_does_not_go_together() -> None:
    """Pools have no arrivals; nobody leaves before it comes; a hindsight serves all."""
    with pytest.raises(InputError, match="cancellations: changes nothing without arrivals=timed"):
        simulate(workload([2], [1]), "fcfs", EXACT, cancellations=((1.0, 0),))
    late = workload([2, 2], [1, 1], ["0", "5"])
    with pytest.raises(InputError, match=r"is cancelled at 4\.0 s, before its arrival"):
        simulate(late, "fcfs", EXACT, arrivals="timed", cancellations=((4.0, 1),))
    run = cancelled([2, 2], [5, 1], ((3.0, 0),))
    with pytest.raises(InputError, match="requests were cancelled"):
        hindsight_of_run(run, workload([2, 2], [5, 1], ["0", "0"]))
