"""Policy names and options, installed policies, user-defined functions, and their errors."""

import importlib.metadata
import re
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from bfio.decode import policy_registry as registry
from bfio.decode.policy import Policy
from bfio.decode.policy_registry import all_options, choose, find, names
from bfio.testing.states import make_state
from formulations.errors import InputError
from formulations.step.problem import Objective
from tests.decode.cases import build

USER_POLICY = '''
"""A user's file."""


def shortest_first(state):
    """Serve the shortest request first."""
    order = sorted(range(state.num_waiting), key=lambda i: state.sizes[i])
    answer, free = [None] * state.num_waiting, list(state.free_slots)
    for i in order:
        worker = max(range(len(free)), key=lambda g: free[g])
        if free[worker] > 0:
            answer[i], free[worker] = worker, free[worker] - 1
    return answer


shortest_first.horizon = 3
number = 5


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, state):
        self.calls += 1
        return [None] * state.num_waiting

    def statistics(self):
        return {"calls": self.calls}


class Demanding:
    def __init__(self, needed):
        pass

    def __call__(self, state):
        return []


class Silent:
    pass
'''


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working directory with user files that are importable from nowhere else."""
    (tmp_path / "my_bfio_policies.py").write_text(USER_POLICY)
    (tmp_path / "broken_bfio_policy.py").write_text("raise RuntimeError('no GPU here')\n")
    (tmp_path / "needy_bfio_policy.py").write_text("import no_such_dependency_of_mine\n")
    (tmp_path / "exiting_bfio_policy.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    for name in ("my", "broken", "needy", "exiting"):
        monkeypatch.delitem(sys.modules, f"{name}_bfio_policies", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", names())
def test_each_has_a_summary_a_source_and_a_factory(name: str) -> None:
    """What listings show is there, and the factory makes a policy."""
    spec = find(name)
    assert spec.summary
    assert spec.source
    assert isinstance(spec.factory(spec.options), Policy)
    assert getattr(spec.options, "look_ahead", 0) == getattr(build(name), "horizon", 0)


def test_unknown_name_lists_known_ones_and_suggests() -> None:
    """A typing error is answered with the close match."""
    with pytest.raises(InputError, match="did you mean jsq-tokens") as caught:
        build("jsq-token")
    assert "br-h" in str(caught.value)
    assert "module:NAME or FILE.py:NAME" in str(caught.value)
    with pytest.raises(InputError, match="zzzz: unknown policy; use one of"):
        build("zzzz")


@pytest.mark.usefixtures("user_folder")
def test_user_function_from_the_working_directory() -> None:
    """Ten lines of Python in a file are a policy: sizes 7, 3 on one slot of worker 1."""
    policy = build("my_bfio_policies:shortest_first")
    assert list(policy(make_state([5, 5], [0, 1], [7, 3]))) == [None, 1]
    assert policy.horizon == 3
    spec = find("my_bfio_policies:shortest_first")
    assert spec.summary == "Serve the shortest request first."
    assert choose("my_bfio_policies:shortest_first").look_ahead() == 3


@pytest.mark.usefixtures("user_folder")
def test_user_class_is_made_afresh() -> None:
    """A class is called once per run, so counters start at zero."""
    first = build("my_bfio_policies:Counting")
    first(make_state([1], [1], [1]))
    second = build("my_bfio_policies:Counting")
    assert first.statistics() == {"calls": 1}
    assert second.statistics() == {"calls": 0}


@pytest.mark.usefixtures("user_folder")
def test_search_path_is_left_as_it_was() -> None:
    """Importing from the working directory does not change where Python searches."""
    before = list(sys.path)
    build("my_bfio_policies:shortest_first")
    assert sys.path == before
    sys.path.append(str(Path.cwd()))
    try:
        build("my_bfio_policies:Counting")
        assert sys.path == [*before, str(Path.cwd())]
    finally:
        sys.path[:] = before


@pytest.mark.usefixtures("user_folder")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module_here:f", "no module named no_such_module_here; run from its folder"),
        ("my_bfio_policies:missing", "module my_bfio_policies has no missing"),
        ("my_bfio_policies:number", "an int is not callable"),
        ("my_bfio_policies:Silent", "objects of this class are not callable"),
        ("my_bfio_policies:Demanding", "making it raised TypeError"),
        ("broken_bfio_policy:f", "importing it raised RuntimeError: no GPU here"),
        ("exiting_bfio_policy:f", "importing it raised SystemExit: 3"),
        ("needy_bfio_policy:f", "importing it raised ModuleNotFoundError: .*dependency_of_mine"),
        (":f", "incomplete policy name; write module:NAME or path/to/file.py:NAME"),
        ("my_bfio_policies:", "incomplete policy name"),
    ],
)
def test_errors_say_what_and_what_to_do(name: str, message: str) -> None:
    """Each failure is one `InputError` that starts with the name given."""
    with pytest.raises(InputError, match=message) as caught:
        build(name)
    assert str(caught.value).startswith(f"{name}: ")
    assert re.search(r"; \w+", str(caught.value))


def test_installed_policies_join(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Entry points of the group are listed and built; a built-in name stays built in."""
    monkeypatch.syspath_prepend(tmp_path)  # They are read anew.
    points = [
        importlib.metadata.EntryPoint("mine", "tests.decode.cases:first_come", registry.GROUP),
        importlib.metadata.EntryPoint(
            "spec", "bfio.decode.policies.pending_prefill:SPEC", registry.GROUP
        ),
        importlib.metadata.EntryPoint(
            "fcfs", "bfio.decode.policies.pending_prefill:SPEC", registry.GROUP
        ),
        importlib.metadata.EntryPoint("gone", "no_such_package_at_all:f", registry.GROUP),
    ]
    monkeypatch.setattr("bfio.common.plugins.entry_points", lambda group: points)
    assert {"mine", "spec", "gone"} < set(names())
    s = make_state([0, 0], [1, 2], [1])
    assert list(build("mine")(s)) == [1]
    assert list(build("spec")(s)) == [0]
    assert list(build("fcfs")(s)) == [1]
    with pytest.raises(InputError, match=r"gone: the installed policy .* cannot be loaded"):
        build("gone")


def test_rationals_are_exact() -> None:
    """Strings, ints and fractions become the same exact numbers."""
    made = choose("br-h", {"alpha": 0.5, "beta": 43, "gamma": "43/50"}).options
    assert (made.alpha, made.beta, made.gamma) == (Fraction(1, 2), 43, Fraction(43, 50))
    assert choose("bf-io", {"objective": "gap"}).options.objective is Objective.GAP


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("threshold", -1, "threshold: -1 is out of range"),
        ("threshold", 7.0, "threshold: expected an integer"),
        ("candidates", 0, "candidates: 0 is out of range"),
        ("horizon", 5001, "horizon: 5001 is out of range"),
        ("horizon", True, "horizon: expected an integer"),
        ("choices", 0, "choices: 0 is out of range"),
        ("cap_threshold", 0, "cap_threshold: 0 is out of range"),
        ("alpha", "-1", "alpha: -1 is out of range; use a number >= 0"),
        ("beta", True, "beta: true is not an exact rational"),
        ("beta", "1/0", "beta: '1/0' is not a rational number"),
        ("gamma", "1e-400", "gamma: '1e-400' is not a plain rational"),
        ("gamma", "9" * 61, "is not a plain rational"),
        ("gamma", "0", "gamma: 0 is out of range; use 0 < gamma <= 1"),
        ("gamma", "1.01", "gamma: 101/100 is out of range"),
        ("key", "margin", "key: 'margin' is unknown; use one of lexicographic, product"),
        ("backend", "cplex", "backend: 'cplex' is unknown; use one of exact, cp-sat"),
        ("objective", "mean", "objective: 'mean' is unknown"),
        ("time_limit", 0, "time_limit: 0 s is out of range; give a finite number of seconds > 0"),
        ("time_limit", float("nan"), "time_limit: nan s"),
        ("time_limit", "3", "time_limit: '3' s"),
    ],
)
def test_bad_values_name_the_flag(field: str, value: object, message: str) -> None:
    """One error type, which says the flag, the value and the rule."""
    for policy in all_options()[field]:
        with pytest.raises(InputError, match=message):
            choose(policy, {field: value})
