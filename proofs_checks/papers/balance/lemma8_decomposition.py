"""Steps of the proof of Lemma 8: the decomposition of a slot's size, and the cube of a sum."""

from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


# The decomposition, after one step: H is δ_1 with probability 1 − p, else 0.


def _means(data: Data) -> tuple[Fraction, Fraction]:
    """``μ_s`` and ``E H``."""
    prompts = data["prompts"]
    survival = 1 - Fraction(data["tenths"], 10)
    return Fraction(sum(prompts), len(prompts)), survival * data["increment"]


def verify_decomposition(data: Data) -> str | None:
    """Evaluate both sides of the printed identity after the first step of a slot."""
    prompts, prompt, increment = data["prompts"], data["prompt"], data["increment"]
    if len(prompts) < 2 or len(set(prompts)) < len(prompts) or prompt not in prompts:
        return None
    if min(prompts) < 1 or increment < 0 or not 1 <= data["tenths"] <= 9:
        return None
    growth = increment if data["survives"] == 1 else 0
    mean_s, mean_h = _means(data)
    left = prompt + growth - (mean_s + mean_h)
    right = (prompt - mean_s) + (growth - mean_h) + (mean_s - (mean_s + mean_h))
    if left == right:
        return None
    return (
        f"prompts uniform on {prompts}, p = {data['tenths']}/10, δ_1 = {increment}, k = 1, a "
        f"prompt of {prompt} that {'has grown' if growth else 'is new'}: Y − E[Y] = {left}, the "
        f"right-hand side = {right}"
    )


@CLAIMS.step(
    "balance.lemma8-decomposition",
    Mutation("no growth, H = 0", increments=0),
    Mutation("the second term dropped from the correction", terms=1),
    defect=Defect.FORMULA,
    verify=verify_decomposition,
)
def _decomposition_check(context: Context, *, increments: int = 2, terms: int = 2) -> Outcome:
    """Decomposition of a slot's size.

    Source: BF-IO paper, proof of Lemma 8 (appendix C.3)
    Statement: Y(k) − E[Y(k)] = (S_cur − μ_s) + (H − E[H]) + (μ_s − E[Y(k)]).
    Formula: Y − EY = (S − μ_s) + (H − EH) + (μ_s − EY)
    Assumes: Y = S + H; S and H independent; Var(S) > 0
    Summary: The third term is −E[H], one too many.
    Correction: Without the third term: Y − EY = (S − μ_s) + (H − EH). The bound on the third
        moment needs no more, and the constant C_3 gets smaller.
    """
    largest = context.choose(3, 5, 8)
    cases = [
        {"prompts": [1, other], "tenths": tenths, "increment": increment, "prompt": prompt,
         "survives": survives}
        for other in range(2, largest + 1)
        for tenths, increment in product((1, 5, 9), range(increments + 1))
        for prompt in (1, other)
        for survives in (0, 1)
    ]  # fmt: skip
    domain = Domain(
        f"slots with two prompts up to {largest} and increments up to {increments} after a step",
        cases,
    )
    printed = domain.refute("Y − EY = (S − μ_s) + (H − EH) + (μ_s − EY)", verify_decomposition)

    def two_terms(case: Data) -> bool:
        mean_s, mean_h = _means(case)
        growth = case["increment"] * case["survives"]
        parts = [case["prompt"] - mean_s, growth - mean_h][:terms]
        return bool(sum(parts) == case["prompt"] + growth - mean_s - mean_h)

    corrected = domain.examine("Y − EY = (S − μ_s) + (H − EH)", two_terms)
    return printed, corrected


# The cube.


@CLAIMS.step("balance.lemma8-cubes", Mutation("8 in place of 27", constant=8), kind=Kind.IDENTITY)
def _cubes_check(context: Context, *, constant: int = 27) -> Outcome:
    """Cube of a sum of three.

    Source: BF-IO paper, proof of Lemma 8 (appendix C.3)
    Statement: For non-negative x, y, z the cube of the sum is at most 27 times the sum of the
        cubes.
    Formula: (x + y + z)³ ≤ 27(x³ + y³ + z³)
    Assumes: x, y, z ≥ 0
    Summary: 9 would do (power means), with equality at x = y = z; 27 is safe.
    """
    largest = context.choose(6, 12, 30)
    return examine(
        "(x + y + z)³ ≤ 27(x³ + y³ + z³)",
        f"all integers 0..{largest}",
        product(range(largest + 1), repeat=3),
        lambda x: sum(x) ** 3 <= constant * sum(v**3 for v in x),
    )
