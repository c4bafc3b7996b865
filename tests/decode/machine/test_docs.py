"""The page on compiled runs agrees with the code."""

import re

from tests.decode.machine.equality import GREEDY, OTHERS
from tests.places import DOCS

PAGE = DOCS / "compiled.md"


def test_snippets_run() -> None:
    """The Python blocks of the page run in order and their assertions hold."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {})


def test_every_compiled_policy_is_listed() -> None:
    """The table lists the policies with a kernel, in their order."""
    (row,) = re.findall(r"^\| policy \|(.*?)\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"`([a-z0-9-]+)`", row) == [*GREEDY, *OTHERS]
