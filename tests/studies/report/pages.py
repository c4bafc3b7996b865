"""Read a written page with the parser of the standard library."""

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from bfio.studies.results import Results

#: Elements without an end.
_VOID = {"meta", "link", "br", "wbr", "hr", "img", "input"}


@dataclass(frozen=True)
class Number:
    """A traced number: what is displayed, and its attributes, those of its parents included."""

    text: str
    exact: str
    attributes: dict[str, str]
    path: str

    def row_keys(self, name: str = "data-keys") -> list[str]:
        """Return the keys of the rows it was computed from."""
        return self.attributes.get(name, "").split()

    @property
    def statistic(self) -> str:
        """Its stated statistic."""
        return self.attributes["data-statistic"]

    @property
    def shown(self) -> float:
        """The number displayed."""
        text = self.text.replace(",", "").replace("−", "-").replace("∞", "inf")
        return float(text.lstrip("<> "))

    @property
    def slack(self) -> float:
        """Half a unit of the last digit displayed, a whole one of what is less or more."""
        digits, _, exponent = self.text.partition("e")
        decimals = len(digits.partition(".")[2])
        return (1 if self.text[0] in "<>" else 0.5) * 10.0 ** (int(exponent or 0) - decimals)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[tuple[str, dict[str, str]]] = []
        self.numbers: list[Number] = []
        self.untraced: list[str] = []
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        self.stack.append((tag, {name: value or "" for name, value in attrs}))
        if tag == "data":
            self._text = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        self._text += data
        inside = [tag for tag, _ in self.stack]
        is_ours = not any("published" in a.get("class", "") for _, a in self.stack)
        if "td" in inside and "data" not in inside and is_ours:
            self.untraced.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        open_tag, own = self.stack.pop()
        assert open_tag == tag, f"<{open_tag}> ended by </{tag}>"
        if tag == "data":
            merged: dict[str, str] = {}
            for _, attributes in [*self.stack, (tag, own)]:
                merged |= attributes
            path = " ".join(name for name, _ in self.stack)
            self.numbers.append(Number(self._text, own["value"], merged, path))


def parse(page: Path) -> tuple[list[Number], list[str]]:
    """Return the traced numbers of a page, and the texts of our cells that are none."""
    parser = _Parser()
    parser.feed(page.read_text(encoding="utf-8"))
    assert not parser.stack, "elements left open"
    return parser.numbers, [text for text in parser.untraced if text]


@dataclass(frozen=True)
class Written:
    """A page, its numbers and other texts in tables, and its source data."""

    results: Results
    page: Path
    numbers: list[Number]
    untraced: list[str]
