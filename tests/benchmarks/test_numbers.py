"""Every number in the README of a study has a source in the results in its folder."""

import re
from pathlib import Path

import pytest

from benchmarks.readme import RESULTS, documents, made_anew
from bfio.studies.study_file import read_study
from tests.benchmarks.numbers import Results, claims, plain, stands_in, unsourced
from tests.places import ROOT, STUDIES

FOLDERS = sorted(path.parent for path in STUDIES.glob("*/README.md"))
#: Studies whose results were written by the report; those of others were transcribed from it.
FILES = [path for path in sorted(STUDIES.glob("*/*.toml")) if path.with_suffix(".csv").is_file()]


def _readme(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("document", "folder"), [*documents()], ids=lambda path: path.stem)
def test_tables_are_those_of_the_results(document: Path, folder: Path) -> None:
    """Made anew from the results, every table is as it stands; a study's README has one."""
    text = document.read_text(encoding="utf-8")
    assert "<!-- table " in text or folder == RESULTS
    assert made_anew(document, folder) == text


@pytest.mark.parametrize("folder", [RESULTS, *FOLDERS], ids=lambda path: path.parent.name)
def test_sentences_follow_from_the_results(folder: Path) -> None:
    """Every claim, its holes filled, stands in a document of these results."""
    texts = [page.read_text(encoding="utf-8") for page, of in documents() if of == folder]
    text = plain("\n".join(texts))
    missing = [sentence for sentence in claims(folder) if not stands_in(sentence, text)]
    assert not missing


@pytest.mark.parametrize("page", ["docs/findings.md", "docs/performance.md"])
def test_no_measured_number_of_a_page_is_without_a_source(page: str) -> None:
    """On speeds and studies every number is in a table, in a claim, or a setting."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not unsourced(text, claims(RESULTS))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_no_number_is_without_a_source(folder: Path) -> None:
    """In the result of a study every number is in a table, in a claim, or a setting."""
    text = _readme(folder)
    result = text[text.index("## Result") :]
    assert not unsourced(result, claims(folder))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_results_are_of_the_study_as_it_is(path: Path) -> None:
    """All planned rows were computed, and every number says by which commit."""
    results = Results(path.with_suffix(".csv"))
    assert results("planned", table="rows") == len(read_study(path).rows())
    assert results("done", table="rows") <= results("planned", table="rows")
    assert results.word("commit", table="rows")


def test_every_study_has_its_number_in_its_folder_title_and_finding() -> None:
    """One row each on the page of findings, in order."""
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[(\d+)\. .*?\]\(\.\./benchmarks/studies/(.*?)/README", page, re.MULTILINE
    )
    assert [folder for _, folder in rows] == [folder.name for folder in FOLDERS]
    for number, folder in rows:
        assert folder.startswith(f"{int(number):02d}-")
        assert _readme(STUDIES / folder).startswith(f"# {number}. ")


@pytest.mark.parametrize("text", ["more on twoour", "on one more on two", "more on two.5"])
def test_a_sentence_ends_where_its_last_word_ends(text: str) -> None:
    """What begins or goes on within a word or number is another sentence."""
    assert stands_in("more on two", "more on two, and")
    assert stands_in("more on two", text) == (text == "on one more on two")
    assert not stands_in("0.5 % are left", "10.5 % are left")
    assert not stands_in("up to 1.4", "up to 1.45")


def test_a_number_without_a_source_is_found() -> None:
    """Settings and sentences are none."""
    text = (
        "With H = 20 and G = 4, 8, see Theorem 6.2 and (10), it is 3.1 times (2.0 to 4.7) or 17 %."
    )
    assert [found.count("17") for found in unsourced(text, ["3.1 times (2.0 to 4.7)"])] == [1]
