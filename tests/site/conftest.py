"""The site built by ``make docs``, and a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.places import ROOT


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the built site."""
    folder = ROOT / "out" / "site"
    if not (folder / "index.html").is_file():
        pytest.skip("no site here: make docs")
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a browser for all pages."""
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started
