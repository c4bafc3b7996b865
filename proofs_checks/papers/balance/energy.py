"""Sections 6.3, 6.4, appendix D: operations per token, the energy of a step, conclusions."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.energy import EnergyReading, step_energies
from bfio.decode.energy_model import EnergyModel
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.search import Domain, examine, refute
from proofs_checks.step_enumeration import imbalance

CLAIMS = Claims()


# Equation (56): operations of a forward pass.


def operations(widths: Sequence[int]) -> tuple[int, int]:
    """Count the multiplications and additions of a stack of matrices; sums start at 0."""
    multiplied = added = 0
    for inputs, outputs in pairwise(widths):
        for _ in range(outputs):
            for _ in range(inputs):
                multiplied += 1
                added += 1
    return multiplied, added


def parameters(widths: Sequence[int]) -> int:
    """Return the number of weights of a stack of matrices."""
    return sum(a * b for a, b in pairwise(widths))


def verify_operations(data: Data) -> str | None:
    """Compare the operations of one token with 6·N."""
    widths = data["widths"]
    if len(widths) < 2 or min(widths) < 1:
        return None
    weights, counted = parameters(widths), sum(operations(widths))
    if counted == 6 * weights:
        return None
    return f"matrices of widths {widths}: {weights} weight(s), {counted} operations, not 6·N"


@CLAIMS.formula(
    "balance.eq56",
    Mutation("4·N in the correction", per_weight=4),
    defect=Defect.FORMULA,
    verify=verify_operations,
)
def _operations_check(context: Context, *, per_weight: int = 2) -> Outcome:
    """Operations per token.

    Source: BF-IO paper, eq. (56) and the sentence before it (appendix D)
    Statement: One token takes about 6·N operations, from 2·N multiply-accumulates of the forward
        pass, each of 2 operations, with an additional factor from attention.
    Formula: FLOPs per token ≈ 6·N_params
    Assumes: the matrix products of a forward pass
    Summary: Each weight is used once per token: N multiply-accumulates, 2·N operations. Even the
        printed 2·N of two operations each are 4·N; 6·N is the count of a training step, forward
        and backward.
    Correction: 2·N_params, and what attention adds, which grows with the context and not with N.
        With 2·N every mfu is a third, and the power curve is read further left.
    """
    most = context.choose(3, 4, 6)
    cases = [w for n in (2, 3) for w in product(range(1, most + 1), repeat=n)]
    domain = Domain(
        f"all stacks of one and two matrices with widths 1..{most}, multiplied out", cases
    )
    printed = domain.refute(
        "one token takes 6·N operations", verify_operations,
        lambda w: {"widths": list(w)}
    )  # fmt: skip
    corrected = domain.examine(
        "N multiply-accumulates, 2·N operations",
        lambda w: sum(operations(w)) == per_weight * parameters(w)
        and operations(w)[0] == parameters(w)
    )  # fmt: skip
    return printed, corrected


# Equation (58), and the effect of balance on it.


def energy(
    loads: Sequence[int], running: Sequence[int], reading: EnergyReading, exponent: float
) -> float:
    """Return the energy of one step [J], with one unit of time per token and one of overhead."""
    cluster = Cluster(len(loads), max(running), step_overhead_s=1.0, token_time_s=1.0)
    model = EnergyModel(parameters=1.0, peak_flops=12.0, exponent=exponent)
    durations = np.array([1.0 + max(loads)])
    return float(
        step_energies(
            np.array([loads]), np.array([running]), durations, cluster, model, reading
        ).sum()
    )


#: Largest load of a step [tokens]: quick, normal, deep.
_MOST = (4, 6, 8)


def _steps(context: Context) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield loads and their requests, for two and three workers."""
    most = context.choose(*_MOST)
    for G in (2, 3):
        for loads in product(range(1, most + 1), repeat=G):
            yield loads, (2,) * G


def by_formula(loads: Sequence[int], running: Sequence[int], exponent: float = 0.7) -> float:
    """Evaluate (58) by (56) and (57): each worker at its mean rate over the step."""
    duration = 1 + max(loads)
    total = 0.0
    for requests in running:
        share = min(6 * requests / duration / 12 / 0.45, 1.0)
        total += (100 + 300 * share**exponent) * duration
    return total


@CLAIMS.formula("balance.eq58", Mutation("two phases, busy and then idle", averaged=False))
def _formula_check(context: Context, *, averaged: bool = True) -> Outcome:
    """Energy of a run.

    Source: BF-IO paper, eq. (10), (55), (56) and (58) (appendix D)
    Statement: The energy is the sum over steps and workers of power times duration.
    Formula: E = Σ_k Σ_g P(mfu_g^{(k)})·Δt^{(k)}
    Assumes: mfu_g the worker's mean rate over the step; power capped (balance.eq11)
    Summary: The averaged reading of the toolkit is this formula.
    Reading: (58) leaves a worker's mfu inside a step open, and the text says that who is done
        early idles at P_idle; the toolkit's default has these two phases, this formula is its
        other reading.
    """
    reading = EnergyReading.AVERAGED if averaged else EnergyReading.TWO_PHASE
    return examine(
        "the toolkit's energy of a step = Σ_g P(mfu_g)·Δt, mfu_g = requests·6·N/(Δt·peak)",
        f"all loads of 1 to {context.choose(*_MOST)} tokens of two and three workers with two "
        "requests each",
        _steps(context),
        lambda step: abs(energy(*step, reading, 0.7) - by_formula(*step)) < 1e-6,
    )


@CLAIMS.remark(
    "balance.energy",
    Mutation("γ = 3, power that grows faster than the rate", exponent=3.0),
    Mutation("other total loads too", same_work=False),
)
def _idle_check(context: Context, *, exponent: float = 0.7, same_work: bool = True) -> Outcome:
    """Less idling, less energy.

    Source: BF-IO paper, sections 6.3 and 6.4, appendix D, implications
    Statement: Workers that wait at the barrier draw P_idle for nothing; less imbalance turns this
        into useful work and lowers the total energy.
    Formula: E(even loads) ≤ E(loads) for the same Σ_g L_g and the same tokens
    Assumes: one step, the same requests; γ ≤ 1
    Summary: By both readings. With two phases the busy time is given and the idle time shrinks;
        with the average the energy at work w is P_idle·Δt + c·w^γ·Δt^{1−γ}, which grows with Δt
        for γ ≤ 1.
    Reading: for the same work, as the sentence says; what (IO) admits is own.shortest-step.
    """
    steps = list(_steps(context))
    pairs = [
        (loads, less, running)
        for (loads, running), (less, _) in product(steps, repeat=2)
        if len(loads) == len(less)
        and imbalance(less) < imbalance(loads)
        and (sum(less) == sum(loads) or not same_work)
    ]

    def saves(pair: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> bool:
        loads, less, running = pair
        return all(
            energy(less, running, reading, exponent) < energy(loads, running, reading, exponent)
            for reading in EnergyReading
        )

    return examine(
        "the same total load with less imbalance takes less energy, by either reading of (58)",
        f"all pairs of loads of 1 to {context.choose(*_MOST)} tokens of two and three workers, "
        "two requests each",
        pairs,
        saves,
    )


# Figure 7 and Table 1.

_POWER = {"FCFS": (330, 380), "BF-IO": (395, 400)}
_ENERGY, _RATE = {"FCFS": 396, "BF-IO": 383}, {"FCFS": "8.00", "BF-IO": "9.13"}


@CLAIMS.experiment(
    "balance.figure7",
    Mutation("equal throughputs", rates={"FCFS": "8.00", "BF-IO": "8.00"}),
    kind=Kind.IDENTITY,
)
def _figure7_check(context: Context, *, rates: dict[str, str] | None = None) -> Outcome:
    """Power, energy and throughput fit together.

    Source: BF-IO paper, figures 2 and 7 with Table 1 (section 6.4)
    Statement: FCFS draws 330 to 380 W, BF-IO (H = 20) 395 to 400 W, and BF-IO takes less energy
        all the same, since it is done earlier.
    Formula: (396/383)·(8.00/9.13) ∈ [330/400, 380/395]
    Assumes: as many tokens in both runs
    Summary: Table 1 asks for 0.906 of BF-IO's power under FCFS: 358 to 362 W, within the range
        read off figure 7. The runs themselves are not public.
    Reading: consistency of printed numbers; 3.3 or 3.4 % is balance.table1.
    """
    del context
    rate = rates or _RATE
    # Energy is mean power times tokens over tokens per second; both runs have equally many tokens.
    wanted = Fraction(_ENERGY["FCFS"], _ENERGY["BF-IO"]) * Fraction(rate["FCFS"])
    ratio = wanted / Fraction(rate["BF-IO"])
    low, high = (Fraction(_POWER["FCFS"][i], _POWER["BF-IO"][1 - i]) for i in (0, 1))
    return examine(
        "mean power of FCFS over that of BF-IO, by energy and throughput of Table 1, lies within "
        "the ranges of figure 7",
        "396 and 383 kJ, 8.00 and 9.13·10⁴ tokens/s, 330..380 and 395..400 W",
        [ratio],
        lambda found: low <= found <= high,
    )


# "The 80-step lookahead" of H = 20.


def verify_lookahead(data: Data) -> str | None:
    """Compare the window in the table row with the one in the text on figure 6."""
    row, text = data["row"], data["text"]
    if row != 20 or text != 80:
        return None
    return f"the row is BF-IO (H = {row}), the sentence on it speaks of {text} steps of look-ahead"


@CLAIMS.experiment(
    "balance.figure6-lookahead",
    Mutation("20 steps in the text", text=20),
    defect=Defect.MISPRINT,
    verify=verify_lookahead,
)
def _lookahead_check(context: Context, *, text: int = 80) -> Outcome:
    """The look-ahead of figure 6.

    Source: BF-IO paper, section 6.4, last item on figure 6
    Statement: BF-IO (H = 20) is described as having an 80-step look-ahead.
    Formula: H = 20 = 80
    Assumes: the caption, Table 1 and section 6.2 say 20
    Summary: A number from another version of the runs.
    Correction: 20 steps.
    """
    del context
    printed = refute(
        "the text's look-ahead is the row's H", "all sentences on BF-IO (H = 20) in section 6.4",
        [{"row": 20, "text": text}], verify_lookahead,
    )  # fmt: skip
    corrected = examine(
        "20 steps, as the row, Table 1 and section 6.2 have it", "all three places",
        [20, 20, 20 if text == 80 else 0], lambda value: value == 20,
    )  # fmt: skip
    return printed, corrected
