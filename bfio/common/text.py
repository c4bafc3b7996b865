"""Text for people and papers: numbers, and tables as Markdown, LaTeX (booktabs) and CSV."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with significant digits and thousands separators; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.{digits}g}" if "e" not in text else text


def exact(value: object) -> str:
    """Format a value without loss: numbers in their shortest exact form."""
    if isinstance(value, float | Fraction):
        text = f"{float(value):g}"
        return text if type(value)(text) == value else str(value)
    return str(value)


#: A number with commas between thousands.
_GROUPED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")


class TableForm(StrEnum):
    """The output formats of a table."""

    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"


@dataclass(frozen=True)
class TextTable:
    """A table whose cells are texts, independent of the output format.

    Parameters
    ----------
    title : str
        Caption of the table; empty for none.
    heading : sequence of str
        Names of the columns.
    lines : sequence of sequence of str
        Rows of the table, each with as many cells as the heading.
    settings : str
        The settings that the numbers depend on.
    words : int
        Number of leading columns that contain words. These are aligned left, all others right.
    notes : sequence of str
        Sentences below the table.
    """

    title: str
    heading: Sequence[str]
    lines: Sequence[Sequence[str]]
    settings: str = ""
    words: int = 1
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """Return the table as Markdown, with the settings above and the notes below."""
        rule = ["---" if i < self.words else "---:" for i in range(len(self.heading))]
        above = f"{self.settings}\n\n" if self.settings else ""
        below = "".join(f"\n{note}\n" for note in self.notes)
        return above + "".join(map(_markdown_line, [self.heading, rule, *self.lines])) + below

    def latex(self) -> str:
        """Return the table as LaTeX for the package booktabs, with the settings in the caption."""
        columns = "l" * self.words + "r" * (len(self.heading) - self.words)
        caption = ". ".join(text for text in (self.title, self.settings) if text)
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                *([rf"  \caption{{{escaped(caption)}}}"] if caption else []),
                rf"  \begin{{tabular}}{{{columns}}}",
                r"    \toprule",
                _latex_line(self.heading),
                r"    \midrule",
                *map(_latex_line, self.lines),
                r"    \bottomrule",
                r"  \end{tabular}",
                *(rf"  \par\footnotesize {escaped(note)}" for note in self.notes),
                r"\end{table}",
                "",
            ]
        )

    def written(self, form: TableForm) -> str:
        """Return the table as Markdown, LaTeX or CSV."""
        if form is TableForm.CSV:
            return joined_csv([self])
        return self.latex() if form is TableForm.LATEX else self.markdown()


def joined_csv(tables: Sequence[TextTable]) -> str:
    """Return several tables as one CSV with plain numbers and columns for titles and settings."""
    columns: dict[str, None] = {"table": None}
    for table in tables:
        columns |= dict.fromkeys(map(_in_a_line, table.heading))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*columns, "settings"], restval="", lineterminator="\n")
    writer.writeheader()
    for table in tables:
        heading = list(map(_in_a_line, table.heading))
        for line in table.lines:
            cells = zip(heading, map(_without_separators, line), strict=True)
            writer.writerow({"table": table.title, **dict(cells), "settings": table.settings})
    return stream.getvalue()


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


def _without_separators(cell: str) -> str:
    """Return a number without commas; other texts are unchanged."""
    return cell.replace(",", "") if _GROUPED.fullmatch(cell) else cell


def _markdown_line(cells: Sequence[str]) -> str:
    texts = (_in_a_line(cell).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(texts)} |\n"


def _latex_line(cells: Sequence[str]) -> str:
    texts = " & ".join(escaped(_in_a_line(cell)) for cell in cells)
    # A bracket after the end of a line would be read as its argument.
    return rf"    {'{}' if texts.startswith('[') else ''}{texts} \\"


#: LaTeX code for special characters, and for those that its fonts may lack.
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "−": r"$-$", "–": "--", "÷": r"$\div$",
    "±": r"$\pm$", "·": r"$\cdot$", "√": r"$\surd$", "∞": r"$\infty$", "×": r"$\times$",
    "µ": r"$\mu$", "→": r"$\to$", "≥": r"$\ge$", "≤": r"$\le$", "…": r"\ldots{}",
    "\N{NO-BREAK SPACE}": "~", "†": r"\dag{}", "‡": r"\ddag{}",
}  # fmt: skip


def escaped(text: str) -> str:
    """Return text with LaTeX special characters escaped."""
    return "".join(_LATEX.get(character, character) for character in text)
