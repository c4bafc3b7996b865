"""The page on policies agrees with the code."""

import re

from bfio.cli.options import POLICIES
from bfio.decode.policy_registry import built_in, names
from bfio.decode.policy_spec import PolicySpec
from bfio.studies.kinds import tables
from bfio.studies.report.markdown import filled
from bfio.testing.states import make_state
from tests.places import DOCS

PAGE = (DOCS / "policies.md").read_text()


def test_the_table_lists_every_policy() -> None:
    """Written by ``bfio study kinds --output docs/policies.md``."""
    assert all(f"| `{name}` | " in PAGE for name in names())
    assert filled(PAGE, tables(), "docs/policies.md") == PAGE


def test_the_policy_on_the_page_works() -> None:
    """Sizes 7, 3 and one slot on worker 1: the shorter request starts."""
    snippet = re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert snippet is not None
    names_in_page: dict[str, object] = {}
    exec(snippet.group(1), names_in_page)
    policy = names_in_page["shortest_first"]
    assert callable(policy)
    assert policy(make_state([5, 5], [0, 1], [7, 3])) == [None, 1]


def test_the_policy_with_a_kernel_on_the_page_is_complete() -> None:
    """It decides, and brings what compiled runs need."""
    *_, snippet = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names_in_page: dict[str, object] = {}
    exec(snippet, names_in_page)
    spec = names_in_page["SPEC"]
    assert isinstance(spec, PolicySpec)
    assert spec.kernel is not None
    assert spec.factory(spec.options)(make_state([500, 0], [1, 2], [7])) == [1]


def test_the_help_lists_every_policy() -> None:
    """Their names are read from the text of their modules, which are not imported for it."""
    listed = POLICIES.partition("policies: ")[2].partition("; or")[0]
    assert re.split(r",\s+", listed) == list(built_in())
