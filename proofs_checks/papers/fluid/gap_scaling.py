"""How the bound on the gap scales in heavy traffic (appendix B.0.1)."""

from itertools import product
from math import sqrt

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.fluid.queues import mean_path, poisson_law, queue_laws
from proofs_checks.papers.fluid.theorem1_bounds import MARGIN
from proofs_checks.search import examine, refute

CLAIMS = Claims()


def verify_scaled(data: Data) -> str | None:
    """Confirm that ``E[W^{ζT}]/(ζT)`` exceeds the display with powers of ζ."""
    rate, duration, scale = data["rate"], data["horizon"], data["scale"]
    if min(rate, scale) < 1 or duration <= rate or scale * duration > 400:
        return None
    mean, printed = scaled_gap(rate, duration, scale), power_bound(rate, duration, scale)
    if mean <= printed + MARGIN:
        return None
    return (
        f"λ = {rate}, T = {duration}, ζ = {scale}: E[W^(ζT)]/(ζT) = {mean:.4f}, more than "
        f"(λ/T)^ζ + λ^(ζ/2)·T^(−ζ/2) = {printed:.4f}"
    )


def scaled_gap(rate: int, duration: int, scale: int) -> float:
    """``E[W^{ζT}]/(ζT)`` of Lemma 1's queue."""
    steps = scale * duration
    return mean_path(queue_laws([poisson_law(rate)] * steps, rate))[-1] / steps


def power_bound(rate: int, duration: int, scale: int) -> float:
    """``(λ/T)^ζ + λ^{ζ/2}·T^{−ζ/2}``."""
    return float((rate / duration) ** scale + (rate / duration) ** (scale / 2))


@CLAIMS.step(
    "fluid.appendix-b-scaling",
    Mutation("factors as printed", power=False),
    Mutation("a quarter of the correction", part=0.25),
    defect=Defect.MISPRINT,
    verify=verify_scaled,
)
def _scaled_check(context: Context, *, power: bool = True, part: float = 1) -> Outcome:
    """Gap of one class under the scaling.

    Source: fluid paper, last display of appendix B.0.1
    Statement: In conventional heavy traffic the gap is at most (λ/T)^ζ + λ^{ζ/2}·T^{−ζ/2}.
    Formula: E[W^{T,ζ}]/T^ζ = (λ/T)^ζ + λ^{ζ/2}·T^{−ζ/2}
    Assumes: W^0 = 0, W' = W + X − λ·1{W + X ≥ λ}; λ < T integers, X^t Poisson(λ)
    Summary: A gap that fell as a power of ζ in the exponent would contradict Lemma 5's √T.
    Reading: '=' as '≤', and the left side at the horizon ζT.
    Correction: λ/(ζT) + √(λ/(ζT)): ζ is a factor of T, as in the display of appendix B.0.2. It
        tends to 0 as ζ^{−1/2}.
    """
    cases = list(product((1, 2), (4, 16), context.choose((2, 4), (2, 4, 8), (2, 4, 8, 16))))

    def linear(case: tuple[int, int, int]) -> float:
        rate, duration, scale = case
        return part * (rate / (scale * duration) + sqrt(rate / (scale * duration)))

    def printed(case: tuple[int, int, int]) -> bool:
        bound = power_bound(*case) if power else linear(case)
        return scaled_gap(*case) <= bound + MARGIN

    as_printed = refute(
        "with powers of ζ",
        "λ = 1, 2, T = 4, 16; laws by convolution",
        cases,
        verify_scaled,
        lambda c: dict(zip(("rate", "horizon", "scale"), c, strict=True)),
        holds=printed,
    )
    corrected = examine(
        "with factors ζ", "the same", cases, lambda c: scaled_gap(*c) <= linear(c) + MARGIN
    )
    return as_printed, corrected
