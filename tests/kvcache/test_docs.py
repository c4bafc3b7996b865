"""The documentation page of this package agrees with the code."""

import re

from bfio.common.options import options_table
from bfio.kvcache.policy import BUILT_IN, BetaClearing, LookAhead
from tests.places import DOCS

PAGE = (DOCS / "kvcache.md").read_text(encoding="utf-8")


def test_the_table_lists_every_algorithm_and_its_options() -> None:
    """Names and options of the table are those of the registry."""
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| .* \| (.*) \|$", PAGE, flags=re.MULTILINE)
    options = {name: re.findall(r"`(\w+)`", text) for name, text in rows}
    assert options == {name: list(known.option_names) for name, known in BUILT_IN.items()}


def test_the_options_are_explained_in_their_own_words() -> None:
    """The second table is that of the one table of options."""
    assert options_table(BetaClearing, LookAhead, heading="option") in PAGE


def test_the_snippets_run() -> None:
    """They share one namespace, as a reader's session does; their assertions hold."""
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(snippets) == 2
    for snippet in snippets:
        exec(snippet, names)
