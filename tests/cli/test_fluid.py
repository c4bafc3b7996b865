"""``bfio fluid``."""

import json
from pathlib import Path
from typing import Any

import pytest

from formulations.thresholds import conditions
from tests.cli.conftest import Bfio

I0: dict[str, Any] = {
    "classes": [
        {"rate": 1, "prompt": 1, "output": 1},
        {"rate": 1, "prompt": 1, "output": 2},
    ],
    "d0": 0.5,
    "d1": "1/18",
    "memory": 9,
}


def _write(folder: Path, **change: object) -> str:
    path = folder / "load.json"
    path.write_text(json.dumps(I0 | change))
    return str(path)


def test_the_golden_instance(bfio: Bfio, tmp_path: Path) -> None:
    """Equilibrium, thresholds and prices of I0, exactly."""
    done = bfio("fluid", _write(tmp_path), "--json")
    answer = done.json
    assert (done.status, answer["feasible"], answer["verdict"]) == (0, True, "critical")
    assert (answer["memory"], answer["equilibrium_memory"]) == (9, 9)
    assert (answer["iteration_time"], answer["load"]) == (1, 0.5)
    assert (answer["throughput"], answer["decode_throughput"]) == (5, 3)
    assert answer["admitted"] == [1, 1]
    assert (answer["thresholds"], answer["thresholds_strict"]) == ([1, 1], [2, 2])
    assert (answer["thresholds_fit"], answer["thresholds_strict_fit"]) == (True, False)
    assert answer["duals"] == {"memory": 0, "memory_below": 0.25, "work": 0, "rates": [0.5, 0]}
    assert answer["exact"]["load"] == "1/2"


def test_little_memory(bfio: Bfio, tmp_path: Path) -> None:
    """C = 4 < M* = 9: memory is full, an iteration lasts 1/2 + 4/18, 85/26 stages per second."""
    answer = bfio("fluid", _write(tmp_path, memory=4), "--json").json
    assert (answer["feasible"], answer["verdict"]) == (False, "memory-limited")
    assert (answer["memory"], answer["equilibrium_memory"]) == (4, 9)
    assert answer["exact"]["iteration_time"] == "13/18"
    assert answer["exact"]["throughput"] == "85/26"
    assert answer["admitted"] == [1, pytest.approx(33 / 78)]
    assert answer["duals"]["memory"] == pytest.approx(81 / 169)
    assert answer["thresholds_fit"] is False


def test_an_unstable_load_is_a_verdict(bfio: Bfio, tmp_path: Path) -> None:
    """d1 = 1/9: load 1 exactly. No equilibrium and no thresholds, but a best admission."""
    done = bfio("fluid", _write(tmp_path, d1="1/9"), "--json")
    answer = done.json
    assert (done.status, answer["verdict"], answer["feasible"]) == (0, "unstable", False)
    assert (answer["load"], answer["equilibrium_memory"], answer["thresholds"]) == (1, None, None)
    assert (answer["memory"], answer["thresholds_note"]) == (9, "the load is 1 or more")
    # K = 9/(1/2 + 1) = 6 of the 9 asked: all of class 0 (3) and half of class 1.
    assert answer["admitted"] == [1, 0.5]
    text = bfio("fluid", _write(tmp_path, d1="1/9"))
    assert (text.status, text.out.startswith("unstable: memory 9 of 9")) == (0, True)


def test_service_limits(bfio: Bfio, tmp_path: Path) -> None:
    """ΔT <= 4/5 for class 1: 31/8 stages per second, as tests/formulations/fluid derives."""
    file = _write(tmp_path)
    limited = bfio("fluid", file, "--latency", "2.8", "--json").json["limited"]
    assert limited["exact"] == {"value": "31/8", "admitted_rates": ["1", "5/8"]}
    assert (limited["latency"], limited["ttft"]) == ([2, 2.8], [2, 2])
    text = bfio("fluid", file, "--latency", "1.5").out
    assert "within the limits: throughput 2 stages/s, iteration 0.6 s" in text
    assert "none" in text
    refused = bfio("fluid", file, "--ttft", "1", "--program", "margin", "--write", "load.lp")
    assert (refused.status, "--ttft: program margin has no such limit" in refused.err) == (2, True)


def test_decode_tokens(bfio: Bfio, tmp_path: Path) -> None:
    """In decode tokens both classes of I0 are equally dense, 1/3: the first comes first."""
    answer = bfio("fluid", _write(tmp_path, memory=4), "--objective", "decode", "--json").json
    assert answer["objective"] == "decode"
    assert answer["admitted"] == [1, pytest.approx(33 / 78)]
    # 1 + 2·33/78.
    assert answer["exact"]["decode_throughput"] == "24/13"


def test_several_workers(bfio: Bfio, tmp_path: Path) -> None:
    """Two workers of I0 carry twice its rates; confined to one, half of that."""
    rows = [kind | {"rate": 2} for kind in I0["classes"]]
    free = bfio("fluid", _write(tmp_path, workers=2, classes=rows), "--json").json
    assert (free["verdict"], free["margin"], free["thresholds"]) == ("critical", 1, None)
    assert [w["memory"] for w in free["workers"]] == [9, 9]
    assert free["duals"]["memory"] == [0, 0]
    confined = [kind | {"workers": [1]} for kind in rows]
    done = bfio("fluid", _write(tmp_path, workers=2, classes=confined), "--json")
    assert (done.json["verdict"], done.json["margin"]) == ("memory-limited", 0.5)
    assert done.json["workers"][0]["rates"] == [0, 0]
    assert done.json["termination"] == "optimal"
    text = bfio("fluid", _write(tmp_path, workers=2, classes=confined)).out
    assert "memory 9 of 18 tokens" in text


def test_nested_thresholds(bfio: Bfio, tmp_path: Path) -> None:
    """The spec's example of section 4.6: thresholds, full batch, safety buffer, best segments."""
    lengths = zip(("0.2", "0.4", "0.8", "1.6"), (2, 4, 8, 16), strict=True)
    rows = [{"rate": rate, "prompt": 10, "output": output} for rate, output in lengths]
    name = _write(tmp_path, classes=rows, d0=1, d1="1e-4", memory=2000)
    buffer = ("--nested", "--horizon", "4000", "--probability", "0.05")
    nested = bfio("fluid", name, *buffer, "--json").json["nested"]
    assert (nested["thresholds"], nested["policy_memory"]) == ([4, 4, 4, 3], 1044)
    assert nested["safe_memory"] == 1468
    assert nested["exponents"][:2] == [None, None]
    best = bfio("fluid", name, *buffer, "--segments", "best")
    assert "thresholds 4 up to stage 8, 3 up to stage 16" in best.out
    merged = bfio("fluid", name, "--nested", "--segments", "2", "--json").json["nested"]
    assert merged["boundaries"] == [4, 16]
    assert "safe_memory" not in merged


def test_nested_with_several_prompts(bfio: Bfio, tmp_path: Path) -> None:
    """Classes of one prompt length are a group: l = 1 with l' = (1, 2), l = 2 with l' = 1.

    M = 2·3 + 2·3 + 1·5 = 17, and n_2 = 2 may wait with 2 tokens each.
    """
    rows = [*I0["classes"], {"rate": 1, "prompt": 2, "output": 1}]
    name = _write(tmp_path, classes=rows, d1="1/100", memory=20)
    nested = bfio("fluid", name, "--nested", "--json").json["nested"]
    assert (nested["thresholds"], nested["boundaries"]) == ([2, 2, 1], [1, 2, 1])
    assert (nested["policy_memory"], nested["fit"]) == (17, True)
    assert [row["thresholds"] for row in nested["groups"]] == [[2, 2], [1]]
    safe = ("--nested", "--horizon", "10", "--probability", "0.1")
    buffered = bfio("fluid", name, *safe, "--json").json["nested"]
    assert (buffered["safe_memory"], buffered["fit"]) == (21, False)
    assert [row["safe_memory"] for row in buffered["groups"]] == [16, 5]
    text = bfio("fluid", name, *safe).out
    assert "prompt 1: thresholds 2 up to stage 1, 2 up to stage 2" in text
    assert "prompt 2: thresholds 1 up to stage 1" in text
    best = bfio("fluid", name, *safe, "--segments", "best", "--json").json["nested"]
    assert best["boundaries"] == [2, 1]


def test_nested_and_unstable(bfio: Bfio, tmp_path: Path) -> None:
    """Load 1: stated, with or without a buffer."""
    name = _write(tmp_path, d1="1/9")
    done = bfio("fluid", name, "--nested", "--horizon", "10", "--probability", "0.1")
    assert "Nested WAIT: infeasible, load 1" in done.out
    assert done.status == 0


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"d0": 0}, (), "d0: 0 is not allowed for a rate or time"),
        ({"classes": [{"rate": 0, "prompt": 1, "output": 1}]}, (), "classes[0].rate: 0"),
        ({}, ("--objective", "profit"), "'profit' is unknown"),
        ({}, ("--segments", "2"), "--segments has no effect without --nested"),
        ({}, ("--segments", ""), "--segments has no effect without --nested"),
        ({}, ("--nested", "--horizon", "2"), "--horizon and --probability need each other"),
        (
            {},
            ("--nested", "--segments", "best"),
            "--segments best needs --horizon and --probability",
        ),
        ({}, ("--nested", "--segments", "two"), "'two' is not a number"),
        ({}, ("--nested", "--segments", "0"), "segments: 0"),
        ({}, ("--nested", "--horizon", "2", "--probability", "2"), "probability: 2"),
        (
            {"classes": I0["classes"][::-1]},
            ("--nested",),
            "classes[1].output: 1 does not exceed 2",
        ),
        ({"workers": 2}, ("--nested",), "workers: found 2"),
    ],
)
def test_bad_input(
    bfio: Bfio,
    tmp_path: Path,
    change: dict[str, object],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """One line on stderr that names the place; status 2."""
    done = bfio("fluid", _write(tmp_path, **change), *arguments, "--json")
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_a_missing_file(bfio: Bfio) -> None:
    """The file is named."""
    done = bfio("fluid", "nowhere.json")
    assert (done.status, "nowhere.json" in done.err) == (2, True)


def test_a_full_batch_beyond_the_memory_is_told(bfio: Bfio, tmp_path: Path) -> None:
    """I0, C = 9: a full batch is 3 + 6 = 9 tokens for (1, 1), 18 for (2, 2)."""
    text = bfio("fluid", _write(tmp_path)).out
    assert "threshold: a full batch needs 9 tokens, which fits the memory of 9" in text
    assert "strict: a full batch needs 18 tokens, which does not fit the memory of 9" in text


def test_no_thresholds_are_explained(bfio: Bfio, tmp_path: Path) -> None:
    """Load 1, and several workers: the text says what thresholds_note does."""
    assert (
        "threshold, strict: none, the load is 1" in bfio("fluid", _write(tmp_path, d1="1/9")).out
    )
    several = bfio("fluid", _write(tmp_path, workers=2)).out
    assert "threshold, strict: none, thresholds are defined for one worker" in several


def test_a_request_beyond_every_memory_is_noted(bfio: Bfio, tmp_path: Path) -> None:
    """C = 20: prompt 40 with output 1 ends with 41 tokens; prompt 19 with output 1 just fits."""
    rows: list[dict[str, Any]] = [
        {"rate": 1, "prompt": prompt, "output": 1} for prompt in (40, 19, 20)
    ]
    name = _write(tmp_path, classes=rows, memory=20)
    first, second = bfio("fluid", name, "--json").json["notes"]
    assert first.startswith("class 0: one request needs 41 tokens")
    assert second.startswith("class 2: one request needs 21 tokens")
    assert f"note: {first}" in bfio("fluid", name).out
    # Worker 1 holds class 0, but only worker 0 is open to class 2.
    rows[2]["workers"] = [0]
    mixed = _write(tmp_path, classes=rows, memory=20, workers=[{}, {"memory": 41}])
    (note,) = bfio("fluid", mixed, "--json").json["notes"]
    assert note.startswith("class 2: one request needs 21 tokens")
    assert bfio("fluid", _write(tmp_path), "--json").json["notes"] == []


def test_many_notes_are_cut_in_the_text(bfio: Bfio, tmp_path: Path) -> None:
    """Ten classes too large: eight lines of text and a count, all ten in the JSON."""
    rows = [{"rate": 1, "prompt": 10, "output": 1}] * 10
    name = _write(tmp_path, classes=rows)
    text = bfio("fluid", name).out
    assert (text.count("one request needs"), "note: 2 more, see --json" in text) == (8, True)
    assert len(bfio("fluid", name, "--json").json["notes"]) == 10


@pytest.mark.parametrize(
    "extra", [(), ("--horizon", "9", "--probability", "0.1"), ("--segments", "1")]
)
def test_nested_beyond_the_method_leaves_the_fluid_answer(
    bfio: Bfio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: tuple[str, ...]
) -> None:
    """The iteration gives up: the fluid part stands, the nested part says why; status 0."""
    monkeypatch.setattr(conditions, "_MAX_ROUNDS", 1)
    done = bfio("fluid", _write(tmp_path), "--nested", *extra, "--json")
    nested = done.json["nested"]
    assert (done.status, done.json["equilibrium_memory"]) == (0, 9)
    assert (nested["termination"], nested["thresholds"], nested["fit"]) == ("failed", None, None)
    assert "too close to 1" in nested["notes"][0]
    assert "cp-sat" in nested["notes"][0]
    text = bfio("fluid", _write(tmp_path), "--nested", *extra).out
    assert "Nested WAIT: failed" in text
    assert f"note: {nested['notes'][0]}" in text


def test_worth_of_a_token_names_the_worker(bfio: Bfio, tmp_path: Path) -> None:
    """All overloaded: a price for each memory, equal ones in one; the iteration is the longest."""
    rows = [kind | {"rate": 20} for kind in I0["classes"]]
    workers = [{}, {}, {"memory": 4}]
    text = bfio("fluid", _write(tmp_path, classes=rows, workers=workers)).out
    # Class 0 is the denser, 2/3 stages per unit of work, and fills all; (2/3)·d0/(d0 + d1·C)^2 is
    # 1/3 for C = 9 and (1/3)/(13/18)^2 = 0.639 for C = 4.
    assert "adds 0.3333 stages/s on each of workers 0 to 1, 0.6391 stages/s on worker 2." in text
    assert "iteration (the longest) 1 s" in text


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("NaN", "d0: NaN is not a finite number; write a number"),
        ("1e-400", "d0: 1e-400 is too small for a number; write a number"),
        ("1e400", "d0: 1e400 is not a finite number; write a number of 10^12 at most"),
        ('"1e-400"', "exponents of two digits"),
        ("-1", "d0: -1 is out of range; use a number > 0"),
        ("0", "0 is not allowed for a rate or time; use a number > 0"),
    ],
)
def test_numbers_out_of_range(bfio: Bfio, tmp_path: Path, number: str, message: str) -> None:
    """The key, the limit and a remedy that is right for it."""
    path = tmp_path / "load.json"
    path.write_text(json.dumps(I0 | {"d0": "?"}).replace('"?"', number))
    done = bfio("fluid", str(path))
    assert (done.status, message in done.err) == (2, True)


def test_segments_that_do_not_divide(bfio: Bfio, tmp_path: Path) -> None:
    """The remedy is one the command offers."""
    done = bfio("fluid", _write(tmp_path), "--nested", "--segments", "3")
    assert (done.status, done.err.rstrip().endswith("use a divisor of 2")) == (2, True)
