"""The pages on the engine and on metrics agree with the code."""

import re

import pytest

from bfio.decode.metrics import METRICS
from bfio.decode.replay import rules
from bfio.studies.kinds import tables
from bfio.studies.report.markdown import filled
from tests.places import DOCS


def test_every_metric_is_in_the_table() -> None:
    """Written by ``bfio study kinds --output docs/metrics.md``."""
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert all(f"| `{metric.name}` |" in text for metric in METRICS)
    assert filled(text, tables(), "docs/metrics.md") == text


def test_every_rule_is_in_the_table() -> None:
    """Written by ``bfio study kinds --output docs/engine.md``."""
    text = (DOCS / "engine.md").read_text(encoding="utf-8")
    assert all(f"| `{rule}` |" in text for rule in rules())
    assert filled(text, tables(), "docs/engine.md") == text


@pytest.mark.parametrize("page", ["engine.md", "metrics.md"])
def test_snippets_run(page: str) -> None:
    """The Python blocks of a page run in order and their assertions hold."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {})
