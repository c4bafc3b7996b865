"""The page's example runs as printed."""

import re

from tests.places import DOCS, ROOT


def test_page_example() -> None:
    """Every Python block of docs/exact.md executes."""
    page = DOCS / "exact.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), {})


def test_the_table_of_phases_is_that_of_the_file() -> None:
    """Each line of benchmarks/exact-ablation.csv is one of the page's table, and no other."""
    page = (DOCS / "exact.md").read_text(encoding="utf-8")
    table = page.split("| steps | without |")[1].split("\n\n")[0].splitlines()[2:]
    rows = (ROOT / "benchmarks/exact-ablation.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert table == [f"| {row.replace(',', ' | ')} |" for row in rows]
