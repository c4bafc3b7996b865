"""The page: complete, escaped, deterministic, and written atomically."""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bfio.studies.kinds import describe, with_unit
from bfio.studies.report import files
from bfio.studies.report.page import breakable, write_report
from bfio.studies.report_plan import Figure, FigureKind, ReportPlan, Table
from bfio.studies.results import Results
from bfio.studies.row import Row, Status
from bfio.studies.study import Grid, Study
from formulations.errors import InputError
from tests.studies.report import synthetic
from tests.studies.report.pages import Written, parse

EVIL = "<script>alert(1)</script>\"'&amp;"


def small(**changes: object) -> Study:
    """Return a study of eight rows with a table and a figure."""
    plan = ReportPlan(
        (Table("Values", ("policy",), ("avg_imbalance",)),),
        (Figure("Lines", FigureKind.LINES, "avg_imbalance", x="workers", group=("policy",)),),
    )
    grid = Grid(
        {"trace": ("burstgpt",), "policy": ("fcfs", "br-0"), "workers": (4, 8), "window": (0, 1)}
    )
    return replace(synthetic.study(), **{"grids": (grid,), "report": plan, **changes})  # type: ignore[arg-type]


def small_results(**changes: object) -> Results:
    """Return its results, all rows but the last done."""
    study = small(**changes)
    return synthetic.results(study, synthetic.rows(study))


def digests(paths: list[Path], folder: Path) -> Mapping[str, str]:
    """Return the digest of each file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def test_equal_rows_give_equal_files(tmp_path: Path) -> None:
    """Every byte of every file, through a store and at another time."""
    study = small()
    rows = synthetic.rows(study)
    found = []
    for name in ("one", "two"):
        results = synthetic.stored(study, rows, tmp_path / name / "s.sqlite")
        results = replace(results, store=Path("s.sqlite"))
        folder = tmp_path / name / "out"
        found.append(digests(write_report(results, folder), folder))
    assert found[0] == found[1]
    assert set(found[0]) == {
        "report.html",
        "rows.csv",
        "rows.parquet",
        "tables/01-values.csv",
        "figures/01-lines.svg",
        "figures/01-lines.png",
        "figures/01-lines.csv",
    }


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.attributes += [(name, value or "") for name, value in attrs]


def test_names_are_not_taken_for_html(tmp_path: Path) -> None:
    """A script in every place where a user or a data file can put text."""
    plan = ReportPlan(
        (
            Table(
                EVIL,
                (EVIL,),
                (EVIL, "word"),
                note=EVIL,
                where={"x": 1},
                baseline={EVIL: EVIL},
                published=({EVIL: EVIL, "word": EVIL, "source": EVIL},),
            ),
        ),
        tuple(
            Figure(EVIL, kind, y, x="x", group=(EVIL,), panel=EVIL, note=EVIL, where={EVIL: EVIL})
            for kind, y in (
                *((kind, EVIL) for kind in FigureKind),
                (FigureKind.HISTOGRAM, "absent" + EVIL),
            )
        ),
    )
    study = replace(
        small(),
        question=EVIL,
        computes=EVIL,
        grids=(Grid({EVIL: (EVIL, "b"), "x": (1, 2)}),),
        fixed={EVIL + "f": EVIL},
        report=plan,
    )
    rows = [
        replace(
            synthetic.done(task, {EVIL: 1, "word": EVIL}, series={EVIL: [1.0, 0.0]}),
            environment={EVIL: {EVIL: EVIL}},
            finished_at=EVIL,
        )
        for task in synthetic.tasks(study)
    ]
    rows[-1] = replace(rows[-1], status=Status.FAILED, error=EVIL)
    results = replace(synthetic.results(study, rows), command=EVIL, store=Path("a" + EVIL[9:20]))
    write_report(results, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = _Tags()
    tags.feed(page)
    assert tags.scripts == 1
    assert EVIL not in page
    assert page.count("alert(1)") > 40
    assert not [name for name, _ in tags.attributes if name.startswith("on")]


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """No address but those within the page; the policy allows its own script only."""
    write_report(small_results(), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    targets = re.findall(r'(?:href|src|action)="([^"]*)"', page)
    assert all(target.startswith("#") or target == "data:," for target in targets)
    assert not re.search(r"@import|url\((?!#)", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "script-src 'sha256-" in policy[1]


def test_what_a_reader_must_know_is_there(written: Written) -> None:
    """Question, command, store, machine, versions, commit, dates, errors, units."""
    page = written.page.read_text(encoding="utf-8")
    for text in (
        written.results.study.question,
        "bfio study run made-up.toml",
        "made-up.sqlite",
        "Xeon",
        "numpy 2.4.6",
        "b2a49f1c0ffee",
        "2025-11-20T08:00:00Z",
        "its process died five times (signal 11)",
        "unknown: the process of these rows ended",
        "mean over steps of G·max load - total load",
        "BF-IO, Table 1",
        "slots",
    ):
        assert text in page, text


def test_no_row_done_is_told(tmp_path: Path) -> None:
    """An error in one line, and no file."""
    study = small()
    with pytest.raises(
        InputError, match="none of the 8 rows of study made-up has been computed; run"
    ):
        write_report(synthetic.results(study, []), tmp_path / "out")
    ends = [Status.FAILED, Status.FAILED, Status.TIMED_OUT]
    rows = [Row(t, end) for t, end in zip(synthetic.tasks(study), ends, strict=False)]
    told = "has a result: 2 failed, 1 timed out, 5 not computed yet; see .* with retry=True"
    with pytest.raises(InputError, match=told):
        write_report(synthetic.results(study, rows), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_odd_characters_and_long_errors_do_no_harm(tmp_path: Path) -> None:
    """NUL, an escape, half a surrogate pair and a megabyte: shown, replaced or cut."""
    odd = "a\0b\x1b[1mc\ud800d"
    study = small(
        grids=(Grid({"policy": (odd, "b"), "workers": (1, 2)}),),
        report=ReportPlan(
            (Table(odd, ("policy",), ("y", odd), note=odd),),
            (
                Figure(odd, FigureKind.LINES, "y", x="policy", note=odd),
                Figure(odd, FigureKind.SCALING, "y", x="workers", group=("policy",)),
                Figure(odd, FigureKind.TRAJECTORY, odd, group=("policy",)),
            ),
        ),
    )
    rows = [
        synthetic.done(task, {"y": 1, odd: odd}, series={odd: [1.0, 2.0]})
        for task in synthetic.tasks(study)
    ]
    rows[-1] = replace(rows[-1], status=Status.FAILED, error=odd + "x" * 10**6)
    write_report(synthetic.results(study, rows), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", page)
    assert "a\ufffdb\ufffd[1mc\ufffdd" in page
    assert "(cut: 1,000,010 characters; the store has them all)" in page
    assert "x" * 301 not in page
    assert "x" * 10**6 in (tmp_path / "rows.csv").read_text(encoding="utf-8")


def test_rows_that_the_clock_stopped_are_told(written: Written, tmp_path: Path) -> None:
    """In the head, and only if there are any."""
    sentence = "need not come out the same when computed again"
    assert sentence in written.page.read_text(encoding="utf-8").partition("</header>")[0]
    study = small()
    rows = [replace(row, stopped_by_clock=False) for row in synthetic.rows(study)]
    write_report(synthetic.results(study, rows), tmp_path)
    assert sentence not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_conditions_read_as_words(tmp_path: Path) -> None:
    """Not as Python."""
    plan = ReportPlan(
        (Table("T", ("policy",), ("avg_imbalance",), where={"workers": [4, 8], "policy": "fcfs"}),)
    )
    write_report(small_results(report=plan), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Only rows with workers = 4 or 8, policy = fcfs." in page


def test_one_row_is_enough(tmp_path: Path) -> None:
    """No interval anywhere, most cells empty."""
    study = synthetic.study()
    write_report(synthetic.results(study, synthetic.rows(study)[:1]), tmp_path)
    numbers, _ = parse(tmp_path / "report.html")
    assert not [n for n in numbers if n.statistic.endswith("-lower")]


def test_a_study_without_a_plan_has_a_page(tmp_path: Path) -> None:
    """Counts and provenance only."""
    write_report(small_results(report=ReportPlan()), tmp_path)
    numbers, _ = parse(tmp_path / "report.html")
    assert {n.statistic for n in numbers} == {"count", "sum", "max-mebibytes", "environment"}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A file in its place; the error names it and what to do."""
    (tmp_path / "taken").write_text("x", encoding="ascii")
    with pytest.raises(InputError, match=r"taken: cannot be written \(.*\); choose another"):
        write_report(small_results(), tmp_path / "taken")


def test_no_space_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third file finds the disk full: the old files stand as they were, nothing beside."""
    results = small_results()
    before = digests(write_report(results, tmp_path), tmp_path)
    whole, written = Path.write_bytes, []

    def limited(path: Path, data: bytes) -> int:
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        return whole(path, data)

    monkeypatch.setattr(Path, "write_bytes", limited)
    with pytest.raises(InputError, match="No space left on device"):
        write_report(replace(results, command="another"), tmp_path)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert digests(left, tmp_path) == before


def test_an_earlier_report_gives_way(tmp_path: Path) -> None:
    """Its tables go where the plan has none of the name; files of others stay."""
    write_report(small_results(), tmp_path)
    (tmp_path / "tables" / "notes.txt").write_text("mine", encoding="ascii")
    plan = ReportPlan((Table("Other", ("policy",), ("avg_imbalance",)),))
    write_report(small_results(report=plan), tmp_path)
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert names == ["01-other.csv", "notes.txt"]


@pytest.mark.parametrize(
    ("title", "name"),
    [("What is it?", "01-what-is-it"), ("../../etc", "01-etc"), ("负载", "01-"), ("a" * 99, None)],
)
def test_titles_as_file_names(title: str, name: str | None) -> None:
    """Letters and digits only, and not too long."""
    found = files.slug(1, title)
    assert found == (name or f"01-{'a' * 48}")


def test_descriptions_of_values() -> None:
    """Metrics by their table, the part of the run said; what a user's own function says."""
    assert with_unit("simulate", "avg_imbalance") == "avg_imbalance (whole run) [tokens]"
    assert "steady part" in describe("simulate", "steady.avg_imbalance").text
    half = describe("simulate", "steady.avg_imbalance.half_width")
    assert half.unit == "tokens"
    assert half.text.startswith("half the width of the 95 % interval (batch means) of: mean over")
    assert describe("simulate", "steady.nobody_knows.half_width").text == ""
    assert with_unit("simulate", "idle_fraction") == "idle_fraction (whole run)"
    own = "tests.studies.rows:square"
    assert with_unit(own, "wall_s") == "wall_s [s]"
    assert with_unit(own, "square") == "square [m2]"
    assert describe(own, "avg_imbalance").text == ""
    assert describe("mine:rows", "square").text == ""


def test_names_break_after_underscores() -> None:
    """And stay escaped."""
    assert str(breakable("a_<b>.c")) == "a_<wbr>&lt;b&gt;.<wbr>c"


@pytest.mark.deep
def test_ten_thousand_rows_take_seconds(tmp_path: Path) -> None:
    """A study of 9,600 rows, with every table and every kind of figure."""
    axes = dict(synthetic.study().grids[0].axes)
    study = synthetic.study(grids=(Grid({**axes, "window": tuple(range(200))}),))
    rows = synthetic.rows(study)
    shorter = [replace(r, series={k: s[:300] for k, s in r.series.items()}) for r in rows]
    start = time.process_time()
    write_report(synthetic.results(study, shorter), tmp_path)
    assert time.process_time() - start < 20
    assert (tmp_path / "report.html").stat().st_size < 30e6
