"""Run commands in this process and look at what they print."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bfio.cli import main


@dataclass(frozen=True)
class Done:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Bfio = Callable[..., Done]


@pytest.fixture
def bfio(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bfio:
    """Run ``bfio`` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        try:
            status = main(arguments)
        except SystemExit as leaving:
            status = int(leaving.code or 0)
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return run
