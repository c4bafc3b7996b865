"""The report of a study is accessible."""

from pathlib import Path
from typing import Any

import pytest

from bfio.studies.report.page import write_report
from tests.browser import WIDTHS, opened
from tests.site.test_pages import grave_errors
from tests.studies.report import synthetic

pytestmark = [pytest.mark.site, pytest.mark.timeout(600)]


def test_the_report_of_a_study_keeps_nobody_out(browser: Any, tmp_path: Path) -> None:
    """The checker finds no serious or critical error on it, wide or narrow."""
    study = synthetic.study()
    results = synthetic.stored(study, synthetic.rows(study), tmp_path / "made-up.sqlite")
    write_report(results, tmp_path / "out")
    for width in WIDTHS:
        opened(browser, tmp_path / "out" / "report.html", width)
        assert grave_errors(browser) == []
