"""The page of the made-up study, written once."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from bfio.studies.report.page import write_report
from bfio.studies.results import Results
from tests.studies.report import synthetic
from tests.studies.report.pages import Number, parse


@dataclass(frozen=True)
class Written:
    """A page, its numbers and other texts in tables, and what it was made of."""

    results: Results
    page: Path
    numbers: list[Number]
    untraced: list[str]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write the page of the made-up study from a store."""
    folder = tmp_path_factory.mktemp("report")
    study = synthetic.study()
    results = synthetic.stored(study, synthetic.rows(study), folder / "made-up.sqlite")
    write_report(results, folder / "out")
    page = folder / "out" / "report.html"
    return Written(results, page, *parse(page))
