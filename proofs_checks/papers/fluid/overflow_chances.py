"""Equations (12) and (15): the probability that the memory of Theorems 2 to 4 is exceeded."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import floor, log

import numpy as np

from formulations.arrays import FloatArray
from formulations.thresholds import drift_exponent
from proofs_checks.claim import C, Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.equilibrium import printed_policy_memory
from proofs_checks.papers.fluid.full_batch import full_batch
from proofs_checks.papers.fluid.queues import binomial_law
from proofs_checks.search import Domain, plain

CLAIMS = Claims()

#: Batches between changes of rates.
_PERIOD = 7


@dataclass(frozen=True)
class TwoSegments:
    """Two segments; segment 1 ends at stage ``output``, segment 2 has ``width`` stages.

    Parameters
    ----------
    prompt, output, width : int
        ``l``, last stage of segment 1, stages of segment 2.
    thresholds : tuple of int
        ``n_1 > n_2 > n_1 P_2``.
    rates : tuple of (int, int)
        Relative rates of the types of segments 1 and 2. Several pairs alternate, each for some
        batches. Absolute rates are low enough for the first part of (10).
    batches : int
        ``S``.
    inverse : int
        ``1/δ``.
    """

    prompt: int
    output: int
    width: int
    thresholds: tuple[int, int]
    rates: tuple[tuple[int, int], ...]
    batches: int
    inverse: int

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """``P_2`` of each pair of rates."""
        return tuple(Fraction(go, stay + go) for stay, go in self.rates)

    @property
    def full(self) -> int:
        """Tokens of a full batch."""
        return full_batch((self.prompt, (self.output, self.output + self.width), self.thresholds))

    @property
    def applies(self) -> bool:
        """Whether ``n_1 > n_2 > n_1 P_2`` for the largest P_2, segments fill, and rates change."""
        first, second = self.thresholds
        fills = self.batches > self.output + self.width + _PERIOD * (len(self.rates) - 1)
        return first > second > first * max(self.shares) and fills

    def allowance(self, count: int) -> float:
        """``n_2 + ln(count·S/δ)/θ_2``: the queue that (12) allows for."""
        theta = drift_exponent(*self.thresholds, max(self.shares))
        return self.thresholds[1] + log(count * self.batches * self.inverse) / theta

    def arrivals(self) -> Iterator[FloatArray]:
        """Yield the laws of the transfers to segment 2 within S batches."""
        laws = [binomial_law(self.thresholds[0], float(share)) for share in self.shares]
        # The first l'_1 + 1 batches fill segment 1; the transfer of the last batch comes too late.
        for s in range(self.batches - self.output - 1):
            yield laws[(s // _PERIOD) % len(laws)]

    def exceeds(self, limit: float, *, when_full: bool) -> float:
        """Return ``P(W_2 > limit at some batch)`` over S batches, by convolution.

        Parameters
        ----------
        limit : float
            Limit on the queue that is left after forming a batch.
        when_full : bool
            Count only batches at which all stages of segment 2 are full: the segment has been
            served as often before as it has further stages.
        """
        second, kept = self.thresholds[1], max(0, floor(limit) + 1)
        cold = self.width - 1 if when_full else 0
        laws = [np.zeros(1) for _ in range(cold + 1)]
        laws[0] = np.ones(1)
        for arrival in self.arrivals():
            come = [np.convolve(law, arrival) for law in laws]
            left = [there[:second] for there in come]
            served = [there[second:] for there in come]
            served[cold] = served[cold][:kept]
            for k in range(cold):
                left[k + 1] = _added(left[k + 1], served[k])
            laws = [*left[:cold], _added(left[cold], served[cold])]
            if not when_full:
                laws[0] = laws[0][:kept]
        return 1 - float(sum(law.sum() for law in laws))


def _added(first: FloatArray, second: FloatArray) -> FloatArray:
    total = np.zeros(max(len(first), len(second), 1))
    total[: len(first)] += first
    total[: len(second)] += second
    return total


def verify_overflow(data: Data, *, varying: bool) -> str | None:
    """Confirm that the memory of (12) with (11) is exceeded with probability above 2δ."""
    case = TwoSegments(
        data["prompt"], data["output"], 1, tuple(data["thresholds"]),
        tuple((stay, go) for stay, go in data["rates"]), data["batches"], data["inverse"],
    )  # fmt: skip
    if len(case.thresholds) != 2 or len(case.rates) != 1 + varying or case.batches > 400:
        return None
    if min(case.prompt, case.output, *case.thresholds, *(min(pair) for pair in case.rates)) < 1:
        return None
    if case.inverse < _INVERSE or len(set(case.shares)) != len(case.rates) or not case.applies:
        return None
    chance = printed_chance(case)
    if chance <= 2 / case.inverse:
        return None
    queue = (case.prompt + case.output) * case.allowance(2)
    by_the_words = case.exceeds(case.allowance(2), when_full=True)
    shares = ", ".join(map(str, case.shares))
    return (
        f"l' = ({case.output}, {case.output + 1}), P_2 = {shares}, n = {case.thresholds}, δ = "
        f"1/{case.inverse}: (12) with (11) gives {float(_printed(case)) + queue:.2f}; a full "
        f"batch alone has {case.full}, and within {case.batches} batches more than the memory is "
        f"needed with probability {chance:.3f} at least (more than {case.full + queue:.2f}, which "
        f"is (12) with a full batch for M^π, with probability {by_the_words:.1g})"
    )


#: δ is at most 1/10.
_INVERSE = 10


def _printed(case: TwoSegments) -> Fraction:
    return printed_policy_memory(
        case.prompt, (case.output, case.output + case.width), case.thresholds
    )


def printed_chance(case: TwoSegments) -> float:
    """Return a lower bound on the probability that the memory of (12) with (11) is exceeded."""
    spare = float(_printed(case) - case.full)
    return case.exceeds(case.allowance(2) + spare / (case.prompt + case.output), when_full=True)


def buffer_suffices(case: TwoSegments, *, buffer: float = 1) -> bool:
    """Whether W_2 stays within ``n_2 + ln(S/δ)/θ_2`` with probability at least 1 − δ."""
    limit = case.thresholds[1] + buffer * (case.allowance(1) - case.thresholds[1])
    return case.exceeds(limit, when_full=False) <= 1 / case.inverse


def _two_segments(
    context: Context, rates: Sequence[tuple[tuple[int, int], ...]]
) -> list[TwoSegments]:
    return [
        TwoSegments(prompt, output, 1, thresholds, pairs, batches, _INVERSE)
        for prompt, output, thresholds, pairs, batches in product(
            (1, 5), (1, 2), ((2, 1), (4, 3), (10, 9), (6, 4)), rates,
            context.choose((60,), (60, 300), (60, 300, 1000)),
        )
    ]  # fmt: skip


def _check(
    context: Context,
    *,
    rates: Sequence[tuple[tuple[int, int], ...]],
    verify: Callable[[Data], str | None],
    buffer: float = 1,
    fixed: bool = False,
) -> Outcome:
    cases = _two_segments(context, rates)
    domain = Domain(
        "l = 1, 5, l'_1 = 1, 2, four pairs of thresholds, some P_2, δ = 1/10; by convolution",
        cases,
    )

    def printed(case: TwoSegments) -> bool:
        if fixed:
            return case.exceeds(case.allowance(2), when_full=True) <= 1 / case.inverse
        return printed_chance(case) <= 2 / case.inverse

    suffices = partial(buffer_suffices, buffer=buffer)
    as_printed = domain.refute(
        "exceeded with probability at most δ, or even 2δ",
        verify,
        lambda c: {name: part for name, part in plain(c).items() if name != "width"},
        holds=printed,
        applies=lambda c: c.applies,
    )
    corrected = domain.examine("with the memory of a full batch", suffices, lambda c: c.applies)
    return Findings(
        as_printed,
        corrected,
        summary="For two segments (11) lacks so much that the buffer cannot make up for it. With "
        "the full batch's memory, (m − 1)S in the logarithm is enough.",
    )


def _claim(
    claim_id: str, rates: Sequence[tuple[tuple[int, int], ...]], *, varying: bool
) -> Callable[[C], C]:
    """Claim the memory of a theorem for these rates of segments 1 and 2."""
    verify = partial(verify_overflow, varying=varying)
    return CLAIMS.result(
        claim_id,
        Mutation("an eighth of the deviation in the correction", buffer=0.125),
        Mutation("the full batch's memory as printed", fixed=True),
        check=partial(_check, rates=rates, verify=verify),
        defect=Defect.FORMULA,
        verify=verify,
    )


@_claim("fluid.theorem2-memory", (((9, 1),), ((1, 1),), ((3, 2),)), varying=False)
def _theorem2_memory() -> None:
    """Memory that suffices with probability 1 − δ.

    Source: fluid paper, Theorem 2 (section 5.2)
    Statement: With thresholds that satisfy (10) and the memory of (12), θ_j of (16), memory is not
        exceeded on [0, T] with probability at least 1 − δ.
    Formula: M ≥ M^π + Σ_{j≥2} (l + l'_{j−1})(n_j + θ_j^{−1}·ln(mS/δ))
    Assumes: l'_1 < ... < l'_m; one prompt length l; n_{j−1} > n_j > n_{j−1}p_j, so that (16) has a
        root; M^π of (11); δ ≤ 1/10
    Reading: S batches, few enough for [0, T]; arrivals slow enough for the first part of (10). The
        refutation is of the sum (11), which appendix C repeats. By the words before it, 'exactly
        n_i prompts per stage', M^π is that of a full batch, and the statement holds, as corrected.
    Correction: With M^π the memory of a full batch; ln((m−1)S/δ), as in appendix C, is enough. (If
        n_j ≥ n_{j−1}, (16) has no root and fewer than n_j ever wait: no deviation is needed.) S
        must be a bound on the number of batches that is known beforehand.
    """


@_claim(
    "fluid.theorem3-memory",
    (((9, 1), (3, 1)), ((3, 1), (1, 1)), ((1, 1), (3, 2))),
    varying=True,
)
def _theorem3_memory() -> None:
    """Memory that suffices with probability 1 − δ, rates varying in time.

    Source: fluid paper, Theorem 3 (section 7.1)
    Statement: With thresholds that satisfy (13) and the memory of (12), θ_j of (17), memory is not
        exceeded on [0, T] with probability at least 1 − δ.
    Formula: M ≥ M^π + Σ_{j≥2} (l + l'_{j−1})(n_j + θ_j^{−1}·ln(mS/δ))
    Assumes: l'_1 < ... < l'_m; one prompt length l; n_{j−1} > n_j > n_{j−1}p_j*, so that (17) has
        a root; M^π of (11); δ ≤ 1/10
    Reading: S batches, few enough for [0, T]; arrivals slow enough for the first part of (13). The
        refutation is of the sum (11), which appendix C repeats. By the words before it, 'exactly
        n_i prompts per stage', M^π is that of a full batch, and the statement holds, as corrected.
        Rates that change slowly between two levels: P_2 is one of two values, the larger for at
        least seven batches at a time.
    Correction: With M^π the memory of a full batch; ln((m−1)S/δ), as in appendix C, is enough. (If
        n_j ≥ n_{j−1}, (17) has no root and fewer than n_j ever wait: no deviation is needed.) S
        must be a bound on the number of batches that is known beforehand.
    """
