"""Sources of the numbers in a document: committed results, and sentences filled from them.

A folder with a README holds results (``*.csv``, see `benchmarks.readme`) and ``claims.txt``:
sentences of the README with holes and, indented below each, the expressions of its holes over the
results. An expression calls a result file by its stem. Of a study: ``study("gap", load=0.9)`` is
one number, ``study.all(...)`` all that match; ``part="ratio"`` or ``"lower"`` asks for that part.
Of a plain table: ``ratios("BWB", "br-0")`` is the first number of a cell, a third argument asks
for another; ``ratios.down("br-0")`` is a column. A sentence without holes is not derived: it
stands below a comment that says by which commit it was measured.
"""

import csv
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.readme import study_of
from bfio.studies.report.markdown import Record, read_records
from bfio.studies.report.statistics import power_law
from tests.places import STUDIES

_WORDS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_ONE = r"−?\d(?:[\d.,/e−]*\d)?M?"
_LIST = r"\d[\d.]*(?:(?:,| and| to) \d[\d.]*)*"
#: Numbers that are not measured: in code, links, names, settings, equations, levels.
_SETTINGS = (
    r"`[^`]*`",
    r"!?\[[^\]]*\]\([^)]*\)",
    r"<!-- table .*?<!-- end -->",
    r"(?:Theorem|Remark|Figure|Table|Section|Proposition|Model|study|studies|commit)s? " + _LIST,
    rf"[\w'’(),·*/Λλρεαβζδ|]+ ?(?:=|>=|<=|<|>|≥|≤) ?{_ONE}(?:(?:,| and| to| or) {_ONE})*",
    r"\(\d+\)",
    r"95 %|BR-0|99th",
    r"\(\d+(?:, \d+)+\)",
)
_NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,]*\d)?(?:\.\d+)?")


class Results:
    """The numbers of one result file."""

    def __init__(self, path: Path) -> None:
        self._records: defaultdict[str, list[Record]] = defaultdict(list)
        for record in read_records(path):
            self._records[record["value"]].append(record)

    def __call__(self, value: str, *, part: str = "estimate", **arguments: Any) -> float:
        """Return the one number that matches; equal ones of several tables count once."""
        found = set(self.all(value, part=part, **arguments))
        assert len(found) == 1, f"{value} {part} {arguments}: {sorted(found)[:5]}"
        return found.pop()

    def all(self, value: str, *, part: str = "estimate", **arguments: Any) -> list[float]:
        """Return all numbers that match, in the order of the file."""
        return [float(r[part]) for r in self.lines(value, **arguments) if r.get(part)]

    def lines(self, value: str, *, table: str = "", **arguments: Any) -> Iterator[Record]:
        """Yield the records of a value whose arguments are these."""
        wanted = {
            f"argument.{name}": {_text(v) for v in (given if isinstance(given, list) else [given])}
            for name, given in arguments.items()
        }
        for record in self._records[value]:
            of_table = not table or record["table"] == table
            if of_table and all(record.get(name) in texts for name, texts in wanted.items()):
                yield record

    def word(self, value: str, **arguments: Any) -> str:
        """Return the text of a value that is none but words; of one row, without its count."""
        (record,) = self.lines(value, **arguments)
        return record["words"].removesuffix(" 1")


class Cells:
    """The numbers of a plain table."""

    def __init__(self, path: Path) -> None:
        with path.open(encoding="utf-8", newline="") as stream:
            self._header, *self._lines = list(csv.reader(stream))

    def __call__(self, line: str | int, column: str | int, place: int = 0) -> float:
        """Return a number of the cell in the line and column that begin with these texts."""
        texts = [" | ".join(cells) for cells in self._lines]
        found = line if isinstance(line, int) else _only(texts, line)
        return _numbers(self._lines[found][self._place(column)])[place]

    def down(self, column: str | int, place: int = 0) -> list[float]:
        """Return a number of each cell of a column that has one."""
        numbers = (_numbers(cells[self._place(column)]) for cells in self._lines)
        return [found[place] for found in numbers if len(found) > place]

    def _place(self, column: str | int) -> int:
        if isinstance(column, int):
            return column
        return _only([name.replace("`", "") for name in self._header], column)


def _only(texts: list[str], start: str) -> int:
    """Return the place of the text that is so, or of the only one that begins so."""
    if start in texts:
        return texts.index(start)
    (place,) = [k for k, text in enumerate(texts) if text.startswith(start)]
    return place


def _numbers(cell: str) -> list[float]:
    return [
        float(text.replace(",", "").replace("−", "-"))
        for text in re.findall(r"−?\d[\d,]*(?:\.\d+)?", cell)
    ]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def claims(folder: Path) -> list[str]:
    """Return the sentences of ``claims.txt``, filled from the results in its folder."""
    path = folder / "claims.txt"
    if not path.is_file():
        return []
    names = names_for(folder)
    blocks: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            blocks[-1].append(line.strip())
        elif line and not line.startswith("#"):
            blocks.append([line])
    return [_sentence(text, expressions, names) for text, *expressions in blocks]


def names_for(folder: Path) -> dict[str, Any]:
    """Return the names for expressions: result files by stem, and a few functions.

    ``of("01", "ratios")`` is a result file of study 1.
    """
    results = {path.stem.replace("-", "_"): _read(path) for path in folder.glob("*.csv")}
    functions: dict[str, Callable[..., Any]] = {
        "word": lambda number: _WORDS[int(number)],
        "percent": lambda share: 100 * share,
        "count": lambda conditions: sum(map(bool, conditions)),
        "median": statistics.median,
        "mean": statistics.fmean,
        "sqrt": math.sqrt,
        "log": math.log,
        "prod": math.prod,
        "fit": _fit,
        "of": lambda number, stem: _read(next(STUDIES.glob(f"{number}-*/{stem}.csv"))),
    }
    return {**results, **functions}


@cache
def _read(path: Path) -> Results | Cells:
    return Cells(path) if study_of(path) is None else Results(path)


def _sentence(text: str, expressions: list[str], names: dict[str, Any]) -> str:
    """Fill the holes of a sentence."""
    try:
        values = [eval(expression, dict(names)) for expression in expressions]
        # Documents use the minus sign, not the hyphen.
        return plain(re.sub(r"(?<!\w)-(?=\d)", "−", text.format(*values)))
    except Exception as error:
        raise AssertionError(f"{text} {expressions}: {error}") from error


def _fit(sizes: list[float], values: list[float]) -> tuple[float, float]:
    """Return the exponent of values over sizes, and half of its 95 % interval."""
    fitted = power_law(sizes, values)
    assert fitted is not None
    assert fitted.interval is not None
    return fitted.exponent, fitted.exponent - fitted.interval.lower


def plain(text: str) -> str:
    """Return a text with every space and end of line as one space."""
    return " ".join(text.split())


def stands_in(sentence: str, text: str) -> bool:
    """Return whether a text holds a sentence and its first and last word or number are whole."""
    whole = r"(?<!\w)(?<!\d[.,])" + re.escape(sentence) + r"(?!\w|[.,]\d)"
    return re.search(whole, text) is not None


def unsourced(text: str, sentences: list[str]) -> list[str]:
    """Return the numbers of a text that are neither in a sentence nor settings."""
    whole = plain("\n".join(line for line in text.splitlines() if not line.startswith("    ")))
    patterns = [*map(re.escape, sentences), *_SETTINGS]
    known = [match.span() for pattern in patterns for match in re.finditer(pattern, whole)]
    return [
        whole[max(0, number.start() - 40) : number.end() + 20]
        for number in _NUMBER.finditer(whole)
        if not any(start <= number.start() and number.end() <= end for start, end in known)
    ]
