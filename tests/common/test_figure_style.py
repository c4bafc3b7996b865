"""Figures as files."""

from pathlib import Path

import pytest

from bfio.common.figure_style import ShownFigure, save
from formulations.errors import InputError


@pytest.mark.parametrize("name", ["a.pdf", "a.png", "a.svg"])
def test_a_full_disk_is_an_error_of_one_line(tmp_path: Path, name: str) -> None:
    """Whatever the format."""
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(InputError, match=rf"{name}: cannot be written \(.*\); choose another f"):
        save(ShownFigure(), tmp_path / name)
