"""Lemma 8: variance and third moment of a slot under drift."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product

from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.balance.slots import ExactLaw, uniform, variance
from proofs_checks.search import corrected_evidence, evidence_of, examine

# Lemma 8.


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

    def law(self) -> ExactLaw:
        """Law of ``Y(k)`` by recursion (38)."""
        p = Fraction(self.tenths, 10)
        fresh = uniform(self.prompts)
        law = fresh if self.start is None else {self.start: Fraction(1)}
        for increment in self.increments:
            grown: defaultdict[int, Fraction] = defaultdict(Fraction)
            for size, chance in law.items():
                grown[size + increment] += chance * (1 - p)
            for size, chance in fresh.items():
                grown[size] += chance * p
            law = dict(grown)
        return law


def verify_slot(data: Data) -> str | None:
    """Compute the variance of a slot's size that starts from a given size, exactly."""
    prompts, increments = tuple(data["prompts"]), tuple(data["increments"])
    if len(set(prompts)) != len(prompts) or len(prompts) < 2 or min(prompts) < 1:
        return None
    if not increments or min(increments) < 0 or not 1 <= data["tenths"] <= 9 or data["start"] < 1:
        return None
    slot = Slot(prompts, data["tenths"], increments, data["start"])
    found, wanted = variance(slot.law()), variance(uniform(prompts))
    if found >= wanted:
        return None
    return (
        f"a slot of size {slot.start} at step 0, p = {slot.tenths}/10, prompts uniform on "
        f"{list(prompts)}: after {len(increments)} step(s) the variance is {found} < σ_s² = "
        f"{wanted}"
    )


def _slots(context: Context, starts: Sequence[int | None]) -> Iterator[Slot]:
    largest, longest = context.choose((3, 2), (5, 3), (6, 5))
    for mask in range(1, 2**largest):
        prompts = tuple(v for v in range(1, largest + 1) if mask >> (v - 1) & 1)
        if len(prompts) < 2:
            continue
        for k in range(1, longest + 1):
            for deltas, tenths, start in product(product(range(3), repeat=k), (1, 5, 9), starts):
                yield Slot(prompts, tenths, deltas, start)


def _lemma8_check(
    context: Context, *, arbitrary: bool = True, fresh: bool = True, factor: int = 1
) -> Evidence:
    sizes: tuple[int | None, ...] = tuple(range(1, context.choose(4, 7, 10)))

    def holds(slot: Slot) -> bool:
        return variance(slot.law()) >= factor * variance(uniform(slot.prompts))

    printed = examine(
        "Var Y(k) ≥ σ_s² from any size at step 0",
        "every slot with small prompts, increments 0..2, p = 1/10, 1/2, 9/10",
        _slots(context, sizes if arbitrary else (None,)),
        holds,
    )
    corrected = examine(
        "Var Y(k) ≥ σ_s² if the slot starts with a fresh prompt",
        "the same",
        _slots(context, (None,) if fresh else sizes),
        holds,
    )
    return corrected_evidence(
        printed, corrected, verify_slot,
        lambda s: {
            "prompts": list(s.prompts), "tenths": s.tenths,
            "increments": list(s.increments), "start": s.start,
        },
        "The proof takes the prompt in a slot for an independent copy of S at any fixed time; "
        "until "
        "the first completion it is whatever the slot began with.",
    )  # fmt: skip


# The decomposition in the proof of Lemma 8.


def verify_decomposition(data: Data) -> str | None:
    """Evaluate both sides of the printed identity at the means of small laws."""
    prompt, prompts = data["prompt"], data["prompts"]
    gain, gains = data["gain"], data["gains"]
    if prompt not in prompts or gain not in gains or min(prompts) < 1 or min(gains) < 0:
        return None
    mean_s, mean_h = Fraction(sum(prompts), len(prompts)), Fraction(sum(gains), len(gains))
    left = prompt + gain - (mean_s + mean_h)
    right = (prompt - mean_s) + (gain - mean_h) + (mean_s - (mean_s + mean_h))
    if left == right:
        return None
    return f"Y − E[Y] = {left}, the right-hand side = {right}"


def _decomposition_check(context: Context, *, largest_gain: int = 2, terms: int = 2) -> Evidence:
    largest = context.choose(3, 4, 5)
    cases = [
        {"prompt": s, "prompts": [1, other], "gain": h, "gains": [0, most]}
        for other in range(2, largest + 1)
        for most in range(largest_gain + 1)
        for s in (1, other)
        for h in (0, most)
    ]
    made = f"two-point laws with prompts up to {largest} and gains up to {largest_gain}"
    printed = examine(
        "Y − EY = (S − μ_s) + (H − EH) + (μ_s − EY)", made, cases,
        lambda c: verify_decomposition(c) is None,
    )  # fmt: skip

    def two_terms(case: Data) -> bool:
        mean_s, mean_h = Fraction(sum(case["prompts"]), 2), Fraction(sum(case["gains"]), 2)
        parts = [case["prompt"] - mean_s, case["gain"] - mean_h][:terms]
        return bool(sum(parts) == case["prompt"] + case["gain"] - mean_s - mean_h)

    corrected = examine("Y − EY = (S − μ_s) + (H − EH)", made, cases, two_terms)
    return corrected_evidence(
        printed, corrected, verify_decomposition, lambda c: c,
        "The third term is −E[H], one too many.",
    )  # fmt: skip


def _cubes_check(context: Context, *, constant: int = 27) -> Evidence:
    largest = context.choose(6, 12, 30)
    seen = examine(
        "(x + y + z)³ ≤ 27(x³ + y³ + z³)",
        f"all integers 0..{largest}",
        product(range(largest + 1), repeat=3),
        lambda x: sum(x) ** 3 <= constant * sum(v**3 for v in x),
    )
    return evidence_of(seen, "9 would do (power means); 27 is safe.")


CLAIMS = (
    Claim(
        id="balance.lemma8",
        source="BF-IO paper, Lemma 8 (appendix C.3)",
        title="Variance of a slot under drift",
        statement="For any slot and any step k ≥ 1 the variance of its size is at least σ_s², "
        "whatever "
        "the initial configuration.",
        formula="Var(Y(k)) ≥ σ_s² for all k ≥ 1",
        hypotheses=("recursion (38): Y(k) = (1−ξ)(Y(k−1) + δ_k) + ξ·S", "Y(0) arbitrary"),
        kind=Kind.COUNTEREXAMPLE,
        check=_lemma8_check,
        mutations=(
            Mutation("fresh prompts at step 0", partial(_lemma8_check, arbitrary=False)),
            Mutation("any size at step 0 in the correction", partial(_lemma8_check, fresh=False)),
            Mutation("2σ_s² in the correction", partial(_lemma8_check, factor=2)),
        ),
        correction="It holds if the slots hold fresh prompts at step 0, as they do when a run "
        "begins; from "
        "an arbitrary configuration it holds in the limit, since the first content is gone with "
        "probability 1 − (1 − p)^k. Theorem 3's time average is not affected.",
        verify=verify_slot,
    ),
    Claim(
        id="balance.lemma8-decomposition",
        source="BF-IO paper, proof of Lemma 8 (appendix C.3)",
        title="Decomposition of a slot's size",
        statement="Y(k) − E[Y(k)] = (S_cur − μ_s) + (H − E[H]) + (μ_s − E[Y(k)]).",
        formula="Y − EY = (S − μ_s) + (H − EH) + (μ_s − EY)",
        hypotheses=("Y = S + H", "S and H independent"),
        kind=Kind.COUNTEREXAMPLE,
        check=_decomposition_check,
        mutations=(
            Mutation("no growth, H = 0", partial(_decomposition_check, largest_gain=0)),
            Mutation(
                "the second term dropped from the correction",
                partial(_decomposition_check, terms=1),
            ),
        ),
        correction="Without the third term: Y − EY = (S − μ_s) + (H − EH). The bound on the third "
        "moment "
        "needs no more, and the constant C_3 gets smaller.",
        verify=verify_decomposition,
    ),
    Claim(
        id="balance.lemma8-cubes",
        source="BF-IO paper, proof of Lemma 8 (appendix C.3)",
        title="Cube of a sum of three",
        statement="For non-negative x, y, z the cube of the sum is at most 27 times the sum of "
        "the cubes.",
        formula="(x + y + z)³ ≤ 27(x³ + y³ + z³)",
        hypotheses=("x, y, z ≥ 0",),
        kind=Kind.IDENTITY,
        check=_cubes_check,
        mutations=(Mutation("8 in place of 27", partial(_cubes_check, constant=8)),),
    ),
)
