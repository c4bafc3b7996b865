"""The page of the made-up study, written once."""

import pytest

from bfio.studies.report.page import write_report
from tests.studies.report import synthetic
from tests.studies.report.pages import Written, parse


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write the page of the made-up study from a store."""
    folder = tmp_path_factory.mktemp("report")
    study = synthetic.study()
    results = synthetic.stored(study, synthetic.rows(study), folder / "made-up.sqlite")
    write_report(results, folder / "out")
    page = folder / "out" / "report.html"
    return Written(results, page, *parse(page))
