"""``bfio batch``: tables, documents, plots, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bfio

ENGINE: dict[str, Any] = {
    "agents": [{"name": "gpu", "budget": 10, "overhead": 1}],
    "stages": [{"agent": "gpu", "prefill": 1, "decode": 12, "rate": "0.6"}],
}
RYBKO_STOLYAR: dict[str, Any] = {
    "agents": [{"name": name, "budget": 24, "overhead": 1} for name in ("1", "2")],
    "stages": [
        {"type": "A", "agent": "1", "prefill": 1, "decode": 1, "rate": "1.1"},
        {"type": "A", "agent": "2", "prefill": 16, "decode": 1},
        {"type": "B", "agent": "2", "prefill": 1, "decode": 1, "rate": "1.1"},
        {"type": "B", "agent": "1", "prefill": 16, "decode": 1},
    ],
    "routes": [{"from": "A@1", "to": "A@2"}, {"from": "B@2", "to": "B@1"}],
}
TRACE = "arrival_time_s,prompt_tokens,output_tokens\n0,4,2\n0.5,3,1\n0.5,2,1\n7,1,3\n"
LLAMA = ("--hardware", "llama-3-70b-2xa100")


def _file(folder: Path, document: dict[str, Any]) -> str:
    path = folder / "network.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_policies_side_by_side(bfio: Bfio, tmp_path: Path) -> None:
    """One engine, two policies: figures, theory, remarks, and a checker that finds nothing."""
    laws = ["--sizes", "fixed", "--arrivals", "bernoulli", "--horizon", "300"]
    laws += ["--tbt-deadline", "1"]
    policies = ("--policy", "sarathi", "--policy", "vllm")
    answer = bfio("batch", _file(tmp_path, ENGINE), *laws, *policies, "--json").json
    sarathi, vllm = answer["runs"]
    assert answer["theory"]["verdict"] == "stable"
    assert (sarathi["remarks"], len(vllm["remarks"])) == ([], 1)
    assert sarathi["violations"] == vllm["violations"] == {}
    assert sarathi["tbt_attainment"] == 1 > vllm["tbt_attainment"]
    assert sarathi["requests"] == vllm["requests"] > sarathi["completed"] > vllm["completed"]
    shown = bfio("batch", _file(tmp_path, ENGINE), *laws, *policies)
    assert "theory: stable" in shown.out
    assert "not work-conserving, Theorem 1 does not apply" in shown.out


def test_a_network_with_priorities(bfio: Bfio, tmp_path: Path) -> None:
    """Last stages first: more is left behind than with first stages first; a plot is written."""
    plot = tmp_path / "queues.png"
    left = []
    for which in ("last", "first"):
        done = bfio(
            *("batch", _file(tmp_path, RYBKO_STOLYAR), "--horizon", "1000", "--sizes", "fixed"),
            *("--priority", which, "--initial", "A@1=100", "--plot", str(plot), "--json"),
        )
        left.append(done.json["runs"][0]["final_tokens"])
    assert left[0] > 3 * left[1]
    assert plot.stat().st_size > 1000


def test_a_trace_at_its_own_times(bfio: Bfio, tmp_path: Path) -> None:
    """Four requests, counted by hand: each is alone but those of half a second.

    Batches take 45.5 ms each. The first has one prefill and two decode batches: 0.1365 s, and
    departs before the next come; the fourth has one of each prefill and three of decode: 0.182 s.
    """
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    run = bfio("batch", *LLAMA, "--trace", str(trace), "--json").json["runs"][0]
    assert (run["requests"], run["completed"], run["verdict"]) == (4, 4, "drained")
    assert run["batches"] == 3 + 2 + 4
    assert run["ttft_mean"] == pytest.approx(0.0455)
    assert run["e2e_max"] == pytest.approx(0.182)
    assert run["e2e_mean"] == pytest.approx((0.1365 + 2 * 0.091 + 0.182) / 4)


def test_the_first_batches_are_shown(bfio: Bfio, tmp_path: Path) -> None:
    """As a table, and whole in the document; no more than there are."""
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    words = ("batch", *LLAMA, "--trace", str(trace), "--show-batches", "20")
    (run,) = bfio(*words, "--json").json["runs"]
    assert [batch["tokens"] for batch in run["first_batches"]] == [4, 1, 1, 5, 2, 1, 1, 1, 1]
    assert run["first_batches"][3] == {
        **{"engine": "engine", "slot": 5000, "slots": 455, "budget": 512, "tokens": 5},
        **{"prefill": {"1": 3, "2": 2}, "decode": []},
    }
    shown = bfio(*words).out
    assert "sarathi: the first 9 batches" in shown
    assert "1: 3, 2: 2" in shown
    many = bfio("batch", _file(tmp_path, ENGINE), "--horizon", "9", "--initial", "request@gpu=20")
    assert "first" not in many.out


def test_time_beyond_tokens(bfio: Bfio, tmp_path: Path) -> None:
    """By hand: one request of a prompt of 2, three tokens in the cache at its second decode token.

    A slot for each cached token: 1 for the prompt, 1 + 2 and 1 + 3 for the decode tokens; and two
    for each token in the cache beyond three: one of the second decode token.
    """
    document = {
        "agents": ENGINE["agents"],
        "stages": [{"agent": "gpu", "prefill": 2, "decode": 2}],
    }
    words = ("--sizes", "fixed", "--initial", "request@gpu=1", "--horizon", "20", "--json")
    terms = ("--terms", "decode_attention=1:memory=3:swap_token=2", "--show-batches", "9")
    (run,) = bfio("batch", _file(tmp_path, document), *words, *terms).json["runs"]
    assert [batch["slots"] for batch in run["first_batches"]] == [1, 3, 6]
    assert run["violations"] == {}


def test_the_next_batch_of_a_state(bfio: Bfio, tmp_path: Path) -> None:
    """By hand: six prompt tokens and two that decode, a budget of 7; weights (1, 2) by phase."""
    rows = [(6, 1), (0, 2), (3, 1), (0, 2)]
    requests = [{"prefill": p, "decode": 1, "weight": w} for p, w in rows]
    state = _file(tmp_path, {"budget": 7, "requests": requests})
    answer = bfio("batch", "--state", state, "--json").json
    assert answer["best"]["worth"] == 5 + 2 * 2
    assert {entry["policy"]: entry["gap"] for entry in answer["policies"]} == {
        "faster-transformer": 9 - 4,
        "vllm": 9 - 7,
        "orca": 9 - 7,
        "sarathi": 0,
    }
    sarathi = answer["policies"][-1]
    assert (sarathi["prefill"], sarathi["decode"], sarathi["broken"]) == ({"0": 5}, ["1", "3"], [])
    shown = bfio("batch", "--state", state, "--policy", "sarathi").out
    assert "0: 5" in shown
    assert "proven by filling by weight" in shown


def test_a_batch_that_the_program_does_not_allow_is_told(bfio: Bfio, tmp_path: Path) -> None:
    """Policies know nothing of what the program asks besides (2.5)."""
    requests = [{"prefill": 2, "decode": 1}, {"prefill": 0, "decode": 1}]
    document = {"budget": 7, "requests": requests, "mixing": False}
    state = _file(tmp_path, document)
    entries = bfio("batch", "--state", state, "--json").json["policies"]
    assert [entry["gap"] for entry in entries] == [1, 0, None, None]
    told = (
        "sarathi: the batch violates the batch program: prompt and decode tokens share the batch"
    )
    assert told in bfio("batch", "--state", state).out


def test_settings_say_what_the_runs_are_made_of(bfio: Bfio, tmp_path: Path) -> None:
    """Laws of arrivals and sizes, span, deadlines, seed, version: printed and in the document."""
    words = ("batch", _file(tmp_path, ENGINE), "--horizon", "90", "--warmup", "10", "--seed", "4")
    limited = ("--tbt-deadline", "2", "--arrivals", "bernoulli", "--terms", "decode_attention=1/2")
    said = bfio(*words, *limited, "--json").json["settings"]
    assert said.startswith(
        "network.json: 1 stage at 1 agent, bernoulli arrivals, geometric sizes, terms "
        "decode_attention=1/2, 90 slots, measured from 10 slots on, TBT within 2 slots, seed 4, "
    )
    shown = " ".join(bfio(*words, *limited).out.split())
    assert said in shown
    assert "in time" in shown
    assert "in time" not in bfio(*words).out
    preset = (*LLAMA, "--rate", "3", "--prefill", "9", "--decode", "9", "--engines", "2")
    said = bfio("batch", *preset, "--horizon", "2", "--json").json["settings"]
    assert said.startswith(
        "llama-3-70b-2xa100: 2 engines, token budget 512, poisson arrivals of 3 requests/s, "
        "geometric sizes, balancer random, 2 s, seed 0, bfio"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("FILE", "--horizon is missing"),
        ("", "neither FILE nor --hardware is given"),
        ("FILE --horizon 9 LLAMA", "FILE and --hardware exclude each other"),
        ("FILE --horizon 0", "horizon"),
        ("FILE --horizon 9 --warmup 9", "is not below horizon, so nothing is measured"),
        ("FILE --horizon 9 --policy sarati", "did you mean sarathi?"),
        ("FILE --horizon 9 --policy sarathi:kd=x", "not a value of kd"),
        ("FILE --horizon 9 --policy sjf --policy sjf", "twice"),
        ("FILE --horizon 9 --sizes round", "'round' is unknown"),
        ("FILE --horizon 9 --arrivals never", "'never' is unknown"),
        ("FILE --horizon 9 --balancer fair", "'fair' is unknown"),
        ("FILE --horizon 9 --priority gpu", "AGENT=STAGE>STAGE"),
        ("FILE --horizon 9 --priority gpu=x", "no stage 'x'"),
        ("FILE --horizon 9 --delay x=3", "delays: 'x' does not exist; use one of request@gpu"),
        ("FILE --horizon 9 --initial request@gpu=-1", "not a whole number of requests"),
        ("FILE --horizon 9 --plot x.txt", "x.txt is not a picture"),
        ("FILE --horizon 9 --engine fast", "'fast' is unknown"),
        ("LLAMA --horizon 9 --rate 3", "--hardware needs --prefill"),
        ("FILE --horizon 9 --budget 9", "--budget needs --hardware"),
        ("FILE --horizon 9 --engines 2", "--engines needs --hardware"),
        ("FILE --horizon 9 --balancer first", "no agent has several engines"),
        ("LLAMA --trace x.csv --sizes fixed", "--sizes cannot be combined with --trace"),
        ("LLAMA --trace x.csv --arrivals bernoulli", "--arrivals needs --rate with --trace"),
        ("FILE --horizon 9 --terms memory=9", "memory has no effect without an overflow cost"),
        ("--hardware abacus --horizon 9 --trace x.csv", "No such file"),
        ("FILE --horizon 9 --terms swap_token=1", "overflow costs need a memory limit"),
        ("FILE --horizon 9 --terms attention=1", "--terms.attention: unknown"),
        ("FILE --horizon 9 --terms memory", "write NAME=VALUE:..."),
        ("FILE --horizon 9 --terms memory=1.5", "memory"),
        ("FILE --horizon 9 --terms memory=1:memory=2", "each name once"),
        ("FILE --horizon 9 --terms swap_token=-1:memory=2", "swap_token"),
        ("FILE --horizon 9 --show-batches 0", "use 1 to 1,000"),
        ("FILE --horizon 9 --show-batches x", "'x' is not an integer"),
        ("FILE --horizon 9 --write p.lp", "add --state FILE"),
        ("FILE --state FILE", "FILE has no effect with --state"),
        ("--state FILE --horizon 9", "--horizon has no effect with --state"),
        ("--state FILE --budget 9", "--budget has no effect with --state"),
        ("--state FILE --engine compiled", "--engine has no effect with --state"),
        ("--state FILE --seed 3", "--seed has no effect with --state"),
        ("FILE --horizon 9 --priority last", "no agent has two stages to order"),
        ("--state FILE", "document.agents: unknown"),
        ("--state nowhere.json", "no such file"),
    ],
)
def test_what_is_refused(bfio: Bfio, tmp_path: Path, words: str, told: str) -> None:
    """One line on stderr, exit status 2."""
    meant = {"FILE": (_file(tmp_path, ENGINE),), "LLAMA": LLAMA}
    done = bfio("batch", *(part for word in words.split() for part in meant.get(word, (word,))))
    assert done.status == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"arrivals": "bernoulli", "rate": "1.5"}, "arrivals per slot"),
        ({"sizes": "fixed", "prefill": "1.5"}, "not whole"),
        ({"rate": "-1"}, "rate"),
        ({"rate": 0}, "no stage has an arrival rate > 0 and no request is present"),
    ],
)
def test_files_that_are_refused(
    bfio: Bfio, tmp_path: Path, change: dict[str, str], told: str
) -> None:
    """Values of a file that no law can have."""
    laws = {name: change.pop(name) for name in ("arrivals", "sizes") if name in change}
    stage = ENGINE["stages"][0] | change
    words = [word for name, law in laws.items() for word in (f"--{name}", law)]
    done = bfio("batch", _file(tmp_path, ENGINE | {"stages": [stage]}), "--horizon", "9", *words)
    assert (done.status, len(done.err.strip().splitlines())) == (2, 1)
    assert told in done.err
