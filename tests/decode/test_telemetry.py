"""Late or missing load reports: by hand, in both engines, and invalid input."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.features.telemetry import losses
from bfio.decode.metrics import measure
from bfio.decode.option_kinds import Telemetry
from bfio.decode.policy_registry import built_in, choose
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.settings import remarks, settings
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from formulations.errors import InputError
from tests.decode.cases import workload
from tests.decode.machine.equality import assert_same_run, differences

TWO = Cluster(workers=2, slots=4, step_overhead_s=1.0, token_time_s=0.5)


def told(telemetry: str, cluster: Cluster = TWO, **options: Any) -> Run:
    """Run requests that come one at a time and do not grow."""
    requests = workload([9, 9, 9, 9], [6, 6, 6, 6])
    given = {"pool": 1, "drift": "constant", "telemetry": telemetry, **options}
    run = simulate(requests, "jsq-tokens", cluster, **given)
    assert run_violations(run, requests, cluster) == {}
    return run


def test_reports_are_steps_old() -> None:
    """With 2 steps the empty cluster is seen at steps 0, 1, 2, request 0 first at step 3."""
    assert told("none").worker.tolist() == [0, 1, 0, 1]
    assert told("delay=1").worker.tolist() == [0, 0, 1, 1]
    assert told("delay=2").worker.tolist() == [0, 0, 0, 1]


def test_what_is_sent_at_a_step_is_known_at_that_step() -> None:
    """Two requests of one step go to two workers, and those of the next as if nothing ran."""
    assert told("delay=2", pool=2).worker.tolist() == [0, 1, 0, 1]
    assert told("delay=2", dispatch="immediate", pool=2).worker.tolist() == [0, 1, 0, 1]


def test_the_last_report_that_arrived_stands() -> None:
    """None after step 0 does, at which nothing runs: worker 0 is thought to be empty."""
    assert told("loss=0.999999").worker.tolist() == [0, 0, 0, 0]


def test_slots_are_known() -> None:
    """Worker 0 is thought to hold nothing, and has two slots."""
    cluster = Cluster(2, 2, step_overhead_s=1.0, token_time_s=0.5)
    assert told("loss=0.999999", cluster).worker.tolist() == [0, 0, 1, 1]


def test_what_finds_no_memory_waits_and_is_counted() -> None:
    """Of 20 tokens 18 are taken at step 2, known at step 4; at step 3 worker 1 holds less."""
    cluster = Cluster(2, 4, memory=20, step_overhead_s=1.0, token_time_s=0.5)
    run = told("delay=2", cluster)
    assert run.refused is not None
    assert run.worker.tolist() == [0, 0, 1, 1]
    assert run.start_step.tolist() == [0, 1, 3, 4]
    assert run.refused.tolist()[:4] == [0, 0, 1, 0]
    assert measure(run)["refused"] == 1


def test_all_is_known_while_nothing_runs() -> None:
    """Request 0 is done at step 2, and 1 comes later: both workers are empty, and 0 is taken."""
    requests = workload([9, 9], [2, 2], ["0", "100"])
    run = simulate(requests, "jsq-tokens", TWO, arrivals="timed", telemetry="delay=1")
    assert run.worker.tolist() == [0, 0]


def test_on_time_is_as_ever() -> None:
    """No delay and no loss are no telemetry."""
    assert Telemetry.parsed("delay=0,loss=0", "telemetry") is None
    assert differences(told("delay=0"), told("none")) == []


def test_losses_follow_seed_and_share() -> None:
    """A tenth of the reports."""
    lost = [losses(Telemetry(3, 0.1), 50, seed) for seed in (1, 1, 2)]
    assert lost[0].mean() == pytest.approx(0.1, rel=0.05)
    assert np.array_equal(lost[0], lost[1])
    assert not np.array_equal(lost[0], lost[2])


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("jsq-tokens", {}),
        ("jsq-tokens", {"dispatch": "immediate"}),
        ("throttled", {}),
        ("br-h", {"predictor": "oracle"}),
        ("br-h", {"dispatch": "immediate", "predictor": "oracle", "projection": "growing"}),
    ],
)
def test_compiled_runs_are_the_same(policy: str, options: dict[str, Any]) -> None:
    """300 requests on workers that fail, known by reports some of which are lost."""
    rng = np.random.default_rng(5)
    prompts, outputs = rng.integers(1, 100, 300).tolist(), rng.integers(1, 60, 300).tolist()
    requests = workload(prompts, outputs, [str(k / 16) for k in range(300)])
    given: dict[str, Any] = {
        "arrivals": "timed",
        "failures": "random:mtbf=40:mttr=5:until=10000",
        **options,
    }
    run = assert_same_run(
        requests, policy, Cluster(3, 8, 0.25, 0.0002), telemetry="delay=3,loss=0.2", **given
    )
    exact = simulate(requests, policy, Cluster(3, 8, 0.25, 0.0002), **given)
    assert differences(run, exact) != []


@pytest.mark.parametrize(
    ("telemetry", "message"),
    [
        ("late", "unknown option 'late'"),
        ("delay=1.5", "'1.5' is not a value of delay"),
        ("delay=-1", "telemetry delay"),
        ("loss=1", "telemetry loss: 1.0"),
        ("loss=nan", "telemetry loss"),
        ("loss=0.1,loss=0.2", "'loss' occurs twice"),
        ("delay=100000", "telemetry delay"),
    ],
)
def test_telemetry_that_makes_no_sense(telemetry: str, message: str) -> None:
    """One line says what."""
    with pytest.raises(InputError, match=message) as caught:
        told(telemetry)
    assert "\n" not in str(caught.value)


def test_what_does_not_go_together() -> None:
    """Too many reports on their way; books of true loads; memory in compiled runs."""
    with pytest.raises(InputError, match="would hold more than"):
        told("delay=9999", Cluster(3000, 1))
    with pytest.raises(InputError, match="telemetry reports only workers"):
        simulate(workload([2], [1]), "adaptive", TWO, telemetry="delay=1")
    with pytest.raises(InputError, match="telemetry with limited memory"):
        told("delay=1", Cluster(2, 4, memory=20), engine="compiled")


def test_settings_name_it() -> None:
    """As it is given."""
    line = settings(workload([2], [1]), TWO, [told("loss=0.1,delay=4").options])
    assert "telemetry delay=4,loss=0.1" in line


def test_policies_that_read_no_report_say_so_and_no_other() -> None:
    """Who reads none decides as with fresh reports; who reads some decides otherwise here."""
    rng = np.random.default_rng(5)
    requests = workload(
        rng.integers(1, 50, size=60).tolist(), rng.geometric(0.05, size=60).tolist()
    )
    for name, spec in built_in().items():
        # These two are refused with telemetry; this one goes by loads only above a given skew.
        if name in ("adaptive", "pausing", "consistent-hash"):
            continue
        fresh, late = (
            simulate(requests, name, Cluster(4, 4), telemetry=telemetry, engine="reference")
            for telemetry in (None, "delay=7,loss=0.2")
        )
        same = fresh.worker.tolist() == late.worker.tolist()
        assert same == (not spec.reads_reports), name
        said = [sentence for sentence in remarks(requests, [late]) if "Telemetry" in sentence]
        assert bool(said) == same, name
        assert not any("Telemetry" in sentence for sentence in remarks(requests, [fresh]))


@pytest.mark.parametrize("delay", [1, 3, 7])
def test_a_policy_sees_the_loads_of_so_many_steps_ago(delay: int) -> None:
    """Counted from who ran where, at each of 129 steps."""
    rng = np.random.default_rng(5)
    requests = workload(rng.integers(1, 100, 200).tolist(), rng.integers(1, 60, 200).tolist())
    decide = choose("jsq-tokens", {}).make()
    seen: dict[int, list[int]] = {}

    def own(state: DecodeState) -> Sequence[int | None]:
        seen.setdefault(state.step, state.loads.tolist())
        return decide(state)

    run = simulate(requests, own, Cluster(3, 8), telemetry=f"delay={delay}")
    for step, loads in seen.items():
        sent = max(step - delay, 0)
        tokens = requests.prompt_tokens + sent - run.start_step
        runs = (run.start_step < sent) & (run.finish_step >= sent)
        assert loads == [int(tokens[runs & (run.worker == g)].sum()) for g in range(3)]
