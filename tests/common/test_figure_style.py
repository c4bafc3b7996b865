"""Figures as files."""

import resource
from pathlib import Path

import pytest

from bfio.common.figure_style import ShownFigure, save
from formulations.errors import InputError


@pytest.mark.parametrize("name", ["a.pdf", "a.png", "a.svg"])
def test_a_full_disk_is_an_error_of_one_line(tmp_path: Path, name: str) -> None:
    """Whatever the format; here no file may have more than 100 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(
            InputError, match=rf"{name}: cannot be written \(.*\); choose another f"
        ):
            save(ShownFigure(), tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
