"""Hundreds of bad problem files: each is one line of error that says where, what, and a remedy."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bfio.programs import kind_of
from formulations.batching import AgentNetwork
from formulations.errors import InputError
from tests.cli.conftest import Bfio
from tests.cli.test_capacity import AGENTS
from tests.test_keywords import DOCUMENTS

#: The class that reads each document.
READERS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (kind_of(document, name).load("problem"), document)
       for name, document in DOCUMENTS.items()},
    "capacity": (AgentNetwork, AGENTS),
}  # fmt: skip
#: What replaces each value, as it stands in the file; None removes it.
WRONG = (
    None, "null", "true", '"a\\nb"', "-1", "NaN", "-Infinity", "1e400", "1.5", "9" * 5000, "[]",
    "{}", "[[[0]]]", "[" * 99_999,
)  # fmt: skip
#: Values that are none of the wrong ones: a field that may be left out, an empty list, a fraction.
RIGHT = {
    ("makespan", "objective", None), ("makespan", "requests.0.arrival", None),
    ("pause", "step_overhead", None), ("pause", "token_time", None), ("pause", "active", "[]"),
    ("pause", "waiting", None), ("pause", "waiting", "[]"), ("pause", "step_overhead", "1.5"),
    ("pause", "token_time", "1.5"),
    ("fluid", "d0", "1.5"), ("fluid", "d1", "1.5"), ("fluid", "classes.0.rate", "1.5"),
    ("solve", "contribution", "[]"), ("hindsight", "requests", "[]"),
    ("makespan", "requests", "[]"), ("capacity", "routes", "[]"), ("capacity", "routes", None),
    ("capacity", "agents.0.overhead", "1.5"), ("capacity", "stages.0.prefill", "1.5"),
    ("capacity", "stages.0.decode", "1.5"), ("capacity", "stages.0.rate", "1.5"),
    ("capacity", "stages.0.rate", None),
}  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside a document; of a list, of its first entry."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*path, 0))


def _changed(document: Any, path: tuple[Any, ...], text: str | None) -> str:
    """Return a document as text, with a value replaced by a text or removed."""
    whole = json.loads(json.dumps(document))
    *before, last = path
    inside = whole
    for key in before:
        inside = inside[key]
    if text is None:
        del inside[last]
        return json.dumps(whole)
    inside[last] = "@@"
    return json.dumps(whole).replace('"@@"', text)


def _bad(name: str) -> Iterator[tuple[str, str]]:
    """Yield place and text of each bad document of a kind."""
    document = READERS[name][1]
    text = json.dumps(document)
    first = next(iter(document))
    yield from (("empty", ""), ("cut", text[:-1]), ("list", f"[{text}]"), ("tail", f"{text} 1"))
    yield "twice", f'{{"{first}": 1, {text[1:]}'
    yield "unknown", f'{{"a\\nb": 1, {text[1:]}'
    for path in _places(document):
        place = ".".join(map(str, path))
        for wrong in WRONG:
            is_entry_removed = wrong is None and path[-1] == 0
            if not is_entry_removed and (name, place, wrong) not in RIGHT:
                yield f"{place} = {wrong}"[:40], _changed(document, path, wrong)


@pytest.mark.parametrize("name", READERS)
def test_a_bad_document_is_one_line(name: str) -> None:
    """Every value of a document is replaced by every wrong one, or left out."""
    reader, document = READERS[name]
    reader.from_json(json.dumps(document))
    for place, text in _bad(name):
        with pytest.raises(InputError) as caught:
            pytest.fail(f"{place}: {reader.from_json(text)}")
        assert re.fullmatch(r"[^\n]+: [^\n]+; [^\n]+", str(caught.value)), place
        assert "--" not in caught.value.remedy, place


@pytest.mark.parametrize("name", READERS)
def test_the_command_says_the_same(bfio: Bfio, name: str) -> None:
    """Status 2, nothing on stdout, and one line that begins with the file."""
    for _, text in list(_bad(name))[::20]:
        Path("bad.json").write_text(text)
        done = bfio(name, "bad.json")
        assert (done.status, done.out) == (2, "")
        assert re.fullmatch(r"error: bad\.json: .+: .+; .+\n", done.err), done.err
