"""Check the interactive interface: names, help, short texts, tables, figures."""

import inspect
import re
import threading
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bfio
from bfio.decode.state import DecodeState
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem, solve

WORKLOAD = bfio.synthetic("demo", 60, seed=1)
MACHINE = bfio.Cluster(workers=2, slots=4)
#: Called as no type checker would let it.
ANY: Any = bfio


def emptiest(state: DecodeState) -> list[int | None]:
    """Assign each request to the worker with most free slots."""
    free = list(state.free_slots)
    answer: list[int | None] = []
    for _ in range(state.num_waiting):
        worker = max(range(len(free)), key=lambda g: free[g])
        answer.append(worker if free[worker] > 0 else None)
        free[worker] -= 1
    return answer


def test_names_are_listed_and_loaded() -> None:
    """Completion lists exactly the exported names, and each has a docstring."""
    names = [name for name in dir(bfio) if not name.startswith("_")]
    assert set(names) == {name for name in bfio.__all__ if not name.startswith("_")}
    assert {"compare", "simulate", "read_trace", "Workload", "Cluster", "RunOptions"} <= set(names)
    for name in names:
        assert inspect.getdoc(getattr(bfio, name))
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", bfio.__version__)


def test_functions_show_their_keywords() -> None:
    """Function signatures list all options of a run; a misspelt option names the nearest one."""
    for function in (bfio.simulate, bfio.compare, bfio.measure_gap):
        assert {"pool", "arrivals", "seed", "predictor"} <= set(
            inspect.signature(function).parameters
        )
    with pytest.raises(InputError, match=r"no option 'poll'; did you mean pool"):
        bfio.compare(WORKLOAD, "fcfs", MACHINE, poll=3)


def test_compare_takes_callables_and_one_name() -> None:
    """`compare` accepts functions as policies, named after themselves, and a single policy."""
    found = bfio.compare(WORKLOAD, ["fcfs", emptiest], MACHINE, repeat=1)
    assert found.labels == ("fcfs", "emptiest")
    assert found.runs[1].policy == "emptiest"
    assert np.array_equal(found.runs[0].worker, found.runs[1].worker)
    assert bfio.compare(WORKLOAD, emptiest, MACHINE, repeat=1).labels == ("emptiest",)
    assert bfio.compare(WORKLOAD, "br-0", MACHINE, repeat=1).labels == ("br-0",)
    two = bfio.compare(WORKLOAD, ["fcfs", emptiest], MACHINE, repeat=1, jobs=2)
    assert np.array_equal(two.runs[1].worker, found.runs[1].worker)


class Open:
    """A policy that cannot be sent to another process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, state: bfio.DecodeState) -> list[int]:
        """Fail if called: the policy is rejected before the run."""
        return []


OPEN = Open()


@pytest.mark.parametrize(
    ("policies", "jobs", "message"),
    [
        ([], 1, "no policy is given"),
        ([emptiest, emptiest], 1, "emptiest is named twice"),
        ([3], 1, "an int is not a policy"),
        (["br-h", "br-h:horizon=20"], 1, "br-h:horizon=20 and br-h are the same policy"),
        (["br-h:gamma=0.86", "br-h:beta=43"], 1, "are the same policy"),
        ([OPEN], 2, "policy Open: cannot be sent to another process (cannot pickle"),
    ],
)
def test_policies_that_cannot_be_compared(policies: object, jobs: int, message: str) -> None:
    """Policies that cannot be compared raise a one-line error before any run."""
    with pytest.raises(InputError, match=re.escape(message)):
        bfio.compare(WORKLOAD, policies, MACHINE, jobs=jobs)


@pytest.fixture(scope="module")
def compared() -> bfio.Comparison:
    """Two policies in a pool, compared once for all that is shown of them."""
    return bfio.compare(WORKLOAD, ["fcfs", "br-0"], MACHINE, pool=16)


@pytest.fixture(scope="module")
def measured() -> bfio.GapReport:
    """Return the gap of one of them."""
    return bfio.measure_gap(WORKLOAD, "br-0", MACHINE)


def test_short_texts(compared: bfio.Comparison, measured: bfio.GapReport) -> None:
    """The repr of a result is one line without arrays."""
    for result in (WORKLOAD, compared, compared.runs[0], measured):
        assert len(repr(result)) < 250
        assert "array(" not in repr(result)
    assert "60 of 60 requests completed" in repr(compared.runs[0])


def test_tables_of_notebooks(compared: bfio.Comparison) -> None:
    """Results show an HTML table in notebooks, with a title and escaped names."""
    table = compared._repr_html_()
    assert "demo: 60 requests drawn with seed 1, 2x4" in table
    assert table.count("<tr>") == 3
    assert "policy (measured part)" in table


def test_plots(compared: bfio.Comparison) -> None:
    """A plot has a panel per policy, and shows as a picture in notebooks."""
    figure = compared.plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert [axes.get_title() for axes in figure.axes if axes.get_visible()] == ["fcfs", "br-0"]


def test_frames(compared: bfio.Comparison, measured: bfio.GapReport) -> None:
    """A frame has a line per policy and part; without pandas the error names the package."""
    if find_spec("pandas") is None:
        with pytest.raises(InputError, match="pandas is not installed; pip install pandas"):
            compared.to_frame()
        return
    frame = compared.to_frame()
    assert list(frame["policy"]) == ["fcfs", "fcfs", "br-0", "br-0"]
    assert list(frame["part"]) == ["whole", "measured"] * 2
    assert len(measured.to_frame()) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ANY.compare(["fcfs"], WORKLOAD, MACHINE), "workload: a list is not a Workload"),
        (lambda: ANY.compare(WORKLOAD, MACHINE, ["fcfs"]), "cluster: a list is not a Cluster"),
        (lambda: ANY.simulate(WORKLOAD, MACHINE, "fcfs"), "policy: a Cluster is not a policy"),
        (lambda: ANY.measure_gap("fcfs", WORKLOAD), "workload: a str is not a Workload"),
        (lambda: ANY.simulate(WORKLOAD, Open), "policy: Open is a class"),
        (
            lambda: ANY.simulate(WORKLOAD, "fcfs", options={"pool": 1}),
            "a dict is not a RunOptions",
        ),
        (lambda: ANY.simulate(WORKLOAD, "fcfs", pol=1), "no option 'pol'; did you mean pool?"),
        (lambda: ANY.read_trace("x.csv", limt=5), "no option 'limt'; did you mean limit?"),
        (
            lambda: ANY.Cluster(worker=2),
            "Cluster(...): no option 'worker'; did you mean workers?",
        ),
        (lambda: ANY.Cluster(token_time_s="fast"), "token_time_s: 'fast' is not a number"),
        (lambda: ANY.Cluster(mean_time_s="1"), "mean_time_s: expected a number, found '1'"),
        (lambda: ANY.solve_step({"base": []}), "problem: a dict is not a StepProblem"),
        (
            lambda: ANY.read_trace(pd.DataFrame()),
            "path: a DataFrame is not a file name; give a file name; use Workload.from_frame",
        ),
        (lambda: ANY.Workload([1, 2], [3]), "output_tokens: 1 output lengths for 2 prompts"),
        (
            lambda: ANY.Workload(pd.Series([1.0, None]), [1, 2]),
            "prompt_tokens[1]: nan is not finite; remove",
        ),
        (lambda: ANY.Workload(pd.Series([1.5]), [1]), "prompt_tokens: array of float64"),
        (lambda: ANY.Workload([1], pd.Series([-1])), "output_tokens[0]: -1 is out of range"),
        (lambda: ANY.Workload([1], [1], [float("nan")]), "arrival_times[0]: nan is not a time"),
        (lambda: ANY.Workload([1], [1], 5), "arrival_times: expected a list, found 5"),
    ],
)
def test_slips_in_python_are_told_in_one_line(call: Callable[[], object], message: str) -> None:
    """A wrong Python argument raises one line: argument, value found, nearest valid value."""
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_columns_of_any_library_are_taken() -> None:
    """Columns given as Series, pyarrow arrays, tuples or arrays give equal requests."""
    made = [
        ANY.Workload(prompts, outputs, times)
        for prompts, outputs, times in (
            ([3, 4], [1, 2], [0, Fraction(1, 2)]),
            (
                pd.Series([3, 4], index=[7, 9]),
                pd.Series([1, 2], dtype="Int64"),
                pd.Series([0, 0.5]),
            ),
            (pa.array([3, 4]), pa.chunked_array([[1], [2]]), pa.array([0.0, 0.5])),
            ((3, 4), np.array([1, 2], dtype=np.uint8), np.array([0.0, 0.5])),
        )
    ]
    for found in made[1:]:
        assert found.prompt_tokens.tolist() == [3, 4]
        assert found.output_tokens.tolist() == [1, 2]
        assert found.arrival_times == made[0].arrival_times
    rows = ANY.Workload.from_frame([{"prompt": 3, "output": 1}, {"prompt": 4, "output": 2}])
    assert rows.output_tokens.tolist() == [1, 2]


def test_every_result_is_a_frame_a_table_and_a_picture(measured: bfio.GapReport) -> None:
    """Runs, gaps and solutions have frames, notebook tables and pictures, with escaped text."""

    def mine(state: DecodeState) -> list[int | None]:
        return emptiest(state)

    mine.__name__ = "<b>&mine"
    run = bfio.simulate(WORKLOAD, mine, MACHINE, pool=8)
    assert run.to_frame()["active"].sum() == run.tokens
    assert run.to_frame("requests")["worker"].tolist() == run.worker.tolist()
    with pytest.raises(
        InputError, match=re.escape("'request' is unknown; did you mean requests?")
    ):
        run.to_frame("request")
    assert "&lt;b&gt;&amp;mine" in run._repr_html_()
    assert "full use of slots" in measured._repr_html_()
    for result in (run, measured):
        picture: Any = result.plot()
        assert picture._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="were not kept; simulate with keep_trajectory=True"):
        bfio.simulate(WORKLOAD, mine, MACHINE, keep_trajectory=False).plot()
    problem = LatencyProblem.from_mapping(
        {"memory": 9, "requests": [{"arrival": 0, "prompt": 3, "output": 2}] * 2}
    )
    solved = solve(problem)
    assert tuple(solved.to_frame()["starts"]) == solved.starts
    timed = bfio.compare(WORKLOAD, "fcfs", MACHINE, arrivals="timed")._repr_html_()
    assert "TTFT" in timed
    assert "measured part" in timed
