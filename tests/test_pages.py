"""The pages on engines, policies and metrics agree with the code."""

import re
from collections.abc import Mapping

import pytest

import bfio.batching.registry
import bfio.batching.run
import bfio.kvcache.policy
import bfio.wait.registry
from bfio.cli.options import POLICIES
from bfio.common.options import Named, options_table
from bfio.decode.metrics import METRICS
from bfio.decode.policy_registry import built_in, names
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.replay import rules
from bfio.kvcache.policy import BetaClearing, LookAhead
from bfio.studies.kinds import tables
from bfio.studies.report.markdown import filled
from bfio.testing.states import make_state
from bfio.wait.arrivals import poisson_instance
from bfio.wait.registry import NestedWait, NewFirst, Wait, build
from bfio.wait.simulation import serve
from bfio.workloads import formats
from tests.places import DOCS
from tests.wait.cases import I0

#: Pages with a table of policies, the form of its rows, and the policies that it lists.
TABLES = (
    ("batching.md", r"^\| `([a-z-]+)` \| .* \| (`.*`) \|$", bfio.batching.registry.BUILT_IN),
    ("kvcache.md", r"^\| `([a-z-]+)` \| .* \| .* \| (.*) \|$", bfio.kvcache.policy.BUILT_IN),
    ("wait.md", r"^\| `([a-z-]+)` \| .* \| .* \|(.*) \|$", bfio.wait.registry.BUILT_IN),
)


def text_of(page: str) -> str:
    """Return the text of a page of the documentation."""
    return (DOCS / page).read_text(encoding="utf-8")


def snippets_of(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL)


@pytest.mark.parametrize(
    ("page", "count"), [("compiled.md", 0), ("engine.md", 0), ("metrics.md", 0), ("kvcache.md", 2)]
)
def test_snippets_run(page: str, count: int) -> None:
    """The Python blocks of a page run in order, in one namespace, and their assertions hold."""
    blocks = snippets_of(page)
    assert blocks
    assert len(blocks) == count or not count
    exec("\n".join(blocks), {})


@pytest.mark.parametrize(("page", "form", "known"), TABLES)
def test_the_table_lists_every_policy_and_its_options(
    page: str, form: str, known: Mapping[str, Named[object]]
) -> None:
    """Names and options of the table are those of the registry."""
    rows = re.findall(form, text_of(page), re.MULTILINE)
    options = {name: re.findall(r"`(\w+)`", text) for name, text in rows}
    assert options == {name: list(policy.option_names) for name, policy in known.items()}


@pytest.mark.parametrize(
    ("page", "classes"),
    [("kvcache.md", (BetaClearing, LookAhead)), ("wait.md", (Wait, NestedWait, NewFirst))],
)
def test_the_options_are_explained_in_their_own_words(page: str, classes: tuple[type]) -> None:
    """The second table is that of the one table of options."""
    assert options_table(*classes, heading="option") in text_of(page)


@pytest.mark.parametrize(
    ("page", "listed"),
    [("policies.md", names()), ("metrics.md", [m.name for m in METRICS]), ("engine.md", rules())],
)
def test_a_written_table_is_complete(page: str, listed: list[str]) -> None:
    """Written by ``bfio study kinds --output PAGE``."""
    assert [name for name in listed if f"| `{name}` |" not in text_of(page)] == []
    assert filled(text_of(page), tables(), f"docs/{page}") == text_of(page)


def test_every_trace_format_is_described() -> None:
    """One row of the table per format."""
    missing = [each.name for each in formats() if f"| `{each.name}` |" not in text_of("traces.md")]
    assert missing == []


def test_every_metric_is_explained_in_its_own_words() -> None:
    """Name, unit and description of the table are those of the one table of metrics."""
    for metric in bfio.batching.run.METRICS:
        row = f"| `{metric.name}` | {metric.unit} | {metric.description} |"
        assert row in text_of("batching.md")


def test_every_figure_of_a_summary_is_explained() -> None:
    """Or is one of those that say what was run."""
    run = serve(poisson_instance(I0, 5), build("fcfs", I0))
    told = {"policy", "verdict", "reason", "horizon_s", "requests", "completed", "statistics"}
    for name in set(run.summary()) - told:
        stem = re.sub(r"_(mean|p50|p95|p99|max)_s$", "_...", name)
        assert f"`{stem}`" in text_of("wait.md")


def test_the_policy_on_the_page_works() -> None:
    """Sizes 7, 3 and one slot on worker 1: the shorter request starts."""
    found: dict[str, object] = {}
    exec(snippets_of("policies.md")[0], found)
    policy = found["shortest_first"]
    assert callable(policy)
    assert policy(make_state([5, 5], [0, 1], [7, 3])) == [None, 1]


def test_the_policy_with_a_kernel_on_the_page_is_complete() -> None:
    """It decides, and brings what compiled runs need."""
    found: dict[str, object] = {}
    exec(snippets_of("policies.md")[-1], found)
    spec = found["SPEC"]
    assert isinstance(spec, PolicySpec)
    assert spec.kernel is not None
    assert spec.factory(spec.options)(make_state([500, 0], [1, 2], [7])) == [1]


def test_the_help_lists_every_policy() -> None:
    """Their names are read from the text of their modules, which are not imported for it."""
    listed = POLICIES.partition("policies: ")[2].partition("; or")[0]
    assert re.split(r",\s+", listed) == list(built_in())
