"""BalanceRoute, sections 6.1 to 6.4 and appendices E, G and H: statements about its tables.

One claim compares the reported imbalance, max − min, with the objective of the paper.
"""

import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import NamedTuple

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.runs import gap, imbalance
from proofs_checks.search import examine

CLAIMS = Claims()


class Row(NamedTuple):
    """One row of a table of results: a method or configuration on one trace and cluster."""

    imbalance: int
    tpot: Fraction
    throughput: Fraction


def _row(imbalance: str, tpot: str, throughput: str) -> Row:
    return Row(int(imbalance), Fraction(tpot), Fraction(throughput))


def _rows(table: Mapping[str, Sequence[str]]) -> dict[str, Row]:
    return {name: _row(*columns) for name, columns in table.items()}


_PRINTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PROPRIETARY, AZURE = (_rows(_PRINTED[trace]) for trace in ("proprietary", "azure"))
SCALING = {int(G): _rows(table) for G, table in _PRINTED["scaling"].items()}
SWEEPS = {int(G): _rows(table) for G, table in _PRINTED["sweeps"].items()}
OTHER_ORACLE_16 = _row(*_PRINTED["other_oracle_16"])
BASELINES = ("Random", "RR", "P2C", "JSQ")
DEPLOYED = ("BR-H Survival", "BR-H ExactMatch")
#: The oracle's rows for its two settings.
ORACLE = ("BR-H oracle, first", "BR-H oracle, second")

_TRACES = {"Proprietary Data": PROPRIETARY, "Azure-2024": AZURE}
_OURS = ("BR-0", *ORACLE, *DEPLOYED)


def dominates(better: Row, worse: Row) -> bool:
    """Return whether a row has lower imbalance and TPOT, and higher throughput."""
    return (
        better.imbalance < worse.imbalance
        and better.tpot < worse.tpot
        and better.throughput > worse.throughput
    )


# "Every BR row dominates every baseline row on every metric."
@CLAIMS.experiment(
    "route.table1-order",
    Mutation("the BR-0 row as a baseline too", below=(*BASELINES, "BR-0", "BR-H oracle, first")),
)
def _dominance_check(context: Context, *, below: Sequence[str] = BASELINES) -> Outcome:
    """The order on both traces.

    Source: BalanceRoute paper, section 6.2, on Table 1
    Statement: The qualitative ordering is identical across datasets: every BR row dominates every
        baseline row on every metric.
    Formula: BR rows < baseline rows in imbalance and TPOT, > in throughput, both traces
    Assumes: the numbers of Table 1
    Summary: It follows from the printed rows. Within either group the order differs: round-robin
        and power-of-two swap places, and so do the two deployed rows in throughput.
    Reading: what follows the colon says which ordering is meant, so that of single rows is not.
        The runs themselves, one replay each, are not public.
    """
    del context
    return examine(
        "it dominates",
        "all pairs of a BR row and a baseline row of Table 1, both traces",
        list(product(_TRACES, _OURS, below)),
        lambda trace, ours, other: (
            ours == other or dominates(_TRACES[trace][ours], _TRACES[trace][other])
        ),
    )


# "Deployed BR-H achieves the lowest TPOT P95 of any method on both datasets."
@verifier
def verify_lowest(deployed: int, other: int) -> str:
    """Compare the deployed rows' least TPOT with another row's, in tenths of a millisecond."""
    dismiss_if(min(deployed, other) < 1 or other >= deployed)
    names = [name for name, rows in _TRACES.items() if _tenths(rows, DEPLOYED) == deployed]
    rows = [n for t in names for n in ORACLE if _tenths(_TRACES[t], (n,)) == other]
    dismiss_if(not rows)
    better = deployed / 10
    return f"{names[0]}: {rows[0]} has {other / 10} ms, the better deployed row {better} ms"


def _tenths(rows: Mapping[str, Row], names: Sequence[str]) -> int:
    return int(min(rows[name].tpot for name in names) * 10)


@CLAIMS.experiment(
    "route.table1-tpot",
    Mutation("rows without an oracle", rivals=()),
    Mutation("the oracle among the others in the correction", others=ORACLE),
    defect=Defect.HYPOTHESIS,
    verify=verify_lowest,
)
def _lowest_check(
    context: Context, *, rivals: Sequence[str] = ORACLE, others: Sequence[str] = BASELINES
) -> Outcome:
    """The lowest TPOT of any method.

    Source: BalanceRoute paper, section 6.2, last but one sentence
    Statement: Deployed BR-H achieves the lowest TPOT P95 of any method on both datasets.
    Formula: min TPOT P95 (Survival, ExactMatch) ≤ TPOT P95 of every row
    Assumes: the numbers of Table 1
    Summary: The oracle rows are lower: 78.0 against 78.7 ms, and 77.3 against 82.1 ms.
    Reading: an oracle cannot be deployed, and the setup calls it a reference; the sentence does
        not leave it out.
    Correction: Of any method without an oracle: both deployed rows are lower than BR-0 and all
        baselines, on both traces.
    """
    cases = [
        (_tenths(rows, DEPLOYED), _tenths(rows, (name,)))
        for rows in _TRACES.values()
        for name in (*others, "BR-0", *rivals)
    ]
    printed = context.refute("no other method is lower", "all rows of Table 1, both traces", cases)
    corrected = examine(
        "both deployed rows are lower than every row without an oracle",
        "all rows of Table 1 but the oracle's, both traces",
        list(product(_TRACES.values(), DEPLOYED, (*others, "BR-0"))),
        lambda rows, ours, other: rows[ours].tpot < rows[other].tpot,
    )
    return printed, corrected


# "The throughput advantage over the strongest baseline rises with G."
def advantage(rows: Mapping[str, Row], name: str, over: Sequence[str]) -> float:
    """Return the ratio of a method's throughput to the best of some others."""
    return float(rows[name].throughput / max(rows[other].throughput for other in over))


@CLAIMS.experiment(
    "route.scaling",
    Mutation("G falling", order=(16, 8, 4)),
    Mutation("BR-0 as the least", smallest="BR-0"),
)
def _scaling_check(
    context: Context, *, order: Sequence[int] = (4, 8, 16), smallest: str = "BR-H oracle"
) -> Outcome:
    """The advantage rises with the cluster.

    Source: BalanceRoute paper, section 6.3 on Table 2, appendix G on Tables 4 and 5
    Statement: BR-H has the least imbalance and TPOT at every G; its throughput over that of the
        strongest baseline rises with G, BR-0's rises less, and so does BR-H over BR-0.
    Formula: Tput(BR-H)/max Tput(baselines), Tput(BR-0)/max, Tput(BR-H)/Tput(BR-0) rise in G
    Assumes: the numbers of Tables 2, 4 and 5
    Summary: The ratios are 1.13, 1.22, 1.35 for BR-H and 1.11, 1.11, 1.21 for BR-0. Three
        clusters, one replay each; the third has fewer prefill nodes per worker, as the paper says.
    Reading: what the printed numbers say; the runs are not public.
    """
    del context
    curves: dict[str, list[float]] = {
        "BR-H over the best baseline": [
            advantage(SCALING[G], "BR-H oracle", BASELINES) for G in order
        ],
        "BR-0 over the best baseline": [advantage(SCALING[G], "BR-0", BASELINES) for G in order],
        "BR-H over BR-0": [advantage(SCALING[G], "BR-H oracle", ("BR-0",)) for G in order],
    }
    rising = examine(
        "it rises with G", "all three ratios of Table 2, G = 4, 8, 16", list(curves),
        lambda name: curves[name] == sorted(curves[name]),
    )  # fmt: skip
    flatter = examine(
        "BR-0's rises less from 4 to 16 workers", "all two steps of Table 2", [0, 1],
        lambda i: curves["BR-0 over the best baseline"][i + 1]
        / curves["BR-0 over the best baseline"][0]
        < curves["BR-H over the best baseline"][i + 1] / curves["BR-H over the best baseline"][0],
    )  # fmt: skip
    least = examine(
        "BR-H has the least imbalance and TPOT", "all rows of Tables 2, 4 and 5",
        list(product(SCALING, (*BASELINES, "BR-0"))),
        lambda G, other: SCALING[G][smallest].imbalance < SCALING[G][other].imbalance
        and SCALING[G][smallest].tpot < SCALING[G][other].tpot,
    )  # fmt: skip
    best, other = SCALING[16]["BR-H oracle"], OTHER_ORACLE_16
    two = examine(
        "of the two settings at G = 16 one has the least imbalance and TPOT, the other 3.7 "
        "tokens/s more", "all three columns of Table 5", [best],
        lambda row: row.imbalance < other.imbalance
        and row.tpot < other.tpot
        and 10 * (other.throughput - row.throughput) == 37,
    )  # fmt: skip
    return rising, flatter, least, two


# The sweeps.
@CLAIMS.experiment("route.sweep", Mutation("BR-0 among the baselines", over=(*BASELINES, "BR-0")))
def _sweep_check(context: Context, *, over: Sequence[str] = BASELINES) -> Outcome:
    """Robust in β and γ.

    Source: BalanceRoute paper, section 6.4 and appendix H, on Tables 6 and 7
    Statement: Every swept configuration improves on the strongest baseline; the relative spread is
        tighter at G = 16 than at G = 8.
    Formula: 7 configurations < baselines in imbalance and TPOT, > in throughput, G = 8, 16
    Assumes: the numbers of Tables 2, 6 and 7
    Summary: It follows from the tables. Against BR-0 it does not: β = 96 at G = 8 has a higher
        TPOT (79.46 against 79.32 ms) and 0.3 % more throughput.
    Reading: what the printed numbers say; oracle predictions, one replay each.
    """
    del context
    wide = examine(
        "every configuration improves on every baseline on every metric",
        "all seven configurations of Tables 6 and 7 against all four baselines",
        [(G, key, name) for G in SWEEPS for key in SWEEPS[G] for name in over],
        lambda G, key, name: dominates(SWEEPS[G][key], SCALING[G][name]),
    )

    def factor(G: int, name: str) -> float:
        values = [float(getattr(row, name)) for row in SWEEPS[G].values()]
        return max(values) / min(values)

    tighter = examine(
        "the spread is less at G = 16 than at G = 8",
        "all 7 rows of both sweeps, imbalance and throughput",
        ["imbalance", "throughput"], lambda name: factor(16, name) < factor(8, name),
    )  # fmt: skip
    return wide, tighter


# Appendix E.
@CLAIMS.experiment(
    "route.appendix-e", Mutation("ExactMatch in place of BR-0", over="BR-H ExactMatch")
)
def _survival_check(context: Context, *, over: str = "BR-0") -> Outcome:
    """Survival on proprietary data.

    Source: BalanceRoute paper, appendix E
    Statement: On every metric of Table 1 BR-H with the survival predictor improves on BR-0;
        against ExactMatch it is behind in imbalance and tied in throughput.
    Formula: 40,757 < 51,927, 78.7 < 79.3, 979 > 943;  40,757 > 36,277, 979 ≈ 977
    Assumes: the numbers of Table 1
    Summary: It follows from the table. That the weaker predictor should do worse end to end, as
        the appendix expects, shows in imbalance only; TPOT and throughput are a bit better.
    Reading: what the printed numbers say.
    """
    del context
    mine, exact = PROPRIETARY["BR-H Survival"], PROPRIETARY["BR-H ExactMatch"]
    better = examine(
        "Survival improves on BR-0 on every metric", "all columns of Table 1, Proprietary Data",
        [over], lambda name: dominates(mine, PROPRIETARY[name]),
    )  # fmt: skip
    tied = examine(
        "behind ExactMatch in imbalance, within 1 % in throughput",
        "all columns of Table 1, Proprietary Data", [(mine, exact)],
        lambda mine, exact: mine.imbalance > exact.imbalance
        and abs(mine.throughput / exact.throughput - 1) < 0.01,
    )  # fmt: skip
    return better, tied


@verifier
def verify_metric(first: list[int], second: list[int]) -> str:
    """Confirm that a lower objective comes with a higher metric."""
    dismiss_if(len(first) != len(second) or len(first) < 2 or min(*first, *second) < 0)
    dismiss_if(imbalance(first) >= imbalance(second) or gap(first) <= gap(second))
    return (
        f"loads {first} and {second}: Σ(max − L_g) is {imbalance(first)} < {imbalance(second)}, "
        f"max − min is {gap(first)} > {gap(second)}"
    )


@CLAIMS.own(
    "route.metric",
    Mutation("two workers, for which they are one", workers=(2,)),
    Mutation("twice the gap in the correction", factor=2),
    defect=Defect.INFERENCE,
    verify=verify_metric,
)
def _metric_check(
    context: Context, *, workers: Sequence[int] = (2, 3), factor: int = 1
) -> Outcome:
    """The metric is not the objective.

    Source: BalanceRoute paper, section 6.1 against section 3.1 (our question)
    Statement: Where the objective, the sum of the distances to the largest load, is less, the
        reported imbalance, max − min, is no more.
    Formula: Σ_g(max − L_g) < Σ_g(max − L′_g)  ⇒  max − min ≤ max′ − min′
    Assumes: loads of the same workers
    Summary: One idle worker counts fully in max − min and once in the sum.
    Reading: the paper calls max − min a proxy, and does not say that they agree.
    Correction: They are within a factor of G − 1: max − min ≤ Σ(max − L_g) ≤ (G − 1)·(max − min).
        What is lost at the barrier in a step is the sum.
    """
    most = context.choose(3, 4, 6)
    loads = {G: list(product(range(most + 1), repeat=G)) for G in workers}
    made = f"all pairs of loads up to {most} of {' and '.join(map(str, workers))} workers"
    printed = context.refute(
        "less Σ(max − L_g) means no more max − min", made,
        [(a, b) for G in workers for a, b in product(loads[G], repeat=2)],
        holds=lambda first, second: imbalance(first) >= imbalance(second)
        or gap(first) <= gap(second)
    )  # fmt: skip
    corrected = examine(
        "max − min ≤ Σ(max − L_g) ≤ (G − 1)·(max − min)", made,
        [x for G in workers for x in loads[G]],
        lambda x: factor * gap(x) <= imbalance(x) <= (len(x) - 1) * gap(x),
    )  # fmt: skip
    return printed, corrected
