"""Policy names, options, user-defined policies, and their errors."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.policy import (
    BUILT_IN,
    BetaClearing,
    CachePolicy,
    CacheState,
    Clearing,
    LookAhead,
    Order,
    Protection,
    Scan,
    build,
)
from bfio.kvcache.replay import violations
from bfio.kvcache.run import CacheVerdict
from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem
from formulations.errors import InputError

DATA = latency_problem(9, [(0, 1, 4), (0, 2, 3), (2, 1, 2)])

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
    assert list(BUILT_IN) == expected
    assert all(known.summary and known.source for known in BUILT_IN.values())
    assert all(isinstance(build(name), CachePolicy) for name in BUILT_IN)


def test_options_follow_the_name() -> None:
    """Values are exact; what is not written keeps its default."""
    assert build("mc-sf:scan=continue:delta=3:beta=1/3") == LookAhead(
        Order.SHORTEST, scan=Scan.CONTINUE, delta=3, beta=Fraction(1, 3)
    )
    assert build("mc-benchmark") == LookAhead(Order.ARRIVAL)
    assert build("alpha-greedy") == Protection(Fraction(3, 10))
    assert build("beta-clearing:alpha=0.15:beta=0.05:pause=9") == BetaClearing(
        Fraction(3, 20), beta=Fraction(1, 20), pause=9
    )


def test_protection_limits_are_exact() -> None:
    """0.9·10 is 9; in floats 10·(1 - 0.1) would be below."""
    assert build("alpha-greedy:alpha=0.1").limit(10) == 9  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcsf", "mcsf: unknown algorithm; did you mean mc-sf"),
        ("mc-sf:alpha=1", "unknown option 'alpha'; use one of scan, delta, beta, pause"),
        ("mc-sf:scan=all", "scan: 'all' is unknown; use one of break, continue"),
        ("mc-sf:delta=x", "mc-sf:delta=x: 'x' is not a value of delta; write one integer"),
        ("mc-sf:delta=-1", "delta: -1 is out of range"),
        ("mc-sf:scan=", "option 'scan' without a value"),
        ("mc-sf:", "mc-sf:: no option after a colon; write option=value, or no colon"),
        ("mc-sf:delta=1:", "no option after a colon"),
        ("mc-sf:scan", "'scan' is not an option; write option=value"),
        ("mc-sf:delta=1:delta=1", "occurs twice"),
        ("mcsf:", "mcsf: unknown algorithm; did you mean mc-sf"),
        ("mcsf:scan=break", "mcsf: unknown algorithm; did you mean mc-sf"),
        ("", "unknown algorithm"),
        ("mc-sf:beta=0", "beta: 0 is out of range"),
        ("beta-clearing:beta=1.5", "beta: 3/2 is out of range"),
        ("alpha-greedy:alpha=1", "alpha: 1 is out of range"),
        ("alpha-greedy:alpha=1e-1", "not a plain rational"),
        ("alpha-greedy:beta=0.5", "alpha-greedy:beta=0.5: unknown option 'beta'"),
        ("my_cache_policy:one_at_a_time:beta=1", "options cannot follow module:NAME"),
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
        ([7], "position 7 is not in the state"),
        ([-1], "position -1 is not in the state"),
        ([0, 0], "a position occurs twice"),
        ([0.0], "0.0 is not a position"),
        ([True], "True is not a position"),
        (None, "returned None; return positions"),
        ("0", "returned '0'"),
        (itertools.count(), "position 2 is not in the state"),
        (itertools.repeat(0), "a position occurs twice"),
        ((1 // zero for zero in [0]), r"its answer raised ZeroDivisionError: .* at .* line \d+;"),
    ],
)
def test_wrong_answers_are_refused(answer: Any, message: str) -> None:
    """The engine checks what a policy returns, and takes no more of it than it needs."""
    with pytest.raises(InputError, match=message):
        serve(DATA, lambda state: answer)


class Failing:
    """Raises in one of its methods."""

    def __init__(self, method: str, error: BaseException) -> None:
        self.method, self.error = method, error

    def _at(self, method: str) -> None:
        if method == self.method:
            raise self.error

    def __call__(self, state: CacheState) -> list[int]:
        """Start the oldest on an empty worker."""
        self._at("call")
        return [] if len(state.running) else [0]

    def check(self, instance: CacheInstance) -> None:
        """Refuse nothing."""
        self._at("check")

    def statistics(self) -> dict[str, object]:
        """Know nothing."""
        self._at("statistics")
        return {}


@pytest.mark.parametrize("error", [ValueError("no idea"), SystemExit(3), RecursionError("deep")])
@pytest.mark.parametrize(
    ("method", "where"),
    [
        ("call", "policy Failing, clock 0: raised "),
        ("check", "policy Failing: its check raised "),
    ],
)
def test_what_a_policy_raises_is_one_error(method: str, where: str, error: BaseException) -> None:
    """It names the policy, the time, and the line of the policy that raised."""
    with pytest.raises(InputError) as caught:
        serve(DATA, Failing(method, error))
    message = str(caught.value)
    assert message.startswith(f"{where}{type(error).__name__}: {error} at ")
    assert "test_registry.py line " in message


def test_statistics_that_raise_cost_one_line_and_not_the_run() -> None:
    """The line names what was raised, and where."""
    run = serve(DATA, Failing("statistics", SystemExit(3)))
    assert run.is_finished
    (said,) = run.statistics.values()
    assert str(said).startswith("policy Failing: its statistics raised SystemExit: 3 at ")


def test_a_policy_of_the_wrong_form_is_one_error() -> None:
    """A function without arguments is called in vain; a share is no rule of clearing."""
    wrong: Any = [lambda: [0], Failing("", OSError())]
    with pytest.raises(InputError, match=r"raised TypeError: [^/]*; correct the policy"):
        serve(DATA, wrong[0])
    wrong[1].clearing = 0.5
    with pytest.raises(
        InputError, match=r"clearing: 0\.5 is not a clearing rule; set it to a Clearing"
    ):
        serve(DATA, wrong[1])


def test_refusals_and_interrupts_of_a_policy_pass() -> None:
    """Its own `InputError` is worded already, and Ctrl-C is the user's."""
    with pytest.raises(InputError, match=r"^mine: broken; mend$"):
        serve(DATA, Failing("call", InputError("mine", "broken", "mend")))
    with pytest.raises(KeyboardInterrupt):
        serve(DATA, Failing("call", KeyboardInterrupt()))


def test_a_policy_may_not_exceed_the_memory_at_once() -> None:
    """C: three requests of 4 need 15 of 9 tokens in the coming batch."""
    data = latency_problem(9, [(0, 4, 1)] * 3)
    with pytest.raises(InputError, match="clock 0: the batch would exceed the memory by 6"):
        serve(data, lambda state: list(range(len(state.waiting))))


def test_a_policy_may_wait_for_its_time() -> None:
    """Idle rounds pass one by one; the clock is in the state."""

    def late(state: CacheState) -> Sequence[int]:
        return range(len(state.waiting)) if state.clock >= 5 else []

    data = latency_problem(20, [(0, 1, 4), (0, 2, 3), (2, 1, 2)])
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

    twins = latency_problem(8, [(0, 1, 4), (0, 1, 4)])
    assert serve(twins, Careless(Clearing())).verdict is CacheVerdict.LOOP
    assert serve(twins, Careless(Clearing(Fraction(1, 2)))).is_finished
