"""Policy names and options, first come first served, user-defined policies, and their errors."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfio.wait.chains import Chain, ThresholdPolicy, nested_policy, wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import Decision, StageInstance, StageState
from bfio.wait.registry import BUILT_IN, build
from bfio.wait.replay import violations
from bfio.wait.run import StageVerdict
from bfio.wait.simulation import serve
from formulations.errors import InputError
from formulations.fluid import FluidProblem, RequestClass
from formulations.thresholds import conditions
from tests.wait.cases import FOUR_LENGTHS, I0, instance

USER_FILE = '''
"""A user's file."""


def one_at_a_time(state):
    """Serve the oldest to its end, then the next."""
    return (state.held or state.waiting)[:1]


class Greedy:
    """Take everyone."""

    def __call__(self, state):
        return [*state.held, *state.waiting]


class Broken:
    def __init__(self):
        raise OSError("no")


number = 5
'''
DATA = instance(9, [(0, 1, 2), (0, 2, 1), (2, 1, 0)])


@pytest.fixture(autouse=True)
def _user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_stage_policy.py").write_text(USER_FILE)
    monkeypatch.chdir(tmp_path)


def thresholds_of(text: str, problem: FluidProblem) -> list[tuple[int, ...]]:
    """Return the thresholds of all chains of a policy."""
    policy = build(text, problem)
    assert isinstance(policy, ThresholdPolicy)
    return [chain.thresholds for chain in policy.chains]


def test_built_in_names() -> None:
    """The names the page lists, each with a summary and a source."""
    assert list(BUILT_IN) == ["fcfs", "nested-wait", "new-first", "ongoing-first", "wait"]
    assert all(known.summary and known.source for known in BUILT_IN.values())


def test_thresholds_of_wait() -> None:
    """Least (1, 1) and strict (2, 2) on I0; with a limit of 10: 10·(1/2)/2 and 10·(1/2)/3."""
    assert thresholds_of("wait", I0) == [(2,), (2,)]
    assert thresholds_of("wait:thresholds=least", I0) == [(1,), (1,)]
    assert thresholds_of("wait:thresholds=3,7", I0) == [(3,), (7,)]
    assert thresholds_of("wait:thresholds=balanced:limit=10", I0) == [(2,), (2,)]
    assert thresholds_of("wait:thresholds=printed:limit=12", I0) == [(3,), (2,)]


def test_thresholds_of_nested_wait() -> None:
    """The example of four lengths, merged segments, lists, and one chain per prompt."""
    assert thresholds_of("nested-wait", FOUR_LENGTHS) == [(4, 4, 4, 3)]
    merged = build("nested-wait:segments=8,16", FOUR_LENGTHS)
    assert isinstance(merged, ThresholdPolicy)
    assert merged.chains == (Chain((8, 16), (4, 3)),)
    assert build("nested-wait:segments=2", FOUR_LENGTHS).chains[0].ends == (4, 16)  # type: ignore[attr-defined]
    assert thresholds_of("nested-wait:thresholds=9,8:segments=3,99", I0) == [(9, 8)]
    (corrected,) = thresholds_of("nested-wait:thresholds=corrected:limit=60", FOUR_LENGTHS)
    assert all(n >= 1 for n in corrected)
    rows = (RequestClass(Fraction(1), prompt, output) for prompt in (1, 2) for output in (1, 2))
    mixed = FluidProblem(tuple(rows), FOUR_LENGTHS.workers)
    grouped = build("nested-wait:groups=prompts", mixed)
    assert isinstance(grouped, ThresholdPolicy)
    assert grouped.prompts == {1: 0, 2: 1}


def test_options_of_first_come_first_served() -> None:
    """What is not written keeps its default."""
    assert build("fcfs", I0) == FirstComeFirstServed()
    assert build("new-first:limit=3:mixed=no", I0) == FirstComeFirstServed(
        Favour.NEW, 3, 0, mixed=False
    )
    assert build("ongoing-first:tokens=9", I0) == FirstComeFirstServed(Favour.ONGOING, 0, 9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wiat", "wiat: unknown policy; did you mean wait?"),
        ("", "unknown policy"),
        ("wait:limit=9", "limit: thresholds=strict has no limit; omit limit"),
        ("wait:thresholds=corrected:limit=9", "thresholds: 'corrected' is unknown; use strict"),
        ("nested-wait:slack=3", "slack: thresholds=least has no slack; omit slack"),
        (
            "wait:thresholds=printed",
            "limit: thresholds=printed needs a limit of prompts per batch",
        ),
        ("wait:thresholds=printed:limit=0", "limit: 0 is out of range"),
        ("wait:thresholds=most", "'most' is unknown; use strict, least, printed, balanced"),
        ("wait:thresholds=1", "thresholds: 1 thresholds for 2 classes"),
        ("wait:thresholds=1,0", "thresholds[1]: 0 is out of range"),
        ("wait:thresholds=1,x", "'1,x' is not a list of integers >= 0"),
        ("wait:thresholds=", "option 'thresholds' without a value"),
        (
            "wait:segments=2",
            "wait:segments=2: unknown option 'segments'; use one of thresholds, limit",
        ),
        ("wait:thresholds=1,1:thresholds=1,1", "occurs twice"),
        ("nested-wait:groups=two", "groups: 'two' is unknown"),
        ("nested-wait:groups=prompts:segments=2", "omit both"),
        ("nested-wait:groups=prompts:limit=2", "limit"),
        ("nested-wait:segments=x", "segments: 'x' is not a list of integers >= 0"),
        ("nested-wait:segments=9", "segments"),
        ("nested-wait:segments=2,1:thresholds=1,1", "[2, 1] do not increase"),
        ("nested-wait:segments=1,2:thresholds=1", "thresholds: 1 thresholds for 2 segments"),
        ("nested-wait:thresholds=corrected:limit=20:slack=x", "slack"),
        ("nested-wait:thresholds=best", "'best' is unknown; use least, printed, corrected"),
        ("new-first:mixed=maybe", "mixed: 'maybe' is unknown; use yes or no"),
        ("new-first:limit=-1", "limit: -1 is out of range"),
        ("ongoing-first:mixed=no", "ongoing-first:mixed=no: unknown option 'mixed'"),
        (
            "fcfs:limit=1",
            "fcfs:limit=1: unknown option 'limit'; leave it out; no options are accepted",
        ),
        ("fcfs:", "no option after a colon"),
        ("my_stage_policy:one_at_a_time:limit=1", "options cannot follow module:NAME"),
        ("my_stage_policy:number", "an int is not callable; name a function of (state)"),
        ("my_stage_policy:Broken", "making it raised OSError: no"),
        ("my_stage_policy:missing", "has no missing"),
        ("no_such_module:f", "no module named no_such_module"),
    ],
)
def test_what_cannot_be_built_says_why(text: str, message: str) -> None:
    """One line that names the option and the remedy."""
    with pytest.raises(InputError) as caught:
        build(text, I0)
    assert message in str(caught.value)


def test_without_equilibrium_there_are_no_thresholds() -> None:
    """Load 1: neither WAIT keeps up; listed thresholds are still taken."""
    slow = {"d0": "1/2", "d1": "1/9", "memory": 9}
    classes = [{"rate": 1, "prompt": 1, "output": output} for output in (1, 2)]
    problem = FluidProblem.from_mapping({"classes": classes, **slow})
    for text in ("wait", "wait:thresholds=least", "nested-wait"):
        with pytest.raises(
            InputError, match="no thresholds can process all arrivals; lower the rates"
        ):
            build(text, problem)
    assert thresholds_of("wait:thresholds=1,1", problem) == [(1,), (1,)]


def test_loads_too_close_to_the_limit_name_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other method can be chosen here: the remedy is another load or a list."""
    monkeypatch.setattr(conditions, "_MAX_ROUNDS", 10)
    classes = [{"rate": r, "prompt": 1, "output": o} for r, o in (("0.999", 1), (1, 2))]
    times = {"d0": "0.0123457", "d1": "1/9", "memory": 10**6}
    problem = FluidProblem.from_mapping({"classes": classes, **times})
    with pytest.raises(InputError, match=r"too close to 1 .*; lower the rates, or list thresh"):
        build("wait", problem)


@pytest.mark.parametrize("name", ["one_at_a_time", "Greedy"])
def test_a_users_policy_runs(name: str) -> None:
    """A function or a class of the working directory names its run, checked as all are."""
    run = serve(DATA, build(f"my_stage_policy:{name}", I0))
    assert (run.policy, run.is_finished, violations(run)) == (name, True, {})
    expected = {"one_at_a_time": [3, 5, 6], "Greedy": [3, 2, 3]}
    assert run.completion.tolist() == expected[name]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returned None"),
        ("0", "returned '0'"),
        (7, "returned 7"),
        ([0.0], "0.0 is not a request"),
        ([True], "True is not a request"),
        (np.array([0.5]), "0.5.? is not a request"),
        (np.array([[0]]), "is not a request"),
        ([0, 0], "a request occurs twice"),
        ([2], "request 2 is not in the state"),
        ([-1], "request -1 is not in the state"),
        (Decision([0], evict=[1]), "request 1 is not in the state"),
        (Decision(5), "returned 5"),  # type: ignore[arg-type]
        (Decision([0], evict="1"), "returned '1'"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_wrong_answers_are_refused(answer: Any, message: str, engine: str) -> None:
    """At time 0 requests 0 and 1 have arrived, and nobody holds anything."""
    with pytest.raises(InputError, match=message) as caught:
        serve(DATA, lambda state: answer, name="mine", engine=engine)
    assert str(caught.value).startswith("policy mine, batch 0: ")


def test_right_answers_of_any_kind() -> None:
    """Lists, tuples, arrays and decisions are all taken."""
    for kind in (list, tuple, np.array, Decision):
        run = serve(DATA, lambda state, kind=kind: kind([*state.held, *state.waiting]))
        assert run.completion.tolist() == [3, 2, 3]


@pytest.mark.parametrize("error", [ValueError("no idea"), SystemExit(3), RecursionError("deep")])
def test_what_a_policy_raises_is_one_error(error: BaseException) -> None:
    """It names the policy, the batch, and what was raised where."""

    def failing(state: StageState) -> list[int]:
        if state.held:
            raise error
        return state.waiting

    with pytest.raises(InputError) as caught:
        serve(DATA, failing, name="mine")
    begin = f"policy mine, batch 1: raised {type(error).__name__}: {error} at "
    assert str(caught.value).startswith(begin)


def test_a_policy_may_not_change_what_it_sees() -> None:
    """Stages are read only; its lists are copies."""

    def meddling(state: StageState) -> list[int]:
        state.stage[0] = 5
        return []

    def emptying(state: StageState) -> list[int]:
        chosen = [*state.held, *state.waiting]
        state.held.clear()
        state.waiting.clear()
        return chosen

    with pytest.raises(InputError, match="read-only"):
        serve(DATA, meddling)
    assert serve(DATA, emptying).is_finished


def test_a_policy_knows_no_lengths_unless_it_says_so() -> None:
    """Reading an output is refused, and so is looking at requests yet to arrive."""
    seen: list[int] = []

    def peeking(state: StageState) -> list[int]:
        return state.waiting[: int(state.instance.output[0])]

    def counting(state: StageState) -> list[int]:
        seen.append(len(state.instance.prompt))
        return [*state.held, *state.waiting]

    own = r"policy peeking, batch 0: state.instance.output: .* this policy at .*/test_policies.py "
    with pytest.raises(InputError, match=rf"{own}line \d+; set knows_lengths = True"):
        serve(DATA, peeking, name="peeking")
    peeking.knows_lengths = True  # type: ignore[attr-defined]
    assert serve(DATA, peeking).verdict is not None
    serve(DATA, counting)
    assert seen[0] < len(DATA) == seen[-1]


def test_a_policy_that_starts_nothing_is_stuck() -> None:
    """The engine idles to the last arrival, and says why the run ends: 3 + 2 + 1 stages open."""
    run = serve(DATA, lambda state: [])
    assert (run.verdict, len(run.batches)) == (StageVerdict.STUCK, 0)
    summary = run.summary()
    assert (summary["requests"], summary["horizon_s"], summary["gap"]) == (3, 3, 2)
    assert "no more arrive" in run.reason
    assert violations(run) == {}


def test_a_limit_on_batches_stops_a_run() -> None:
    """The verdict says so; a run that evicts for ever ends this way.

    An answer that evicts everyone and starts nobody is no end: the policy is asked again.
    """

    def hesitant(state: StageState) -> Decision:
        return Decision(state.waiting[:1], evict=state.held)

    run = serve(instance(9, [(0, 1, 1)]), hesitant, batches=50)
    assert (run.verdict, len(run.batches), len(run.evictions)) == (StageVerdict.STOPPED, 50, 49)
    assert violations(run) == {}


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Chain((2, 2), (1, 1)), "do not increase"),
    (lambda: Chain((), ()), "do not increase"),
    (lambda: Chain((1, 2), (1,)), "1 thresholds for 2 segments"),
    (lambda: Chain((1,), (0,)), r"thresholds\[0\]: 0 is out of range"),
    (lambda: wait_policy(I0.classes, [1]), "1 thresholds for 2 classes"),
    (
        lambda: wait_policy(I0.classes[:1] * 2, [1, 1]),
        "another class has the same prompt and output",
    ),
    (lambda: FirstComeFirstServed(mixed=False), "favour new requests"),
    (lambda: FirstComeFirstServed(limit=-1), "limit: -1"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_wrong_parameters_are_refused(make: Callable[[], object], message: str) -> None:
    """Chains, classes and limits say what is wrong with them."""
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_requests_that_a_policy_cannot_serve(engine: str) -> None:
    """Unknown lengths, outputs beyond the last segment, more than the memory: named."""
    cases = [
        (build("wait", I0), r"requests\[0\]: no class has prompt 7 and output 3"),
        (
            nested_policy([2], [1]),
            r"requests\[0\]: output 3 exceeds 2, the end of the last segment",
        ),
        (FirstComeFirstServed(), r"requests\[0\]: 1 of 1 requests exceed the memory of 9"),
    ]
    for policy, message in cases:
        with pytest.raises(InputError, match=message):
            serve(instance(9, [(0, 7, 3)]), policy, engine=engine)


def _served(policy: FirstComeFirstServed, data: StageInstance) -> list[list[int]]:
    """Return the requests of each batch."""
    run = serve(data, policy)
    events = run.log.events()
    return [events.request[events.batch == k].tolist() for k in range(len(run.batches))]


def test_whom_a_limit_favours() -> None:
    """Two of three at a time. New first: 0 and 1 start, then 2 with 0; 1 pauses meanwhile."""
    data = instance(99, [(0, 1, 1)] * 3)
    assert _served(FirstComeFirstServed(Favour.NEW, limit=2), data) == [[0, 1], [0, 2], [1, 2]]
    assert _served(FirstComeFirstServed(Favour.ONGOING, limit=2), data) == [
        [0, 1],
        [0, 1],
        [2],
        [2],
    ]
    apart = FirstComeFirstServed(Favour.NEW, limit=2, mixed=False)
    assert _served(apart, data) == [[0, 1], [2], [0, 1], [2]]


def test_a_limit_on_tokens() -> None:
    """Four tokens a batch: prompts of 3 one by one, though a batch has one prompt at least."""
    data = instance(99, [(0, 3, 0), (0, 3, 0), (0, 9, 0), (0, 1, 0)])
    assert _served(FirstComeFirstServed(token_limit=4), data) == [[0], [1], [2], [3]]
    assert _served(FirstComeFirstServed(token_limit=6), data) == [[0, 1], [2], [3]]


def test_after_an_eviction_new_first_starts_nothing() -> None:
    """Memory 4, outputs 2: both count 1 + 1, together 4; then 3 + 3 = 6: the second goes.

    It waits until the first has ended, as 1 + 3 = 4 would fit, but nothing starts at once.
    """
    data = instance(4, [(0, 1, 2), (0, 1, 2)])
    assert _served(FirstComeFirstServed(Favour.NEW), data) == [[0, 1], [0, 1], [0], [1], [1], [1]]
    ongoing = _served(FirstComeFirstServed(Favour.ONGOING), data)
    assert ongoing == [[0, 1], [0, 1], [0, 1], [1], [1]]
