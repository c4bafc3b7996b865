"""Recompute every number of a page from the rows of a store, with separate arithmetic."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scipy import stats

from bfio.studies.row import Row, RowVerdict, Status
from tests.studies.report.pages import Number

Rows = Mapping[str, Row]


def look_up(row: Row, name: str) -> Any:
    """Return a value of a row by name."""
    for place in (row.values, row.timings):
        if name in place:
            return place[name]
    return getattr(row, name, None)


def values(number: Number, rows: Rows) -> list[float]:
    """Return the numbers it is said to be made of, undefined ones left out."""
    found = [look_up(rows[key], number.attributes["data-value"]) for key in number.row_keys()]
    return [float(value) for value in found if isinstance(value, int | float)]


def _t_interval(sample: Sequence[float]) -> tuple[float, float]:
    error = statistics.stdev(sample) / math.sqrt(len(sample))
    low, high = stats.t.interval(0.95, len(sample) - 1, statistics.fmean(sample), error or 1e-300)
    return float(low), float(high)


#: Means on linear axes of which the kind of row says nothing: they may be negative.
SIGNED = frozenset({"gap"})


def _mean_interval(number: Number, sample: Sequence[float]) -> tuple[float, float]:
    """Return the t interval of a mean, of its logarithm where values are 0 or more."""
    low, high = _t_interval(sample)
    centre = statistics.fmean(sample)
    if number.attributes["data-value"] in SIGNED:
        return low, high
    return centre * math.exp((low - centre) / centre), centre * math.exp((high - centre) / centre)


def _median_place(count: int) -> int:
    """Return how many values are cut off at each end."""
    places = [
        cut
        for cut in range((count - 1) // 2 + 1)
        if cut == 0 or 2 * stats.binom.cdf(cut, count, 0.5) <= 0.05
    ]
    return max(places)


def _median_interval(sample: Sequence[float]) -> tuple[float, float]:
    cut, ordered = _median_place(len(sample)), sorted(sample)
    return ordered[cut], ordered[len(ordered) - 1 - cut]


def _coverage(sample: Sequence[float]) -> float:
    cut = _median_place(len(sample))
    return 100 * float(1 - 2 * stats.binom.cdf(cut, len(sample), 0.5))


def _logs(number: Number, rows: Rows) -> list[float]:
    name = number.attributes["data-value"]
    pairs = zip(number.row_keys(), number.row_keys("data-baseline-keys"), strict=True)
    return [
        math.log(look_up(rows[ours], name) / look_up(rows[theirs], name)) for ours, theirs in pairs
    ]


def _check_pairs(number: Number, rows: Rows) -> None:
    """Partners differ in at most the arguments of the baseline of the made-up study."""
    for ours, theirs in zip(number.row_keys(), number.row_keys("data-baseline-keys"), strict=True):
        ours_left, theirs_left = dict(rows[ours].task.arguments), dict(rows[theirs].task.arguments)
        assert ours_left.pop("policy") != theirs_left.pop("policy")
        assert ours_left == theirs_left


def _fit(number: Number, rows: Rows) -> Any:
    x = [
        math.log(float(str(rows[k].task.arguments[number.attributes["data-x"]])))
        for k in number.row_keys()
    ]
    y = [math.log(value) for value in values(number, rows)]
    return stats.linregress(x, y), len(x)


def _fit_end(number: Number, rows: Rows, sign: int) -> float:
    fit, count = _fit(number, rows)
    return float(fit.slope + sign * stats.t.ppf(0.975, count - 2) * fit.stderr)


def _blocks(number: Number, rows: Rows) -> list[float]:
    start, end = int(number.attributes["data-from"]), int(number.attributes["data-to"])
    series = [rows[key].series[number.attributes["data-value"]] for key in number.row_keys()]
    return [statistics.fmean(entries[start:end]) for entries in series if entries[start:end]]


def _entries(number: Number, rows: Rows) -> tuple[int, int]:
    """Return how many pooled entries are in the bin, and how many there are."""
    low, high = float(number.attributes["data-from"]), float(number.attributes["data-to"])
    name = number.attributes["data-value"]
    pooled = [entry for key in number.row_keys() for entry in rows[key].series.get(name, [])]
    if low == high:
        return sum(entry == low for entry in pooled), len(pooled)
    return sum(low <= entry < high and entry != 0 for entry in pooled), len(pooled)


def _within(number: Number, rows: Rows) -> float:
    name = number.attributes["data-value"]
    names = number.attributes["data-instance"].split()
    sign = {"min": 1, "max": -1}[number.attributes["data-best"]]

    def by_instance(keys: Sequence[str]) -> dict[tuple[Any, ...], list[float]]:
        found: dict[tuple[Any, ...], list[float]] = {}
        for key in keys:
            instance = tuple(rows[key].task.arguments[n] for n in names)
            own = found.setdefault(instance, [])
            if rows[key].status is Status.DONE and look_up(rows[key], name) is not None:
                own.append(look_up(rows[key], name))
        return found

    ours = by_instance(number.row_keys())
    everyone = by_instance(number.row_keys("data-baseline-keys"))
    factor, good = float(number.attributes["data-factor"]) * (1 + 1e-9), 0
    for instance, all_values in everyone.items():
        for value in ours.get(instance, []):
            best = min(all_values, key=lambda v: sign * v)
            is_within = value <= factor * best if sign > 0 else best <= factor * value
            good += value == best or is_within
    return 100 * good / len(everyone)


CONDITIONS: Mapping[str, Callable[[Row | None], bool]] = {
    "planned": lambda row: True,
    "missing": lambda row: row is None,
    "unproven": lambda row: row is not None and row.status is Status.DONE and row.unproven > 0,
    "stopped-by-clock": lambda row: row is not None and row.stopped_by_clock,
    "passed": lambda row: (
        row is not None and row.status is Status.DONE and row.verdict is RowVerdict.PASSED
    ),
    "unchecked": lambda row: (
        row is not None and row.status is Status.DONE and row.verdict is RowVerdict.NONE
    ),
} | {
    status.value: lambda row, status=status: row is not None and row.status is status
    for status in Status
}


def _count(number: Number, rows: Rows) -> int:
    condition = CONDITIONS[number.attributes["data-value"]]
    assert all(condition(rows.get(key)) for key in number.row_keys())
    return len(set(number.row_keys()))


def _words(number: Number, rows: Rows) -> int:
    name, word = number.attributes["data-value"], number.attributes["data-word"]
    return sum(look_up(rows[key], name) == word for key in number.row_keys())


def _incomplete(number: Number, rows: Rows) -> int:
    """Each of them is not done itself, or has no partner under this policy that is."""
    for key in number.row_keys():
        wanted = dict(rows[key].task.arguments, policy="fcfs") if key in rows else None
        partners = [r for r in rows.values() if r.task.arguments == wanted and r.is_done]
        assert key not in rows or not rows[key].is_done or not partners
    return len(number.row_keys())


def _memory(number: Number, rows: Rows) -> float:
    return round(max(values(number, rows)) / 2**20)


def _undefined(number: Number, rows: Rows) -> int:
    return len(number.row_keys()) - len(values(number, rows))


def _not_positive(number: Number, rows: Rows) -> int:
    """Each pair left out has a value that is not positive; so has each row left out of a fit."""
    name, others = number.attributes["data-value"], number.row_keys("data-baseline-keys")
    for index, key in enumerate(number.row_keys()):
        found = [look_up(rows[k], name) for k in [key, *others[index : index + 1]]]
        assert any(value is None or value <= 0 for value in found)
    return len(number.row_keys())


def _ratio(number: Number, rows: Rows) -> float:
    _check_pairs(number, rows)
    return math.exp(statistics.fmean(_logs(number, rows)))


STATISTICS: Mapping[str, Callable[[Number, Rows], float]] = {
    "count": _count,
    "word": _words,
    "environment": lambda n, r: len(n.row_keys()),
    "sum": lambda n, r: math.fsum(values(n, r)),
    "min": lambda n, r: min(values(n, r)),
    "max": lambda n, r: max(values(n, r)),
    "max-mebibytes": _memory,
    "undefined": _undefined,
    "defined": lambda n, r: len(values(n, r)),
    "mean": lambda n, r: statistics.fmean(values(n, r)),
    "mean-lower": lambda n, r: _mean_interval(n, values(n, r))[0],
    "mean-upper": lambda n, r: _mean_interval(n, values(n, r))[1],
    "no-interval": lambda n, r: len(n.row_keys()),
    "median": lambda n, r: statistics.median(values(n, r)),
    "median-lower": lambda n, r: _median_interval(values(n, r))[0],
    "median-upper": lambda n, r: _median_interval(values(n, r))[1],
    "coverage-percent": lambda n, r: _coverage(values(n, r)),
    "ratio": _ratio,
    "ratio-lower": lambda n, r: math.exp(_t_interval(_logs(n, r))[0]),
    "ratio-upper": lambda n, r: math.exp(_t_interval(_logs(n, r))[1]),
    "pairs": lambda n, r: len(_logs(n, r)),
    "pairs-incomplete": _incomplete,
    "pairs-not-positive": _not_positive,
    "exponent": lambda n, r: _fit(n, r)[0].slope,
    "exponent-lower": lambda n, r: _fit_end(n, r, -1),
    "exponent-upper": lambda n, r: _fit_end(n, r, 1),
    "scale": lambda n, r: math.exp(_fit(n, r)[0].intercept),
    "not-positive": _not_positive,
    "not-drawn": lambda n, r: len(n.row_keys()),
    "series-mean": lambda n, r: statistics.fmean(_blocks(n, r)),
    "series-mean-lower": lambda n, r: _mean_interval(n, _blocks(n, r))[0],
    "series-mean-upper": lambda n, r: _mean_interval(n, _blocks(n, r))[1],
    "series-rows": lambda n, r: len(_blocks(n, r)),
    "entries": lambda n, r: _entries(n, r)[0],
    "entries-percent": lambda n, r: 100 * _entries(n, r)[0] / _entries(n, r)[1],
    "within-percent": _within,
}


def is_right(number: Number, rows: Rows) -> bool:
    """Return whether a number is, to the digits displayed, what its rows give."""
    again = STATISTICS[number.statistic](number, rows)
    exact = math.isclose(float(number.exact), again, rel_tol=1e-7, abs_tol=1e-9)
    return exact and abs(number.shown - again) <= number.slack * (1 + 1e-6) + 1e-9 * abs(again)
