"""Bad input of ``bfio wait``: status 2, one line that says where, what and what to do."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Bfio, Done
from tests.cli.test_fluid import I0

HORIZON = ("--horizon", "20")
TRACE = ("--trace", "trace.csv")
USER_FILE = """
def number(state):
    return 5


def stranger(state):
    return [10**6]


def twice(state):
    return [*state.waiting, *state.waiting]


def raising(state):
    raise ValueError("no idea")


def leaving(state):
    raise SystemExit(0)


def no_arguments():
    return []


def served(state):
    return state.held or state.waiting


class Refusing:
    def __call__(self, state):
        return served(state)


class Counting(Refusing):
    asked = 0

    def __call__(self, state):
        self.asked += 1
        return served(state)

    def statistics(self):
        return {"asked": self.asked}


class Raising(Refusing):
    def check(self, instance):
        raise ValueError("not today")


class Number(Refusing):
    check = 5


class Wrong(Refusing):
    def check(self):
        return None


class Leaving(Refusing):
    def check(self, instance):
        raise SystemExit(0)
"""


def _is_one_clear_line(done: Done, *messages: str) -> None:
    assert done.status == 2, done.err
    assert done.out == ""
    error = [line for line in done.err.splitlines() if not re.match(r".*: \d+/\d+$", line)]
    assert len(error) == 1
    assert re.fullmatch(r"error: .+: .+; .+", error[0]), error
    for message in messages:
        assert message in error[0]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(I0))
    (tmp_path / "rates.json").write_text('{"breaks": [0], "rates": [1]}')
    (tmp_path / "one.json").write_text('{"means": [1], "amplitudes": [0], "period": 1}')
    (tmp_path / "trace.csv").write_text(
        "arrival_time_s,prompt_tokens,output_tokens\n0,1,1\n1,5,2\n"
    )
    (tmp_path / "bad.csv").write_text("arrival_time_s,prompt_tokens,output_tokens\n0,x,1\n")
    (tmp_path / "my_bad_policy.py").write_text(USER_FILE)
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "full.png").symlink_to("/dev/full")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--horizon is missing"),
        (("--drain",), "--horizon is missing"),
        (("--horizon", "0"), "--horizon: 0 is not allowed for a rate or time"),
        (("--horizon", "-1"), "--horizon"),
        (("--horizon", "ten"), "--horizon: 'ten' is not a plain rational"),
        (("--horizon", "nan"), "--horizon"),
        (("--horizon", "inf"), "--horizon"),
        (("--horizon", "1e13"), "--horizon"),
        (
            ("--horizon", "1e9"),
            "about 2e+09 requests would arrive; use a shorter time: at most 2e+08",
        ),
        (("--horizon", "1e-30"), None),
        ((*HORIZON, "--scale", "0"), "--scale: 0 is not allowed for a rate or time"),
        ((*HORIZON, "--scale", "x"), "--scale: 'x'"),
        ((*HORIZON, "--scale", "1e12"), "horizon: is too long for the clock"),
        ((*HORIZON, "--profile", "no.json"), "no.json: no such file"),
        ((*HORIZON, "--profile", "load.json"), "load.json: document.classes: unknown; use breaks"),
        ((*HORIZON, "--profile", "rates.json"), "rates.json: rates[0]: a number; write a list"),
        ((*HORIZON, "--profile", "one.json"), "profile: 1 rate for 2 classes"),
        ((*HORIZON, "--profile", "one.json", "--scale", "2"), "omit --arrivals and --scale"),
        ((*HORIZON, "--profile", "one.json", "--arrivals", "even"), "omit --arrivals and --scale"),
        ((*HORIZON, "--rate", "2"), "--rate has no effect without --trace"),
        ((*HORIZON, "--rate-scale", "2"), "--rate-scale has no effect without --trace"),
        ((*HORIZON, "--arrivals", "trace"), "--arrivals trace needs --trace"),
        ((*HORIZON, "--arrivals", "often"), "--arrivals: 'often' is unknown"),
        ((*HORIZON, "--engine", "steam"), "engine: 'steam' is unknown"),
        ((*HORIZON, "--seed", "-1"), "seed: -1 is out of range"),
        ((*HORIZON, "--seed", "x"), "--seed"),
        ((*HORIZON, "--plot", "plot"), "--plot: plot is not a picture"),
        ((*HORIZON, "--plot", "plot.xyz"), "ends in .png or .pdf or .svg"),
        ((*HORIZON, "--plot", "no/such/plot.png"), "--plot: folder no/such does not exist"),
        ((*HORIZON, "--plot", "/proc/plot.png"), "--plot: /proc/plot.png cannot be written"),
        ((*HORIZON, "--plot", "folder.png"), "--plot: folder.png cannot be written"),
        # The device takes writing, but a figure would replace it.
        ((*HORIZON, "--plot", "full.png"), "--plot: full.png cannot be written (it is no file)"),
        ((*HORIZON, "--plot", "a\0b.png"), "cannot be written"),
        ((*HORIZON, "--skip-bad-rows"), "--skip-bad-rows has no effect without --trace"),
        ((*HORIZON, "--columns", "prompt=a,output=b"), "--columns has no effect without --trace"),
        ((*HORIZON, "--policy", "wait:thresholds=99999999999999999999,1"), "is too large"),
        ((*HORIZON, "--policy", "wiat"), "did you mean wait?"),
        ((*HORIZON, "--policy", ""), "unknown policy"),
        ((*HORIZON, "--policy", "wait", "--policy", "wait"), "a policy is named twice"),
        ((*HORIZON, "--policy", "wait:thresholds=1"), "thresholds: 1 thresholds for 2 classes"),
        ((*HORIZON, "--policy", "wait:thresholds=1,-1"), "thresholds"),
        ((*HORIZON, "--policy", "wait:thresholds=1,99999999999999999999"), "thresholds"),
        (
            (*HORIZON, "--policy", "wait:threshold=1,1"),
            "unknown option 'threshold'; did you mean thresholds?",
        ),
        ((*HORIZON, "--policy", "wait:thresholds=balanced"), "limit"),
        (
            (*HORIZON, "--policy", "wait:thresholds=printed:limit=x"),
            "'x' is not a value of limit; write one integer",
        ),
        ((*HORIZON, "--policy", "nested-wait:segments=9"), "segments"),
        ((*HORIZON, "--policy", "nested-wait:segments=0"), "segments: 0"),
        ((*HORIZON, "--policy", "nested-wait:segments=1,9"), "9 is not the longest output"),
        ((*HORIZON, "--policy", "nested-wait:segments=0,1:thresholds=1,1"), "the last segment"),
        ((*HORIZON, "--policy", "nested-wait:thresholds=printed:limit=0"), "limit: 0"),
        ((*HORIZON, "--policy", "nested-wait:groups=some"), "groups: 'some' is unknown"),
        (
            (*HORIZON, "--policy", "new-first:limit=1.5"),
            "'1.5' is not a value of limit; write one integer",
        ),
        (
            (*HORIZON, "--policy", "new-first:limit=" + "9" * 20),
            "limit: 99999999999999999999 is out of range",
        ),
        ((*HORIZON, "--policy", "new-first:mixed=no:mixed=yes"), "occurs twice"),
        ((*HORIZON, "--policy", "fcfs:limit=1"), "fcfs:limit=1: unknown option 'limit'"),
        ((*HORIZON, "--policy", "no_such_module:f"), "no module named no_such_module"),
        ((*HORIZON, "--policy", "my_bad_policy:missing"), "has no missing"),
        ((*HORIZON, "--policy", "my_bad_policy:number"), "returned"),
        ((*HORIZON, "--policy", "my_bad_policy:stranger"), "request 1000000 is not in the state"),
        ((*HORIZON, "--policy", "my_bad_policy:twice"), "a request occurs twice"),
        ((*HORIZON, "--policy", "my_bad_policy:raising"), "raised ValueError: no idea"),
        ((*HORIZON, "--policy", "my_bad_policy:leaving"), "raised SystemExit: 0"),
        (
            (*HORIZON, "--policy", "my_bad_policy:Raising"),
            "its check raised ValueError: not today",
        ),
        ((*HORIZON, "--policy", "my_bad_policy:Number"), "its check raised TypeError"),
        ((*HORIZON, "--policy", "my_bad_policy:Wrong"), "its check raised TypeError"),
        ((*HORIZON, "--policy", "my_bad_policy:Leaving"), "its check raised SystemExit: 0"),
        ((*HORIZON, "--policy", "my_bad_policy:raising", "--engine", "compiled"), "compiled"),
        ((*HORIZON, "--polic", "wait"), "unknown option --polic; did you mean --policy?"),
        ((*HORIZON, "--policy"), "--policy"),
        ((*TRACE,), "trace.csv: requests[1]: no class has prompt 5 and output 2"),
        ((*TRACE, "--policy", "nested-wait:thresholds=1,1:segments=0,1"), "the last segment"),
        ((*TRACE, "--arrivals", "even"), "--arrivals even cannot be combined with --trace"),
        ((*TRACE, "--arrivals", "poisson"), "add --rate"),
        ((*TRACE, "--arrivals", "trace", "--rate", "1"), "--rate draws new arrival times"),
        ((*TRACE, "--rate", "1", "--rate-scale", "2"), "--rate draws new arrival times"),
        ((*TRACE, "--profile", "one.json"), "--profile cannot be combined with --trace"),
        ((*TRACE, "--rate", "0"), "--rate: 0 is not allowed for a rate or time"),
        ((*TRACE, "--rate", "1e-12"), "the last arrival is too late"),
        ((*TRACE, "--rate-scale", "-2"), "--rate-scale"),
        ((*TRACE, "--rate-scale", "1e-12"), "requests[1]"),
        ((*TRACE, "--scale", "2"), "--scale cannot be combined with --trace"),
        ((*TRACE, *HORIZON, "--drain"), "--horizon and --drain exclude each other"),
        (("--trace", "missing.csv"), "missing.csv"),
        (("--trace", "bad.csv"), "bad.csv"),
        (("--trace", "load.json"), "load.json"),
    ],
)
def test_bad_arguments(bfio: Bfio, arguments: tuple[str, ...], message: str | None) -> None:
    """Each names what is wrong; a horizon before the first arrival is merely short."""
    done = bfio("wait", "load.json", *arguments)
    if message is None:
        assert done.status == 0
    else:
        _is_one_clear_line(done, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": []}, "classes: found 0"),
        ({"classes": [{"rate": 0, "prompt": 1, "output": 1}]}, "classes[0].rate: 0"),
        ({"classes": [{"rate": 1, "prompt": 0, "output": 1}]}, "classes[0].prompt: 0"),
        ({"classes": [{"rate": 1, "prompt": 1}]}, "classes[0]"),
        (
            {"classes": [I0["classes"][0]] * 2},
            "classes[1]: another class has the same prompt and output",
        ),
        ({"d0": 0}, "d0: 0"),
        ({"d1": "1/9"}, "load.json: classes: no thresholds can process all arrivals"),
        ({"memory": 0}, "memory: 0"),
        ({"memory": 2.5}, "memory"),
        ({"workers": 2}, "workers: found 2"),
        ({"surprise": 1}, "surprise"),
        ({"d0": "1/1152921504606846975", "d1": "1/2305843009213693951"}, "no common unit"),
    ],
)
def test_bad_files(bfio: Bfio, tmp_path: Path, change: dict[str, object], message: str) -> None:
    """The file's own mistakes, and loads that the default policy cannot serve."""
    (tmp_path / "load.json").write_text(json.dumps(I0 | change))
    _is_one_clear_line(bfio("wait", "load.json", *HORIZON), message)


def test_requests_larger_than_the_memory(bfio: Bfio, tmp_path: Path) -> None:
    """FCFS could never start them."""
    (tmp_path / "load.json").write_text(json.dumps(I0 | {"memory": 2}))
    done = bfio("wait", "load.json", *HORIZON, "--policy", "fcfs")
    _is_one_clear_line(done, "exceed the memory of 2 tokens alone")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"classes": 1}'])
def test_files_that_are_none(bfio: Bfio, tmp_path: Path, content: bytes) -> None:
    """Truncated, mistyped or binary: the file is named."""
    (tmp_path / "load.json").write_bytes(content)
    _is_one_clear_line(bfio("wait", "load.json", *HORIZON), "load.json")


def test_no_file(bfio: Bfio) -> None:
    """Missing, a folder, or not given at all."""
    _is_one_clear_line(bfio("wait", "missing.json", *HORIZON), "missing.json: no such file")
    _is_one_clear_line(bfio("wait", ".", *HORIZON), "is a directory")
    _is_one_clear_line(bfio("wait", *HORIZON), "FILE")


def test_a_wrong_signature_is_refused_before_anything_runs(bfio: Bfio) -> None:
    """It takes no argument and would be called with one."""
    done = bfio("wait", "load.json", *HORIZON, "--policy", "my_bad_policy:no_arguments")
    _is_one_clear_line(done, "my_bad_policy:no_arguments: cannot be called with (state)")
    assert ".py line" not in done.err


def test_two_prompt_lengths_need_groups(bfio: Bfio, tmp_path: Path) -> None:
    """One chain takes one prompt length; the remedy that is named works."""
    classes = [{"rate": 1, "prompt": prompt, "output": prompt} for prompt in (1, 2)]
    (tmp_path / "load.json").write_text(json.dumps(I0 | {"classes": classes, "memory": 99}))
    done = bfio("wait", "load.json", *HORIZON, "--policy", "nested-wait")
    _is_one_clear_line(done, "load.json: classes: 2 prompt lengths", "nested-wait:groups=prompts")
    mended = bfio("wait", "load.json", *HORIZON, "--policy", "nested-wait:groups=prompts")
    assert mended.status == 0


@pytest.mark.parametrize(
    ("unable", "words"),
    [
        ("my_bad_policy:Raising", "not today"),
        ("wait:thresholds=1", "thresholds: 1 thresholds for 2 classes"),
    ],
)
def test_a_policy_that_cannot_serve_costs_no_other(bfio: Bfio, unable: str, words: str) -> None:
    """The others run and are shown; then comes why it cannot, and status 2."""
    done = bfio("wait", "load.json", *HORIZON, f"--policy={unable}", "--policy=fcfs", "--json")
    assert done.status == 2
    assert [run["policy"] for run in json.loads(done.out)["runs"]] == ["fcfs"]
    assert words in done.err.splitlines()[-1]


def test_no_policy_runs_if_one_is_none(bfio: Bfio) -> None:
    """Names are checked before the first run: no progress line of the others."""
    done = bfio("wait", "load.json", *HORIZON, "--policy=fcfs", "--policy=my_bad_policy:absent")
    _is_one_clear_line(done, "my_bad_policy has no absent")
    assert "fcfs" not in done.err


def test_a_policy_that_fails_leaves_the_others_results(bfio: Bfio) -> None:
    """They are shown, in order, whether they came before it or after; then its error."""
    chosen = [f"--policy={name}" for name in ("fcfs", "my_bad_policy:raising", "wait")]
    done = bfio("wait", "load.json", *HORIZON, *chosen, "--json")
    assert done.status == 2
    assert [run["policy"] for run in json.loads(done.out)["runs"]] == ["fcfs", "wait"]
    assert "raised ValueError: no idea" in done.err.splitlines()[-1]


def test_a_policys_own_figures_are_kept(bfio: Bfio) -> None:
    """What its statistics return is in the document; a built-in one has none."""
    chosen = ("--policy", "my_bad_policy:Counting", "--policy", "fcfs")
    runs = json.loads(bfio("wait", "load.json", *HORIZON, *chosen, "--json").out)["runs"]
    assert runs[0]["statistics"]["asked"] >= runs[0]["batches"]
    assert runs[1]["statistics"] == {}


def test_the_check_of_a_plot_leaves_nothing(bfio: Bfio, tmp_path: Path) -> None:
    """Another error comes after it: no empty file is left, and one that was there stays."""
    (tmp_path / "old.png").write_bytes(b"old")
    for name in ("old.png", "new.png"):
        done = bfio("wait", "load.json", *HORIZON, "--policy", "wiat", "--plot", name)
        _is_one_clear_line(done, "did you mean wait?")
    assert (tmp_path / "old.png").read_bytes() == b"old"
    assert not (tmp_path / "new.png").exists()


def test_an_engine_is_refused_before_the_work(bfio: Bfio) -> None:
    """No request is drawn, and no progress shown."""
    done = bfio("wait", "load.json", *HORIZON, "--engine", "x")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: --engine: 'x' is unknown")


def test_too_many_requests_for_the_memory(bfio: Bfio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged from rates and horizon; the error names the estimate."""
    monkeypatch.setenv("BFIO_MEMORY_GIB", "0.01")
    done = bfio("wait", "load.json", "--horizon", "1000000")
    _is_one_clear_line(done, "horizon: about ", "GiB", "shorten the duration")
