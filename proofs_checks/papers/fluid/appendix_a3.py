"""The constants in the proof of Proposition 4: chance of an overflow, and growth of the queue."""

from collections.abc import Sequence
from fractions import Fraction
from math import exp, factorial

import numpy as np

from bfio.wait.arrivals import poisson_instance
from bfio.wait.policy import StagePolicy
from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import (
    Data,
    Estimate,
    Evidence,
    Findings,
    Outcome,
    Verdict,
    accepted,
    agreed,
)
from proofs_checks.papers.fluid.propositions import EVICTION_RULES, INSTANCE
from proofs_checks.papers.fluid.runs import canonical, reference
from proofs_checks.search import Domain, examine
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


#: Arrivals after which the memory is not exceeded, as printed.
_PRINTED = {(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)}


def loads(first: int, second: int, *, prompts: int = 1) -> tuple[int, int, int]:
    """Return the tokens of the three iterations after the equilibrium's batch.

    One prompt of type 1 then stands before stage 1, two of type 2 before stages 1 and 2: 2 + 2 + 3
    tokens. The next iteration has the arrivals too, at stage 0. Each later one brings (1, 1), as
    it does on average.
    """
    at_once = 2 + 2 + 3 + prompts * (first + second)
    then = 3 + 2 * first + 2 * second + 2 * prompts
    after = 2 + 2 + 3 * second + 2 * prompts
    return at_once, then, after


def is_safe(pair: tuple[int, int], iterations: int, *, prompts: int = 1) -> bool:
    """Whether 9 tokens are not exceeded within some iterations."""
    return max(loads(*pair, prompts=prompts)[:iterations]) <= 9


def verify_overflow(data: Data) -> str | None:
    """Confirm that a pair is safe for two iterations, though not among the printed ones."""
    pair = (data["first"], data["second"])
    if min(pair) < 0 or (is_safe(pair, 2) == (pair in _PRINTED)):
        return None
    at_once, then, _ = loads(*pair)
    return (
        f"arrivals {pair}: {at_once} tokens in the next iteration, {then - 2} in the one after "
        "and what arrives meanwhile, 2 on average: 9 are not exceeded in two iterations"
    )


def _pairs(most: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(most) for b in range(most)]


def _chance(iterations: int, most: int, prompts: int = 1) -> tuple[Fraction, float]:
    """Return ``e²·P(safe)`` and ``P(not safe)``."""
    safe = (pair for pair in _pairs(most) if is_safe(pair, iterations, prompts=prompts))
    weight = sum((Fraction(1, factorial(a) * factorial(b)) for a, b in safe), Fraction(0))
    return weight, 1 - float(weight) * exp(-2)


@CLAIMS.step(
    "fluid.proposition4-overflow",
    Mutation("three iterations as printed", iterations=3),
    Mutation("prompts of 2 tokens in the correction", prompts=2),
    hypotheses=INSTANCE,
    defect=Defect.FORMULA,
    verify=verify_overflow,
)
def _overflow_check(context: Context, *, iterations: int = 2, prompts: int = 1) -> Outcome:
    """Chance that FCFS overflows.

    Source: fluid paper, proof of Proposition 4 (appendix A.3)
    Statement: From the equilibrium batch, memory 9 is exceeded in two iterations unless the
        arrivals are one of (0,0), (1,0), (0,1), (1,1), (2,0); the chance is 0.391.
    Formula: p = 1 − (9/2)·e^{−2} ≈ 0.391
    Summary: (0,2) overflows in the third iteration only, where its two prompts stand before stage
        2 and those that come as on average have joined.
    Reading: iterations after the equilibrium's batch; the second brings one prompt of each type,
        or none.
    Correction: (0,2) is safe as well, so that within two iterations the chance is 1 − 5·e^{−2} ≈
        0.323. The printed five pairs and 0.391 belong to three iterations. Either is a positive
        constant, which is what the proof needs.
    """
    most = context.choose(12, 12, 20)
    pairs = _pairs(most)
    domain = Domain(f"all pairs below {most}", pairs)
    printed = domain.refute(
        "safe for two iterations are (0,0), (1,0), (0,1), (1,1), (2,0) only",
        verify_overflow, lambda pair: {"first": pair[0], "second": pair[1]},
        holds=lambda pair: is_safe(pair, iterations) == (pair in _PRINTED)
    )  # fmt: skip
    six = domain.examine(
        "safe for two are (0,2) too, and for three the printed ones",
        lambda pair: is_safe(pair, 2, prompts=prompts) == (pair in _PRINTED | {(0, 2)})
        and is_safe(pair, 3, prompts=prompts) == (pair in _PRINTED)
    )  # fmt: skip
    two, three = _chance(2, most, prompts), _chance(3, most, prompts)
    values = examine(
        "1 − 5·e^{−2} within two iterations, 1 − (9/2)·e^{−2} within three", "from the safe pairs",
        [(two[0], three[0])], lambda weights: weights == (Fraction(5), Fraction(9, 2)),
    )  # fmt: skip
    return Findings(printed, six, values, numbers={"within two": two[1], "within three": three[1]})


def printed_verdict(estimates: Sequence[Estimate]) -> Verdict:
    """Return a verdict if all rules agree; the printed text leaves the rule open."""
    if len({estimate.accepted for estimate in estimates}) > 1:
        return Verdict.NOT_CHECKABLE
    return accepted(*estimates)


def _shares(
    context: Context, policy: StagePolicy, memory: int, duration: int, runs: int
) -> FloatArray:
    """Return the prompts of type 2 in the system at t, over t."""
    shares = []
    for seed in context.rng.integers(10**9, size=runs).tolist():
        instance = poisson_instance(canonical(memory), duration, seed)
        end = duration * instance.clock.units_per_second
        run = reference(instance, policy, end)
        there = (instance.arrival < end) & ((run.completion < 0) | (run.completion > end))
        shares.append(float((there & (instance.output == 2)).sum()) / duration)
    return np.array(shares)


def _estimates(rule: str, values: FloatArray) -> tuple[Estimate, Estimate]:
    """Return the estimate for the printed bound and that for the corrected one."""
    what = f"prompts of type 2 in the system over t, {rule}"
    printed = mean_estimate(
        f"{what}: printed", values, "upper end at least 0.3", lambda low, high: high >= 0.3
    )
    corrected = mean_estimate(
        f"{what}: corrected", values, "lower end at least 0.05", lambda low, high: low >= 0.05
    )
    return printed, corrected


@CLAIMS.step(
    "fluid.proposition4-queue",
    Mutation("two and a half times the queue", factor=2.5),
    Mutation("memory of 60", memory=60),
    Mutation("one rule only: the youngest go", rules=("the youngest go",)),
    hypotheses=INSTANCE,
    kind=Kind.STATISTICAL,
)
def _queue_check(
    context: Context,
    *,
    memory: int = 9,
    factor: float = 1,
    rules: Sequence[str] = tuple(EVICTION_RULES),
) -> Evidence:
    """Queue of type 2 under FCFS.

    Source: fluid paper, last display of appendix A.3
    Statement: The queue of type 2 at time t is at least 0.3·t.
    Formula: Queue Length_2(t) ≥ 0.3·t
    Reading: on average, all prompts of type 2 in the system counted. No verdict as printed:
        'remove ongoing prompts to accommodate new arrivals' (section 4.3) does not say which, and
        the rules named here lead to either side of 0.3. Those removed wait again in order of
        arrival.
    Correction: It grows at least as 0.05·t under each of the four rules named, which is what
        Proposition 4 needs. The printed argument, one prompt more in two steps with probability
        0.391, gives 0.391/2 = 0.195 per step at most, not 0.3.
    """
    duration, runs = context.choose((100, 12), (300, 16), (3000, 32))
    shares = {r: _shares(context, EVICTION_RULES[r], memory, duration, runs) for r in rules}
    both = [_estimates(rule, factor * values) for rule, values in shares.items()]
    upper, lower = [printed for printed, _ in both], [corrected for _, corrected in both]
    weight, chance = _chance(3, 12)
    argument = examine(
        "half the chance of an overflow is below 0.3",
        "safe pairs of weight w (fluid.proposition4-overflow), w·e^{−2} > w/9", [weight],
        lambda w: (1 - w / 9) / 2 < Fraction(3, 10),
    )  # fmt: skip
    verdict = printed_verdict(upper)
    # Estimates on either side of 0.3 decide nothing about a statement that leaves the rule open.
    deciding = [] if verdict is Verdict.NOT_CHECKABLE else upper
    within = {
        f"if {rule}, 0.3·t is": "within reach" if estimate.accepted else "out of reach"
        for rule, estimate in zip(rules, upper, strict=True)
    }
    return Evidence(
        verdict,
        accepted(*lower) if agreed(argument.tally) is Verdict.HOLDS else Verdict.REFUTED,
        "Whether 0.3 is reached depends on the rule: it is where arrivals may start beside what "
        "is held, and where an overflow clears everything, after which next to nothing completes.",
        (argument.tally,),
        (*lower, *deciding),
        {"t": duration, "by the printed argument": chance / 2, **within},
    )
