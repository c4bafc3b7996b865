"""Tables as Markdown, LaTeX and CSV."""

import csv
import io

from bfio.common.text import TableForm, TextTable, joined_csv

TABLE = TextTable(
    "Gap_1 & more",
    ["policy", "idle\n[%]"],
    [["br-0|x", "12 %"], ["[own]", "−3 ± 1"]],
    "demo: 60 requests, seed 0",
)


def test_markdown() -> None:
    """Settings above it; bars of cells are no columns; numbers to the right."""
    assert TABLE.markdown() == (
        "demo: 60 requests, seed 0\n\n"
        "| policy | idle [%] |\n| --- | ---: |\n| br-0\\|x | 12 % |\n| [own] | −3 ± 1 |\n"
    )


def test_latex() -> None:
    """Rules of booktabs, the settings in the caption, and nothing that LaTeX takes for its own."""
    lines = [line.strip() for line in TABLE.latex().splitlines()]
    assert lines[2] == r"\caption{Gap\_1 \& more. demo: 60 requests, seed 0}"
    assert lines[3:6] == [r"\begin{tabular}{lr}", r"\toprule", r"policy & idle [\%] \\"]
    assert r"br-0|x & 12 \% \\" in lines
    # A bracket after the end of a line would be an argument of it.
    assert r"{}[own] & $-$3 $\pm$ 1 \\" in lines
    assert lines[-3:] == [r"\bottomrule", r"\end{tabular}", r"\end{table}"]


def test_csv() -> None:
    """Titles and settings in columns of their own; numbers that other programs read."""
    other = TextTable("whole", ["policy", "steps"], [["br-0", "1,622"], ["a, b", "1,6"]])
    first, _, third, last = csv.DictReader(io.StringIO(joined_csv([TABLE, other])))
    assert first == {
        "table": "Gap_1 & more",
        "policy": "br-0|x",
        "idle [%]": "12 %",
        "steps": "",
        "settings": "demo: 60 requests, seed 0",
    }
    assert (third["table"], third["steps"], third["idle [%]"]) == ("whole", "1622", "")
    assert (last["policy"], last["steps"]) == ("a, b", "1,6")
    assert TABLE.written(TableForm.CSV) == joined_csv([TABLE])
