"""Every number of a page follows from the rows it names; wrong numbers are detected."""

import re
from collections import Counter
from dataclasses import replace

from bfio.studies.row import Row
from tests.studies.report.pages import Number, Written
from tests.studies.report.recompute import CONDITIONS, STATISTICS, is_right


def wrong(written: Written, rows: dict[str, Row]) -> list[Number]:
    """Return the numbers that these rows do not give."""
    return [number for number in written.numbers if not is_right(number, rows)]


def test_every_number_is_recomputed(written: Written) -> None:
    """Thousands of them, of every statistic that the page knows."""
    assert wrong(written, dict(written.results.rows)) == []
    seen = Counter(number.statistic for number in written.numbers)
    assert set(seen) == set(STATISTICS)
    assert sum(seen.values()) > 3000


def test_every_number_names_rows_that_are_planned(written: Written) -> None:
    """Keys are those of the plan, none twice."""
    planned = {task.key for task in written.results.tasks}
    for number in written.numbers:
        keys = number.row_keys()
        assert len(set(keys)) == len(keys)
        assert planned.issuperset(keys)
        assert number.attributes["data-value"] or number.statistic == "environment"


def test_the_counts_at_the_head_name_all_rows_of_their_kind(written: Written) -> None:
    """None is left out: every planned row is in exactly the counts it belongs to."""
    head = [n for n in written.numbers if n.statistic == "count" and "header" in n.path]
    assert len(head) == 12
    for number in head:
        condition = CONDITIONS[number.attributes["data-value"]]
        expected = [
            t.key for t in written.results.tasks if condition(written.results.rows.get(t.key))
        ]
        assert sorted(number.row_keys()) == sorted(expected)
        assert number.shown == len(expected)
    # 480 = 474 done + one of each of five bad ends + one missing.
    assert [n.shown for n in head[:8]] == [480, 474, 1, 1, 1, 1, 1, 1]


def test_no_number_in_a_table_is_without_origin(written: Written) -> None:
    """What is not traced in our cells is an argument, a place on an axis, or a word."""
    arguments = {str(v) for t in written.results.tasks for v in t.arguments.values()}
    place = re.compile(r"[\d,.]+(e[+-]?\d+)?( to [\d,.]+(e[+-]?\d+)?)?")
    left = [text for text in written.untraced if re.search(r"\d", text) and text not in arguments]
    keys = set(written.results.rows)
    errors = {row.error for row in written.results.rows.values()}
    described = [t for t in left if t not in keys | errors and " = " not in t]
    assert [t for t in described if not place.fullmatch(t)] == []


def test_a_changed_row_is_noticed(written: Written) -> None:
    """The check can fail: with one value of one row changed, the numbers made of it are wrong."""
    key, row = next((k, r) for k, r in written.results.rows.items() if r.is_done)
    changed = replace(row, values={**row.values, "avg_imbalance": 1e6})
    found = wrong(written, {**written.results.rows, key: changed})
    assert found
    assert all(key in n.row_keys() + n.row_keys("data-baseline-keys") for n in found)


def test_a_wrong_digit_is_noticed(written: Written) -> None:
    """The check can fail: the last digit displayed counts."""
    number = next(n for n in written.numbers if n.statistic == "mean" and "." in n.text)
    other = str((int(number.text[-1]) + 2) % 10)
    assert not is_right(replace(number, text=number.text[:-1] + other), written.results.rows)
