"""Workers that are slow for a while: steps, energy and replay by hand, and schedules refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.energy import EnergyObserver, energy_account
from bfio.decode.energy_model import EnergyModel
from bfio.decode.features.stragglers import stragglers_of
from bfio.decode.metrics import measure
from bfio.decode.replay import run_violations
from bfio.decode.settings import setting_parts
from bfio.decode.simulation import simulate
from bfio.workloads import Geometric, Poisson, Uniform, generate
from formulations.errors import InputError
from tests.decode.cases import EXACT, first_come, workload

#: Both run at once, on two workers, with loads 2 and 1, 3 and 2, 4 and 3.
PAIR = workload([2, 1], [3, 3])
#: Worker 1 takes three times as long from 1 s on, and is well again from 8 s on.
SLOW = ((1.0, 1, 3.0), (8.0, 1, 1.0))
POWER = EnergyModel(saturation=0.5, exponent=1.0, parameters=1.0, peak_flops=6.0)


def test_steps_and_energy_by_hand() -> None:
    """A step takes 1 + L/2 s: 2 s; from 2 s on 2.5 against 3·2 = 6 s; from 8 s on 3 s.

    Step 1: w0 is busy 2.5 s at 0.4 tokens/s, 340 W, then idle 3.5 s at 100 W: 1200 J; w1 6 s at
    1/6 tokens/s: 200 W, 1200 J. On average they are busy (2.5 + 6)/2 = 4.25 s.
    """
    run = simulate(PAIR, first_come, EXACT, stragglers=SLOW)
    assert run.duration_s.tolist() == [2.0, 6.0, 3.0]
    assert run.balanced_s is not None
    assert run.balanced_s.tolist() == [1.75, 4.25, 2.75]
    assert run_violations(run, PAIR, EXACT) == {}
    account = energy_account(run, POWER, steps=np.array([1]))
    assert account is not None
    assert account.energy_j == pytest.approx(2400)
    assert (account.busy_s, account.idle_s) == (8.5, 3.5)
    assert measure(run)["barrier_loss"] == pytest.approx(1 - (1.75 + 4.25 + 2.75) / 11)
    observer = EnergyObserver(EXACT, POWER, stragglers=stragglers_of(SLOW, 2, 0))
    simulate(PAIR, first_come, EXACT, stragglers=SLOW, observers=[observer])
    whole = energy_account(run, POWER)
    assert whole is not None
    assert observer.energy_j == pytest.approx(whole.energy_j)


def test_the_replay_knows_the_schedule() -> None:
    """A run whose steps last as if nobody were slow is found out."""
    run = simulate(PAIR, first_come, EXACT, stragglers=SLOW)
    quick = simulate(PAIR, first_come, EXACT)
    wrong = replace(run, duration_s=quick.duration_s, start_s=quick.start_s)
    assert "duration" in run_violations(wrong, PAIR, EXACT)


@pytest.mark.parametrize("policy", ["fcfs", "br-0"])
def test_both_engines_agree_on_drawn_stragglers(policy: str) -> None:
    """Failures beside, unequal workers: the same run in both, without a violation."""
    rng = np.random.default_rng(1)
    requests = generate(150, Uniform(1, 30), Geometric(8), Poisson(1.0), rng=rng)
    cluster = Cluster(3, 4, 1.0, 0.05, speed=(1.0, 1.0, 2.0))
    options = {
        "stragglers": "random:mtbf=40:mttr=15:factor=4",
        "failures": "random:mtbf=150:mttr=10",
        "arrivals": "timed",
        "seed": 7,
    }
    run, compiled = (
        simulate(requests, policy, cluster, engine=engine, **options)
        for engine in ("reference", "compiled")
    )
    assert run_violations(run, requests, cluster) == {}
    assert compiled.duration_s.tolist() == run.duration_s.tolist()
    assert compiled.worker.tolist() == run.worker.tolist()
    calm = simulate(requests, policy, cluster, **(options | {"stragglers": "none"}))
    assert run.duration_s.mean() > 1.5 * calm.duration_s.mean()
    told = [setting_parts("requests", cluster, [each.options]) for each in (run, calm)]
    assert told[0]["stragglers"] == "stragglers random:mtbf=40:mttr=15:factor=4"
    assert "stragglers" not in told[1]


def test_a_factor_of_one_changes_nothing() -> None:
    """The same steps to the last bit, however often the pace is set."""
    same = simulate(PAIR, first_come, EXACT, stragglers=((0.0, 0, 1.0), (3.0, 1, 1.0)))
    assert same.duration_s.tolist() == simulate(PAIR, first_come, EXACT).duration_s.tolist()


def test_a_schedule_is_read_from_a_file(tmp_path: Path) -> None:
    """The rows of the tuple, below a heading."""
    file = tmp_path / "slow.csv"
    file.write_text("time_s,worker,factor\n1,1,3\n8,1,1\n")
    run = simulate(PAIR, first_come, EXACT, stragglers=str(file))
    assert run.duration_s.tolist() == [2.0, 6.0, 3.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((2.0, 0, 2.0), (1.0, 0, 1.0)), "event 1: an event at 1.0 s follows an event at 2.0 s"),
        (((2.0, 5, 2.0),), "event 0: worker 5 is not one of the 2"),
        (((2.0, 0, 0.0),), "event 0: slowdown factor 0.0 is out of range"),
        (((2.0, 0, float("nan")),), "stragglers, event 0: slowdown factor nan is out of range"),
        ("random:mtbf=3", "stragglers: 'random:mtbf=3' has no mttr > 0"),
        ("random:mtbf=3:mttr=1:factor=-1", "has no factor > 0"),
        ("random:mtbf=3:mttr=1:factr=2", "did you mean factor"),
        (
            "random:mtbf=3:mttr=1:until=5",
            "stragglers: events are drawn for 5 s, but the run lasts 10 s",
        ),
        ("no-such.csv", "stragglers: cannot read 'no-such.csv'"),
    ],
)
def test_schedules_that_are_refused(given: object, message: str) -> None:
    """One line says what and where."""
    with pytest.raises(InputError, match=message):
        simulate(PAIR, first_come, EXACT, stragglers=given)
