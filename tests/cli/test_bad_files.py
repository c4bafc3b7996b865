"""Thousands of bad files: each is one line of error that says where, what, and a remedy."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bfio.programs import kind_of
from bfio.studies.study_file import read_study
from bfio.workloads import read_trace
from formulations.batching import AgentNetwork
from formulations.errors import InputError
from formulations.fluid import FluidProblem, varying_rates
from formulations.problem_data import parse_json
from tests.cli.conftest import Bfio
from tests.cli.test_capacity import AGENTS
from tests.test_keywords import DOCUMENTS
from tests.test_programs import CASES

RATES = {"breaks": [0, 2], "rates": [[1], [3]], "period": 5}
WAVES = {"means": [2], "amplitudes": [1], "period": 5, "phases": [0]}
STUDY: dict[str, Any] = {
    "name": "two",
    "question": "Which?",
    "computes": "simulate",
    "fixed": {"workers": 2, "slots": 2, "synthetic": "demo"},
    "grid": [{"policy": ["fcfs", "br-0"], "seed": {"from": 5, "count": 2}}],
    "limits": {"seconds": 60},
    "report": {
        "tables": [
            {
                "title": "All",
                "rows": ["policy"],
                "values": ["avg_imbalance"],
                "baseline": {"policy": "fcfs"},
            }
        ],
        "figures": [{"title": "How?", "kind": "lines", "x": "seed", "y": "avg_imbalance"}],
    },
}
TRACES: dict[str, dict[str, Any]] = {
    "own": {"arrival_time_s": 1, "prompt_tokens": 7, "output_tokens": 8},
    "vidur": {"arrived_at": 0.5, "num_prefill_tokens": 7, "num_decode_tokens": 8},
    "azure": {
        "TIMESTAMP": "2024-05-12 00:00:00+00:00", "ContextTokens": 7, "GeneratedTokens": 8,
    },
    "mooncake": {"timestamp": 1, "input_length": 7, "output_length": 8, "hash_ids": [4]},
}  # fmt: skip


def _csv(row: dict[str, Any]) -> str:
    return ",".join(row) + "\n" + ",".join(map(str, row.values()))


def _toml(value: Any) -> str:
    """Return a document as TOML; tables inside it stand on one line."""

    def inline(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {inline(v)}" for key, v in value.items()) + "}"
        is_list = isinstance(value, list)
        return f"[{', '.join(map(inline, value))}]" if is_list else json.dumps(value)

    return "\n".join(f"{key} = {inline(entry)}" for key, entry in value.items())


def _of_file(read: Callable[[Path], Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        Path("bad.txt").write_text(text)
        return read(Path("bad.txt"))

    return parse


@dataclass(frozen=True)
class Kind:
    """A kind of document: the command that reads it, its reader, a valid one, and its format."""

    command: str
    read: Callable[[str], Any]
    document: dict[str, Any]
    write: Callable[[dict[str, Any]], str] = json.dumps


def _program(name: str, document: dict[str, Any]) -> Kind:
    return Kind(name, kind_of(document, name).load("problem").from_json, document)


def _rates(document: dict[str, Any]) -> Kind:
    command = "wait load.json --horizon 9 --profile"
    return Kind(command, lambda text: varying_rates(parse_json(text)), document)


KINDS = {
    **{name: _program(name, document) for name, document in DOCUMENTS.items()},
    **{name: _program(name, CASES[name][0]) for name in ("show", "batch --state")},
    "capacity": Kind("capacity", AgentNetwork.from_json, AGENTS),
    "batch": Kind("batch --horizon 9", AgentNetwork.from_json, AGENTS),
    "wait": Kind("wait --horizon 9", FluidProblem.from_json, DOCUMENTS["fluid"]),
    "rates": _rates(RATES),
    "waves": _rates(WAVES),
    "study": Kind("study status", _of_file(read_study), STUDY, _toml),
    **{name: Kind("traces inspect", _of_file(read_trace), row,
                  json.dumps if name == "mooncake" else _csv)
       for name, row in TRACES.items()},
}  # fmt: skip
#: What replaces each value, as it stands in the file; None removes it.
WRONG = (
    None, "null", "true", '"a\\nb"', "-1", "NaN", "-Infinity", "1e400", "1.5", "9" * 5000, "[]",
    "{}", "[[[0]]]", "[" * 99_999,
)  # fmt: skip
_ROWS = "fixed.workers fixed.slots fixed.synthetic"
#: Places where it is not wrong: a field that may be left out, an empty list, a fraction.
RIGHT: dict[str, dict[str | None, str]] = {
    "solve": {"[]": "contribution"},
    "hindsight": {"[]": "requests"},
    "makespan": {None: "objective requests.0.arrival", "[]": "requests"},
    "pause": {
        None: "step_overhead token_time waiting",
        "[]": "active waiting",
        "1.5": "step_overhead token_time",
    },
    **{name: {"1.5": "d0 d1 classes.0.rate"} for name in ("fluid", "wait")},
    **{
        name: {
            None: "routes stages.0.rate",
            "[]": "routes",
            "1.5": "agents.0.overhead stages.0.prefill stages.0.decode stages.0.rate",
        }
        for name in ("capacity", "batch")
    },
    "batch --state": {None: "requests.0.finish_bonus", "[]": "requests"},
    "show": {None: "cost window", "null": "cost window"},
    "rates": {None: "period", "null": "period", "1.5": "rates.0.0"},
    "waves": {None: "phases", "1.5": "means.0 period phases.0"},
    "own": {None: "arrival_time_s", "1.5": "arrival_time_s"},
    "azure": {None: "TIMESTAMP"},
    "vidur": {None: "arrived_at", "1.5": "arrived_at"},
    "mooncake": {None: "timestamp hash_ids", "null": "hash_ids", "-1": "hash_ids.0"},
    # What a row may be, its kind knows.
    "study": {
        None: f"{_ROWS} grid.0.seed.from fixed limits limits.seconds report report.tables "
        "report.tables.0.baseline report.tables.0.baseline.policy report.figures",
        "{}": "fixed limits report report.tables.0.baseline",
        "[]": "report.tables report.figures",
        "1.5": f"{_ROWS} grid.0.seed limits.seconds",
        "-1": f"{_ROWS} grid.0.seed grid.0.seed.from",
        "true": f"{_ROWS} grid.0.seed",
        '"a\\nb"': f"{_ROWS} grid.0.seed question computes report.tables.0.title "
        "report.tables.0.values.0 report.figures.0.title report.figures.0.y",
    },
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside a document; of a list, of its first entry."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*path, 0))


def _changed(kind: Kind, path: tuple[Any, ...], text: str | None) -> str:
    """Return a document as text, with a value replaced by a text or removed."""
    whole = json.loads(json.dumps(kind.document))
    *before, last = path
    inside = whole
    for key in before:
        inside = inside[key]
    if text is None:
        del inside[last]
        return kind.write(whole)
    inside[last] = "@@"
    return kind.write(whole).replace("@@" if kind.write is _csv else '"@@"', text)


def _bad(name: str) -> Iterator[tuple[str, str]]:
    """Yield place and text of each bad document of a kind."""
    kind = KINDS[name]
    document, text = kind.document, kind.write(kind.document)
    yield from (("empty", ""), ("cut", text[:-1]), ("tail", f"{text} 1"))
    if kind.write is json.dumps:
        first = next(iter(document))
        yield from (("list", f"[{text}]"), ("twice", f'{{"{first}": 1, {text[1:]}'))
        if name not in TRACES:
            yield "unknown", f'{{"a\\nb": 1, {text[1:]}'
    for path in _places(document):
        place = ".".join(map(str, path))
        for wrong in WRONG:
            is_entry_removed = wrong is None and path[-1] == 0
            if not is_entry_removed and place not in RIGHT.get(name, {}).get(wrong, "").split():
                yield f"{place} = {wrong}"[:40], _changed(kind, path, wrong)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("batch", "wait")])
def test_a_bad_document_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value of a document is replaced by every wrong one, or left out."""
    monkeypatch.chdir(tmp_path)
    kind = KINDS[name]
    kind.read(kind.write(kind.document))
    for place, text in _bad(name):
        with pytest.raises(InputError) as caught:
            pytest.fail(f"{place}: {kind.read(text)}")
        assert re.fullmatch(r"[^\n]+: [^\n]+; [^\n]+", str(caught.value)), place
        # Flags belong to the command line, or to a whole command.
        assert "--" not in caught.value.remedy.partition("bfio traces")[0], place


@pytest.mark.parametrize("name", KINDS)
def test_the_command_says_the_same(bfio: Bfio, name: str) -> None:
    """Status 2, nothing on stdout, and one line that begins with the file."""
    Path("load.json").write_text(json.dumps(DOCUMENTS["fluid"]))
    for _, text in list(_bad(name))[::40]:
        _refused(bfio, KINDS[name].command, text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"computes": "x"}, {"fixed": {}}, {"fixed": STUDY["fixed"] | {"workers": -1}},
        {"fixed": STUDY["fixed"] | {"slots": "a\nb"}}, {"grid": [{"policy": ["x"]}]},
        {"report": {"tables": [STUDY["report"]["tables"][0] | {"values": ["x"]}]}},
    ],
)  # fmt: skip
def test_a_study_of_rows_that_do_not_exist(bfio: Bfio, wrong: dict[str, Any]) -> None:
    """What only the kind of row knows names the file as well, before any row is computed."""
    _refused(bfio, "study run", _toml(STUDY | {"report": {}} | wrong))
    assert not Path("out").exists()


def test_the_file_of_another_command(bfio: Bfio) -> None:
    """Its command is named."""
    for command, name in (("solve", "show"), ("solve", "makespan"), ("pause", "hindsight")):
        Path("other.json").write_text(json.dumps(CASES[name][0]))
        done = bfio(command, "other.json")
        assert (done.status, done.out) == (2, "")
        assert f"use bfio {name} FILE, or bfio.solve in Python" in done.err


def _refused(bfio: Bfio, command: str, text: str) -> None:
    Path("bad.toml").write_text(text)
    done = bfio(*command.split(), "bad.toml")
    assert (done.status, done.out) == (2, ""), text[:200]
    assert re.fullmatch(r"error: bad\.toml\b.*: .+; .+\n", done.err), done.err
