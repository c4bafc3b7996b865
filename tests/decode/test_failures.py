"""Workers that fail and recover: by hand, at random, and invalid schedules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.features.failures import failures_of
from bfio.decode.features.registry import unseen
from bfio.decode.metrics import measure
from bfio.decode.replay import run_violations
from bfio.decode.simulation import simulate
from bfio.decode.stints import Cause
from bfio.gap import measure_gap
from bfio.workloads import synthetic
from formulations.errors import InputError
from tests.decode.cases import EXACT, nobody, workload
from tests.decode.machine.equality import both_engines, differences
from tests.pairs import pairs

#: Worker 0 is down from 2 s to 9 s.
OUTAGE = ((2.0, 0, "fail"), (9.0, 0, "recover"))


def test_who_ran_there_waits_again_and_starts_elsewhere() -> None:
    """Steps of 2 s and 2.5 s; before step 1 request 0 leaves with 3 tokens, 1 has ended then."""
    requests = workload([2, 2], [3, 1])
    run = simulate(requests, "fcfs", EXACT, failures=OUTAGE)
    assert run.interruptions.tolist() == [[0, 0, 0, 1, Cause.FAILURE]]
    assert run.worker.tolist() == [1, 1]
    assert run.start_s.tolist() == [0.0, 2.0, 4.5]
    assert run.max_load.tolist() == [2, 3, 4]
    assert measure(run)["recomputed_tokens"] == 3
    assert run_violations(run, requests, EXACT) == {}


def test_with_nobody_up_the_clock_jumps_to_the_recovery() -> None:
    """One worker: request 0 leaves it at 2 s, and is back at 9 s."""
    requests, cluster = workload([2], [2]), Cluster(1, 1, step_overhead_s=1.0, token_time_s=0.5)
    run = simulate(requests, "fcfs", cluster, failures=OUTAGE)
    assert run.start_s.tolist() == [0.0, 9.0]
    assert run.idle_before_s.tolist() == [0.0, 7.0]
    assert run_violations(run, requests, cluster) == {}


def test_who_was_bound_to_it_finds_another_worker() -> None:
    """Requests 0 and 2 are bound to worker 0, 1 and 3 to worker 1; after 2 s all run on 1."""
    requests = workload([2, 2, 2, 2], [1, 2, 1, 1])
    run = simulate(requests, "jsq", EXACT, dispatch="immediate", pool=4, failures=OUTAGE)
    assert run.worker.tolist() == [0, 1, 1, 1]
    assert run.start_step.tolist() == [0, 0, 3, 2]
    assert run_violations(run, requests, EXACT) == {}


def test_running_on_a_worker_that_is_down_is_caught() -> None:
    """The run without failures, under the schedule; and a failure that no schedule has."""
    requests = workload([2, 2], [3, 1])
    run = simulate(requests, "fcfs", EXACT)
    options = replace(run.options, failures=OUTAGE)
    assert "failures" in run_violations(replace(run, options=options), requests, EXACT)
    failed = simulate(requests, "fcfs", EXACT, failures=OUTAGE)
    later = replace(failed.options, failures=((4.0, 0, "fail"), (9.0, 0, "recover")))
    assert "failures" in run_violations(replace(failed, options=later), requests, EXACT)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("random", "has no mtbf > 0"),
        ("random:mtbf=10", "has no mttr > 0"),
        ("random:mtbf=0:mttr=1", "has no mtbf > 0"),
        ("random:mtbf=inf:mttr=1", "has no mtbf > 0"),
        ("random:mtbf=1e-3:mttr=1e-3", "more than 2000000 events"),
        ("random:mean=3", "unknown option 'mean'"),
        ("no-such-file.csv", "cannot read 'no-such-file.csv'"),
        (
            ((2.0, 0, "fail"), (1.0, 1, "fail")),
            "event 1: an event at 1.0 s follows an event at 2.0 s",
        ),
        (((-1.0, 0, "fail"),), "event 0: the time of the event is -1.0 s"),
        (((float("nan"), 0, "fail"),), "event 0: the time of the event is nan s"),
        (((1.0, 2, "fail"),), "worker 2 is not one of the 2"),
        (((1.0, -1, "fail"),), "worker -1 is not one of the 2"),
        (((1.0, 0, "die"),), "'die' is not an event"),
        (((1.0, 0),), "event 0: (1.0, 0) is not time_s,worker,event; write e.g. 12.5,0,fail"),
        ((("1.0", 0, "fail"),), "failures, event 0: expected a number, found '1.0'"),
        (((1.0, 0.5, "fail"),), "failures, event 0: expected an integer, found 0.5"),
        ((7,), "failures, event 0: expected a list, found 7"),
        (((1.0, 0, "fail"), (2.0, 0, "fail")), "worker 0 is down and cannot fail"),
        (((1.0, 0, "recover"),), "worker 0 is up and cannot recover"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(given: Any, message: str) -> None:
    """In one line, before anything runs."""
    with pytest.raises(InputError) as caught:
        simulate(workload([2], [2]), "fcfs", EXACT, failures=given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    """Rows below a heading; a damaged one is named by its line, blank ones included."""
    file = tmp_path / "outages.csv"
    file.write_text("time_s,worker,event\n2.0,0,fail\n9.0,0,recover\n")
    found = failures_of(str(file), 2, 0)
    assert found.time_s.tolist() == [2.0, 9.0]
    assert found.is_up.tolist() == [0, 1]
    for damaged in ("2.0,zero,fail", "2.0,0", "2.0,0,fail,9"):
        file.write_text(f"time_s,worker,event\n\n2.0,0,fail\n\n\n{damaged}\n")
        with pytest.raises(InputError, match="line 6"):
            failures_of(str(file), 2, 0)


def test_a_run_that_outlasts_what_was_drawn_is_refused() -> None:
    """Nothing would fail any more after that, without a word."""
    with pytest.raises(InputError, match="drawn for 3 s, but the run lasts"):
        simulate(workload([2], [9]), "fcfs", EXACT, failures="random:mtbf=2:mttr=1:until=3")


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_workers_that_never_recover_are_named(engine: str) -> None:
    """Not the policy, which has nobody to send requests to; while it has, it is to blame."""
    requests = workload([2, 9], [5, 5])
    events = ((1.0, 0, "fail"), (3.0, 1, "fail"))
    said = (
        r"^failures, step 1: no request can run: 2 requests wait, and workers never "
        r"recover: worker 0 failed at 1 s, worker 1 failed at 3 s; let workers recover, .*$"
    )
    with pytest.raises(InputError, match=said):
        simulate(requests, "fcfs", EXACT, failures=events, engine=engine)
    # What is left is too small for request 1.
    unequal = replace(EXACT, memory=(20, 8))
    with pytest.raises(InputError, match=r"1 requests wait, .*: worker 0 failed at 1 s"):
        simulate(requests, "fcfs", unequal, failures=events[:1], engine=engine)
    with pytest.raises(InputError, match=r"policy nobody, step 0: stalled: .* worker 0 failed at"):
        simulate(requests, nobody, EXACT, failures=((0.0, 0, "fail"),))
    said = (
        r"policy balance-scheduling, step 5: stalled: .*; workers never recover: worker 0 failed"
    )
    with pytest.raises(InputError, match=said):
        simulate(requests, "balance-scheduling", EXACT, failures=events[:1], engine=engine)


def test_drawn_failures_are_as_long_and_as_frequent_as_asked_for() -> None:
    """Means of thousands of times up and down, and the seed decides."""
    drawn = failures_of("random:mtbf=50:mttr=10:until=1e5", 4, 7)
    assert np.array_equal(
        drawn.time_s, failures_of("random:mtbf=50:mttr=10:until=1e5", 4, 7).time_s
    )
    assert not np.array_equal(
        drawn.time_s[:9], failures_of("random:mtbf=50:mttr=10", 4, 8).time_s[:9]
    )
    ups, downs = [], []
    for worker in range(4):
        times = np.concatenate(([0.0], drawn.time_s[drawn.worker == worker]))
        ups.append(np.diff(times)[0::2])
        downs.append(np.diff(times)[1::2])
    assert np.concatenate(ups).mean() == pytest.approx(50, rel=0.05)
    assert np.concatenate(downs).mean() == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize(
    ("overflow", "policy"), pairs(("recompute", "swap", "reserve"), ("br-h", "jsq"), each=1)
)
def test_both_engines_lose_and_serve_the_same(overflow: str, policy: str) -> None:
    """Hundreds of interruptions: every request ends once, every token is emitted once."""
    drawn = synthetic("demo", 100, seed=2)
    fits = drawn.prompt_tokens + drawn.output_tokens <= 6000
    requests = drawn.part(fits)
    cluster = Cluster(4, 12, memory=(9000, 9000, 20000, 7000))
    options: dict[str, Any] = {
        "dispatch": "pooled" if policy == "br-h" else "immediate",
        "overflow": overflow,
        "predictor": "oracle",
        "failures": "random:mtbf=0.25:mttr=0.05:until=100",
    }
    compiled, reference = both_engines(requests, policy, cluster, **options)
    assert compiled is not None
    assert differences(compiled, reference) == []
    assert run_violations(reference, requests, cluster) == {}
    assert reference.is_drained
    assert reference.tokens == requests.total_output_tokens
    assert (reference.interruptions[:, 4] == Cause.FAILURE).sum() > 100


@pytest.mark.parametrize(
    "text",
    ["", "0,0,fail\n", "time_s,worker\n0,0\n", "time_s,worker,event,event\n0,0,fail,fail\n"],
)
def test_a_file_without_its_heading_is_refused(tmp_path: Path, text: str) -> None:
    """An empty one too: its runs would go by its name, and nothing would ever fail."""
    file = tmp_path / "outages.csv"
    file.write_text(text)
    with pytest.raises(InputError, match="line 1: no heading time_s,worker,event; write"):
        failures_of(str(file), 2, seed=0)


def test_a_file_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """A byte order mark stands before its heading."""
    file = tmp_path / "outages.csv"
    file.write_text("time_s,worker,event\n2,0,fail\n", encoding="utf-8-sig")
    assert failures_of(str(file), 2, seed=0).time_s.tolist() == [2.0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"failures": OUTAGE}, []),
        # The two steps begin at 0 s and at 2 s, when the first client is still there.
        (
            {"failures": ((2000.0, 0, "fail"),)},
            ["No failure took place: the first is at 2,000 s"],
        ),
        ({"stragglers": ((99.0, 0, 2.0),)}, ["No straggler took place: the first is at 99 s"]),
        ({"failures": ((0.0, 0, "fail"), (0.5, 0, "recover"))}, []),
        (
            {"arrivals": "timed", "cancellations": ((50.0, 0),)},
            ["No request was cancelled in time: "],
        ),
        ({"arrivals": "timed", "cancellations": ((1.0, 0),)}, []),
    ],
)
def test_a_schedule_of_which_nothing_came_to_pass_is_told(
    options: dict[str, Any], told: list[str]
) -> None:
    """As of one with times in milliseconds: its name alone would say that something failed."""
    requests = workload([2, 2], [3, 1], ["0", "0"])
    said = list(unseen([simulate(requests, "fcfs", EXACT, **options)]))
    assert measure_gap(requests, "fcfs", EXACT, **options).unseen == tuple(said)
    assert len(said) == len(told)
    assert all(one.startswith(start) for one, start in zip(said, told, strict=True))


def test_a_schedule_without_events_is_told(tmp_path: Path) -> None:
    """A heading and nothing below it."""
    file = tmp_path / "outages.csv"
    file.write_text("time_s,worker,event\n")
    run = simulate(workload([2, 2], [3, 1]), "fcfs", EXACT, failures=str(file))
    assert list(unseen([run])) == [
        "The schedule has no failure: the runs equal those without a schedule."
    ]
