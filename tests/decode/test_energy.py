"""Energy by hand in both interpretations, and conservation of worker-time."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.energy import (
    EnergyObserver,
    EnergyReading,
    busy_times,
    energy_account,
    power_over_time,
    step_energies,
)
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import measure
from bfio.decode.simulation import simulate
from bfio.testing.runs import Scenario, scenarios
from formulations.errors import InputError
from tests.decode.cases import EXACT, first_come, workload

#: mfu = tokens/s, power linear in it up to 0.5: P = 100 + 600·mfu, at most 400 W.
SIMPLE = EnergyModel(saturation=0.5, exponent=1.0, parameters=1.0, peak_flops=6.0)
READINGS = list(EnergyReading)


def test_two_phase_step_by_hand() -> None:
    """Loads 3 and 1, one request each, step 1 + 3/2 = 2.5 s.

    w0 is busy 2.5 s at 0.4 tokens/s: (100 + 600·0.4)·2.5 = 850 J. w1 is busy 1.5 s at 2/3
    tokens/s, above saturation: 400·1.5 = 600 J, then idles 1 s: 100 J.
    """
    energies = step_energies(
        np.array([[3, 1]]), np.array([[1, 1]]), np.array([2.5]), EXACT, SIMPLE
    )
    assert energies.tolist() == [[pytest.approx(850), pytest.approx(700)]]


def test_averaged_step_by_hand() -> None:
    """Both workers emit 0.4 tokens/s over the whole step: 340 W · 2.5 s = 850 J each."""
    energies = step_energies(
        np.array([[3, 1]]),
        np.array([[1, 1]]),
        np.array([2.5]),
        EXACT,
        SIMPLE,
        EnergyReading.AVERAGED,
    )
    assert energies.tolist() == [[pytest.approx(850), pytest.approx(850)]]


def test_power_curve_of_the_paper() -> None:
    """P(0) = 100 W, P = 400 W from mfu 0.45 on, and 100 + 300·0.5^0.7 at half of that."""
    model = EnergyModel()
    # mfu = rate·6·7e9/312e12, so mfu 0.45 is reached at 0.45·312e12/42e9 = 3342.857 tokens/s.
    rates = np.array([0.0, 3342.857143 / 2, 3342.857143, 1e9])
    expected = [100, 100 + 300 * 0.5**0.7, 400, 400]
    assert model.power(rates).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("reading", READINGS)
def test_an_empty_worker_idles(reading: EnergyReading) -> None:
    """No active request: P_idle for the whole step, even where its busy time is 0 s."""
    cluster = Cluster(workers=2, slots=1, step_overhead_s=0.0, token_time_s=1.0)
    energies = step_energies(
        np.array([[4, 0]]), np.array([[1, 0]]), np.array([4.0]), cluster, SIMPLE, reading
    )
    assert energies[0, 1] == 400.0


def test_mean_time_is_busy_time_of_every_worker() -> None:
    """C = 1, t_l = 1, t_m = 2, loads 3 and 1 of mean 2: busy 1+3+4 = 8 and 1+1+4 = 6 s."""
    cluster = Cluster(workers=2, slots=1, step_overhead_s=1.0, token_time_s=1.0, mean_time_s=2.0)
    busy = busy_times(np.array([[3, 1]]), np.array([8.0]), cluster)
    assert busy.tolist() == [[8.0, 6.0]]


def test_idle_time_between_steps_costs_idle_power() -> None:
    """One step of 1 + 1/2 s after 4 s without work, on two workers, one of them empty.

    w0: 1.5 s at 2/3 tokens/s, saturated: 600 J; w1: 1.5 s idle: 150 J; before: 2·4·100 = 800 J.
    """
    run = simulate(workload([1], [1], ["4"]), first_come, EXACT, arrivals="timed")
    account = energy_account(run, SIMPLE)
    assert account is not None
    assert account.energy_j == pytest.approx(1550)
    # Busy: w0 1.5 s, w1 the overhead of 1 s; idle: 0.5 s of w1 and 2·4 s.
    assert (account.busy_s, account.idle_s) == (2.5, 8.5)


@given(scenario=scenarios(), reading=st.sampled_from(READINGS))
def test_worker_time_is_conserved(scenario: Scenario, reading: EnergyReading) -> None:
    """Busy plus idle worker-seconds are G times the total time; energy lies between the powers."""
    run = scenario.simulate(scenario.erratic_policy())
    account = energy_account(run, EnergyModel(), reading)
    assert account is not None
    total = measure(run)["total_time_s"]
    assert total is not None
    worker_s = scenario.cluster.workers * total
    assert account.busy_s + account.idle_s == pytest.approx(worker_s)
    assert 100 * worker_s * (1 - 1e-9) <= account.energy_j <= 400 * worker_s * (1 + 1e-9)


@given(scenario=scenarios(), reading=st.sampled_from(READINGS))
def test_observer_agrees_with_the_record(scenario: Scenario, reading: EnergyReading) -> None:
    """Streaming gives the energy of the kept trajectory, less that of the time between steps."""
    observer = EnergyObserver(scenario.cluster, EnergyModel(), reading)
    run = scenario.simulate(scenario.erratic_policy(), observers=(observer,))
    account = energy_account(run, EnergyModel(), reading)
    assert account is not None
    between = 100 * scenario.cluster.workers * float(run.idle_before_s.sum())
    assert observer.energy_j + between == pytest.approx(account.energy_j)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(
            ["saturation", "exponent", "parameters", "peak_flops"], [0.0, -1.0, float("nan")]
        ),
        ("idle_power_w", -1.0),
        ("idle_power_w", 500.0),
        ("max_power_w", float("inf")),
    ],
)
def test_bad_constants_are_named(name: str, value: float) -> None:
    """A constant out of its domain is an error."""
    with pytest.raises(InputError, match=name if name != "max_power_w" else "idle_power_w"):
        EnergyModel(**{name: value})


def test_power_over_time_by_hand() -> None:
    """Idle 4 s at 2·100 W, then 1.5 s with 750 J (see above): 500 W; cut at 0, 2.75 and 5.5 s.

    The second part has 1.25 s at 200 W and 1.5 s at 500 W.
    """
    run = simulate(workload([1], [1], ["4"]), first_come, EXACT, arrivals="timed")
    curve = power_over_time(run, SIMPLE, parts=2)
    assert curve is not None
    assert curve.edges_s.tolist() == [0, 2.75, 5.5]
    assert curve.power_w.tolist() == pytest.approx([200, (1.25 * 200 + 1.5 * 500) / 2.75])
    found = measure(run, SIMPLE)
    assert found["power_mean_w"] == pytest.approx(1550 / 5.5)
    assert found["power_max_w"] == pytest.approx(500)


@pytest.mark.parametrize("reading", READINGS)
@given(scenario=scenarios(), parts=st.integers(1, 9))
def test_power_integrates_to_the_energy(
    reading: EnergyReading, scenario: Scenario, parts: int
) -> None:
    """However time is cut, and never above what all workers draw at most or below idle."""
    run = scenario.simulate(scenario.erratic_policy())
    curve, account = (
        power_over_time(run, SIMPLE, reading, parts),
        energy_account(run, SIMPLE, reading),
    )
    assert curve is not None
    assert account is not None
    assert curve.energy_j == pytest.approx(account.energy_j)
    if run.steps and curve.edges_s[-1] > curve.edges_s[0]:
        assert curve.power_w.min() >= run.cluster.workers * SIMPLE.idle_power_w * (1 - 1e-6)
        assert curve.power_w.max() <= run.cluster.workers * SIMPLE.max_power_w * (1 + 1e-6)
        assert account.peak_power_w >= account.energy_j / float(np.diff(curve.edges_s).sum()) * (
            1 - 1e-9
        )
