"""The documentation page of this package agrees with the code."""

import re

from bfio.batching.registry import BUILT_IN
from bfio.batching.run import METRICS
from tests.places import DOCS

PAGE = (DOCS / "batching.md").read_text(encoding="utf-8")


def test_the_table_lists_every_policy_and_its_options() -> None:
    """Names and options of the table are those of the registry."""
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| (`.*`) \|$", PAGE, flags=re.MULTILINE)
    options = {name: re.findall(r"`(\w+)`", text) for name, text in rows if name in BUILT_IN}
    assert options == {name: list(known.option_names) for name, known in BUILT_IN.items()}


def test_every_metric_is_explained_in_its_own_words() -> None:
    """Name, unit and description of the table are those of the one table of metrics."""
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.unit} | {metric.description} |" in PAGE
