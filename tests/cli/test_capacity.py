"""``bfio capacity``."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bfio

ENGINE: dict[str, Any] = {
    "slot": "1e-4",
    "agents": [{"name": "gpu", "budget": 512, "overhead": 455, "per_token": 3, "free_tokens": 64}],
    "stages": [{"agent": "gpu", "prefill": 129, "decode": 112, "rate": "0.001"}],
}
AGENTS: dict[str, Any] = {
    "agents": [{"name": name, "budget": 768, "overhead": 1} for name in ("1", "2")],
    "stages": [
        {"type": "A", "agent": "1", "prefill": 32, "decode": 32, "rate": "1.1"},
        {"type": "A", "agent": "2", "prefill": 512, "decode": 32},
        {"type": "B", "agent": "2", "prefill": 32, "decode": 32, "rate": "1.1"},
        {"type": "B", "agent": "1", "prefill": 512, "decode": 32},
    ],
    "routes": [{"from": "A@1", "to": "A@2"}, {"from": "B@2", "to": "B@1"}],
}


def _write(folder: Path, document: object) -> str:
    path = folder / "network.json"
    path.write_text(json.dumps(document))
    return str(path)


def _agent(**change: object) -> dict[str, Any]:
    return ENGINE | {"agents": [ENGINE["agents"][0] | change]}


def _stage(**change: object) -> dict[str, Any]:
    return ENGINE | {"stages": [ENGINE["stages"][0] | change]}


def test_one_engine(bfio: Bfio, tmp_path: Path) -> None:
    """11.809 requests per second: 512 tokens in 179.9 ms, 241 each."""
    done = bfio("capacity", _write(tmp_path, ENGINE), "--json", "--between-tokens", "1031")
    answer = done.json
    assert (done.status, answer["verdict"]) == (0, "stable")
    assert answer["source"] == "Theorem 1 (a)"
    assert answer["hypotheses"]
    (kind,) = answer["types"]
    assert round(kind["most_per_second"], 3) == 11.809
    assert kind["rate_per_second"] == 10
    (agent,) = answer["agents"]
    assert (agent["batch_slots"], agent["tokens_per_second"]) == (1799, 2410)
    assert agent["fastest_budget"]["budget"] == 256
    # b/(455 + 3(b − 64)) > 0.241 iff 0.277 b > 63.383.
    assert agent["shortest_batch"]["budget"] == 229
    assert answer["proof"]


def test_a_network_with_a_priority(bfio: Bfio, tmp_path: Path) -> None:
    """Each method says the same: 2·544·1.1/768 = 187/120 of a virtual station."""
    name = _write(tmp_path, AGENTS)
    factors = set()
    for method in ("closed-form", "highs", "pyomo"):
        arguments = ("--priority", "last", "--method", method, "--json")
        answer = bfio("capacity", name, *arguments).json
        factors.add(answer["exact"]["factor"])
        assert (answer["verdict"], answer["exact"]["load"]) == ("open", "187/120")
        assert answer["bottlenecks"] == ["A@2 + B@1"]
    assert factors == {"120/187"}
    reverse = bfio("capacity", name, "--priority", "first", "--json").json
    assert (reverse["virtual_stations"], reverse["warnings"]) == ([], [])
    assert [stage["tasks_per_slot"] for stage in reverse["stages"]] == [1.1] * 4


def test_what_a_person_reads(bfio: Bfio, tmp_path: Path) -> None:
    """Verdict, table, capacity of each type, warnings."""
    text = bfio("capacity", _write(tmp_path, AGENTS), "--priority", "last").out
    assert text.startswith("open: a virtual station of the priority is overloaded")
    assert "type A: 1.1 requests per slot, limit 0.7059 if all rates grow alike" in text
    assert "warning: A@2 + B@1: never served together" in text
    slower = _agent(overhead=100) | {"stages": [ENGINE["stages"][0] | {"rate": "0.002"}]}
    text = bfio("capacity", _write(tmp_path, slower)).out
    assert text.startswith("undecided")
    assert "has a higher rate than a full one of 512: Theorem 1 (b) does not apply" in text
    assert "requests per second" in text
    beyond = slower | {"stages": [ENGINE["stages"][0] | {"rate": 1}]}
    text = bfio("capacity", _write(tmp_path, beyond), "--between-tokens", "1").out
    assert text.startswith("unstable: Theorem 1 (b)")
    assert "does not apply" not in text
    assert "gpu, highest rate within the limit with capacity for the load, of budgets" in text
    large = {"stages": [{"agent": "gpu", "prefill": 2000, "decode": 200, "rate": 4}]}
    large["agents"] = [{"name": "gpu", "budget": 100_000, "overhead": 1}]
    text = bfio("capacity", _write(tmp_path, large)).out
    assert "capacity for the load, of budgets to 100,000: budget 100,000, 1 slot" in text


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "agents: missing"),
        (_agent(budget=0), "agents[0].budget: 0 is out of range"),
        (_agent(budget=128, chunked=False), "a mean prompt of 129 tokens exceeds the budget 128"),
        (
            ENGINE | {"agents": [{"name": "gpu", "budget": 9, "overhead": 1, "free_tokens": 3}]},
            "agents[0].free_tokens: no token takes time; give per_token",
        ),
        (_agent(overhead=-1), "agents[0].overhead: -1 is out of range"),
        (_stage(rate=-1), "stages[0].rate: -1 is out of range"),
        (_stage(rate=0), "network.json: stages: no request arrives"),
        (_stage(agent="cpu"), "stages[0].agent: there is no 'cpu'"),
        (AGENTS | {"routes": [{"from": "A@1", "to": "C@2"}]}, "there is no stage 'C@2'"),
        (
            AGENTS | {"routes": [{"from": "A@1", "to": "A@2"}, {"from": "A@2", "to": "A@1"}]},
            "requests never leave A@1, A@2: the routing matrix has spectral radius 1",
        ),
        (
            AGENTS
            | {
                "routes": [{"from": "A@1", "to": "A@2"}, {"from": "A@2", "to": "A@1"}],
                "fork_join": ["A"],
            },
            "have the cycle A@1 to A@2 to A@1",
        ),
    ],
)
def test_bad_input_is_one_line(bfio: Bfio, tmp_path: Path, document: object, message: str) -> None:
    """Status 2 and the place."""
    done = bfio("capacity", _write(tmp_path, document))
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--priority", "lst"), "did you mean last"),
        (("--method", "cp-sat"), "use one of closed-form, highs, pyomo"),
        (("--between-tokens", "0"), "not a whole number of slots"),
    ],
)
def test_bad_arguments(
    bfio: Bfio, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """One line as well."""
    done = bfio("capacity", _write(tmp_path, AGENTS), *arguments)
    assert done.status == 2
    assert message in done.err
