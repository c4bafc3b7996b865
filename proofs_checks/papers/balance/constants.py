"""Constants of the proof of Theorem 1, and the laws of prompts that exact claims use."""

from math import ceil, exp, pi, sqrt

from formulations.arrays import FloatArray
from proofs_checks.laws import law

#: The proof's constants.
C1 = 1 - exp(-1 / (4 * sqrt(2 * pi)))
C = C1 / sqrt(2)
#: Smallest G with log G ≥ 4.
LEAST_G = ceil(exp(4))


def prompt_laws() -> dict[str, FloatArray]:
    """Laws of prompts that the exact computations use, by name."""
    return {
        "uniform on 1..10": law(range(1, 11)),
        "1 or 10": law([1, 10]),
        "1 (90 %) or 10": law([1, 10], [0.9, 0.1]),
        "10 (90 %) or 1": law([1, 10], [0.1, 0.9]),
    }
