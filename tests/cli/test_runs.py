"""``bfio simulate``, ``compare``, ``gap``, ``traces``, ``demo`` and the help texts."""

import json
import os
import re
import resource
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest

from bfio.cli import so_far
from bfio.cli.command import commands
from bfio.cli.commands import demo
from bfio.common.kernel_groups import groups
from bfio.common.provenance import commit, is_dirty
from bfio.decode.cluster import STEP_OVERHEAD_S, TOKEN_TIME_S
from bfio.decode.machine.whole_run import group_of, loop_of
from bfio.decode.metrics import METRICS
from bfio.decode.policy_registry import find, names
from tests.cli.conftest import Bfio
from tests.processes import PATIENCE_S, python

SMALL = ("--workers", "4", "--slots", "8", "--requests", "150", "--pool", "16")
FEW = (*SMALL[:4], "--requests", "40", "--pool", "16")


def test_simulate_prints_the_documented_keys(bfio: Bfio) -> None:
    """Every metric, of the whole run and of its parts, and how the run was made."""
    answer = bfio("simulate", "--policy", "br-0", *SMALL, "--repeat", "auto", "--json").json
    names = {entry.name for entry in METRICS}
    assert names <= set(answer)
    assert names == set(answer["steady"])
    assert names | {"half_widths", "proven_share"} == set(answer["measured"])
    part = answer["measured_part"]
    assert part["repeat"] > 1
    assert answer["measured"]["steps"] == part["end"] - part["begin"]
    once = bfio("simulate", "--policy", "br-0", *SMALL, "--json").json
    assert once["measured"] is None
    assert "repeat the requests" in once["measured_part"]["why_not"]
    assert all(once[name] == answer[name] for name in names)
    assert answer["policy"] == "br-0"
    assert answer["completed"] == 150
    assert answer["workload"]["seed"] == 0
    assert answer["versions"]["bfio"]


def test_notes_of_a_csv_table_are_printed_once(
    bfio: Bfio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an answer is kept for a signal on the way, which then has the notes as well."""
    monkeypatch.setattr(so_far, "_EVERY_S", 0.0)
    kept: list[so_far.SoFar] = []
    monkeypatch.setattr(so_far, "_tell", lambda kind, *said: kept.append(so_far.SoFar(*said)))
    words = ("compare", "--policies", "fcfs,br-0", *SMALL, "--no-plots", "--table", "csv")
    told = bfio(*words, "--projection", "growing")
    notes = [line for line in told.err.splitlines() if line.startswith("note: ")]
    assert notes
    assert len(set(notes)) == len(notes)
    assert [entry.notes.splitlines() for entry in kept[1:]] == [notes]
    assert "note: " not in told.out + kept[-1].interrupted


@pytest.mark.parametrize(
    ("command", "results"),
    [
        ("worst cache --requests 3 --method local --steps 3", "policy_schedule"),
        ("worst cache --requests 3 --memory 4", "policy_schedule"),
        ("worst cache --requests 3 --memory 4 --method bilevel", "policy_schedule"),
        ("library verify makespan-2x1*", "entries"),
        ("show step.json --methods exact,brute-force", "answers"),
    ],
)
def test_what_is_found_is_kept_for_a_signal(
    bfio: Bfio, monkeypatch: pytest.MonkeyPatch, command: str, results: str
) -> None:
    """And until then a document that says so."""
    bfio("library", "get", "step-4x8-synthetic-8-w1-h0", "step.json")
    monkeypatch.setattr(so_far, "_EVERY_S", 0.0)
    kept: list[so_far.SoFar] = []
    monkeypatch.setattr(so_far, "_tell", lambda kind, *said: kept.append(so_far.SoFar(*said)))
    assert results in bfio(*command.split(), "--json").json
    documents = [json.loads(answer.interrupted) for answer in kept]
    assert documents[0] == {"interrupted": True}
    assert documents[-1]["interrupted"]
    assert documents[-1][results]


def test_json_says_what_it_is_cited_with(bfio: Bfio) -> None:
    """The commit, and where solves stop unless they are told otherwise."""
    for words, wanted in (
        (("compare", "--policies", "fcfs,bf-io", "--repeat", "1"), (1_000_000, None)),
        (("gap", "--policy", "fcfs", "--time-limit", "2"), (None, 2.0)),
    ):
        done = bfio(*words, *FEW, "--no-plots", "--json").json
        assert done["versions"]["commit"] == commit()
        assert done["versions"]["dirty"] == is_dirty(
            "formulations", "bfio", ":(exclude)bfio/library/data"
        )
        made = done["run_options"] if "run_options" in done else done["policies"][1]["options"]
        assert (made["slots"], made["work_limit"], made["time_limit"]) == (8, *wanted)
    simulated = bfio("simulate", "--policy", "bf-io", *FEW, "--json").json
    assert simulated["versions"]["commit"] == commit()
    assert simulated["options"]["work_limit"] == 1_000_000


def test_the_seed_reproduces(bfio: Bfio) -> None:
    """Equal seeds give equal runs in all but wall-clock times, other seeds others."""

    def run(seed: str) -> dict[str, object]:
        answer = bfio("simulate", "--policy", "random", *SMALL, "--seed", seed, "--json").json
        return {k: v for k, v in answer.items() if k not in ("wall_s", "decide_s")}

    assert run("3") == run("3")
    assert run("3")["work"] != run("4")["work"]


def test_compare_conserves_work_and_writes_plots(bfio: Bfio, tmp_path: Path) -> None:
    """Work is the same whatever the policy; the plots are real PNG files."""
    words = ("compare", "--policies", "fcfs,br-0,bf-io", *SMALL, "--repeat", "1", "--json")
    done = bfio(*words)
    answer = done.json
    assert len({row["work"] for row in answer["policies"]}) == 1
    by_name = {row["policy"]: row for row in answer["policies"]}
    assert by_name["bf-io"]["avg_imbalance"] < by_name["fcfs"]["avg_imbalance"]
    assert 0 < by_name["bf-io"]["proven_share"] <= 1
    assert by_name["fcfs"]["proven_share"] is None
    for name in answer["plots"]:
        assert (tmp_path / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "br-0" in done.err  # the progress bar


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_compare_draws_no_power_without_energy(
    form: tuple[str, ...], bfio: Bfio, tmp_path: Path
) -> None:
    """Token budgets have no energy: the result and the other plots remain."""
    machine = ("--requests", "20", "--workers", "2", "--slots", "2", "--token-budget", "64")
    done = bfio("compare", "--policies", "jsq,br-0", *machine, *form)
    assert "br-0" in done.out
    drawn = {place.name for place in tmp_path.glob("out/*.png")}
    assert drawn == {"load_trajectory.png", "idle_fraction.png"}


@pytest.mark.parametrize("width", ["80", "100", "200"])
def test_compare_prints_both_tables(
    bfio: Bfio, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    """Measured part and whole run, with units, and no line longer than the terminal."""
    monkeypatch.setenv("COLUMNS", width)
    out = bfio("compare", "--policies", "fcfs,br-0", *SMALL, "--no-plots").out
    assert "Measured: steps" in out
    assert "Whole run" in out
    assert "[tokens/s]" in out
    assert "÷: imbalance of fcfs" in " ".join(out.split())
    assert max(len(line) for line in out.splitlines()) <= int(width)


def test_the_ratio_is_explained_where_it_is(bfio: Bfio) -> None:
    """Below the table of the measured part, not below that of the whole run."""
    few = ("compare", "--requests", "1", "--policies", "fcfs", "--no-plots", "--repeat", "1")
    assert "÷" not in bfio(*few).out
    both = bfio("compare", "--policies", "fcfs,br-0", *SMALL, "--no-plots", "--table", "markdown")
    measured, whole = both.out.split("**Whole run")
    assert "÷: imbalance of fcfs" in measured
    assert "÷" not in whole


def test_policies_may_carry_options(bfio: Bfio) -> None:
    """br-h at H = 0, α = 1, β = G, γ = 1 is br-0, to the last number."""
    answer = bfio(
        "compare", "--policies", "br-0,br-h:horizon=0:beta=4", *SMALL, "--no-plots", "--json"
    ).json
    first, second = answer["policies"]
    skipped = ("policy", "wall_s", "decide_s", "options")
    one, other = (document["options"] for document in (first, second))
    assert {n for n in other if n not in one or one[n] != other[n]} == {"beta", "gamma"}
    assert {k: v for k, v in first.items() if k not in skipped} == {
        k: v for k, v in second.items() if k not in skipped
    }


def test_gap_counts_every_decision(bfio: Bfio, tmp_path: Path) -> None:
    """Proven and unproven add up; bf-io has no regret on its proven steps; fcfs has."""
    answer = bfio("gap", "--policy", "fcfs", *FEW, "--json").json
    assert answer["solved"] == answer["decisions"] == answer["proven"] + answer["unproven"]
    assert answer["regret_per_step"]["mean"] > 0
    assert answer["regret_per_step"]["min"] >= 0
    assert len(answer["rows"]) == answer["solved"]
    assert (tmp_path / answer["plots"][0]).exists()
    exact = bfio("gap", "--policy", "bf-io", *FEW, "--no-plots", "--json").json
    assert exact["regret_per_step"]["max"] == 0
    assert exact["regret_per_step"]["share_optimal"] == 1


def test_a_discount_without_a_window_is_told(bfio: Bfio) -> None:
    """In the program of the gap, and in that of a policy."""
    words = ("gap", "--policy", "fcfs", *FEW, "--no-plots", "--gamma", "1/2")
    told = "gamma 0.5 has no effect on gap, which does not look ahead."
    assert told in " ".join(bfio(*words).out.split())
    assert "has no effect on gap" not in bfio(*words, "--gap-horizon", "2").out
    policies = ("--policies", "fcfs,bf-io:gamma=1/2")
    done = bfio("compare", *policies, *FEW, "--no-plots", "--repeat", "1")
    assert "has no effect on bf-io" in done.out


def test_gap_tells_what_changes_nothing(bfio: Bfio) -> None:
    """A schedule without a failure, and FCFS, which reads no report of a worker."""
    given = ("--failures", "random:mtbf=1e9:mttr=1", "--telemetry", "delay=3", "--no-plots")
    out = " ".join(bfio("gap", "--policy", "fcfs", *FEW, *given).out.split())
    assert "The schedule has no failure" in out
    assert "Telemetry has no effect on fcfs" in out


def test_gap_prints_a_table(bfio: Bfio) -> None:
    """For people."""
    out = bfio("gap", "--policy", "br-0", *FEW, "--no-plots").out
    assert "regret per step [tokens]" in out
    assert "share_optimal" in out
    unproven = ("--method", "cp-sat", "--work-limit", "1", "--steps", "1")
    out = bfio("gap", "--policy", "br-0", *FEW, "--no-plots", *unproven).out
    assert "mean optimum –, worst step –" in " ".join(out.split())


def test_timed_arrivals_and_immediate_dispatch(bfio: Bfio) -> None:
    """Both modes run to the end."""
    answer = bfio(
        *("simulate", "--policy", "jsq", *SMALL[:-2], "--arrivals", "timed"),
        *("--rate-scale", "3/2", "--dispatch", "immediate", "--json"),
    ).json
    assert answer["completed"] == 150
    assert answer["options"]["rate_scale"] == "3/2"


def test_convert_and_inspect(bfio: Bfio, tmp_path: Path) -> None:
    """A BurstGPT file becomes one of our own; the row that is dropped is counted."""
    (tmp_path / "burst.csv").write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,0,0,0,Conversation log\n"
        "118,GPT-4,87,10,97,API log\n"
    )
    done = bfio("traces", "convert", "burst.csv", "own.csv.gz", "--json")
    assert done.json["dropped_zero_output"] == 1
    assert bfio("traces", "inspect", "own.csv.gz", "--json").json["requests"] == 2
    again = bfio("traces", "convert", "burst.csv", "own.csv.gz")
    assert again.status == 2
    assert "--overwrite" in again.err


def test_traces_list_names_every_format(bfio: Bfio) -> None:
    """As text and as JSON."""
    answer = bfio("traces", "list", "--json").json
    names = {f["name"] for f in answer["formats"]}
    assert {"burstgpt-1", "burstgpt-3", "azure-2023", "azure-2024", "mooncake", "vidur"} <= names
    out = bfio("traces", "list").out
    assert all(name in out for name in names)


def test_the_demo_explains_itself(bfio: Bfio) -> None:
    """Small here; the whole demo is `make demo`."""
    out = bfio("demo", *SMALL, "--requests", "40", "--repeat", "1", "--no-plots").out
    assert "lockstep" in out
    assert "How to read it" in out
    assert "4,000" not in out
    assert "16 decode workers" not in out


@pytest.mark.parametrize(
    ("program", "folders", "typed"),
    [("bin/bfio", "bin", "bfio"), ("bin/bfio", "", "bin/bfio"), ("bfio/__main__.py", "bin", None)],
)
def test_what_the_demo_says_to_type_works(
    program: str, folders: str, typed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone only where the shell finds this very program by it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bfio").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", folders and str(tmp_path / folders))
    monkeypatch.setattr(sys, "argv", [program])
    assert demo.called() == (typed or f"{sys.executable} -m bfio")
    assert f"  {demo.called()} gap --policy br-0 " in demo.next_steps()


def test_results_survive_an_interrupt(
    bfio: Bfio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second policy is interrupted: the first one's row is printed, status 130."""
    (tmp_path / "stopper.py").write_text(
        "def stop(state):\n    raise KeyboardInterrupt\n", encoding="utf-8"
    )
    done = bfio("compare", "--policies", "fcfs,stopper:stop", *SMALL, "--no-plots", "--json")
    assert done.status == 130
    assert [row["policy"] for row in json.loads(done.out)["policies"]] == ["fcfs"]


def test_results_survive_a_policy_that_fails(bfio: Bfio, tmp_path: Path) -> None:
    """The second policy raises: the first one's row is printed, then the error, status 2."""
    (tmp_path / "breaker.py").write_text("def fail(state):\n    raise ValueError('no idea')\n")
    done = bfio("compare", "--policies", "fcfs,breaker:fail", *SMALL, "--no-plots", "--json")
    assert done.status == 2
    assert [row["policy"] for row in json.loads(done.out)["policies"]] == ["fcfs"]
    assert "raised ValueError: no idea" in done.err.splitlines()[-1]


def test_help_shows_the_defaults_in_use(bfio: Bfio) -> None:
    """Times of a step, as written in the help, are those of `Cluster` to nine digits."""
    text = " ".join(bfio("simulate", "--help").out.split())
    shown = [float(number) for number in re.findall(r"\((\d\.\d+e-\d+)\)", text)]
    assert shown == pytest.approx([STEP_OVERHEAD_S, TOKEN_TIME_S], rel=1e-8)


def test_every_command_has_help(bfio: Bfio) -> None:
    """Each help text names --json if there is a result, --seed if anything is drawn; exits 0."""
    for name in commands():
        done = bfio(name, "--help")
        assert done.status == 0
        # Those have actions, each with a help text of its own.
        if name not in ("traces", "library", "predict", "worst"):
            # Two serve over HTTP until Ctrl-C.
            assert ("--json" in done.out) == (name not in ("emulate", "route"))
            assert "--seed" in done.out or name in ("capacity", "emulate")
    assert (
        "0 done, 1 check, library verify or doctor found a fault, 2 bad input"
        in bfio("--help").out
    )


def test_help_names_every_policy(bfio: Bfio) -> None:
    """The list is written out in the help text; this keeps it current."""
    words = set(re.findall(r"[\w-]+", bfio("compare", "--help").out))
    assert set(names()) <= words


def test_help_is_immediate() -> None:
    """It takes 0.3 s of processor time, or on a slow machine 1.5 imports of NumPy, at most."""

    def took(*words: str) -> float:
        return _processor_time([sys.executable, *words])

    # Each try is measured beside its own import, as other work slows both.
    for _ in range(6):
        if (seconds := took("-m", "bfio", "--help")) < max(0.3, 1.5 * took("-c", "import numpy")):
            return
    pytest.fail(f"{seconds:.2f} s")


def _processor_time(command: list[str]) -> float:
    """Run a command and return its processor time [s]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["solve", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    """Neither solvers nor Numba nor matplotlib, whatever the machine's speed."""
    code = (
        "import sys\nfrom bfio.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "heavy = {'ortools', 'pyomo', 'highspy', 'numba', 'scipy', 'matplotlib', 'numpy'}\n"
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    done = python("-c", code, check=False)
    assert done.returncode == 0, done.stderr


def test_a_foreign_formulations_package_is_refused(
    bfio: Bfio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has another package of that name; ours is told by its mark."""
    monkeypatch.delattr("formulations.PROJECT")
    done = bfio("traces", "list")
    assert done.status == 2
    assert "is not bfio's" in done.err


def test_prepare_compiles_every_kernel(bfio: Bfio) -> None:
    """Afterwards small runs are compiled ones too."""
    done = bfio("prepare", "--json")
    assert set(done.json["kernels"]) == set(groups())
    assert all(group.is_ready() for group in groups().values())
    assert all(group_of(loop_of(find(name))).is_ready() for name in ("fcfs", "br-h"))


_SMALL_RUN = ("compare", "--policies", "fcfs", *SMALL, "--repeat", "1", "--no-plots")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    ("words", "notes"),
    [
        (_SMALL_RUN, ["fcfs: 150/150"]),
        ((*_SMALL_RUN, "--json"), ["fcfs: 150/150"]),
        (("--help",), []),
        (("compare", "--help"), []),
    ],
)
def test_an_output_that_takes_nothing_is_one_line(
    words: tuple[str, ...], notes: list[str]
) -> None:
    """On a full disk; Python does not complain of it again while shutting down."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bfio", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr.splitlines() == [
        *notes,
        "error: output: No space left on device; check the path, its rights and space",
    ]
    assert done.returncode == 2


@pytest.mark.parametrize(("policy", "status"), [("fcfs", 0), ("fcsf", 2)])
def test_a_note_that_nobody_reads_loses_no_answer(policy: str, status: int) -> None:
    """Nor does it change the exit status."""
    words = ("simulate", "--policy", policy, *SMALL, "--json")
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as unread:
        done = subprocess.run(
            [sys.executable, "-m", "bfio", *words],
            stdout=subprocess.PIPE,
            stderr=unread,
            text=True,
            check=False,
        )
    assert done.returncode == status
    assert (done.stdout[:1] == "{") == (status == 0)


def test_a_caller_of_the_command_keeps_its_stderr() -> None:
    """Also where it puts the plain stream back, as rows of studies do."""
    code = (
        "import sys; from bfio.cli import main; main(['solve', 'none.json'])\n"
        "sys.stderr = sys.__stderr__; print('mine', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "error: none.json: no such file; check the path\nmine\n"


PICTURES = {
    "compare": ("compare", "--policies", "fcfs,br-0", *SMALL, "--repeat", "1"),
    "gap": ("gap", "--policy", "fcfs", *SMALL, "--dump-steps", "2"),
    "predict": ("predict", "evaluate", "--requests", "80", "--predictor", "none", "--horizon", "5",
                "--plot", "p.png"),
    "traces": ("traces", "geometric", "--requests", "80", "--plot", "p.png"),
    "fit": ("fit", "steps.csv", "--plot", "p.png"),
    "fit-batches": ("fit", "batches.csv", "--kind", "batches", "--plot", "p.png"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "form"), [*zip(PICTURES, cycle([("--json",), ()]), strict=False)]
)
def test_a_plot_that_cannot_be_written_loses_no_answer(
    bfio: Bfio, command: str, form: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the answer is printed all the same, and the command fails in one line."""
    times = [f"{0.1 + k / 100},{5 + k},{60 + 7 * k % 11}" for k in range(20)]
    Path("steps.csv").write_text("\n".join(["duration_s,load_0,load_1", *times]))
    batches = [f"{50 + 30 * k},{0.05 + k / 100}" for k in range(20)]
    Path("batches.csv").write_text("\n".join(["tokens,duration_s", *batches]))
    right = bfio(*PICTURES[command], *form)
    assert right.status == 0
    assert "png" in right.out

    def full(*args: object, **keywords: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    done = bfio(*PICTURES[command], *form)
    assert done.status == 2
    *_, last = done.err.splitlines()
    assert "png: No space left on device; choose a writable folder" in last
    if form:
        assert {**done.json, "plots": 0}.keys() == right.json.keys()
        assert done.json["plots"] == []
    else:
        shown = [line for line in right.out.splitlines() if not line.startswith("plot: ")]
        assert len(done.out.splitlines()) == len(shown)


@pytest.mark.parametrize("words", [("compare", "--policies", "fcfs,br-0", *SMALL, "--no-plots"),
                                   ("compare", "--policies", "br-0", "--help")])  # fmt: skip
def test_streams_of_few_characters(words: tuple[str, ...]) -> None:
    """What they cannot write is a question mark, not a traceback."""
    done = python("-m", "bfio", *words, env={"PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 0
    assert "?" in done.stdout
    assert "Traceback" not in done.stderr
