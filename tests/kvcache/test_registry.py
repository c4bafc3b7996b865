"""Names, options, a user's own policy, and what goes wrong with each."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from bfio.kvcache.look_ahead import LookAhead, Order, Scan
from bfio.kvcache.policy import CachePolicy, Clearing
from bfio.kvcache.protection import Protection
from bfio.kvcache.registry import build, names, specs
from bfio.kvcache.replay import violations
from bfio.kvcache.run import Verdict
from bfio.kvcache.simulation import serve
from bfio.kvcache.state import CacheState
from formulations.errors import InputError
from tests.kvcache.instances import problem

DATA = problem(9, [(0, 1, 4), (0, 2, 3), (2, 1, 2)])

USER_FILE = '''
"""A user's file."""


def one_at_a_time(state):
    """Start the oldest on an empty worker."""
    return [0] if len(state.waiting) and not len(state.running) else []


class Counting:
    """Count the decisions."""

    def __init__(self):
        self.calls = 0

    def __call__(self, state):
        self.calls += 1
        return one_at_a_time(state)

    def statistics(self):
        return {"calls": self.calls}


class Broken:
    def __init__(self):
        raise OSError("no")


number = 5
'''


@pytest.fixture(autouse=True)
def _user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_cache_policy.py").write_text(USER_FILE)
    monkeypatch.chdir(tmp_path)


def test_built_in_names() -> None:
    """The names the page lists, each with a summary and a source."""
    expected = ["alpha-greedy", "beta-clearing", "mc-benchmark", "mc-sf", "semi-online"]
    assert names() == expected
    assert all(spec.summary and spec.source for spec in specs())
    assert all(isinstance(build(name), CachePolicy) for name in names())


def test_options_follow_the_name() -> None:
    """Values are exact; what is not written keeps its default."""
    assert build("mc-sf:scan=continue:delta=3:beta=1/3") == LookAhead(
        Order.SHORTEST, Scan.CONTINUE, 3, Clearing(Fraction(1, 3))
    )
    assert build("mc-benchmark") == LookAhead(Order.ARRIVAL)
    assert build("alpha-greedy") == Protection(Fraction(3, 10))
    assert build("beta-clearing:alpha=0.15:beta=0.05:pause=9") == Protection(
        Fraction(3, 20), Clearing(Fraction(1, 20), 9)
    )


def test_protection_limits_are_exact() -> None:
    """0.9·10 is 9; in floats 10·(1 - 0.1) would be below."""
    assert build("alpha-greedy:alpha=0.1").limit(10) == 9  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcsf", "mcsf: unknown algorithm; did you mean mc-sf"),
        ("mc-sf:alpha=1", "mc-sf has no option alpha; its options: scan, delta, beta, pause"),
        ("mc-sf:scan=all", "scan: 'all' is unknown; use break or continue"),
        ("mc-sf:delta=x", "delta: 'x' is no integer"),
        ("mc-sf:delta=-1", "delta: -1 is out of range"),
        ("mc-sf:scan=", "option 'scan' without a value"),
        ("mc-sf:beta=0", "beta: 0 is out of range"),
        ("beta-clearing:beta=1.5", "beta: 3/2 is out of range"),
        ("alpha-greedy:alpha=1", "alpha: 1 is out of range"),
        ("alpha-greedy:alpha=1e-1", "no plain rational"),
        ("alpha-greedy:beta=0.5", "alpha-greedy has no option beta"),
        ("my_cache_policy:one_at_a_time:beta=1", "options after module:function"),
        ("my_cache_policy:number", "not callable"),
        ("my_cache_policy:Broken", "making it raised OSError: no"),
        ("my_cache_policy:missing", "has no missing"),
        ("no_such_module:f", "no module named no_such_module"),
    ],
)
def test_what_cannot_be_built_says_why(text: str, message: str) -> None:
    """One line that names the option and the remedy."""
    with pytest.raises(InputError) as caught:
        build(text)
    assert message in str(caught.value)


def test_a_users_function_runs() -> None:
    """One after the other in order of arrival: 4, 7, 9 against arrivals 0, 0, 2."""
    run = serve(DATA, "my_cache_policy:one_at_a_time")
    assert run.start.tolist() == [0, 4, 7]
    assert run.total_latency == 4 + 7 + 7
    assert violations(run) == {}


def test_a_users_class_is_made_for_each_run() -> None:
    """Its statistics are kept with the run; it is asked only while somebody waits."""
    for _ in range(2):
        assert serve(DATA, "my_cache_policy:Counting").statistics == {"calls": 8}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([7], "position 7 is out of range"),
        ([-1], "position -1 is out of range"),
        ([0, 0], "a position occurs twice"),
        ([0.0], "0.0 is no position"),
        ([True], "True is no position"),
        (None, "it returned None"),
    ],
)
def test_wrong_answers_are_refused(answer: list[int] | None, message: str) -> None:
    """The engine checks what a policy returns."""
    with pytest.raises(InputError, match=message):
        serve(DATA, lambda state: answer)  # type: ignore[arg-type]


def test_a_policy_may_not_exceed_the_memory_at_once() -> None:
    """C: three requests of 4 need 15 of 9 tokens in the coming batch."""
    data = problem(9, [(0, 4, 1)] * 3)
    with pytest.raises(InputError, match="at clock 0 the batch would exceed the memory by 6"):
        serve(data, lambda state: list(range(len(state.waiting))))


def test_a_policy_may_wait_for_its_time() -> None:
    """Idle rounds pass one by one; the clock is in the state."""

    def late(state: CacheState) -> Sequence[int]:
        return range(len(state.waiting)) if state.clock >= 5 else []

    data = problem(20, [(0, 1, 4), (0, 2, 3), (2, 1, 2)])
    assert serve(data, late).start.tolist() == [5, 5, 5]


def test_attributes_of_a_policy_are_read() -> None:
    """A careless policy that clears by chance finishes; one that is memoryless may loop."""

    class Careless:
        """Start all that fits now."""

        memoryless = True

        def __init__(self, clearing: Clearing) -> None:
            self.clearing = clearing

        def __call__(self, state: CacheState) -> list[int]:
            used, chosen = state.used, []
            for position, (need, _) in enumerate(state.waiting.needs):
                if used + need <= state.memory:
                    used += need
                    chosen.append(position)
            return chosen

    twins = problem(8, [(0, 1, 4), (0, 1, 4)])
    assert serve(twins, Careless(Clearing())).verdict is Verdict.LOOP
    assert serve(twins, Careless(Clearing(Fraction(1, 2)))).is_finished
