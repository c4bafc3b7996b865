"""Ratios are between rows that differ in the baseline's arguments only."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.studies.report.selection import Baseline, pair, ratio
from bfio.studies.row import Row, Status, Task, Value
from formulations.errors import InputError
from tests.studies.report.synthetic import done

FCFS: Mapping[str, Value] = {"policy": "fcfs"}


def task(**arguments: Value) -> Task:
    """Return a task whose key spells its arguments."""
    return Task(str(sorted(arguments.items(), key=str)), "made-up", arguments, "", "")


def computed(tasks: Sequence[Task], values: Sequence[Value]) -> dict[str, Row]:
    """Return rows with these values of y; a text marks a failed row."""
    return {
        t.key: Row(t, Status.FAILED) if isinstance(value, str) else done(t, {"y": value})
        for t, value in zip(tasks, values, strict=True)
    }


def test_pairs_by_hand() -> None:
    """Seeds 0 to 5: ratios 2 and 8; a failure, a missing row, a zero and an undefined value."""
    ours = [task(policy="bf-io", seed=seed) for seed in range(6)]
    theirs = [task(policy="fcfs", seed=seed) for seed in range(6)]
    rows = computed(ours, [4, 40, 7, 7, 0, 7]) | computed(theirs, [2, 5, "no", 7, 7, None])
    del rows[ours[3].key]
    pairing = pair(ours, rows, Baseline(ours + theirs, FCFS, "t"))
    found = ratio(pairing, "y")
    assert found.estimate.value == pytest.approx(4)
    assert [a.task.arguments["seed"] for a, _ in found.pairs] == [0, 1]
    assert [t.arguments["seed"] for t in pairing.incomplete] == [2, 3]
    assert [a.task.arguments["seed"] for a, _ in found.unusable] == [4, 5]


def test_arguments_that_only_one_has_do_not_count() -> None:
    """A look-ahead means nothing to the baseline; the seed must agree."""
    ours = task(policy="bf-io", horizon=20, seed=1)
    theirs = [task(policy="fcfs", seed=seed, note=None) for seed in range(3)]
    partner = Baseline([ours, *theirs], FCFS, "t").partner(ours)
    assert partner is theirs[1]


def test_one_and_true_are_no_partners() -> None:
    """Equal in Python, but other arguments."""
    baseline = Baseline([task(policy="fcfs", flag=True)], FCFS, "t")
    assert baseline.partner(task(policy="bf-io", flag=1)) is None
    assert baseline.partner(task(policy="bf-io", flag=True)) is not None


def test_an_ambiguous_baseline_is_refused() -> None:
    """Two rows of the baseline for one of ours: which one is meant cannot be guessed."""
    theirs = [task(policy="fcfs", seed=0, beta=beta) for beta in (1, 2)]
    with pytest.raises(InputError, match="several rows of the baseline match"):
        Baseline(theirs, FCFS, "t").partner(task(policy="bf-io", seed=0))


@given(st.data())
def test_pairs_agree_with_a_search(data: st.DataObject) -> None:
    """Against all pairs compared one by one; every planned row is in exactly one class."""
    cells = [
        (policy, seed, size) for policy in ("a", "fcfs") for seed in range(4) for size in (1, 2)
    ]
    planned = [
        task(policy=p, seed=s, size=z)
        for p, s, z in data.draw(st.lists(st.sampled_from(cells), unique=True))
    ]
    values = data.draw(
        st.lists(
            st.sampled_from([None, 0, 1, 3, -1, "failed"]),
            min_size=len(planned),
            max_size=len(planned),
        )
    )
    rows = computed(planned, values)
    rows = {key: row for key, row in rows.items() if data.draw(st.booleans())}
    ours = [t for t in planned if t.arguments["policy"] == "a"]
    pairing = pair(ours, rows, Baseline(planned, FCFS, "t"))
    found = ratio(pairing, "y")
    expected = [
        (a.task.key, b.task.key)
        for a in rows.values()
        for b in rows.values()
        if a.task.arguments["policy"] == "a"
        and b.task.arguments == {**a.task.arguments, "policy": "fcfs"}
        and a.is_done
        and b.is_done
    ]
    together = [(a.task.key, b.task.key) for a, b in [*found.pairs, *found.unusable]]
    assert sorted(together) == sorted(expected)
    assert len(together) + len(pairing.incomplete) == len(ours)
