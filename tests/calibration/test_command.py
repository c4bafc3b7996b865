"""``bfio fit``: input files, output, and a one-line error for each kind of damage."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bfio as product
from tests.calibration.cases import TRUE, exact_steps
from tests.cli.conftest import Bfio, bfio

__all__ = ["bfio"]

HEAD = "duration_s,load_0,load_1\n"


def _own_loads(folder: Path) -> Path:
    steps = exact_steps()
    assert steps.loads is not None
    table = pd.DataFrame(steps.loads, columns=[f"load_{g}" for g in range(4)])
    table.insert(0, "duration_s", steps.duration_s)
    table.to_csv(folder / "own.csv", index=False)
    return folder / "own.csv"


def test_a_file_of_loads(bfio: Bfio, tmp_path: Path) -> None:
    """Constants, goodness and the arguments to pass on, as text and as JSON; a picture."""
    path = _own_loads(tmp_path)
    done = bfio("fit", str(path), "--plot", "steps.png")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert lines[-2] == "plot: steps.png"
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")
    document = bfio("fit", str(path), "--json", "--per-worker").json
    assert lines[-1] == document["flags"]
    assert document["own"]["flags"].startswith("--workers 4 --step-overhead 0.00488")
    found = [document["constants"][name]["value"] for name in document["constants"]]
    assert found == pytest.approx(TRUE, rel=1e-9)
    assert (document["steps"], document["workers"], document["notes"]) == (300, 4, [])
    assert [w["worker"] for w in document["own"]["workers"]] == [0, 1, 2, 3]


def test_own_constants_in_words(bfio: Bfio) -> None:
    """A line per worker; of the one that is never the slowest a dash and a note."""
    lines = [f"{5e-3 + 1e-7 * peak!r},{peak},7" for peak in range(1000, 3000, 100)]
    Path("steps.csv").write_text("\n".join([HEAD.strip(), *lines]))
    out = bfio("fit", "steps.csv", "--per-worker").out
    assert re.search(r"│ +1 │ +0 │ +– │ +– │", out), out
    assert "note: worker 1: never the slowest in these steps" in out


def test_the_flags_are_taken(bfio: Bfio, tmp_path: Path) -> None:
    """What the fit prints last, the simulator reads."""
    flags = bfio("fit", str(_own_loads(tmp_path))).out.splitlines()[-1].split()
    done = bfio("simulate", "--policy", "fcfs", "--requests", "20", "--json", *flags)
    assert done.status == 0, done.err


def test_the_frame_of_a_run_is_read(bfio: Bfio, tmp_path: Path) -> None:
    """Its total with --workers; another column of durations by its name; other columns too."""
    machine = product.Cluster(workers=3, slots=4, mean_time_s=3e-8)
    run = product.simulate(product.synthetic("demo", 120, seed=1), "fcfs", machine)
    run.to_frame().to_csv("run.csv", index=False)
    document = bfio("fit", "run.csv", "--workers", "3", "--json").json
    assert document["constants"]["mean_time"]["value"] == pytest.approx(3e-8, rel=1e-9)
    run.to_frame().rename(columns={"duration_s": "took"}).to_csv("run.csv", index=False)
    other = bfio("fit", "run.csv", "--workers", "3", "--duration", "took", "--json").json
    assert other["constants"] == document["constants"]
    without = bfio("fit", "run.csv", "--workers", "3", "--duration", "took", "--no-mean", "--json")
    assert without.json["constants"]["mean_time"]["value"] == 0


def test_json_lines_and_a_mean(bfio: Bfio) -> None:
    """The readers of traces unpack and split; numbers may be JSON's own."""
    steps = exact_steps(steps=30)
    assert steps.mean_load is not None
    rows = zip(steps.duration_s, steps.max_load, steps.mean_load, strict=True)
    names = ("duration", "max_load", "mean_load")
    text = "\n".join(json.dumps(dict(zip(names, map(float, row), strict=True))) for row in rows)
    Path("steps.jsonl").write_text(text)
    document = bfio("fit", "steps.jsonl", "--loss", "squares", "--json").json
    assert document["constants"]["step_overhead"]["value"] == pytest.approx(TRUE[0], rel=1e-9)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", (), "is empty"),
        (HEAD, (), "has no row below the header"),
        ("time,load_0\n1,2\n", (), "no column 'duration_s' among 'time', 'load_0'"),
        ("duration_s,load_0\n1,2\n", ("--duration", "took"), "no column 'took'"),
        ("duration_s,mean_load\n1,2\n", (), "no column 'max_load'"),
        ("duration_s,load_0,load_2\n1,2,3\n", (), "no column 'load_1'"),
        ("duration_s,load_00\n1,2\n", (), "no column 'max_load'"),
        ("duration_s,max_load,total_load\n1,2,3\n", (), "add --workers G"),
        ("duration_s,max_load,mean_load\n1,2,2\n", ("--workers", "3"), "omit workers"),
        (HEAD + "0.1,5,6\n0.2,nan,7\n", (), "line 3 column 'load_0': nan, but a load is >= 0"),
        (HEAD + "0.1,5,6\n-0.2,1,7\n", (), "line 3 column 'duration_s': -0.2, but a duration"),
        (HEAD + "0.1,5,6\n0,1,7\n", (), "line 3 column 'duration_s': 0, but a duration is > 0"),
        (HEAD + "0.1,5,6\n0.2,inf,7\n", (), "line 3 column 'load_0': inf"),
        (HEAD + "0.1,5,6\n0.2,5,1e300\n", (), "1e+300, but a load is >= 0 and at most 1e+12"),
        (HEAD + "0.1,5,6\n1e300,5,7\n", (), "at most 1e+06 s"),
        (HEAD + "0.1,5,6\n0.2,,7\n", (), "line 3 column 'load_0': '' is not a number"),
        (HEAD + "0.1,5,6\n0.2,x,7\n", (), "line 3 column 'load_0': 'x' is not a number"),
        (HEAD + "0.1,5,6\n0.2,7\n", (), "line 3: has 2 cells for 3 columns"),
        (HEAD + "0.1,5,6\n0.2,5,6\n", (), "every step has a peak of 6 tokens"),
        (HEAD + "0.1,5,6\n0.2,5,7\n", (), "2 steps for 3 constants"),
        (HEAD + "0.1,5,6\n0.2,5,7\n", ("--loss", "l3"), "--loss: 'l3' is unknown"),
        (HEAD + "0.1,5,6\n0.2,5,7\n", ("--plot", "a.txt"), "--plot: a.txt is not a picture"),
        (HEAD + "0.1,5,6\n0.2,5,7\n", ("--workers", "0"), "workers: 0 is out of range"),
    ],
)
def test_bad_files(bfio: Bfio, content: str, arguments: tuple[str, ...], message: str) -> None:
    """Status 2, nothing on stdout, one line that says where."""
    Path("steps.csv").write_text(content)
    done = bfio("fit", "steps.csv", *arguments)
    assert (done.status, done.out) == (2, "")
    assert re.fullmatch(r"error: .+: .+; .+\n", done.err), done.err
    assert message in done.err


def test_numbers_are_read_to_the_last_bit(bfio: Bfio) -> None:
    """As Python writes them."""
    rng = np.random.default_rng(0)
    durations, loads = rng.random(500) + 0.1, rng.uniform(0, 1e6, (500, 2))
    rows = np.column_stack([durations, loads])
    text = "\n".join(",".join(map(repr, row)) for row in rows.tolist())
    Path("steps.csv").write_text(HEAD + text)
    from bfio.calibration.measurements import read_steps

    found = read_steps("steps.csv")
    assert np.array_equal(found.duration_s, durations)
    assert found.loads is not None
    assert np.array_equal(found.loads, loads)


def test_a_number_of_workers_that_the_file_does_not_have(bfio: Bfio) -> None:
    """The columns say how many there are."""
    Path("steps.csv").write_text(HEAD + "1,2,1\n2,4,3\n3,6,4\n")
    done = bfio("fit", "steps.csv", "--workers", "3")
    assert done.status == 2
    assert "has the loads of 2 workers, not of 3" in done.err
