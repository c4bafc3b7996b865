"""The page's example runs as printed."""

import re

from tests.places import DOCS


def test_page_example() -> None:
    """Every Python block of docs/exact.md executes."""
    page = DOCS / "exact.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), {})
