"""Figures as files."""

import errno
import os
from pathlib import Path

import pytest

from bfio.common.figure_style import ShownFigure, save
from formulations.errors import InputError


@pytest.mark.parametrize("name", ["a.pdf", "a.png", "a.svg"])
def test_a_full_disk_is_an_error_of_one_line(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the format; the figure before it stays as it was."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    save(ShownFigure(), tmp_path / name)
    before = (tmp_path / name).read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=rf"{name}: No space left on device; choose a writable"):
        save(ShownFigure(), tmp_path / name)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: before}


def test_a_device_stays_one(tmp_path: Path) -> None:
    """A link to it is not replaced by a figure, nor is the device."""
    (tmp_path / "a.png").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"a\.png: is a device or a pipe; choose the name of a"):
        save(ShownFigure(), tmp_path / "a.png")
    assert Path("/dev/full").is_char_device()
    assert (tmp_path / "a.png").is_symlink()
