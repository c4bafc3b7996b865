"""The list of features: each one is documented, requested and checked."""

from importlib import import_module
from pkgutil import iter_modules
from unittest.mock import patch

import pytest

import bfio.decode.features
from bfio.decode.cluster import Cluster
from bfio.decode.features import registry
from bfio.decode.features.feature import Feature
from bfio.decode.features.registry import FEATURES
from bfio.decode.machine import outcome
from bfio.decode.options import RunOptions
from bfio.decode.replay import rules
from bfio.decode.settings import setting_parts
from bfio.decode.simulation import simulate
from formulations.errors import InputError
from tests.decode.cases import EXACT, workload


def test_every_folder_of_a_feature_is_listed() -> None:
    """Also where its module was being imported as the list was made; no two have one name."""
    found: set[int] = set()
    for entry in iter_modules(bfio.decode.features.__path__):
        name = f"bfio.decode.features.{entry.name}"
        module = import_module(f"{name}.feature" if entry.ispkg else name)
        found |= {id(each) for each in vars(module).values() if isinstance(each, Feature)}
    assert found == {id(each) for each in FEATURES}
    assert len({each.name for each in FEATURES}) == len(FEATURES)


@pytest.mark.parametrize("after", sorted({each.after for each in FEATURES}))
def test_words_stand_behind_a_part_that_there_is(after: str) -> None:
    """A line of settings has the words of every feature, wherever it puts them."""
    told = Feature("planted", setting=lambda cluster, options: "planted words", after=after)
    with patch.object(registry, "FEATURES", (told,)):
        assert setting_parts("r", Cluster(), [RunOptions()])["planted"] == "planted words"


def test_rules_of_all_features_are_checked() -> None:
    """No two rules have one name, so that none replaces another."""
    own = [name for each in FEATURES for name in each.rules]
    assert set(own) <= set(rules())
    assert len(own) == len(set(own))


def test_a_feature_refuses_runs_and_adds_to_their_record() -> None:
    """What it says of the state at the end becomes fields of the run."""
    requests = workload([2, 3], [2, 1])
    told = Feature("planted", record=lambda state: {"max_pauses": int(state.counters[0])})
    with patch.object(outcome, "FEATURES", (*FEATURES, told)):
        run = simulate(requests, "fcfs", EXACT, engine="reference")
    assert run.max_pauses == run.steps

    def refuse(*run: object) -> None:
        raise InputError("planted", "is never right", "leave it out")

    with (
        patch("bfio.decode.engine.FEATURES", (Feature("planted", check=refuse),)),
        pytest.raises(InputError, match="is never right"),
    ):
        simulate(requests, "fcfs", EXACT, engine="reference")
