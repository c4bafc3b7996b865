"""Every option that a run used is in its records: documents, settings, rows of studies."""

import json
from dataclasses import fields
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfio.cli.main import main
from bfio.common.options import from_mapping, names_of, options_of
from bfio.decode.cluster import Cluster
from bfio.decode.comparison import compare
from bfio.decode.energy_model import EnergyModel
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import all_options, built_in, choose
from bfio.decode.settings import settings
from bfio.decode.simulation import describe_run, plain_options, simulate
from bfio.decode.state import DecodeState
from bfio.gap import GapObserver, GapReport, measure_gap
from bfio.studies import kinds
from bfio.studies.row import RowContext
from bfio.workloads import Workload, synthetic
from formulations.errors import InputError
from tests.decode.cases import workload
from tests.decode.option_samples import OWNERS, Sample, policy_samples, run_samples
from tests.pairs import pairs

SAMPLES = {str(sample): sample for sample in (*run_samples(), *policy_samples())}
REQUESTS = Workload(np.full(12, 5), np.full(12, 3), tuple(map(Fraction, range(12))), name="dozen")
DEMO, FEW, MACHINE = synthetic("demo", 300, 0), synthetic("demo", 80, 0), Cluster(4, 6)
PREDICTORS = ("oracle", "survival", "exact-match", "noisy-classifier")
POLICIES = (
    "br-h:horizon=3", "bf-io:horizon=3", "rolling-horizon:horizon=3", "pending-prefill:horizon=3",
    "adaptive:horizon=3", "random", "br-0",
)  # fmt: skip


def _made(given: dict[str, Any]) -> tuple[Cluster, RunOptions, EnergyModel, dict[str, object]]:
    """Read arguments as a study does; options of the policy with the values in force."""
    options = from_mapping(RunOptions, given, seed=given.get("seed", 0))
    cluster = from_mapping(Cluster, given)
    used = choose(given["policy"], given).in_force(options, cluster)
    return cluster, options, from_mapping(EnergyModel, given), used


def _line(given: dict[str, Any]) -> str:
    cluster, options, energy, used = _made(given)
    return settings(REQUESTS, cluster, [options], [], energy, [(given["policy"], used)])


def _document(given: dict[str, Any]) -> str:
    cluster, options, energy, used = _made(given)
    return json.dumps(plain_options(cluster, options, energy, policy=used, predictor={}))


def _differ(texts: list[str]) -> None:
    for one, other in combinations(texts, 2):
        assert one != other


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_two_runs_that_differ_in_an_option_differ_in_their_records(
    sample: Sample, tmp_path: Path
) -> None:
    """In the line of settings, the document and what a report says of rows, for every policy."""
    rows = sample.rows()
    _differ([_line(row) for row in rows])
    _differ([_document(row) for row in rows])
    given: dict[str, Any] = {
        "prompts": "uniform:lowest=1:highest=9",
        "outputs": "geometric:mean=4",
    }
    given |= {"arrival_law": "poisson:rate=9", "requests": 12}
    plan = kinds.find("simulate").planned
    told = [plan(given | row, RowContext(tmp_path)).setting for row in rows]
    _differ([", ".join(setting.values()) for setting in told])


def test_fields_that_are_no_options_of_commands_are_told_as_well() -> None:
    """The seed, which has another argument; there are no others."""
    options = {entry.field for owner in OWNERS for entry in options_of(owner)}
    others = {entry.name for owner in OWNERS for entry in fields(owner)} - options
    assert others == {"seed"}
    _differ([settings(REQUESTS, MACHINE, [RunOptions(seed=seed)]) for seed in range(3)])
    policies = [[("mine", {"horizon": h})] for h in range(3)]
    _differ([settings(REQUESTS, MACHINE, [RunOptions()], policies=p) for p in policies])


def test_the_gamma_of_a_comparison_is_told() -> None:
    """Two tables of the same labels and other numbers name what differs."""
    plain = compare(DEMO, ["br-0", "br-h"], MACHINE, predictor="oracle")
    given: dict[str, Any] = {"gamma": 0.3, "beta": 2, "threshold": 0}
    other = compare(DEMO, ["br-0", "br-h"], MACHINE, predictor="oracle", **given)
    assert all(part in other.settings for part in (", threshold 0,", ", beta 2,", ", gamma 0.3,"))
    assert not any(word in plain.settings for word in ("threshold", "beta", "gamma"))
    of_0, of_h = (document["options"] for document in other.documents())
    assert (of_0["beta"], of_0["threshold"], "gamma" in of_0) == ("2", 0, False)
    assert (of_h["beta"], of_h["gamma"], of_h["horizon"]) == ("2", "3/10", 20)
    assert plain.documents()[1]["options"]["gamma"] == "43/50"


def test_what_differs_between_the_policies_is_told_with_them() -> None:
    """Look-aheads of two policies the other way round are another comparison."""
    lines = [
        compare(REQUESTS, policies, MACHINE, steps=2).settings
        for policies in (
            ["br-h:horizon=5", "bf-io:horizon=20"],
            ["br-h:horizon=20", "bf-io:horizon=5"],
            ["br-h:gamma=0.5", "bf-io"],
        )
    ]
    assert "look-ahead 5 to 20" in lines[0]
    assert "horizon 5 (br-h:horizon=5), 20 (bf-io:horizon=20)" in lines[0]
    assert "horizon 20 (br-h:horizon=20), 5 (bf-io:horizon=5)" in lines[1]
    assert "gamma 0.5 (br-h:gamma=0.5), 1 (bf-io)" in lines[2]


@pytest.mark.parametrize("policy", built_in())
def test_the_document_of_a_run_names_every_option_it_used(policy: str) -> None:
    """Those of the policy, the energies and the predictor with the values in force."""
    run = simulate(REQUESTS, policy, MACHINE, predictor="none", steps=3)
    options = describe_run(run, energy_model=EnergyModel(parameters=7e10))["options"]
    assert {*choose(policy).in_force()} <= set(options)
    assert options["parameters"] == 7e10
    assert {entry.name for entry in fields(EnergyModel)} <= set(options)
    json.dumps(options)


@pytest.mark.parametrize(
    ("option", "events"),
    [
        ("failures", [(np.float64(1), np.int64(0), "fail"), (2.5, np.int32(0), "recover")]),
        ("failures", np.array([(1.0, 0, "fail"), (2.5, 0, "recover")], dtype=object)),
        ("stragglers", [(np.float32(1), np.int64(0), np.float64(2))]),
        ("cancellations", np.array([[10**6, 3]])),
    ],
)
def test_events_of_numpy_become_a_document(option: str, events: Any) -> None:
    """With the numbers that they hold."""
    arrivals = {"arrivals": "timed"} if option == "cancellations" else {}
    run = simulate(REQUESTS, "fcfs", MACHINE, **{option: events}, **arrivals)
    told = json.loads(json.dumps(describe_run(run)))["options"][option]
    assert told == [list(event) for event in events]


def test_options_of_predictors_are_in_the_document() -> None:
    """With their defaults, also where the policy is a function."""
    run = simulate(REQUESTS, "br-h", MACHINE, predictor="survival:refit=5")
    told = describe_run(run)["options"]["predictor_options"]
    assert told["refit"] == 5
    assert set(told) > {"refit"}
    own = simulate(REQUESTS, _first_free, MACHINE, predictor="noisy-oracle:0.25", horizon=3)
    assert describe_run(own)["options"]["predictor_options"]["error"] == "1/4"


def test_the_document_of_a_command_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    """``simulate`` and ``gap``; energies as well."""
    small = ["--requests", "30", "--workers", "2", "--slots", "4", "--json"]
    assert (
        main(["simulate", "--policy", "br-h", "--gamma", "0.3", "--params", "7e10", *small]) == 0
    )
    options = json.loads(capsys.readouterr().out)["options"]
    assert (options["gamma"], options["parameters"], options["threshold"]) == ("3/10", 7e10, 7)
    command = ["gap", "--policy", "br-h", "--beta", "3", "--objective", "gap", "--no-plots"]
    assert main([*command, *small]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["run_options"]["beta"], document["objective"]) == ("3", "gap")


def _first_free(state: DecodeState) -> list[int | None]:
    free = state.free_slots.tolist()
    answer: list[int | None] = []
    for _ in range(state.num_waiting):
        answer.append(next((g for g, slots in enumerate(free) if slots), None))
        if answer[-1] is not None:
            free[answer[-1]] -= 1
    return answer


@pytest.mark.parametrize(
    "policy", ["bf-io", "br-h", "rolling-horizon", "pending-prefill", "adaptive"]
)
def test_a_look_ahead_given_to_a_run_is_that_of_its_policy(policy: str) -> None:
    """As if it were its own option, which goes before it; both are in the record."""
    given: dict[str, Any] = {"predictor": "oracle", "steps": 200}
    for horizon in (0, 50):
        by_run = simulate(FEW, policy, MACHINE, horizon=horizon, **given)
        own = simulate(FEW, f"{policy}:horizon={horizon}", MACHINE, **given)
        assert np.array_equal(by_run.worker, own.worker)
        assert np.array_equal(by_run.start_step, own.start_step)
        assert by_run.policy_options["horizon"] == own.policy_options["horizon"] == horizon
    text = f"{policy}:horizon=7"
    both = simulate(FEW, text, MACHINE, horizon=3, **given)
    assert both.policy_options["horizon"] == 7
    (compared,) = compare(FEW, text, MACHINE, horizon=3, **given).runs
    assert np.array_equal(compared.worker, both.worker)


def test_the_usual_look_ahead_is_that_of_the_policy() -> None:
    """Where nothing says another one; 0 is one."""
    steps = [simulate(FEW, "br-h", MACHINE, steps=5, horizon=h).policy_options for h in (None, 0)]
    assert [options["horizon"] for options in steps] == [20, 0]


def test_a_look_ahead_given_to_a_gap_is_that_of_its_program() -> None:
    """As that of an observer; BR-0 itself does not look ahead."""
    found = [
        measure_gap(FEW, "br-0", MACHINE, predictor="oracle", horizon=20),
        measure_gap(FEW, "br-0", MACHINE, predictor="oracle", observer=GapObserver(horizon=20)),
        measure_gap(FEW, "br-0", MACHINE, predictor="oracle"),
    ]
    costs = [[row.objective for row in report.rows] for report in found]
    assert costs[0] == costs[1] != costs[2]


class _Starts:
    """Keeps what each step started."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int], list[int]]] = []

    def on_step(self, view: Any) -> None:
        """Keep a step."""
        self.seen.append((view.step, view.admitted.tolist(), view.loads.tolist()))


@pytest.mark.parametrize(("policy", "predictor"), pairs(POLICIES, PREDICTORS))
def test_a_gap_measures_the_run_that_there_is_without_it(policy: str, predictor: str) -> None:
    """Whatever the look-ahead of its program, steps start and hold the same."""
    seen = []
    for horizon in (None, 0, 12):
        starts = _Starts()
        given: dict[str, Any] = {"predictor": predictor, "observers": [starts], "steps": 150}
        if horizon is None:
            simulate(FEW, policy, MACHINE, engine="reference", **given)
        else:
            gaps = GapObserver(horizon=horizon, every=50)
            measure_gap(FEW, policy, MACHINE, observer=gaps, **given)
        seen.append(starts.seen)
    assert seen[0] == seen[1] == seen[2]


def test_a_gap_of_a_policy_that_lets_the_clock_jump() -> None:
    """Answers after which nothing runs are given again, too."""

    class Hesitating:
        """Starts no request when it is first queried about a single request."""

        def __init__(self) -> None:
            self.asked = 0

        def __call__(self, state: DecodeState) -> list[int | None]:
            self.asked += 1
            hesitates = state.num_waiting == 1 and self.asked % 2 == 1
            return [None] if hesitates else _first_free(state)

    late = workload([5, 6, 7, 8], [1, 1, 2, 1], ["0", "50", "100", "101"])

    def rows(horizon: int) -> GapReport:
        gaps = GapObserver(horizon=horizon)
        return measure_gap(late, Hesitating(), Cluster(2, 2), observer=gaps, arrivals="timed")

    near, far = rows(0), rows(2)
    assert [(row.step, row.admitted) for row in near.rows] == [
        (row.step, row.admitted) for row in far.rows
    ]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("fcfs:gamma=0.3:horizon=9", "policy fcfs:gamma=0.3:horizon=9: gamma: fcfs reads no suc"),
        ("bf-io:slack=500", "policy bf-io:slack=500: slack: changes nothing without second"),
        ("adaptive:gamma=0.3:beta=3", "gamma: adaptive reads no such option; .*: bf-io, br-h"),
        ("br-h:gama=0.3", "policy br-h:gama=0.3: gama: unknown option; did you mean gamma"),
        ("fcfs:gama=0.3", "policy fcfs:gama=0.3: gama: unknown option; fcfs has none"),
    ],
)
def test_an_option_of_a_policy_that_nothing_reads_is_refused(policy: str, message: str) -> None:
    """In Python and in studies as in commands."""
    arguments = {"synthetic": "demo", "workers": 2, "slots": 3, "policy": policy}
    for ask in (
        lambda: simulate(REQUESTS, policy, MACHINE),
        lambda: compare(REQUESTS, ["br-0", policy], MACHINE),
        lambda: measure_gap(REQUESTS, policy, MACHINE),
        lambda: kinds.find("simulate").planned(arguments, RowContext(Path())),
    ):
        with pytest.raises(InputError, match=message):
            ask()


def test_an_option_of_all_policies_that_none_reads_is_refused() -> None:
    """One that some policy reads is not."""
    given: dict[str, Any] = {"gamma": "0.3"}
    message = (
        "gamma: {} no such option; leave it out, or add a policy with this option: bf-io, br-h"
    )
    with pytest.raises(InputError, match=message.format("fcfs reads")):
        simulate(REQUESTS, "fcfs", MACHINE, **given)
    with pytest.raises(InputError, match=message.format("fcfs, br-0 read")):
        compare(REQUESTS, ["fcfs", "br-0"], MACHINE, **given)
    assert len(compare(REQUESTS, ["fcfs", "br-h"], MACHINE, **given).runs) == 2


@pytest.mark.parametrize("policy", ["br-0", "br-h"])
@pytest.mark.parametrize("option", ["max_wait=5", "threshold=3", "candidates=4", "key=product"])
def test_an_option_without_effect_where_requests_are_bound_is_refused(
    policy: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name and flag alike; pooled dispatch reads it, and so may another policy."""
    name, value = option.split("=")
    message = "changes nothing without dispatch=pooled; leave it out, or give dispatch=pooled"
    with pytest.raises(InputError, match=message):
        simulate(REQUESTS, f"{policy}:{option}", MACHINE, dispatch="immediate")
    assert simulate(REQUESTS, f"{policy}:{option}", MACHINE).is_drained
    flags = [f"--{name.replace('_', '-')}", value, "--dispatch", "immediate", "--requests", "9"]
    assert main(["simulate", "--policy", policy, *flags]) == 2
    in_flags = message.replace("dispatch=pooled", "--dispatch pooled")
    assert in_flags in capsys.readouterr().err


def test_names_of_options_do_not_clash() -> None:
    """One of a policy would hide one of the run in documents."""
    names = [name for owner in OWNERS for name in names_of(owner)] + [*all_options()]
    assert len(names) == len(set(names))


def test_an_option_of_several_policies_is_written_alike() -> None:
    """It is one flag of commands and one argument of studies."""
    for tables in all_options().values():
        first, *others = tables.values()
        assert all((o.kind.types, o.metavar) == (first.kind.types, first.metavar) for o in others)
