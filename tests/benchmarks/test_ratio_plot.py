"""The figure of study 22 shows the numbers of its table."""

import pytest

from benchmarks.ratio_plot import DESIGN, PANELS, STUDY, draw, ratios
from bfio.studies.report.markdown import read_records

RECORDS = read_records(STUDY.with_suffix(".csv"))


@pytest.mark.parametrize("metric", PANELS)
def test_each_trace_and_machine_is_there_once(metric: str) -> None:
    """Nine traces on two machines, the mean within its interval."""
    found = ratios(RECORDS, metric)
    assert len({(ratio.trace, ratio.workers) for ratio in found}) == len(found) == 18
    assert sum(ratio.trace not in DESIGN for ratio in found) == 12
    assert all(ratio.lower <= ratio.mean <= ratio.upper for ratio in found)


def test_a_ratio_is_that_of_the_best_fixed_setting() -> None:
    """The table has the other way round."""
    found = {(r.trace[:10], r.workers): r.mean for r in ratios(RECORDS, "measured.avg_imbalance")}
    assert found["azure_code", 16] == pytest.approx(1 / 1.248, abs=0.001)
    assert found["arxiv_summ", 32] == pytest.approx(2.00, abs=0.005)


def test_the_figure_has_a_panel_for_each_metric() -> None:
    """Two machines and two lines each."""
    figure = draw(RECORDS, {})
    assert [axes.get_title() for axes in figure.axes] == [title for title, _ in PANELS.values()]
