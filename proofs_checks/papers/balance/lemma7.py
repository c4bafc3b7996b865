"""Lemma 7: the long-run gap under drift, and the step that makes its remainder vanish."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, log

from proofs_checks.ample_pool import Cell, blind_sizes, level_sizes, two_sizes
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.balance.average_gap import AVERAGE, Pool, gap_estimates, meets
from proofs_checks.search import Domain
from proofs_checks.statistics import room

CLAIMS = Claims()


#: Universal constant of eq. (32): the one that Bernstein's inequality gives (balance.lemma6).
_C2 = 8
_NAMES = ("tenths", "workers", "doublings", "largest", "increment")


# The lemma.


_FCFS: tuple[Pool, ...] = ((Cell(4, 64, 0.2, 10, (2,)), blind_sizes),)


_HYPOTHESES = (
    "overloaded pool (Definition 1)",
    "outputs geometric with p",
    "0 ≤ δ_k ≤ δ_max, one increment per step, δ_max independent of B and G",
    "B large enough, (32): γBp ≥ 2U_B",
)


@CLAIMS.result(
    "balance.lemma7",
    Mutation("FCFS in place of BF-IO", pools=_FCFS),
    Mutation("half of s_max/p", share=0.5),
    formula=AVERAGE,
    hypotheses=_HYPOTHESES,
    kind=Kind.STATISTICAL,
    proof="lemma4-smax",
)
def _lemma_check(
    context: Context, *, pools: Sequence[Pool] | None = None, share: float = 1
) -> Outcome:
    """Average gap of BF-IO under drift.

    Source: BF-IO paper, Lemma 7 (appendix C.3)
    Statement: Lemma 4 holds for increments up to δ_max: the long-run average of BF-IO's gap is at
        most s_max/p plus a vanishing term.
    Reading: tested where the proof's condition (32) is not met, at B of practice. One step of its
        proof fails as printed (balance.lemma7-step); mended, it gives the lemma. BF-IO as the
        minimiser of the gap; for (IO) see own.lemma4-smax.
    """
    more = ((1,), (2,), (2, 0, 1), (0, 3))
    drifts = context.choose(((2,), (0, 3)), more, more)
    every: list[Pool] = [(Cell(4, 64, 0.2, 10, drift), level_sizes) for drift in drifts]
    every += [(Cell(8, 64, 0.9, 11, drift), two_sizes) for drift in ((0,), *drifts)]
    every.append((Cell(8, 512, 0.2, 11, drifts[0]), two_sizes))
    measured = gap_estimates(context, every if pools is None else pools, share)
    return Findings(
        estimates=tuple(m.estimate for m in measured),
        summary="BF-IO's optimum in closed form, as for balance.lemma4, on pools of every size "
        "and of two sizes. The proof needs one more factor δ_max (balance.lemma7-step). "
        f"{room(measured)}",
    )


# The step of its proof.


def age_threshold(tenths: int, size: float, increment: int) -> int:
    """``y* = ⌊x*/δ_max⌋`` with ``x* = ⌈(3/p)·log(GB)⌉``; size is log(GB)."""
    return ceil(30 / tenths * size) // increment


def small_enough(tenths: int, workers: int, slots: int, threshold: int) -> bool:
    """Whether ``(1 − p)^threshold ≤ (GB)^{−3}``, in integers."""
    return bool((10 - tenths) ** threshold * (workers * slots) ** 3 <= 10**threshold)


def verify_step(data: Data) -> str | None:
    """Confirm (32) and ``(1 − p)^{y*} > (GB)^{−3}``; the batch size is a power of two."""
    tenths, workers, doublings, largest, increment = (data[name] for name in _NAMES)
    if not 1 <= tenths <= 9 or workers < 2 or doublings < 0 or largest < 2 or increment < 1:
        return None
    slots = 2**doublings
    threshold = age_threshold(tenths, log(workers * slots), increment)
    if not meets(slots, workers, tenths / 10, largest, increment):
        return None
    if small_enough(tenths, workers, slots, threshold):
        return None
    return (
        f"p = {tenths}/10, G = {workers}, B = 2^{doublings}, s_max = {largest}, δ_max = "
        f"{increment}: (32) holds with C_2 = {_C2}, y* = {threshold}, and (1 − p)^y* = "
        f"{float(Fraction(10 - tenths, 10) ** threshold):.3g} > (GB)^−3 = "
        f"{(workers * slots) ** -3.0:.3g}"
    )


def remainder(slots: int, increment: int, *, corrected: bool) -> float:
    """Return the term that eq. (37) must make vanish, at G = 16, p = 1/2, s_max = 10."""
    x = ceil(6 * log(16 * slots))
    envelope, threshold = (increment * x, x) if corrected else (x, x // increment)
    scale = 16 * slots**2 * 4 * increment * (10 + envelope + increment)
    return float(scale * 0.5**threshold)


@CLAIMS.step(
    "balance.lemma7-step",
    Mutation("increments of at most 1", increments=(1,)),
    Mutation("x* not stretched in the correction", stretched=False),
    hypotheses=_HYPOTHESES[2:],
    defect=Defect.FORMULA,
    verify=verify_step,
)
def _step_check(
    context: Context, *, increments: Sequence[int] = (1, 2, 3), stretched: bool = True
) -> Outcome:
    """The remainder under drift.

    Source: BF-IO paper, proof of Lemma 7 (appendix C.3)
    Statement: With x* = ⌈(3/p)·log(GB)⌉ and y* = ⌊x*/δ_max⌋, (1 − p)^{y*} is at most exp(−p·y*),
        and that at most (GB)^{−3}, so that the remainder of eq. (37) vanishes.
    Formula: (1 − p)^{y*} ≤ exp(−p·y*) ≤ (GB)^{−3},  y* = ⌊⌈(3/p)·log(GB)⌉/δ_max⌋
    Summary: The printed power is about (GB)^{−3κ/δ_max} with κ = −log(1 − p)/p, which exceeds 1:
        the step holds up to δ_max = κ (1.39 at p = 1/2, 2.56 at p = 9/10), the argument given for
        it, exp(−p·y*) ≤ (GB)^{−3}, up to δ_max = 1. From δ_max = 3κ/2 on the remainder of eq. (37)
        grows with B. The corrected x* restores the lemma.
    Reading: C_2 = 8 in (32), which is enough for Lemma 6; the result fails for the left-hand side
        already, exp(−p·y*) is left out.
    Correction: With x* = δ_max·⌈(3/p)·log(GB)⌉ the step holds with y* = ⌈(3/p)·log(GB)⌉ and the
        remainder vanishes; U_B grows by the factor δ_max at most, and with it the B that (32) asks
        for. As printed the step holds for δ_max ≤ 1, and in the limit up to δ_max = −log(1 − p)/p.
        For 0 < δ_max < 1 the indicator of Λ > s_max + x* just before it needs a factor 1/δ_max on
        (Λ + δ_max − s_max − x*)₊; the order stays.
    """
    doublings = context.choose((20, 30, 40), (20, 30, 40, 50), tuple(range(10, 70, 5)))
    cases = list(product((1, 3, 5, 9), (2, 16), doublings, (2, 10), increments))
    domain = Domain(
        f"p = 1/10, 3/10, 1/2, 9/10, G = 2 and 16, B = 2^k for k in {doublings}, s_max = 2 and 10,"
        f" δ_max in {tuple(increments)}; those that meet (32)",
        cases,
    )

    def applies(case: tuple[int, int, int, int, int]) -> bool:
        tenths, workers, k, largest, increment = case
        return meets(2**k, workers, tenths / 10, largest, increment)

    printed = domain.refute(
        "(1 − p)^{y*} ≤ (GB)^{−3} with y* = ⌊x*/δ_max⌋",
        verify_step,
        lambda c: dict(zip(_NAMES, c, strict=True)),
        applies=applies,
    )

    def corrected_holds(case: tuple[int, int, int, int, int]) -> bool:
        tenths, workers, k, _, increment = case
        size = log(workers * 2**k)
        threshold = age_threshold(tenths, size, 1 if stretched else increment)
        return small_enough(tenths, workers, 2**k, threshold)

    corrected = domain.examine(
        "the same with x* = δ_max·⌈(3/p)·log(GB)⌉, so y* = ⌈(3/p)·log(GB)⌉",
        corrected_holds, applies
    )  # fmt: skip
    return Findings(
        printed,
        corrected,
        numbers={
            "printed remainder at B = 100 (G = 16, p = 1/2, s_max = 10, δ_max = 3)": remainder(
                100, 3, corrected=False
            ),
            "at B = 10^6": remainder(10**6, 3, corrected=False),
            "corrected remainder at B = 100": remainder(100, 3, corrected=True),
            "at B = 10^6 as corrected": remainder(10**6, 3, corrected=True),
        },
    )
