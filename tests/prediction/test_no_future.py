"""No predictor sees the future: lengths of requests that have not finished change no decision."""

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.prediction import registry
from bfio.prediction.predictor import PredictorSpec
from bfio.workloads.synthetic_workloads import synthetic
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray

#: Options with which a predictor is quick, and learns on as requests finish if it can.
OPTIONS = {"learned": "learned:trees=2:refit=25"}
MACHINE = Cluster(3, 3)
REQUESTS = 40


def _load(seed: int) -> Workload:
    """Return requests with short outputs, a few prompts that recur, and keys of these."""
    prompts = synthetic("demo", REQUESTS, seed).prompt_tokens % 7 + 1
    outputs = np.random.default_rng(seed).geometric(1 / 9, REQUESTS)
    return Workload(prompts, outputs, prompt_keys=prompts)


HISTORY = _load(1)


def _specs() -> list[PredictorSpec]:
    found = [registry.find(name) for name in registry.names()]
    return [spec for spec in found if not spec.knows_future]


def _run(load: Workload, predictor: str, knows: str) -> Run:
    return simulate(
        load,
        "br-h:horizon=6",
        MACHINE,
        predictor=predictor,
        history=HISTORY,
        pool=6,
        projection="growing",
        window_knows=knows,
    )


def _with_other_future(load: Workload, run: Run, step: int, seed: int) -> Workload:
    """Redraw the lengths of all requests that have not finished by the end of a step."""
    drawn = np.random.default_rng(seed).geometric(1 / 9, len(load))
    emitted = np.where(run.start_step <= step, step - run.start_step + 1, 0)
    outputs = np.where(run.finish_step <= step, load.output_tokens, emitted + drawn)
    return Workload(load.prompt_tokens, outputs, prompt_keys=load.prompt_keys)


def _decided(run: Run, step: int) -> tuple[IntArray, IntArray]:
    """Return what was decided up to a step: requests started, and their workers."""
    started = np.flatnonzero(run.start_step <= step)
    return started, run.worker[started]


def _decides_alike(predictor: str, knows: str, seed: int, share: float) -> bool:
    load = _load(seed)
    run = _run(load, predictor, knows)
    step = int(share * (run.steps - 1))
    other = _run(_with_other_future(load, run, step, seed + 1), predictor, knows)
    # The next decision knows what has finished by the end of the step, which is the same.
    return all(
        np.array_equal(one, two)
        for one, two in zip(_decided(run, step + 1), _decided(other, step + 1), strict=True)
    )


@pytest.mark.parametrize("spec", _specs(), ids=lambda spec: spec.name)
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), share=st.floats(0, 1), knows=st.sampled_from(["active", "all"]))
def test_lengths_of_the_future_change_no_decision(
    spec: PredictorSpec, seed: int, share: float, knows: str
) -> None:
    """Whatever the step after which they are redrawn."""
    if spec.needs and find_spec(spec.needs) is None:
        pytest.skip(f"{spec.needs} is not installed")
    assert _decides_alike(OPTIONS.get(spec.name, spec.name), knows, seed, share)


def test_an_oracle_is_found_out() -> None:
    """The test can fail: it does for what knows the future."""
    alike = [_decides_alike("oracle", "all", seed, 0.4) for seed in range(8)]
    assert not all(alike)
