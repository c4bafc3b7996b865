"""The studies in ``benchmarks/studies``: their files load, their rows are what they promise."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bfio.studies import kinds
from bfio.studies.report.selection import MEASURED
from bfio.studies.report_plan import FigureKind
from bfio.studies.row import RowContext, RowResult, Value, canonical
from bfio.studies.row_parts import workload_arguments
from bfio.studies.study import Study
from bfio.studies.study_file import read_study
from bfio.workloads import Workload, read_trace
from formulations.named_objects import found_from
from tests.places import STUDIES

FILES = sorted(STUDIES.glob("*/*.toml"))
SERIES = {FigureKind.TRAJECTORY, FigureKind.HISTOGRAM}
#: Whether rows are computed that have nothing to add to those before.
_DEEP = settings().max_examples > 100
#: Arguments whose values replicate a cell, and how often where it is not ten times.
REPLICATES = ("seed", "window")
REPLICATIONS: dict[str, int | tuple[int, ...]] = {
    # Thousands of measured steps per row.
    "01-paper-table/study": 4,
    # Wide grids of a few minutes, as their READMEs say.
    "02-heuristic-versus-exact/runs": 3,
    "02-heuristic-versus-exact/steps": 5,
    "03-look-ahead/study": 4,
    "04-scaling-in-workers/study": 3,
    # Exact steps on up to 8,192 slots: a row takes up to ten minutes.
    "05-improvement-ratio/study": 1,
    # Solves up to their time limits.
    "06-strength-of-the-bound/large": 3,
    "06-strength-of-the-bound/small": 3,
    "07-arrival-models/small-proven": 60,
    "07-arrival-models/variations": (6, 20, 60),
    "07-arrival-models/warm-start": 3,
    "09-protection/beta": 3,
    "11-lower-bounds/study": 1,
    "12-price-of-myopia/eight-workers": 6,
    "12-price-of-myopia/large": 6,
    "12-price-of-myopia/memory": 6,
    "12-price-of-myopia/small": 6,
    "14-nested-wait/study": 3,
    "15-segments-and-memory/buffer": 1,
    "15-segments-and-memory/simulated": 50,
    "16-scaling-of-the-gap/heavy-traffic": 64,
    "16-scaling-of-the-gap/horizon": 64,
    "17-traces-with-unknown-lengths/study": 3,
    # Exact steps over windows: so many fit a run of minutes, and its README says so.
    "18-active-look-ahead/exact": 3,
    "18-active-look-ahead/study": 3,
    "19-which-optimum/study": 2,
    "20-better-policy/study": 3,
    "22-adaptive/choice": 2,
    "22-adaptive/study": 3,
    "22-adaptive/unseen": (2, 3, 5),
    # A trace is evaluated once: nothing is drawn.
    "21-predictors/filter": 1,
    "21-predictors/study": 1,
    # Wide grids of a few minutes; a trace has so many windows that are worth one.
    "23-balance-route-table-1/pool": 3,
    "23-balance-route-table-1/timed": 4,
    "24-useless-signal/anchor": 3,
    "24-useless-signal/classifier": 3,
    "24-useless-signal/useless": 3,
    "25-robustness/study": 3,
    "26-throughput-and-imbalance/study": 3,
    "27-scaling-of-look-ahead/classifier": 3,
    "27-scaling-of-look-ahead/noise": 3,
    "27-scaling-of-look-ahead/workers": 3,
    "28-prefixes/excerpts": 5,
    "28-prefixes/pooled": 5,
    "28-prefixes/study": 5,
    "29-memory/study": 3,
    "30-speeds/study": 3,
    "31-failures/study": 3,
    "32-service-levels/own-times": 4,
    "32-service-levels/study": 3,
    "33-delay/study": 3,
    "34-power/study": 3,
    "35-regimes/study": 3,
    "36-pausing/study": 3,
    # Each row judges five seeds from two states.
    "37-saturation/boundary": 3,
    "37-saturation/study": 3,
    "38-networks/fork-join": 3,
    "38-networks/parallel": 5,
    "38-networks/study": 3,
    # Equal requests for every budget.
    "39-token-budget/study": 5,
    "40-routing-meets-batching/study": 3,
    # Nothing is drawn, but the beginning of a local search.
    "41-worst-cases/adversary": 1,
    "41-worst-cases/barrier": 1,
    "41-worst-cases/cache": (1, 2),
    "41-worst-cases/steady": 1,
    # 100,000 requests a row.
    "42-table-1-like-with-like/study": 5,
    # Exact steps, as in study 5.
    "43-drift/study": 1,
    "44-tiles-and-mesh/study": 3,
}


#: Seconds for a row or two of a kind of which other studies have quicker ones.
SLOW = (
    "02-heuristic-versus-exact/runs",
    "18-active-look-ahead/exact",
    "19-which-optimum/study",
    "40-routing-meets-batching/study",
)


@pytest.fixture(scope="module", autouse=True)
def traces_read_once() -> Iterator[None]:
    """Keep every trace that a study has read, for the other studies."""
    kept = cache(read_trace)

    def read(path: Path, **options: Any) -> Workload:
        # Each study comes to the same folder by a way of its own.
        return kept(path.resolve(), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{workload_arguments.__name__}.read_trace", read)
        yield


def _of_every_value(rows: Sequence[Mapping[str, Value]]) -> list[Mapping[str, Value]]:
    """Return rows among which every value of every argument occurs, but for replicates."""
    chosen, seen = [], set[str]()
    for row in rows:
        values = {f"{name}={row[name]!r}" for name in row if name not in REPLICATES}
        if values - seen:
            chosen.append(row)
            seen |= values
    return chosen


def _by_cells(rows: Sequence[Mapping[str, Value]]) -> dict[str, Mapping[str, Value]]:
    """Return one row for every set of arguments that there is, which decides what rows return."""
    return {" ".join(sorted(row)): row for row in reversed(rows)}


def _studies_with_data(path: Path) -> Study:
    study = read_study(path)
    if any("trace" in row for row in study.rows()) and not study.folder.is_dir():
        pytest.skip("../shared/data is not here: no real trace cut to read")
    return study


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_they_are_numbered_with_a_protocol_each() -> None:
    """Numbered folders; each says question, protocol, command and result."""
    folders = sorted({path.parent for path in FILES})
    numbers = [folder.name[:3] for folder in folders]
    assert numbers == [f"{number:02}-" for number in range(1, len(folders) + 1)]
    assert len(folders) >= 11
    for folder in folders:
        text = (folder / "README.md").read_text()
        for part in ("**Question.**", "## Protocol", "would count", "## Command", "## Result"):
            assert part in text, f"{folder.name} lacks {part}"


def test_studies_have_ten_seeds_per_cell_and_the_rows_the_readme_says() -> None:
    """At full size, or as many seeds as the paper has; the README's estimate is of these rows."""
    for path in FILES:
        rows = read_study(path).rows()
        cells = Counter(
            canonical({name: value for name, value in row.items() if name not in REPLICATES})
            for row in rows
        )
        expected = REPLICATIONS.get(_name(path), 10)
        assert {*cells.values()} == {*(expected if isinstance(expected, tuple) else [expected])}, (
            path
        )
        assert f"{len(rows):,}" in (path.parent / "README.md").read_text(), path


def _assert_valid(study: Study, rows: Sequence[Mapping[str, Value]]) -> None:
    """Assert that rows pass the checks of their kind."""
    kind = kinds.find(study.computes)
    digests = {kind.instance(row, RowContext(study.folder)) for row in rows}
    assert all(len(digest) == 16 for digest in digests)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_row_with_every_value_is_valid(path: Path) -> None:
    """Every value of every argument, at full size and at the small one."""
    study = _studies_with_data(path)
    with found_from(path.parent):
        _assert_valid(study, _of_every_value([*study.rows(), *study.small().rows()]))


@pytest.mark.deep
@pytest.mark.parametrize("path", FILES, ids=_name)
def test_every_row_is_valid(path: Path) -> None:
    """All combinations and replicates too."""
    study = _studies_with_data(path)
    with found_from(path.parent):
        _assert_valid(study, [*study.rows(), *study.small().rows()])


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.deep) if _name(path) in SLOW else path
        for path in FILES
    ],
    ids=_name,
)
def test_the_report_asks_for_what_there_is(path: Path) -> None:
    """Arguments that rows have, values that rows return."""
    study = _studies_with_data(path)
    rows = study.small().rows()
    arguments = {name for row in rows for name in row}
    tables, figures = study.report.tables, study.report.figures
    asked = {*(figure.y for figure in figures), *(y for table in tables for y in table.values)}
    values, series = {*MEASURED}, set[str]()
    for number, row in enumerate(_by_cells(rows).values()):
        if number and asked <= values | series and not _DEEP:
            break
        # A run that is repeated until a part of it is measured returns no other values.
        once = {"repeat": 1} if "repeat" in row and not _DEEP else {}
        with found_from(path.parent):
            result = kinds.find(study.computes).compute({**row, **once}, RowContext(study.folder))
        assert isinstance(result, RowResult)
        assert result.violations == {}
        values |= {*result.values, *result.timings}
        series |= {*result.series}
    for table in tables:
        assert {*table.rows, *table.baseline, *table.where} <= arguments
        assert set(table.values) <= values
    for figure in figures:
        drawn = {*figure.group, *filter(None, [figure.panel]), *figure.where}
        # Of a series, x names the index.
        drawn |= {*filter(None, [figure.x])} if figure.kind not in SERIES else set()
        assert drawn <= arguments
        assert figure.y in (series if figure.kind in SERIES else values)
