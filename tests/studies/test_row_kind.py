"""Kinds of rows describe their values, and the documents repeat what they say."""

from pathlib import Path

import pytest

from bfio.cli.main import main
from bfio.studies import kinds
from bfio.studies.report.markdown import filled, marked_tables
from bfio.studies.row import RowContext
from bfio.studies.row_kind import Described, Planned, RowKind, planned_kind
from tests.places import DOCS

_PAGE = DOCS / "row-kinds.md"


def test_the_document_shows_what_kinds_say() -> None:
    """Written by ``bfio study kinds --output docs/row-kinds.md``."""
    text = _PAGE.read_text(encoding="utf-8")
    arguments = [
        "batching-arguments",
        "classes",
        "evaluation",
        "requests",
        "stage-trace",
        "stages",
    ]
    assert sorted(marked_tables(text)) == sorted([*kinds.names(), *arguments])
    assert filled(text, kinds.tables(), "docs/row-kinds.md") == text


def test_kinds_are_called_like_their_modules() -> None:
    """So that none has to be loaded to be found."""
    assert [kinds.find(name).name for name in kinds.names()] == kinds.names()


def test_arguments_are_read_once_per_row() -> None:
    """By a function that returns the digest and what computes the row."""
    read: list[int] = []

    def plan(arguments: object, context: RowContext) -> Planned:
        read.append(1)
        return Planned("digest", lambda: {"y": 2})

    kind = planned_kind("made-up", "y", plan, [Described("y", "m", "height")])
    planned = kind.planned({}, RowContext(Path()))
    assert (planned.instance, planned.compute(), read) == ("digest", {"y": 2}, [1])
    assert kind.instance({}, RowContext(Path())) == "digest"
    assert kind.compute({}, RowContext(Path())) == {"y": 2}


def test_parts_and_half_widths_are_described() -> None:
    """By what they are parts and intervals of; unknown ones stay unknown."""
    kind = RowKind("k", "?", lambda a, c: {}, values=[Described("y", "m", "height")])
    kind = RowKind("k", "?", kind.compute, values=kind.values, parts={"late.": "at the end"})
    assert kind.describe("late.y") == Described("late.y", "m", "height, at the end")
    half = "half the width of the 95 % interval (batch means) of: height, at the end"
    assert kind.describe("late.y.half_width").text == half
    assert kind.describe("late.z").text == ""
    assert "| `y` | m | height |" in kind.table()


def test_kinds_as_users_see_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A list, the values of one, and the tables of a document."""
    assert main(["study", "kinds"]) == 0
    assert "kv-cache" in capsys.readouterr().out
    assert main(["study", "kinds", "tests.studies.rows:square"]) == 0
    assert "| `square` | m2 | the second power |" in capsys.readouterr().out
    page = tmp_path / "page.md"
    page.write_text("<!-- table gap -->\n<!-- end -->\n")
    assert main(["study", "kinds", "gap", "--json", "--output", str(page)]) == 0
    assert "`regret_mean`" in page.read_text()
