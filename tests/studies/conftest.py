"""Rows of studies, computed without processes where a test is not about those."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bfio.studies import runner
from bfio.studies.limits import Limits
from bfio.studies.messages import Order, Report
from bfio.studies.row import Row
from bfio.studies.worker import report_on
from formulations.named_objects import found_from


def _rows(orders: Sequence[Order], limits: Limits, *others: object) -> Iterator[Row]:
    """Yield rows as `compute_locally` does; orders and reports go through their bytes as there."""
    del limits, others
    for order in orders:
        with found_from(Path(order.home)):
            report = report_on(Order.from_bytes(order.to_bytes()))
        yield Report.from_bytes(report.to_bytes()).to_row(order.task, attempts=1)


@pytest.fixture
def rows_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute rows here: a process that loads the toolkit costs seconds."""
    monkeypatch.setattr(runner, "compute_locally", _rows)
