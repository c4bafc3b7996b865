"""The mark that says which kernels are compiled."""

from pathlib import Path

import pytest

from bfio.step.two_stage.kernels.on_disk import fingerprint, is_on_disk, note_on_disk


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with one source file, and an empty cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "one.py").write_text("x = 1")
    return folder


def test_a_mark_stands_until_the_sources_change(sources: Path) -> None:
    """Noted kernels are on disk; those of other sources or another name are not."""
    assert not is_on_disk("k", (sources,))
    note_on_disk("k", (sources,))
    assert is_on_disk("k", (sources,))
    assert not is_on_disk("other", (sources,))
    (sources / "one.py").write_text("x = 2")
    fingerprint.cache_clear()
    assert not is_on_disk("k", (sources,))


def test_where_no_mark_can_be_written_there_is_none(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in place of the cache folder is no error."""
    (sources / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(sources / "file" / "cache"))
    note_on_disk("k", (sources,))
    assert not is_on_disk("k", (sources,))
