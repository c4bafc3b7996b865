"""The page on compiled runs agrees with the code."""

import re

from tests.places import DOCS

PAGE = DOCS / "compiled.md"


def test_snippets_run() -> None:
    """The Python blocks of the page run in order and their assertions hold."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {})
