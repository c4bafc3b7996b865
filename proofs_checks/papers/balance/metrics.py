"""Section 6: run metrics, the power curve, numbers quoted from Table 1, the look-ahead window."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import isclose
from typing import TypeAlias

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import measure, measure_steady
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.generators import generate
from bfio.workloads.lengths import Empirical, Geometric
from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.runs import full_run, random_requests, step_loads
from proofs_checks.search import examine, refute
from proofs_checks.statistics import mean_estimate
from proofs_checks.step_enumeration import gap, imbalance

CLAIMS = Claims()


# Equations (11) and (57).

_IDLE, _MOST, _SATURATION, _EXPONENT = 100.0, 400.0, 0.45, 0.7


def printed_power(utilisation: float) -> float:
    """Power by the printed formula, without a cap [W]."""
    return _IDLE + (_MOST - _IDLE) * math.pow(utilisation / _SATURATION, _EXPONENT)


def verify_power(data: Data) -> str | None:
    """Confirm that the printed formula exceeds the peak power at some percentage of peak."""
    percent = data["percent"]
    if not 0 <= percent <= 100 or printed_power(percent / 100) <= _MOST + 1e-9:
        return None
    return f"at mfu = {percent} % the formula gives {printed_power(percent / 100):.1f} W"


@CLAIMS.formula(
    "balance.eq11",
    Mutation("mfu up to 45 % only", most=45),
    Mutation("0.54 in place of 0.45 in the correction", constants={"saturation": 0.54}),
    Mutation("90 W when idle in the correction", constants={"idle_power_w": 90.0}),
    defect=Defect.MISPRINT,
    verify=verify_power,
)
def _power_check(
    context: Context, *, most: int = 100, constants: Mapping[str, float] | None = None
) -> Outcome:
    """Power saturates at mfu_sat.

    Source: BF-IO paper, eq. (11) and (57)
    Statement: Instantaneous power is P(mfu) = P_idle + (P_max − P_idle)·(mfu/mfu_sat)^γ; mfu_sat
        is the utilisation at which power saturates, P_max the peak power at full utilisation.
    Formula: P(mfu) ≤ P_max for all mfu in [0, 1]
    Assumes: P_idle = 100 W, P_max = 400 W, mfu_sat = 0.45, γ = 0.7
    Summary: The text says that power saturates at mfu_sat; the formula goes on.
    Reading: that power stays within P_max at all utilisations is what saturation and peak mean.
    Correction: (min(mfu, mfu_sat)/mfu_sat)^γ in place of (mfu/mfu_sat)^γ: so the words say. The
        paper adds that inference rarely exceeds mfu_sat.
    """
    del context
    percentages = range(most + 1)
    printed = refute(
        "P(mfu) ≤ P_max", f"mfu = 0..{most} %", percentages, verify_power, lambda x: {"percent": x}
    )
    # A rate in tokens/s is then an MFU. The toolkit's defaults must equal the printed constants.
    model = replace(EnergyModel(parameters=1.0, peak_flops=6.0), **(constants or {}))

    def corrected_holds(percent: int) -> bool:
        power = float(model.power(np.array([percent / 100]))[0])
        below = percent / 100 <= _SATURATION
        return power <= _MOST and (
            abs(power - printed_power(percent / 100)) < 1e-9 if below else power == _MOST
        )

    corrected = examine(
        "with min(mfu, mfu_sat): the same curve up to mfu_sat, then constant",
        "the toolkit's energy model, by default, at the same points", percentages, corrected_holds,
    )  # fmt: skip
    return printed, corrected


# Table 1 and the percentages quoted from it.

_TABLE = {
    "FCFS": ("27.9", "8.00", "1.42", "396"),
    "JSQ": ("28.2", "7.99", "1.42", "396"),
    "BF-IO (H=0)": ("2.92", "9.03", "1.26", "386"),
    "BF-IO (H=20)": ("1.65", "9.13", "1.25", "383"),
}
#: Quantity, column, quoted value, whether a ratio (else a change in percent), relative to H = 0.
_QUOTED = (
    ("imbalance, ratio", 0, "17", True, False),
    ("throughput, gain [%]", 1, "14", False, False),
    ("TPOT, reduction [%]", 2, "13", False, False),
    ("energy, reduction [%] (section 6.4)", 3, "3.3", False, False),
    ("energy, reduction [%] (introduction)", 3, "3.4", False, False),
    ("imbalance, reduction against H = 0 [%]", 0, "44", False, True),
)


def rounding_interval(text: str) -> tuple[Fraction, Fraction]:
    """Return the interval of values that round to a printed number."""
    digits = len(text.partition(".")[2])
    half = Fraction(1, 2 * 10**digits)
    return Fraction(text) - half, Fraction(text) + half


@CLAIMS.experiment(
    "balance.table1", Mutation("the row of H = 0", last="BF-IO (H=0)"), kind=Kind.IDENTITY
)
def _table_check(context: Context, *, last: str = "BF-IO (H=20)") -> Outcome:
    """Improvements quoted from Table 1.

    Source: BF-IO paper, section 6.4, on Table 1
    Statement: Against FCFS, BF-IO (H = 20) has 17 times less imbalance, 14 % more throughput, 13 %
        less TPOT and 3.3 % less energy (3.4 % in the introduction); against BF-IO (H = 0) it has
        44 % less imbalance.
    Formula: 27.9/1.65 ≈ 17,  9.13/8.00 ≈ 1.14,  1 − 1.25/1.42 ≈ 13 %,  1 − 383/396 ≈ 3.3 %,  1 −
        1.65/2.92 ≈ 44 %
    Assumes: the numbers of Table 1, each rounded
    Summary: From the printed digits one gets 16.9, 14.1 %, 12.0 %, 3.28 % and 43.5 %. The 13 % of
        TPOT needs both roundings near their ends. By Little's law throughput times TPOT is about
        the number of active requests: it fits 16 workers of 72 slots (1,152), as in figure 6, not
        the stated default of 32.
    Reading: whether the quoted changes follow from the printed table; the runs themselves are not
        public.
    """
    del context

    def holds(quoted: tuple[str, int, str, bool, bool]) -> bool:
        _, column, text, is_ratio, from_h0 = quoted
        first = "BF-IO (H=0)" if from_h0 else "FCFS"
        before, after = (rounding_interval(_TABLE[row][column]) for row in (first, last))
        ratios = (before[0] / after[1], before[1] / after[0])
        if is_ratio:
            low, high = ratios
        else:
            changes = [abs(1 - 1 / ratio) * 100 for ratio in ratios]
            low, high = min(changes), max(changes)
        wanted = rounding_interval(text)
        return low <= wanted[1] and wanted[0] <= high

    seen = examine(
        "the quoted change follows from the table, up to rounding",
        "the changes quoted in section 6.4 and the introduction, in fractions, each number within "
        "its rounding",
        _QUOTED,
        holds,
    )
    products = {
        f"throughput × TPOT, {row} [requests]": float(Fraction(v[1]) * Fraction(v[2]) * 100)
        for row, v in _TABLE.items()
    }
    return Findings(seen, numbers=products)


# Figure 4.


def _imbalances(context: Context, horizons: Sequence[int], predictor: str) -> FloatArray:
    """Mean imbalance of runs of the heuristic that minimises J, one row per workload."""
    G, B = 8, 8
    runs = context.choose(6, 12, 40)
    requests = context.choose(300, 600, 2000)
    rows = []
    for seed in context.rng.integers(2**31, size=runs).tolist():
        workload = generate(
            requests,
            Empirical(range(1, 101), np.full(100, 0.01)),
            Geometric(20.0),
            rng=np.random.default_rng(seed),
        )
        row = []
        for horizon in horizons:
            run = simulate(
                workload, "br-h", Cluster(G, B), pool=G * B, predictor=predictor,
                projection="growing", horizon=horizon, gamma=1, alpha=1, beta=G, candidates=8,
            )  # fmt: skip
            values = measure_steady(run, warm_up=20) or {}
            row.append(values["avg_imbalance"])
        rows.append(row)
    return np.array(rows, dtype=np.float64)


@CLAIMS.experiment(
    "balance.figure4", Mutation("no length information", predictor="none"), kind=Kind.STATISTICAL
)
def _horizon_check(context: Context, *, predictor: str = "oracle") -> Outcome:
    """A moderate window is best.

    Source: BF-IO paper, figure 4 and section 4, choice of H
    Statement: The imbalance as a function of the window H is U-shaped: a moderate H beats both H =
        0 and a very long window.
    Formula: Imb(H = 4) < Imb(0) and Imb(4) < Imb(80)
    Assumes: output lengths of active requests known within the window; pool that does not run dry
    Summary: With known lengths a window of a few steps helps and a long one harms. Without lengths
        there is no such curve (that is the mutation); study 3 has it on real traces.
    Reading: the two-stage heuristic for J, undiscounted, in place of the integer program, as in
        the authors' release; 8 workers of 8 slots, outputs geometric with mean 20.
    """
    horizons = (0, 4, 80)
    logs = np.log(_imbalances(context, horizons, predictor))
    estimates = (
        mean_estimate(
            "log of imbalance at H = 4 over that at H = 0", logs[:, 1] - logs[:, 0],
            "upper end below 0", lambda low, high: high < 0,
        ),
        mean_estimate(
            "log of imbalance at H = 80 over that at H = 4", logs[:, 2] - logs[:, 1],
            "lower end above 0", lambda low, high: low > 0,
        ),
    )  # fmt: skip
    return Findings(
        estimates=estimates,
        numbers={
            f"mean imbalance at H = {h} [tokens]": float(np.exp(logs[:, i]).mean())
            for i, h in enumerate(horizons)
        },
    )


# Section 6.3: average imbalance, throughput and time per token, against the toolkit's metrics.


#: Evaluates a formula on a run and the outputs of its requests.
Formula: TypeAlias = Callable[[Run, list[int]], float]


def _metric(number: str, name: str, *broken: Mutation) -> Callable[[Formula], Formula]:
    """Claim that the toolkit's metric of this name equals an equation of the paper."""

    def add(formula: Formula) -> Formula:
        return CLAIMS.formula(
            f"balance.eq{number}",
            *broken,
            check=partial(_metric_check, name=name, formula=formula),
            source=f"BF-IO paper, section 6.3, eq. ({number})",
            hypotheses=("a drained run",),
            summary="Recomputed from when and where each request ran.",
        )(formula)

    return add


def _runs(context: Context, steps: int | None) -> Iterator[tuple[Run, list[int]]]:
    cluster = Cluster(3, 2, step_overhead_s=0.25, token_time_s=0.125)
    for _ in range(context.choose(3, 20, 200)):
        for name in ("fcfs", "jsq", "br-0"):
            prompts, outputs = random_requests(context.rng, 14, 50, 6)
            yield full_run(prompts, outputs, name, cluster, steps=steps), outputs


def _metric_check(
    context: Context, *, name: str, formula: Formula, steps: int | None = None
) -> Outcome:
    def agrees(case: tuple[Run, list[int]]) -> bool:
        run, outputs = case
        value = measure(run)[name]
        return isinstance(value, float) and isclose(value, formula(run, outputs), rel_tol=1e-9)

    return examine(
        f"the toolkit's {name} is the printed formula",
        "random drained runs of 14 requests on 3 workers of 2 slots under fcfs, jsq and br-0",
        _runs(context, steps),
        agrees,
    )


def mean_gap(run: Run, outputs: list[int]) -> float:
    """Return the mean of max − min, a deliberately different metric [tokens]."""
    del outputs
    rows = step_loads(run).tolist()
    return float(sum(map(gap, rows)) / len(rows))


@_metric("7", "avg_imbalance", Mutation("max − min in place of the sum", formula=mean_gap))
def average_imbalance(run: Run, outputs: list[int]) -> float:
    """Average imbalance.

    Statement: The average imbalance is the mean of the steps' imbalances.
    Formula: AvgImbalance = (1/K)·Σ_k Imbalance(k)
    Reading: a mean over steps, not over time: a long step counts as a short one.
    """
    del outputs
    rows = step_loads(run).tolist()
    return float(sum(map(imbalance, rows)) / len(rows))


def per_step(run: Run, outputs: list[int]) -> float:
    """Return tokens per second averaged over steps, a deliberately different metric [tokens/s]."""
    del outputs
    return float((run.active / run.duration_s).mean())


@_metric(
    "8",
    "throughput_tokens_per_s",
    Mutation("the mean of the steps' rates", formula=per_step),
    Mutation("runs cut off after four steps", steps=4),
)
def throughput(run: Run, outputs: list[int]) -> float:
    """Throughput.

    Statement: Throughput is the active requests of all steps over their duration.
    Formula: Σ_k |A(k)| / Σ_k Δt(k)
    Reading: one token per active request and step, so the tokens of all requests over the time.
    """
    return sum(outputs) / float(run.duration_s.sum())


def tokens_weighted(run: Run, outputs: list[int]) -> float:
    """Return the time per token, wrongly averaged over tokens instead of requests [s]."""
    total = sum(
        float(run.duration_s[start : start + output].sum())
        for start, output in zip(run.start_step.tolist(), outputs, strict=True)
    )
    return total / sum(outputs)


@_metric("9", "tpot_mean_s", Mutation("averaged over tokens", formula=tokens_weighted))
def time_per_token(run: Run, outputs: list[int]) -> float:
    """Time per output token.

    Statement: TPOT is the mean over requests of their time in service per token.
    Formula: TPOT = (1/N)·Σ_i (t_i^finish − t_i^start)/o_i
    Reading: from the beginning of the first step to the end of the last; the wait before the start
        is not in it, so a policy that lets requests wait does not look worse by it.
    """
    spans = (
        float(run.duration_s[start : start + output].sum()) / output
        for start, output in zip(run.start_step.tolist(), outputs, strict=True)
    )
    return sum(spans) / len(outputs)
