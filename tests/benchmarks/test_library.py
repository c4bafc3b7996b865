"""Building, improving and timing the library: solutions are verified, problems never change."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cli import main
from benchmarks.library.improve import Hand, improve, merge
from benchmarks.library.methods import METHODS, Found, Limits, annealed, closed_form
from benchmarks.library.problems import RUNS, VARIANTS, step_problems, varied
from benchmarks.library.times import KIND, plan
from benchmarks.step_harvest import oldest_first
from bfio.decode.state import DecodeState
from bfio.library import KINDS, Entry, Origin, Status, entries, entry, verify
from bfio.library.kind import digest_of
from bfio.library.store import DATA, write_index, write_problem
from bfio.studies.row import RowContext, RowResult
from formulations.errors import InputError
from formulations.step import StepProblem
from tests.places import ROOT

ME = Origin("me", "1")
LIMITS = Limits.of_work(50_000)
NAMES = ("step-2x4-synthetic-4-w1-h0", "step-4x8-synthetic-8-w1-h20-none")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a library of two problems of which nothing is known."""
    made = [replace(entry(name), folder=tmp_path, best=None) for name in NAMES]
    for e in made:
        write_problem(tmp_path, e, entry(e.name).document)
    write_index(tmp_path, made)
    return tmp_path


def test_improving_closes_what_can_be_closed(folder: Path) -> None:
    """Files hold what was found and verified; a second pass has nothing to do."""
    lines: list[str] = []
    assert [e.status for e in entries(folder)] == [Status.OPEN] * 2
    assert improve(folder, ["*"], LIMITS, say=lines.append) == 2
    assert [line.split()[2] for line in lines] == ["closed", "closed"]
    assert all(verify(e).is_certified for e in entries(folder))
    assert improve(folder, ["*"], LIMITS) == 0


def test_what_another_copy_knows_is_taken(folder: Path) -> None:
    """Verified anew, under the names of who found it; what is known already stays."""
    assert merge(folder, DATA) == 2
    assert [e.best for e in entries(folder)] == [entry(name).best for name in NAMES]
    assert all(verify(e).is_certified for e in entries(folder))
    assert merge(folder, DATA) == 0


def _hand() -> tuple[Hand, Entry]:
    e = entry(NAMES[1])
    return Hand(replace(e, best=None)), e


def test_only_what_is_verified_and_better_is_taken() -> None:
    """Infeasible solutions, certificates that prove nothing and looser claims are not."""
    hand, e = _hand()
    assert e.best is not None
    number = e.problem.num_requests
    assert hand.with_solution({"assignment": [0] * number}, ME) == hand
    assert hand.with_certificate({"kind": "sums", "bound": e.best.objective + 1}, ME) == hand
    known = hand.with_solution(e.best.solution, ME)
    assert known.with_solution(e.best.solution, Origin("late", "2")) == known
    claimed = known.with_claim(e.best.objective - 1, ME)
    assert claimed.with_claim(e.best.objective - 2, ME) == claimed
    bounded = claimed.with_found(closed_form(None, LIMITS, None), ME)
    best = bounded.best()
    assert best is not None
    assert best.claim == e.best.objective - 1
    closed = bounded.with_certificate(e.certificate or {}, ME).best()
    assert closed is not None
    assert (closed.status, closed.claim) == (Status.CLOSED, None)


def test_a_claim_that_a_solution_beats_is_told() -> None:
    """It is struck off, whichever came first."""
    hand, e = _hand()
    assert e.best is not None
    found = Found(e.best.solution, (), e.best.objective + 1)
    for beaten in (
        hand.with_found(found, ME),
        hand.with_claim(found.claim, ME).with_solution(found.solution, ME),
    ):
        assert beaten.claim is None
        assert "me claims" in beaten.told[0]


def test_certificates_that_prove_too_much_or_take_too_long_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their bounds are not taken: a solution in hand is better than one allows."""
    hand, e = _hand()
    assert e.best is not None
    known = hand.with_solution(e.best.solution, ME)
    too_much = e.best.objective + 1
    monkeypatch.setattr("benchmarks.library.improve.MOST_SECONDS", -1.0)
    slow = known.with_certificate(e.certificate or {}, ME)
    assert slow.proof is None
    assert "s to verify: not stored" in slow.told[0]
    monkeypatch.setattr(type(e.kind), "certified_bound", lambda *arguments: too_much)
    told = known.with_certificate({"kind": "any"}, ME)
    assert told.proof is None
    assert f"REFUTED: the verifier derives {too_much} from the certificate of me" in told.told[0]


def test_a_better_solution_is_taken_from_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, under the name it was given; an equal one is not."""
    improve(folder, [NAMES[0]], LIMITS, ["closed-form", "oldest-first"], say=lambda line: None)
    before, best = entry(NAMES[0], folder).best, entry(NAMES[0]).best
    assert before is not None
    assert best is not None
    assert before.objective > best.objective
    path = folder / "answer.json"
    path.write_text(json.dumps(dict(best.solution)), encoding="utf-8")
    command = [
        "library",
        "take",
        NAMES[0],
        str(path),
        "--by",
        "A. Person",
        "--library",
        str(folder),
    ]
    assert main(command) == 0
    known = entry(NAMES[0], folder).best
    assert known is not None
    assert (known.objective, known.found_by.method) == (best.objective, "A. Person")
    assert main(command) == 0
    assert "not better" in capsys.readouterr().out


def test_problems_are_frozen(folder: Path) -> None:
    """Another problem cannot take a name."""
    e = entry(NAMES[0], folder)
    with pytest.raises(
        InputError, match="the problem of this entry has changed; use another name"
    ):
        write_problem(folder, e, {**e.document, "admit": 0})


def test_every_kind_has_methods() -> None:
    """Each kind can be worked on."""
    assert set(METHODS) == set(KINDS)


def test_problems_come_out_as_they_are_frozen() -> None:
    """Of the smallest run, made again."""
    made = {name: problem for name, _, _, problem in step_problems(RUNS[0], ROOT)}
    assert set(made) == {f"step-2x4-synthetic-4-w1-{variant}" for variant in VARIANTS}
    for name, problem in made.items():
        assert digest_of(problem.to_mapping()) == entry(name).digest


def _state() -> DecodeState:
    """Two workers, one request that ends after the next step; one of two waiting ends at once."""
    return DecodeState(
        step=0, slots=3, loads=np.array([10, 20]),
        projected_loads=np.array([[10, 11, 12], [20, 11, 12]]),
        free_slots=np.array([2, 1]), running=np.array([1, 2]),
        projected_running=np.array([[1, 1, 1], [2, 1, 1]]),
        queued=np.zeros(2, int), queued_tokens=np.zeros(2, int),
        sizes=np.array([5, 7]), ages=np.array([1, 0]),
        contributions=np.array([[5, 6, 7], [7, 0, 0]]), rng=np.random.default_rng(0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("knows", "base", "contribution"),
    [
        ("none", [[10, 11], [20, 22]], [[5, 6], [7, 8]]),
        ("active", [[10, 11], [20, 11]], [[5, 6], [7, 8]]),
        ("all", [[10, 11], [20, 11]], [[5, 6], [7, 0]]),
    ],
)
def test_variants_know_what_they_say(
    knows: str, base: list[list[int]], contribution: list[list[int]]
) -> None:
    """Ends of nobody, of active requests, of all (specification of windows, section 1)."""
    variant = replace(VARIANTS["h20-all"], look_ahead=1, knows=knows)
    problem = varied(_state(), variant, 0)
    assert problem.base.tolist() == base
    assert problem.contribution.tolist() == contribution


def test_variants_bind_and_stay_feasible() -> None:
    """Capacities on half of the workers, two speeds, the oldest required, half admitted."""
    problems = {
        extra: varied(_state(), replace(VARIANTS["h0"], extra=extra), 3)
        for extra in ("memory", "speeds", "required", "empty")
    }
    capacities, times = problems["memory"].token_capacity, problems["speeds"].token_time
    assert capacities is not None
    assert times is not None
    assert (capacities < 2 * capacities.min()).sum() == 1
    assert set(times.tolist()) <= {1, 2}
    required, empty = problems["required"].required, problems["empty"]
    assert isinstance(empty, StepProblem)
    assert required is not None
    assert required.tolist() == [True, False]
    assert empty.num_admitted == 1


@pytest.mark.parametrize("variant", ["h0", "h20-memory", "h20-required", "h0-empty", "h20-gap"])
def test_annealing_keeps_constraints_and_finds_tiny_optima(variant: str) -> None:
    """From the simplest answer; its own objective is that of the checker."""
    e = entry(f"step-2x4-synthetic-4-w1-{variant}")
    start = oldest_first(e.problem)
    assert start is not None
    found = annealed(e.problem, start, 400, 0)
    judged = e.kind.judge(e.problem, tuple(found))
    assert judged.violations == {}
    assert e.best is not None
    assert judged.objective == e.best.objective


CONTEXT = RowContext(folder=Path())


def test_a_row_counts_what_is_proven() -> None:
    """All thresholds are proven, and as good as the best known ones."""
    arguments = {"kind": "wait", "family": "thresholds", "method": "fixed-point"}
    row = plan(arguments, CONTEXT).compute()
    assert isinstance(row, RowResult)
    number = sum((e.kind_name, e.family) == ("wait", "thresholds") for e in entries())
    assert row.values["entries"] == number
    assert row.values["proven"] == row.values["reached"] == number
    assert row.violations == {}
    assert 0 < row.timings["median_s"] <= row.timings["longest_s"]
    assert KIND.name == "library-times"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"family": "H = 7"}, "argument family: kind step has no family 'H = 7'"),
        ({"method": "exactt"}, "argument method: 'exactt' is unknown; did you mean exact?"),
    ],
)
def test_unknown_words_are_told(arguments: dict[str, str], said: str) -> None:
    """One line."""
    with pytest.raises(InputError, match="argument") as caught:
        plan(arguments, CONTEXT)
    assert said in str(caught.value)
