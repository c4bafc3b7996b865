"""The page on the exact method: its snippets run."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "hindsight-latency.md"


def test_the_snippets_run() -> None:
    """They share one namespace, as a reader's session does; their assertions hold."""
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) == 2
    for snippet in snippets:
        exec(snippet, names)
