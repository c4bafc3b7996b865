"""Lemma 8: variance and third moment of a slot under drift."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.exact_laws import ExactLaw, in_whole_numbers, uniform, variance
from proofs_checks.search import examine, refute

CLAIMS = Claims()


@dataclass(frozen=True)
class Slot:
    """A slot under drift: prompts, completion probability, increments, first content.

    Parameters
    ----------
    prompts : tuple of int
        Prompts are uniform on these.
    tenths : int
        ``p`` in tenths.
    increments : tuple of int
        ``δ_1, ..., δ_k`` up to the step looked at.
    start : int or None
        Size at step 0; None for a fresh prompt.
    """

    prompts: tuple[int, ...]
    tenths: int
    increments: tuple[int, ...]
    start: int | None

    @property
    def chance(self) -> Fraction:
        """``p``."""
        return Fraction(self.tenths, 10)

    @property
    def renewed(self) -> Fraction:
        """Probability that a request ended since step 0, ``1 − (1 − p)^k``."""
        return 1 - (1 - self.chance) ** len(self.increments)

    def law(self) -> ExactLaw:
        """Law of ``Y(k)`` by recursion (38)."""
        # Weights of which all are multiples: a prompt has `total` over the number of prompts.
        number = len(self.prompts)
        law = dict.fromkeys(self.prompts, 1) if self.start is None else {self.start: number}
        total = number
        for increment in self.increments:
            later = {y + increment: q * (10 - self.tenths) for y, q in law.items()}
            for y in self.prompts:
                later[y] = later.get(y, 0) + total // number * self.tenths
            law, total = later, total * 10
        return {y: Fraction(q, total) for y, q in law.items() if q}


def third_moment(law: ExactLaw) -> Fraction:
    """``E|Y − E Y|³``."""
    weights, whole = in_whole_numbers(law)
    centre = sum(v * w for v, w in weights.items())
    return Fraction(sum(abs(v * whole - centre) ** 3 * w for v, w in weights.items()), whole**4)


def slot_of(data: Data) -> Slot | None:
    """Read a slot that starts from a given size; None if it is none."""
    prompts, increments = tuple(data["prompts"]), tuple(data["increments"])
    if len(set(prompts)) != len(prompts) or len(prompts) < 2 or min(prompts) < 1:
        return None
    # Increments of 0 would do too; positive ones leave no doubt.
    if not increments or min(increments) < 1 or not 1 <= data["tenths"] <= 9 or data["start"] < 1:
        return None
    return Slot(prompts, data["tenths"], increments, data["start"])


def _described(slot: Slot) -> str:
    return (
        f"a slot of size {slot.start} at step 0, p = {slot.tenths}/10, prompts uniform on "
        f"{list(slot.prompts)}, increments {list(slot.increments)}: after "
        f"{len(slot.increments)} step(s)"
    )


def _as_data(slot: Slot) -> Data:
    return {
        "prompts": list(slot.prompts),
        "tenths": slot.tenths,
        "increments": list(slot.increments),
        "start": slot.start,
    }


#: Largest prompt and most steps: quick, normal, deep.
_SIZES = ((3, 2), (4, 3), (6, 4))


def _made(context: Context) -> str:
    largest, longest = context.choose(*_SIZES)
    return (
        f"every slot with uniform prompts on two values or more in 1..{largest}, up to {longest} "
        "increments 0..2, p = 1/10, 1/2, 9/10"
    )


def _slots(context: Context, starts: Sequence[int | None], *, slowest: int = 0) -> Iterator[Slot]:
    largest, longest = context.choose(*_SIZES)
    for mask in range(1, 2**largest):
        prompts = tuple(v for v in range(1, largest + 1) if mask >> (v - 1) & 1)
        if len(prompts) < 2:
            continue
        for k in range(1, longest + 1):
            for deltas, tenths, start in product(
                product(range(slowest, 3), repeat=k), (1, 5, 9), starts
            ):
                yield Slot(prompts, tenths, deltas, start)


# The variance, (40).


def verify_variance(data: Data) -> str | None:
    """Compute the variance of a slot's size that starts from a given size, exactly."""
    slot = slot_of(data)
    if slot is None:
        return None
    actual, wanted = variance(slot.law()), variance(uniform(slot.prompts))
    if actual >= wanted:
        return None
    return f"{_described(slot)} the variance is {actual} < σ_s² = {wanted}"


_RECURSION = "recursion (38): Y(k) = (1−ξ)(Y(k−1) + δ_k) + ξ·S"


@CLAIMS.result(
    "balance.lemma8",
    Mutation("fresh prompts at step 0", arbitrary=False),
    Mutation("σ_s² from any start in the correction", whole=True),
    hypotheses=(_RECURSION, "Y(0) arbitrary, independent of what follows"),
    defect=Defect.HYPOTHESIS,
    verify=verify_variance,
)
def _variance_check(context: Context, *, arbitrary: bool = True, whole: bool = False) -> Outcome:
    """Variance of a slot under drift.

    Source: BF-IO paper, Lemma 8, (40) (appendix C.3)
    Statement: For any slot and any step k ≥ 1 the variance of its size is at least σ_s², whatever
        the initial configuration.
    Formula: Var(Y(k)) ≥ σ_s² for all k ≥ 1
    Summary: The proof takes the prompt in a slot for an independent copy of S at any fixed time;
        until the first completion it is whatever the slot began with.
    Reading: refuted is the reading with any Y(0), as (38) introduces it: independent of what
        follows, and not restricted. The age counts from time 0 where nothing has ended, and Y =
        S_cur + H, so the proof means fresh prompts at step 0; read so, the lemma holds as it
        stands. A hypothesis that the proof implies and nothing states.
    Correction: It holds if the slots hold fresh prompts at step 0, as they do when a run begins.
        From an arbitrary configuration Var(Y(k)) ≥ (1 − (1 − p)^k)·σ_s² ≥ p·σ_s²: given that a
        request ended in the slot, its prompt is an independent copy of S. Theorem 3's time average
        is not affected.
    """
    starts: tuple[int | None, ...] = tuple(range(1, context.choose(4, 7, 10)))
    made = _made(context)
    printed = refute(
        "Var Y(k) ≥ σ_s² from any size at step 0",
        made.replace("0..2", "1 and 2"),
        _slots(context, starts if arbitrary else (None,), slowest=1),
        verify_variance,
        _as_data,
        holds=lambda s: variance(s.law()) >= variance(uniform(s.prompts)),
    )

    def corrected_holds(slot: Slot) -> bool:
        share = 1 if slot.start is None or whole else slot.renewed
        actual = variance(slot.law())
        return actual >= share * variance(uniform(slot.prompts)) and share >= slot.chance

    corrected = examine(
        "Var Y(k) ≥ (1 − (1 − p)^k)·σ_s² ≥ p·σ_s² from any size at step 0, and ≥ σ_s² from a "
        "fresh prompt",
        made, _slots(context, (None, *starts)), corrected_holds,
    )  # fmt: skip
    return printed, corrected


# The third moment, (41).


def moment_bound(slot: Slot) -> Fraction:
    """Return a C_3 for slots that begin with a fresh prompt.

    ``|x + y|³ ≤ 4(|x|³ + |y|³)`` for the prompt and the growth, each less its mean; the growth is
    at most δ_max times an age with ``E A³ ≤ 6/p³``, and ``E|H − EH|³ ≤ 8·E H³``.
    """
    grown = 48 * Fraction(max(slot.increments)) ** 3 / slot.chance**3
    return 4 * (Fraction(max(slot.prompts) - 1) ** 3 + grown)


def verify_moment(data: Data) -> str | None:
    """Confirm that the third moment exceeds a constant that would do for a fresh prompt."""
    slot = slot_of(data)
    if slot is None or data["constant"] < moment_bound(slot):
        return None
    moment = third_moment(slot.law())
    if moment <= data["constant"]:
        return None
    return (
        f"{_described(slot)} E|Y − EY|³ = {float(moment):.1f}, above {data['constant']}; from a "
        f"fresh prompt it would stay below {float(moment_bound(slot)):.1f} at all steps"
    )


@CLAIMS.result(
    "balance.lemma8-moment",
    Mutation("starts no larger than prompts", far=False),
    Mutation("a thousandth of the constant in the correction", share=Fraction(1, 1000)),
    hypotheses=(_RECURSION, "Y(0) arbitrary, independent of what follows"),
    defect=Defect.HYPOTHESIS,
    verify=verify_moment,
)
def _moment_check(context: Context, *, far: bool = True, share: Fraction = Fraction(1)) -> Outcome:
    """Third moment of a slot under drift.

    Source: BF-IO paper, Lemma 8, (41) (appendix C.3)
    Statement: There is a constant C_3 that depends only on (p, σ_s², δ_max, s_max) such that the
        third central absolute moment of a slot's size is at most C_3 at every step k ≥ 1.
    Formula: E|Y(k) − E Y(k)|³ ≤ C_3(p, σ_s², δ_max, s_max) for all k ≥ 1
    Summary: While the first content y is there with probability (1 − p)^k, the moment grows like
        y³; no constant that knows (p, σ_s², δ_max, s_max) only can bound it.
    Reading: as balance.lemma8: refuted with any Y(0), true with fresh prompts at step 0, which the
        proof implies. The check refutes constants of ten thousand and a million; a larger start
        refutes any other.
    Correction: It holds if the slots hold fresh prompts at step 0, with C_3 = 4((s_max − 1)³ +
        48·δ_max³/p³); or with a constant that depends on the first content too.
    """
    constants = context.choose((10**4, 10**6), (10**4, 10**6, 10**9), (10**4, 10**6, 10**12))
    starts = [10 * round(constant ** (1 / 3)) for constant in constants] if far else [1, 2]
    cases = [
        {"prompts": [1, 2], "tenths": tenths, "increments": [1] * k, "start": start,
         "constant": constant}
        for constant, start, tenths, k in product(constants, starts, (5, 9), (1, 2))
    ]  # fmt: skip
    printed = refute(
        "E|Y(k) − E Y(k)|³ below one constant from any size at step 0",
        f"prompts 1 or 2, increments 1, p = 1/2 and 9/10, constants {constants}, starts {starts}",
        cases,
        verify_moment,
    )
    corrected = examine(
        "E|Y(k) − E Y(k)|³ ≤ 4((s_max − 1)³ + 48·δ_max³/p³) from a fresh prompt",
        _made(context),
        _slots(context, (None,)),
        lambda s: third_moment(s.law()) <= share * moment_bound(s),
    )
    return printed, corrected
