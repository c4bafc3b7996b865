"""Users' objects: the search order, and the errors if they are not found."""

from pathlib import Path

import pytest

from bfio.common.plugins import users_digest
from formulations.errors import InputError
from formulations.named_objects import check_call, found_from, load_object


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Make a study's folder and a working directory, with files of the same names."""
    study, here = tmp_path / "study", tmp_path / "here"
    for folder, value in ((study, 1), (here, 2)):
        folder.mkdir()
        (folder / "numbers.py").write_text(f"number = {value}\n")
    monkeypatch.chdir(here)
    return study, here


def test_files_of_one_name_are_told_apart(folders: tuple[Path, Path]) -> None:
    """Relative to the study first, then to the working directory; ``numbers`` stays Python's."""
    study, here = folders
    assert load_object("numbers.py:number", "number") == 2
    with found_from(study):
        assert load_object("numbers.py:number", "number") == 1
        assert load_object(f"{here}/numbers.py:number", "number") == 2
    assert load_object("numbers:Integral", "number") is not None


def test_what_a_file_imports_stands_beside_it(folders: tuple[Path, Path]) -> None:
    """An imported neighbour is found, and its content enters the digest of the sources."""
    study, _ = folders
    (study / "helper_of_mine.py").write_text("three = 3\n")
    (study / "using.py").write_text("from helper_of_mine import three as number\n")
    name = f"{study}/using.py:number"
    assert load_object(name, "number") == 3
    before = users_digest(name)
    (study / "helper_of_mine.py").write_text("three = 3  # changed\n")
    assert users_digest(name) != before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone.py:f", r"no file gone.py in .*/here; give the full path of the file"),
        ("numbers.py:numbr", "file numbers.py has no numbr; did you mean number\\? check"),
        ("numbers.py", "incomplete number name; write module:NAME or path/to/file.py:NAME"),
        ("broken.py:f", r"importing it raised SyntaxError: .*broken.py"),
        ("no_such:f", "no module named no_such; run from its folder, install it, or write"),
    ],
)
def test_what_cannot_be_found_is_told_in_one_line(
    folders: tuple[Path, Path], name: str, words: str
) -> None:
    """The error states place, fault and remedy."""
    (folders[1] / "broken.py").write_text("def f(:\n\n\n")
    with pytest.raises(InputError, match=words) as caught:
        load_object(name, "number")
    assert "\n" not in str(caught.value)


def test_calls_are_checked_before_they_happen() -> None:
    """The number of arguments is checked; unknown signatures are accepted."""
    check_call(lambda state: state, "f", "state")
    check_call(max, "max", "state")
    with pytest.raises(InputError, match=r"cannot be called with \(a, b\).*let it take \(a, b\)"):
        check_call(lambda a: a, "f", "a", "b")
    with pytest.raises(InputError, match="an int is not callable; name a function of"):
        check_call(3, "f", "a")
