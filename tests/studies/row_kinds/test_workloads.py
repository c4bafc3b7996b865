"""The requests of a row, and digests that distinguish them."""

import os
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfio.cli.options import workload_from
from bfio.studies import kinds
from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    chosen_workload,
    workload_choice,
)
from bfio.workloads.synthetic_workloads import synthetic
from bfio.workloads.workload import Workload

Requests = Callable[..., Workload]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten requests: prompts 10..19, outputs 1..10, one every half second from 3 s on."""
    path = tmp_path / "ten.csv"
    lines = [f"{3 + i / 2},{10 + i},{1 + i}" for i in range(10)]
    path.write_text("\n".join(["arrival_time_s,prompt_tokens,output_tokens", *lines]) + "\n")
    return path


@pytest.fixture
def requests(trace: Path) -> Requests:
    """Return the requests that the arguments select, with the trace above available."""

    def choose(**arguments: Any) -> Workload:
        given = Arguments(arguments, WORKLOAD_ARGUMENTS)
        return chosen_workload(workload_choice(given, 6, RowContext(trace.parent)))

    return choose


def _instance(folder: Path, **arguments: Any) -> str:
    return kinds.find("simulate").instance({"policy": "fcfs", **arguments}, RowContext(folder))


def test_a_window_is_a_part_in_order(requests: Requests) -> None:
    """Three windows of ten requests: 3, 3 and 4; times count from the first of each."""
    parts = [requests(trace="ten.csv", window=k, windows=3) for k in range(3)]
    assert [part.prompt_tokens.tolist() for part in parts] == [
        [10, 11, 12], [13, 14, 15], [16, 17, 18, 19],
    ]  # fmt: skip
    assert [float(part.arrival_times[0]) for part in parts if part.arrival_times] == [0.0] * 3
    assert float((parts[2].arrival_times or ())[3]) == 1.5


@pytest.mark.parametrize("share", [None, "1/2", "3/10"])
@pytest.mark.parametrize(
    "law", [None, "poisson:rate=9", "diurnal:rate=9:amplitude=0.8:period_s=3"]
)
def test_a_command_draws_the_same_requests(
    requests: Requests, trace: Path, share: str | None, law: str | None
) -> None:
    """Arrivals are drawn for those that are run, after the past is cut off, through both doors."""
    given = {"train_share": share, "arrival_law": law}
    found = requests(trace="ten.csv", seed=3, **{k: v for k, v in given.items() if v is not None})
    source = {"trace": str(trace), "synthetic": None, "requests": None, "seed": 3}
    reading = {"columns": None, "skip_bad_rows": False}
    asked = workload_from(Namespace(**source, **reading, **given))
    assert asked.prompt_tokens.tolist() == found.prompt_tokens.tolist()
    assert asked.arrival_times == found.arrival_times
    pasts = [None if w.history is None else w.history.arrival_times for w in (asked, found)]
    assert pasts[0] == pasts[1]


def test_requests_cuts_after_the_window(requests: Requests) -> None:
    """The first two of the second half."""
    found = requests(trace="ten.csv", window=1, windows=2, requests=2)
    assert found.prompt_tokens.tolist() == [15, 16]


def test_resampling_keeps_each_prompt_with_its_output(requests: Requests) -> None:
    """With replacement, as many as asked for; without arrival times."""
    found = requests(trace="ten.csv", resample=True, requests=50, seed=3)
    assert len(found) == 50
    assert (found.prompt_tokens - found.output_tokens == 9).all()
    assert found.arrival_times is None
    again = requests(trace="ten.csv", resample=True, requests=50, seed=3)
    other = requests(trace="ten.csv", resample=True, requests=50, seed=4)
    assert found.prompt_tokens.tolist() == again.prompt_tokens.tolist()
    assert found.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_shuffled_outputs_are_those_of_the_trace(requests: Requests) -> None:
    """Prompts and times stay, outputs are permuted by the seed, past and run together."""
    found = requests(trace="ten.csv", shuffle_outputs=True, train_share="1/2", seed=3)
    assert found.history is not None
    assert found.prompt_tokens.tolist() == [15, 16, 17, 18, 19]
    outputs = [*found.history.output_tokens.tolist(), *found.output_tokens.tolist()]
    assert sorted(outputs) == list(range(1, 11))
    assert outputs != list(range(1, 11))
    other = requests(trace="ten.csv", shuffle_outputs=True, train_share="1/2", seed=4)
    assert found.output_tokens.tolist() != other.output_tokens.tolist()


def test_resampling_without_a_number_draws_as_many_as_there_are(requests: Requests) -> None:
    """A window of 3 gives 3, all of that window."""
    found = requests(trace="ten.csv", window=0, windows=3, resample=True)
    assert len(found) == 3
    assert set(found.prompt_tokens.tolist()) <= {10, 11, 12}


def test_the_mean_output_is_set_before_the_window_is_cut(requests: Requests) -> None:
    """Outputs 1..10 (mean 5.5) to mean 11: doubled, whatever the window."""
    found = requests(trace="ten.csv", output_mean=11, window=1, windows=2)
    assert found.output_tokens.tolist() == [12, 14, 16, 18, 20]


def test_a_synthetic_workload_is_that_of_the_command(requests: Requests) -> None:
    """The same requests as ``bfio simulate --synthetic NAME --seed N``."""
    found = requests(synthetic="demo", requests=30, seed=5)
    assert found.prompt_tokens.tolist() == synthetic("demo", 30, 5).prompt_tokens.tolist()
    assert found.arrival_times == synthetic("demo", 30, 5).arrival_times


def test_a_law_draws_requests_per_slot(requests: Requests) -> None:
    """Four for each of the 6 slots, from the laws named."""
    found = requests(
        prompts="uniform:lowest=3:highest=4",
        outputs="homogeneous:value=7",
        requests_per_slot=4,
    )
    assert len(found) == 24
    assert set(found.prompt_tokens.tolist()) == {3, 4}
    assert set(found.output_tokens.tolist()) == {7}


def test_the_mean_of_a_law_may_be_an_argument_of_its_own(requests: Requests) -> None:
    """So that it can be an axis of numbers: the same requests as with both in one text."""
    split = requests(prompts="homogeneous:value=1", outputs="geometric", output_mean=9)
    whole = requests(prompts="homogeneous:value=1", outputs="geometric:mean=9")
    assert split.output_tokens.tolist() == whole.output_tokens.tolist()


def test_requests_do_not_repeat_what_a_random_policy_draws(requests: Requests) -> None:
    """Their stream is another one than that of a generator with the same seed.

    A random policy draws from the latter: drawn from one stream, the k-th request of a uniform
    law and its worker would be one number, scaled twice.
    """
    found = requests(
        prompts="uniform:lowest=1:highest=1000", outputs="homogeneous:value=1", requests=4000
    )
    workers = np.random.default_rng(0).integers(0, 16, 4000)
    correlation = np.corrcoef(found.prompt_tokens, workers)[0, 1]
    assert abs(correlation) < 0.08
    naive = np.random.default_rng(0).integers(1, 1000, 4000, endpoint=True)
    assert np.corrcoef(naive, workers)[0, 1] > 0.9


def test_the_digest_tells_requests_apart(trace: Path) -> None:
    """Whatever changes the requests changes it; what leaves them alone does not."""
    folder = trace.parent
    whole = _instance(folder, trace="ten.csv")
    others = [
        _instance(folder, trace="ten.csv", **change)
        for change in (
            {"requests": 9},
            {"window": 0, "windows": 2},
            {"output_mean": 6},
            {"resample": True},
            {"resample": True, "seed": 1},
        )
    ]
    assert len({whole, *others}) == 6
    assert _instance(folder, trace="ten.csv", requests=10) == whole
    assert _instance(folder, trace="ten.csv", workers=3, policy="br-0", seed=4) == whole


def test_arrival_times_are_part_of_the_digest(tmp_path: Path) -> None:
    """Equal lengths, other times."""
    header = "arrival_time_s,prompt_tokens,output_tokens\n"
    (tmp_path / "a.csv").write_text(f"{header}0,5,5\n1,5,5\n")
    (tmp_path / "b.csv").write_text(f"{header}0,5,5\n2,5,5\n")
    (tmp_path / "c.csv").write_text(f"{header},5,5\n,5,5\n")
    digests = {_instance(tmp_path, trace=f"{name}.csv") for name in "abc"}
    assert len(digests) == 3


def test_a_changed_file_is_read_again(trace: Path) -> None:
    """A cache that went by the name alone would keep the old digest."""
    before = _instance(trace.parent, trace="ten.csv")
    trace.write_text("arrival_time_s,prompt_tokens,output_tokens\n0,1,1\n")
    os.utime(trace, ns=(1, 1))
    assert _instance(trace.parent, trace="ten.csv") != before


def test_the_source_of_a_users_policy_is_part_of_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toolkit's own version does not cover it: an edited policy makes other rows."""
    monkeypatch.chdir(tmp_path)
    text = "def refuse(state):\n    return [None] * state.num_waiting\n"
    common = {"synthetic": "demo", "requests": 5}
    (tmp_path / "policy_before.py").write_text(text)
    (tmp_path / "policy_after.py").write_text(f"{text}# edited\n")
    before = _instance(tmp_path, **{**common, "policy": "policy_before:refuse"})
    after = _instance(tmp_path, **{**common, "policy": "policy_after:refuse"})
    assert len({before, after, _instance(tmp_path, **common)}) == 3


def test_hundreds_of_rows_are_planned_in_a_second(trace: Path) -> None:
    """Each row is checked in full; its requests are read or drawn once."""
    began = time.process_time()
    for row in range(600):
        _instance(
            trace.parent,
            trace="ten.csv",
            window=row % 10,
            windows=10,
            policy=("fcfs", "br-0", "bf-io:horizon=20")[row % 3],
            seed=row,
        )
    assert time.process_time() - began < 1.5
