"""The measured part of a run: fixed beforehand, equal for all policies, and long enough."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common.statistics import BATCHES, half_width, mser
from bfio.decode.cluster import Cluster
from bfio.decode.comparison import compare
from bfio.decode.measured import LEAST_STEPS, MeasuredPart, measured_part, repeats
from bfio.decode.metrics import METRICS, measured_of
from bfio.decode.options import ArrivalMode, RunOptions
from bfio.decode.settings import remarks
from bfio.decode.simulation import describe_run, simulate
from bfio.decode.state import DecodeState
from bfio.workloads import Workload
from formulations.errors import InputError

#: 2 workers of 3 slots; small requests, enough of them for a measured part.
CLUSTER = Cluster(2, 3)


def requests(outputs: list[int], times: int, gap: str | None = None) -> Workload:
    """Prompts that differ, outputs as given, one request per ``gap`` seconds."""
    count = len(outputs) * times
    prompts = 5 + np.arange(count) * 7 % 11
    arrivals = None if gap is None else tuple(Fraction(gap) * k for k in range(count))
    return Workload(prompts, np.array(outputs * times), arrivals, name="small")


def test_by_hand() -> None:
    """Outputs 1, 2, 3, 4 on six slots, a pool of two.

    ``Σ_{x >= W} P(o > x)`` is 0 from W = 4 on and 1/4 at W = 3, of E[o] = 5/2: by age W = 4.
    c² = 5/4 / (5/2)²= 1/5, so waves last ln(20)/(2π²/5) = 0.76 lives, 2 steps: W = 4.
    400 of each are 4,000 tokens; a policy holds back at most 2 + 12 requests of 4 tokens, so the
    last request can be seen at step (4000 - 56)/6 = 657. In 4 steps 6·4/2.5 = 9.6 requests are
    served, beyond those of slots and pool: 18 is the first, and 657·6/2.5 = 1576 the last.
    """
    part = measured_part(requests([1, 2, 3, 4], 400), CLUSTER, RunOptions(pool=2))
    assert part == MeasuredPart(False, 4, 657, 18, 1576)
    run = simulate(requests([1, 2, 3, 4], 400), "fcfs", CLUSTER, pool=2)
    assert run.measured == part
    steps = part.steps(run)
    assert steps is not None
    assert steps.tolist() == list(range(4, 657))


def test_timed_by_hand() -> None:
    """Steps of 1 s whatever the load: warm-up of 4 s from the first arrival at 10 s on."""
    cluster = Cluster(2, 3, step_overhead_s=1.0, token_time_s=0.0)
    arrivals = tuple(Fraction(10) + Fraction(k, 2) for k in range(1600))
    workload = Workload(np.full(1600, 5), np.array([1, 2, 3, 4] * 400), arrivals)
    part = measured_part(workload, cluster, RunOptions(arrivals=ArrivalMode.TIMED))
    assert (part.begin, part.end) == (14.0, 10 + 1599 / 2)
    # Requests 8 (at 14 s) to 1598; the last one arrives at the end.
    assert (part.first, part.last) == (8, 1599)
    assert part.steps(simulate(workload, "fcfs", cluster, arrivals="timed")) is not None


def test_equal_requests_never_forget_their_start() -> None:
    """All outputs 10: waves never die down, ten lives are waited for."""
    assert measured_part(requests([10], 2000), CLUSTER, RunOptions(pool=2)).begin == 100


def test_small_machines_measure_requests() -> None:
    """Six slots beside a pool of 128: 2,741 measured steps hold no request that is counted."""
    workload, cluster = requests([200, 600], 30), Cluster(2, 3)
    options = RunOptions(pool=128)
    passes = repeats(workload, cluster, options)
    part = measured_part(workload.repeated(passes), cluster, options)
    assert part.last - part.first >= 49
    # So many steps are enough for means over steps.
    short = workload.repeated(4)
    fewer = measured_part(short, cluster, options)
    assert (fewer.why_not, fewer.last - fewer.first) == ("", 0)
    told = remarks(short, [simulate(short, "fcfs", cluster, options=options)])
    assert any("too short for times of requests" in remark for remark in told)


def test_too_few_requests_and_what_would_do() -> None:
    """Said with the number of passes; that many are enough, one fewer is not."""
    workload, options = requests([1, 2, 3, 4], 40), RunOptions(pool=2)
    why = measured_part(workload, CLUSTER, options).why_not
    # (10·40·k - 56)/6 - 4 >= 500 from k = 7.7 on.
    assert "repeat the requests 8 times" in why
    assert measured_part(workload.repeated(8), CLUSTER, options).why_not == ""
    assert measured_part(workload.repeated(7), CLUSTER, options).why_not != ""
    # Three passes, repeated three times.
    repeated = measured_part(workload.repeated(3), CLUSTER, options)
    assert "repeat the requests 9 times" in repeated.why_not
    document = describe_run(simulate(workload, "fcfs", CLUSTER, options=options))
    assert document["measured"] is None
    assert document["measured_part"]["why_not"] == why


@given(
    outputs=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    pool=st.integers(1, 20),
    timed=st.booleans(),
)
def test_as_many_passes_as_wanted(outputs: list[int], pool: int, timed: bool) -> None:
    """``auto`` takes the least number of passes that makes the part 2,000 steps long."""
    workload = requests(outputs, 3, "1/50")
    options = RunOptions(arrivals=ArrivalMode.TIMED) if timed else RunOptions(pool=pool)
    passes = repeats(workload, CLUSTER, options)

    def steps(times: int) -> float:
        part = measured_part(workload.repeated(times), CLUSTER, options)
        step = CLUSTER.step_time(np.full(2, _balanced_load(workload))) if timed else 1.0
        return (part.end - part.begin) / step

    assert steps(passes) >= 2000 - 1e-6
    assert passes == 1 or steps(passes - 1) < 2000 + 1e-6


def _balanced_load(workload: Workload) -> int:
    """Load of a worker whose three slots hold mean active requests; whole by rounding up."""
    outputs = workload.output_tokens.astype(float)
    loads = workload.prompt_tokens * outputs + outputs * (outputs - 1) / 2
    return round(3 * float(loads.sum() / outputs.sum()))


POLICIES = ("fcfs", "jsq-tokens", "br-0", "br-h", "longest-first", "random", "bf-io")


@given(
    outputs=st.lists(st.integers(1, 40), min_size=2, max_size=8),
    pool=st.integers(1, 30),
    policy=st.sampled_from(POLICIES),
    more=st.sampled_from(
        [
            {},
            {"delay": 2},
            {"dispatch": "immediate"},
            {"failures": "random:mtbf=0.5:mttr=0.1:until=100"},
        ]
    ),
)
def test_no_policy_sees_the_last_request_before_the_end(
    outputs: list[int], pool: int, policy: str, more: dict[str, Any]
) -> None:
    """Whatever a policy holds back, requests are left to reveal up to the end of the part."""
    if policy in ("longest-first", "bf-io") and more.get("dispatch"):
        return
    workload = requests(outputs, 4000 // sum(outputs) + 1)
    run = simulate(workload, policy, CLUSTER, pool=pool, **more)
    assert run.measured is not None
    assert int(run.reveal_step.max()) >= min(run.measured.end, run.steps - 1)
    assert run.measured.is_covered_by(run)


class Late:
    """First come, first served, but one request at a time in the first steps."""

    def __init__(self, steps: int) -> None:
        self.steps, self.name = steps, f"late-{steps}"

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Place requests in order on workers with free slots; in the beginning one at a time."""
        free = state.free_slots.tolist()
        if state.step < self.steps:
            free = [min(free[0], 1) if not state.running.any() else 0, 0]
        answer: list[int | None] = [None] * state.num_waiting
        for i in range(state.num_waiting):
            if (worker := next((g for g in (0, 1) if free[g]), None)) is not None:
                answer[i], free[worker] = worker, free[worker] - 1
        return answer


@pytest.mark.parametrize("timed", [False, True])
def test_a_policy_that_only_delays_gains_nothing(timed: bool) -> None:
    """Starting late moves no step and no request out of the measured part.

    The old steady part began when a policy had first filled the machine, and counted requests that
    started in it: putting everything off left the worst out.
    """
    workload = requests([3, 9, 1, 20, 6], 250, "1/250")
    options: dict[str, Any] = {"arrivals": "timed"} if timed else {"pool": 12}
    compared = compare(workload, [Late(0), Late(300)], CLUSTER, repeat=1, **options)
    prompt, late = compared.measured
    assert prompt.measured == late.measured
    before, after = (entry["measured"] for entry in compared.documents())
    assert before["completed"] == after["completed"]
    assert before["partial"] == after["partial"] == 0
    for name in ("ttft_mean_s", "ttft_p95_s", "latency_mean_s", "queueing_delay_max_s"):
        assert after[name] >= before[name], name
    assert after["throughput_tokens_per_s"] <= before["throughput_tokens_per_s"]


@given(
    outputs=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    arrivals=st.sampled_from(["pool", "timed"]),
)
def test_all_policies_have_the_same_part(outputs: list[int], arrivals: str) -> None:
    """Equal parts, equal sets of requests, and equal numbers of steps with a pool."""
    workload = requests(outputs, 60, "1/100")
    compared = compare(workload, ["fcfs", "br-0", "jsq"], CLUSTER, arrivals=arrivals)
    parts = {run.measured for run in compared.measured}
    assert len(parts) == 1
    measured = [entry["measured"] for entry in compared.documents()]
    assert len({entry["completed"] + entry["partial"] for entry in measured}) == 1
    if arrivals == "pool":
        lengths = {int(part.end - part.begin) for part in parts if part is not None}
        assert {entry["steps"] for entry in measured} == lengths
    # Whole runs are of the requests as they are.
    assert {run.num_requests for run in compared.runs} == {len(workload)}


def test_a_limit_on_the_steps_ends_the_part_for_all_alike() -> None:
    """With a pool at that step; timed, when that many of the shortest steps have passed."""
    workload = requests([1, 2, 3, 4], 400, "1/200")
    assert measured_part(workload, CLUSTER, RunOptions(pool=2, steps=600)).end == 600
    timed = RunOptions(arrivals=ArrivalMode.TIMED, steps=1000)
    end = measured_part(workload, CLUSTER, timed).end
    assert end == pytest.approx(1000 * CLUSTER.worker_times()[0].max())
    short = measured_part(workload, CLUSTER, RunOptions(pool=2, steps=100))
    assert "use a run of more steps" in short.why_not


def test_a_run_that_is_stopped_early_has_no_part() -> None:
    """Nor any metric over it."""
    calls = iter(range(10**6))
    run = simulate(
        requests([1, 2, 3, 4], 400),
        "fcfs",
        CLUSTER,
        pool=2,
        engine="reference",
        stop=lambda: next(calls) > 600,
    )
    assert run.measured is not None
    assert not run.measured.is_covered_by(run)
    assert measured_of(run) is None


@pytest.mark.parametrize("asked", [0, -1, 2.0, True, "often", None])
def test_bad_repeats(asked: Any) -> None:
    """One line."""
    with pytest.raises(InputError, match="repeat"):
        repeats(requests([1], 5), CLUSTER, RunOptions(), asked)


def test_no_requests_are_measured_nowhere() -> None:
    """An empty workload."""
    empty = Workload(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert measured_part(empty, CLUSTER, RunOptions()).why_not
    assert repeats(empty, CLUSTER, RunOptions()) == 1


@given(st.lists(st.integers(-50, 50), min_size=0, max_size=80))
def test_mser_is_its_definition(values: list[int]) -> None:
    """The truncation of least standard error, in batches of five, within the first half."""
    batches = [sum(values[k : k + 5]) / 5 for k in range(0, len(values) - 4, 5)]
    errors = [
        (sum((x - np.mean(batches[d:])) ** 2 for x in batches[d:])) / len(batches[d:]) ** 2
        for d in range(len(batches) // 2 + 1)
        if batches[d:]
    ]
    found = mser(np.array(values, dtype=np.int64))
    assert found % 5 == 0
    if len(batches) < 2:
        assert found == 0
    else:
        assert errors[found // 5] == pytest.approx(min(errors), abs=1e-9)


def test_mser_finds_a_start_that_is_not_like_the_rest() -> None:
    """100 observations around 50, then 900 around 0."""
    noise = np.random.default_rng(5).standard_normal(1000)
    assert mser(noise + np.where(np.arange(1000) < 100, 50, 0)) == 100
    assert mser(noise) < 200


def test_intervals_hold_the_mean_of_correlated_steps() -> None:
    """Autoregressive steps, 20 times as long as their correlation: the true mean is 0.

    Of 2,000 such sequences 93 % of the intervals hold it; taken as independent, batches would give
    76 %.
    """
    rng, memory, held = np.random.default_rng(3), 20, 0
    for _ in range(400):
        noise = rng.standard_normal(20 * memory)
        values = np.empty(len(noise))
        last = noise[0] / np.sqrt(1 - np.exp(-2 / memory))
        for k, shock in enumerate(noise):
            last = shock + np.exp(-1 / memory) * last
            values[k] = last
        width = half_width(values)
        assert width is not None
        held += abs(float(values.mean())) < width
    assert 0.9 < held / 400 < 0.97


def test_independent_steps_have_the_textbook_interval() -> None:
    """Where batches are not correlated nothing is widened: an alternating sequence."""
    values = np.where(np.arange(2000) % 2, 1.0, -1.0) + np.repeat([0.1, -0.1] * 10, 100)
    means = values.reshape(BATCHES, 100).mean(axis=1)
    plain = 2.093 * means.std(ddof=1) / np.sqrt(BATCHES)
    assert half_width(values) == pytest.approx(plain, rel=1e-3)


def test_every_average_has_an_interval_in_the_document() -> None:
    """Of the measured part, by name."""
    run = simulate(requests([1, 2, 3, 4], 400), "fcfs", CLUSTER, pool=2)
    measured = describe_run(run)["measured"]
    averages = {entry.name for entry in METRICS if entry.average is not None}
    assert set(measured["half_widths"]) == averages
    assert measured["half_widths"]["avg_imbalance"] > 0
    assert measured["steps"] >= LEAST_STEPS
