"""The pages on engine and metrics say what the code does."""

import re

import pytest

from bfio.decode.metrics import METRICS
from bfio.decode.replay import rules
from tests.places import DOCS


def test_every_metric_is_in_the_table() -> None:
    """The table of docs/metrics.md is that of the registry, in its order."""
    rows = [row for row in (DOCS / "metrics.md").read_text().splitlines() if row.startswith("| `")]
    assert rows == [f"| `{m.name}` | {m.unit} | {m.description} |" for m in METRICS]


def test_every_rule_is_in_the_table() -> None:
    """The table of docs/engine.md lists the rules of the replay, after the shape."""
    text = (DOCS / "engine.md").read_text().split("## Checking a run")[1]
    assert re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE) == ["shape", *rules()]


@pytest.mark.parametrize("page", ["engine.md", "metrics.md"])
def test_snippets_run(page: str) -> None:
    """The Python blocks of a page run in order and their assertions hold."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {})
