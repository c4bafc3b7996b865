"""Rows about engines with a token budget, against what Python gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from bfio.batching.registry import build
from bfio.batching.run import METRICS
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from bfio.studies import kinds
from bfio.studies.row import RowContext, RowResult
from formulations.batching import AgentNetwork, rybko_stolyar, single_engine
from formulations.errors import InputError
from tests.studies.here import compute_row


def compute(folder: Path, network: AgentNetwork | None = None, **arguments: Any) -> RowResult:
    """Compute one row about a network."""
    given = dict(arguments)
    if network is not None:
        (folder / "network.json").write_text(json.dumps(network.to_mapping()))
        given["network"] = "network.json"
    return compute_row("batching", folder, **given)


def test_a_row_is_its_run(tmp_path: Path) -> None:
    """Metrics of the run, load and theory beside them; the checker finds nothing."""
    network = single_engine("0.3", 10, 10, budget=10)
    row = compute(tmp_path, network, policy="orca", horizon=500, seed=3)
    run = simulate(Scenario(network, Serving(build("orca"), "orca")), seed=3, horizon=500)
    assert {m.name: row.values[m.name] for m in METRICS} == METRICS.measure(run)
    assert (row.values["load"], row.values["theory"]) == (0.6, "stable")
    assert row.values["judged"] is None
    assert row.violations == {}
    assert row.series["tokens"] == run.course.tokens.tolist()


def test_a_row_with_a_verdict(tmp_path: Path) -> None:
    """At twice the capacity."""
    network = single_engine("0.3", 10, 10, budget=10)
    row = compute(tmp_path, network, load=2, horizon=400, judge=True, judge_slots=400)
    assert (row.values["judged"], row.values["theory"]) == ("unstable", "unstable")
    assert row.values["load"] == 2


def test_priorities_and_hardware(tmp_path: Path) -> None:
    """Last stages first leave more behind in the Rybko–Stolyar network; rates are per second."""
    left = [
        compute(
            tmp_path, rybko_stolyar(1), load="0.9", priority=which, horizon=300, sizes="poisson"
        ).values["final_tokens"]
        for which in ("last", "first")
    ]
    assert left[0] > 2 * left[1]  # type: ignore[operator]
    row = compute(tmp_path, hardware="llama-3-70b-2xa100", rate=8, horizon=20)
    assert 0.6 < row.values["load"] < 0.7  # type: ignore[operator]


def test_sizes_of_a_trace(tmp_path: Path) -> None:
    """Drawn in pairs, none of it invented: with one request, all are as that one."""
    head, rows = "arrival_time_s,prompt_tokens,output_tokens\n", ["1,100,1", "2,300,3", "3,200,2"]
    (tmp_path / "three.csv").write_text(head + "\n".join(rows) + "\n")
    (tmp_path / "one.csv").write_text(head + rows[1] + "\n")
    llama: dict[str, Any] = {"hardware": "llama-3-70b-2xa100", "rate": 2, "horizon": 50}
    three = compute(tmp_path, trace="three.csv", **llama)
    # 202 tokens on average, 512 in 179.9 ms: 2 * 202 * 0.1799 / 512.
    assert three.values["load"] == pytest.approx(2 * 202 * 0.1799 / 512)
    half = compute(tmp_path, trace="three.csv", **{**llama, "rate": None, "load": "0.5"})
    assert half.values["load"] == 0.5
    one = compute(tmp_path, trace="one.csv", **llama)
    same = compute(tmp_path, prefill=300, decode=3, sizes="fixed", **llama)
    assert (one.values, one.series) == (same.values, same.series)
    chosen, here = kinds.find("batching"), RowContext(tmp_path)
    digest = chosen.instance({"trace": "three.csv", **llama}, here)
    # As many requests with the same means, and yet other requests.
    (tmp_path / "three.csv").write_text(head + "1,200,2\n" * 3)
    assert chosen.instance({"trace": "three.csv", **llama}, here) != digest


def test_time_beyond_tokens(tmp_path: Path) -> None:
    """A slot more for each cached token of a request that decodes: 1 + 1, 1 + 2, ... slots."""
    network = single_engine("0.001", 1, 3, budget=4)
    given: dict[str, Any] = {"sizes": "fixed", "arrivals": "bernoulli", "horizon": 4000}
    row = compute(tmp_path, network, terms="decode_attention=1", **given)
    assert row.values["tbt_max"] == 1 + 3
    assert compute(tmp_path, network, **given).values["tbt_max"] == 1
    with pytest.raises(InputError, match=r"terms\.decode"):
        compute(tmp_path, network, terms="decode=1", **given)


LLAMA = {"hardware": "llama-3-70b-2xa100", "horizon": 9}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "network: neither network nor hardware is given"),
        ({"network": "n.json", "hardware": "h", "horizon": 9}, "hardware exclude each other"),
        ({"network": "nothing.json", "horizon": 9}, "nothing.json"),
        ({"hardware": "abacus", "horizon": 9}, "'abacus' is unknown"),
        ({"hardware": "llama-3-70b-2xa100"}, "horizon"),
        ({"hardware": "llama-3-70b-2xa100", "horizon": 9, "priority": "some"}, "'some'"),
        ({"hardware": "llama-3-70b-2xa100", "horizon": 9, "rate": 1, "load": 1}, "load is given"),
        ({"hardware": "llama-3-70b-2xa100", "horizon": 9, "policy": "orka"}, "did you mean orca"),
        ({"hardware": "llama-3-70b-2xa100", "horizon": 9, "trace": "nothing.csv"}, "nothing.csv"),
        (
            {"network": "n.json", "horizon": 9, "trace": "t.csv"},
            "trace: cannot be combined with network",
        ),
        ({"hardware": "llama-3-70b-2xa100", "horizon": 9, "trace": "t", "prefill": 1}, "as well"),
        (
            {"network": "n.json", "horizon": 9, "prefill": 3},
            "prefill: the network file states the value",
        ),
        (
            {"network": "n.json", "horizon": 9, "decode": 3},
            "decode: the network file states the value",
        ),
        (
            {"network": "n.json", "horizon": 9, "engines": 2},
            "engines: the network file states the value",
        ),
        (LLAMA | {"trace": "t", "sizes": "fixed"}, "sizes: the trace gives the sizes"),
        (LLAMA | {"balancer": "first"}, "no agent has several engines"),
        (LLAMA | {"priority": "last"}, "no agent has two stages to order"),
        (LLAMA | {"terms": "memory=9"}, r"terms\.memory: memory has no effect"),
    ],
)
def test_what_is_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    """Before anything is computed."""
    with pytest.raises(InputError, match=message):
        kinds.find("batching").instance(arguments, RowContext(tmp_path))
