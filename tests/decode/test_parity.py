"""Every option through every interface: the same run and the same record, or the same refusal.

The interfaces are the command line, a keyword of `simulate`, the text after the policy's name, and
a row of a study. All declared options are tested, with values far from the default.
"""

import contextlib
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import settings

from bfio.cli.command import OneLineParser
from bfio.cli.commands.simulate import COMMAND
from bfio.cli.options import energy_from
from bfio.common.options import flag, from_mapping, names_of, options_of
from bfio.decode import simulation
from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import METRICS
from bfio.decode.observers import StepView
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import all_options
from bfio.decode.run import Run
from bfio.decode.state import DecodeState
from bfio.studies import kinds
from bfio.studies.row import RowContext, RowResult
from bfio.workloads import Workload, read_trace
from formulations.errors import InputError
from tests.decode.option_samples import Sample, policy_samples, run_samples

TRACE = "trace.jsonl"
#: Arguments of every run: steps of seconds, so that what is drawn happens within a run.
COMMON: dict[str, Any] = {"workers": 2, "slots": 3, "step_overhead": 0.5}
POLICY_SAMPLES = {str(sample): sample for sample in policy_samples()}
RUN_SAMPLES = {str(sample): sample for sample in run_samples()}
#: Metrics that a clock tells.
_TIMES = {"wall_s", "decide_s"}
#: What a policy says of itself that a clock tells.
_CLOCKS = {"solve_s", "max_solve_s", "second_s", "max_second_s"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with requests of many sizes, some of which begin alike."""
    rng = np.random.default_rng(5)
    lines = []
    for i in range(24):
        prompt, output = int(rng.integers(1, 2000)), int(rng.integers(1, 14))
        turns = np.cumsum(
            3 ** np.arange(-(-prompt // 512)) * rng.integers(1, 3, -(-prompt // 512))
        )
        row = {"timestamp": 900 * i, "input_length": prompt, "output_length": output}
        lines.append(json.dumps(row | {"hash_ids": np.cumsum(turns).tolist()}))
    made = tmp_path_factory.mktemp("parity")
    (made / "trace.jsonl").write_text("\n".join(lines))
    return made


@contextmanager
def recorded() -> Iterator[list[Run]]:
    """Record all runs, from every interface."""
    runs: list[Run] = []
    original = simulation._run  # noqa: SLF001

    def record(*args: Any) -> Run:
        runs.append(original(*args))
        return runs[-1]

    with patch.object(simulation, "_run", record):
        yield runs


@dataclass(frozen=True)
class Answer:
    """What comes of a run: what happened in it and how it was made, or why it is refused."""

    events: str = ""
    made: str = ""
    told: str = ""
    metrics: str = ""
    refusal: tuple[str, ...] = ()


def answer(
    run: Run, energy: EnergyModel, told: dict[str, Any], values: Mapping[str, Any]
) -> Answer:
    """Return what came of a run, its documented options, and its metrics."""
    said = {name: value for name, value in run.statistics.items() if name not in _CLOCKS}
    arrays = (run.start_step, run.finish_step, run.worker, run.start_s, run.loads)
    digest = hashlib.sha256(json.dumps(said, default=str, sort_keys=True).encode())
    for array in arrays:
        assert array is not None
        digest.update(array.tobytes())
    made = (run.cluster, run.options, energy, run.policy_options, run.predictor_options)
    metrics = {entry.name: values[entry.name] for entry in METRICS if entry.name not in _TIMES}
    return Answer(digest.hexdigest(), repr(made), json.dumps(told), json.dumps(metrics))


def parts(given: dict[str, Any]) -> tuple[Cluster, RunOptions, EnergyModel, dict[str, Any]]:
    """Return what arguments by the names that users write come to in Python."""
    owners = [from_mapping(owner, given) for owner in (Cluster, RunOptions, EnergyModel)]
    names = names_of(Cluster, RunOptions, EnergyModel)
    return *owners, {n: v for n, v in given.items() if n not in names}  # type: ignore[return-value]


def by_command(folder: Path, engine: str, policy: str, given: dict[str, Any]) -> Answer:
    """Run it with flags."""
    words = ["--trace", str(folder / TRACE), "--policy", policy, "--engine", engine, "--json"]
    words += [word for name, value in given.items() for word in (flag(name), str(value))]
    parser, out = OneLineParser(), io.StringIO()
    COMMAND.add_arguments(parser)
    args = parser.parse_args(words)
    with recorded() as runs, contextlib.redirect_stdout(out):
        COMMAND.run(args)
    document = json.loads(out.getvalue())
    return answer(runs[0], energy_from(args), document["options"], document)


@cache
def _requests(folder: Path) -> Workload:
    return read_trace(folder / TRACE)


def by_keyword(folder: Path, engine: str, policy: str, given: dict[str, Any]) -> Answer:
    """Run it with keywords."""
    cluster, options, energy, others = parts(given)
    named = {e.field: getattr(options, e.field) for e in options_of(RunOptions)}
    load = _requests(folder)
    with recorded() as runs:
        run = simulation.simulate(load, policy, cluster, engine=engine, **named, **others)
    document = simulation.describe_run(run, energy_model=energy)
    return answer(runs[0], energy, document["options"], document)


def by_text(folder: Path, engine: str, policy: str, given: dict[str, Any]) -> Answer:
    """Run it with the options of the policy behind its name."""
    behind = {name: value for name, value in given.items() if name in all_options()}
    text = ":".join([policy, *(f"{name}={value}" for name, value in behind.items())])
    rest = {name: value for name, value in given.items() if name not in behind}
    return by_keyword(folder, engine, text, rest)


def by_row(folder: Path, engine: str, policy: str, given: dict[str, Any]) -> Answer:
    """Run it as a row of a study."""
    arguments = given | {"trace": TRACE, "policy": policy, "engine": engine}
    planned = kinds.find("simulate").planned(arguments, RowContext(folder))
    for error in planned.unread.values():
        raise error
    with recorded() as runs:
        row = planned.compute()
    assert isinstance(row, RowResult)
    energy = from_mapping(EnergyModel, given)
    document = simulation.describe_run(runs[0], energy_model=energy)
    return answer(runs[0], energy, document["options"], row.values)


Door = Callable[[Path, str, str, dict[str, Any]], Answer]


def found_by(door: Door, folder: Path, engine: str, policy: str, given: dict[str, Any]) -> Answer:
    """Return what comes of a run; a refusal is the same line for every interface."""
    try:
        return door(folder, engine, policy, given)
    except InputError as error:
        return Answer(refusal=(error.what, error.remedy))


@cache
def _usual(folder: Path, policy: str, common: str) -> Answer:
    """Return what comes of a run without the option; many options have the same one."""
    return found_by(by_keyword, folder, "reference", policy, json.loads(common))


def reach(folder: Path, sample: Sample, common: dict[str, Any]) -> None:
    """Check that an option changes a run, equally at every interface and on each engine.

    The engine is an option itself, so the compiled one is tested at one interface. Beside the
    keyword each option goes through one other interface; in the deep profile through all.
    """
    doors: list[Door] = [by_command, by_text, by_row]
    if settings().max_examples < 100:
        doors = [doors[[*POLICY_SAMPLES, *RUN_SAMPLES].index(str(sample)) % len(doors)]]
    usual = _usual(folder, sample.policy, json.dumps(common))
    assert usual.refusal == ()
    for value in reversed(sample.values):
        given = common | {sample.name: value}
        found = found_by(by_keyword, folder, "reference", sample.policy, given)
        assert found.refusal == ()
        assert found.made != usual.made
        assert found.told != usual.told
        if found.events != usual.events or found.metrics != usual.metrics:
            for door in doors:
                assert found_by(door, folder, "reference", sample.policy, given) == found
            compiled = found_by(by_keyword, folder, "compiled", sample.policy, given)
            assert compiled.refusal or compiled.events == found.events
            return
    pytest.fail(f"{sample} changes nothing")


@pytest.mark.parametrize("sample", POLICY_SAMPLES.values(), ids=POLICY_SAMPLES)
def test_an_option_of_a_policy(sample: Sample, folder: Path) -> None:
    """Every option of every policy, those of the policy that routes for another included."""
    reach(folder, sample, {"pool": 9} | _made_for(sample))


@pytest.mark.parametrize("sample", RUN_SAMPLES.values(), ids=RUN_SAMPLES)
def test_an_option_of_a_run(sample: Sample, folder: Path) -> None:
    """Every option of machine, energies and runs."""
    reach(folder, sample, _made_for(sample))


def _made_for(sample: Sample) -> dict[str, Any]:
    """Return arguments with which an option changes a run."""
    made = COMMON | sample.beside | _MADE_FOR.get(sample.name, {}) | _MADE_FOR.get(str(sample), {})
    return {name: value for name, value in made.items() if name != sample.name}


#: Ends that a window shows.
_SEES: dict[str, Any] = {"predictor": "oracle", "projection": "growing"}
#: What lets an option change a run.
_MADE_FOR: dict[str, dict[str, Any]] = {
    "horizon": _SEES,
    "gamma": _SEES | {"horizon": 6},
    "key": {"slots": 6},
    "bf-io.key": _SEES | {"dispatch": "immediate", "pool": 4, "slots": 2},
    "bf-io.threshold": _SEES | {"dispatch": "immediate"},
    "br-h.key": _SEES,
    "br-h.alpha": {"beta": "3"},
    "pending-prefill.horizon": {"pool": 1, "workers": 3},
    "prefix-affinity.max_load_skew": {"prefix_cache": 10_240, "workers": 4},
    "max_pauses": {"token_time": 1e-3, "step_overhead": 0.01},
    "failures": {"step_overhead": 20},
    "stragglers": {"step_overhead": 20},
    "projection": {"predictor": "oracle", "window_knows": "all"},
    "window_knows": _SEES,
    "ties": {"workers": 5},
    "overflow": {"memory": 2600, "slots": 9, "drift": "40"},
    "swap_time": {"memory": 2600, "slots": 9, "drift": "40", "overflow": "swap"},
}


class _Columns:
    """Keeps how many columns of the window policies are shown."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def on_step(self, view: StepView) -> None:
        """Look at the state that the policy saw."""
        if view.state is not None:
            self.seen.add(view.state.projected_loads.shape[1])


@pytest.mark.parametrize("policy", all_options()["horizon"])
def test_the_whole_look_ahead_is_read(policy: str) -> None:
    """Short or long, the policy is shown so much and decides by all of it."""
    rng = np.random.default_rng(7)
    load = Workload(rng.integers(1, 90, 60), rng.integers(1, 90, 60))
    fixed: dict[str, Any] = _SEES | {"pool": 1 if policy == "pending-prefill" else 12}
    fixed |= {"gamma": 1} if policy in ("br-h", "bf-io") else {}
    ends = []
    for horizon in (1, 12, 30, 70):
        columns = _Columns()
        run = simulation.simulate(
            load, policy, Cluster(3, 4), horizon=horizon, observers=[columns], **fixed
        )
        assert columns.seen == {horizon + 1}
        assert run.policy_options["horizon"] == horizon
        ends.append((run.worker.tolist(), run.start_step.tolist()))
    assert all(one != other for one, other in combinations(ends, 2))


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("door", [by_command, by_keyword, by_text, by_row])
def test_the_engine_is_the_one_asked_for(door: Door, engine: str, folder: Path) -> None:
    """Of so few requests ``auto`` would interpret them all."""
    with recorded() as runs:
        door(folder, engine, "fcfs", COMMON)
    assert [run.engine for run in runs] == [engine]


def test_a_policy_of_ones_own_records_the_look_ahead_that_it_sees() -> None:
    """Its attribute ``horizon`` is the only place that says so."""

    class Own:
        horizon = 7

        def __call__(self, state: DecodeState) -> list[int | None]:
            assert state.projected_loads.shape[1] == 8
            return [0] * min(int(state.free_slots[0]), state.num_waiting)

    run = simulation.simulate(Workload(np.array([3, 4]), np.array([5, 6])), Own(), Cluster(1, 2))
    assert run.policy_options["horizon"] == 7
