"""The documentation page of this package agrees with the code."""

import re

from bfio.common.options import options_table
from bfio.wait.arrivals import poisson_instance
from bfio.wait.registry import BUILT_IN, NestedWait, NewFirst, Wait, build
from bfio.wait.simulation import serve
from tests.places import DOCS
from tests.wait.cases import I0

PAGE = (DOCS / "wait.md").read_text(encoding="utf-8")


def test_the_table_lists_every_policy_and_its_options() -> None:
    """Names and options of the table are those of the registry."""
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| .* \|(.*) \|$", PAGE, flags=re.MULTILINE)
    options = {name: re.findall(r"`(\w+)`", text) for name, text in rows}
    assert {name: options[name] for name in sorted(options) if name in BUILT_IN} == {
        name: list(known.option_names) for name, known in BUILT_IN.items()
    }


def test_the_options_are_explained_in_their_own_words() -> None:
    """The second table is that of the one table of options."""
    assert options_table(Wait, NestedWait, NewFirst, heading="option") in PAGE


def test_every_figure_of_a_summary_is_explained() -> None:
    """Or is one of those that say what was run."""
    run = serve(poisson_instance(I0, 5), build("fcfs", I0))
    told = {"policy", "verdict", "reason", "horizon_s", "requests", "completed", "statistics"}
    for name in set(run.summary()) - told:
        stem = re.sub(r"_(mean|p50|p95|p99|max)_s$", "_...", name)
        assert f"`{stem}`" in PAGE
