"""Two inequalities for the mean of a maximum: before equation (16), and in equation (49)."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import prod

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.search import Domain

CLAIMS = Claims()


#: Independent variables, each uniform on its values, and t.
LoadsAndLevel = tuple[tuple[tuple[int, ...], ...], int]


def _means(variables: Sequence[Sequence[int]]) -> list[Fraction]:
    return [Fraction(sum(values), len(values)) for values in variables]


def expected_maximum(variables: Sequence[Sequence[int]]) -> Fraction:
    """``E max_i X_i``."""
    outcomes = list(product(*variables))
    return Fraction(sum(map(max, outcomes)), len(outcomes))


def chance_of_excess(variables: Sequence[Sequence[int]], t: int) -> Fraction:
    """``P(max_i (X_i − E X_i) ≥ t)``."""
    missed = [
        Fraction(sum(v - centre < t for v in values), len(values))
        for values, centre in zip(variables, _means(variables), strict=True)
    ]
    return 1 - prod(missed, start=Fraction(1))


def left_out(variables: Sequence[Sequence[int]]) -> Fraction:
    """``E[(X_1 − a_1)⁻]·Π_{i>1} P(X_i < a_i)``: what a maximum below its mean can cost.

    If ``max_i (X_i − a_i)`` is negative then all are, and it is no lower than ``X_1 − a_1``.
    """
    centres = _means(variables)
    below = [
        [centre - v for v in values if v < centre]
        for values, centre in zip(variables, centres, strict=True)
    ]
    others = (Fraction(len(b), len(v)) for b, v in zip(below[1:], variables[1:], strict=True))
    return sum(below[0], Fraction(0)) / len(variables[0]) * prod(others, start=Fraction(1))


def _described(variables: Sequence[Sequence[int]], t: int, right: Fraction) -> str:
    chance = chance_of_excess(variables, t)
    return (
        f"loads uniform on {[list(v) for v in variables]}, t = {t}: E max = "
        f"{expected_maximum(variables)}, but the right-hand side is {right} "
        f"(the probability is {chance})"
    )


def _sound(variables: Sequence[Sequence[int]], t: int) -> bool:
    """Independent loads that vary, each uniform on distinct positive values."""
    return (
        len(variables) >= 2
        and t >= 1
        and all(len(v) >= 2 and len(set(v)) == len(v) and min(v) >= 1 for v in variables)
        and prod(map(len, variables)) <= 10**6
    )


# One law for all loads: before eq. (16).


def verify_maximum(data: Data) -> str | None:
    """Confirm ``E max_g S_g < a + t·P(max_g (S_g − a) ≥ t)`` for loads of one law, exactly."""
    variables, t = [data["values"]] * data["workers"], data["t"]
    if not _sound(variables, t):
        return None
    right = _means(variables)[0] + t * chance_of_excess(variables, t)
    return None if expected_maximum(variables) >= right else _described(variables, t, right)


def _alike(context: Context) -> Iterator[LoadsAndLevel]:
    largest = context.choose(4, 6, 7)
    for count in range(2, largest + 1):
        for values in combinations(range(1, largest + 1), count):
            for workers, t in product((2, 3), range(1, largest)):
                yield (values,) * workers, t


def _alike_data(case: LoadsAndLevel) -> Data:
    variables, t = case
    return {"values": list(variables[0]), "workers": len(variables), "t": t}


@CLAIMS.step(
    "balance.maximum",
    Mutation("loads not centred, so never negative", non_negative=True),
    Mutation("the term left out of the correction", with_correction=0),
    defect=Defect.FORMULA,
    verify=verify_maximum,
)
def _maximum_check(
    context: Context, *, with_correction: int = 1, non_negative: bool = False
) -> Outcome:
    """The elementary inequality for the maximum.

    Source: BF-IO paper, before eq. (16) (appendix C.1), and in appendix C.2
    Statement: For any t > 0 the mean of the largest centred load is at least t times the
        probability that it reaches t.
    Formula: E[max_g (S_g − μB)] ≥ t·P(max_g (S_g − μB) ≥ t)
    Assumes: G ≥ 2 loads S_g, independent and of one law with mean μB
    Summary: The maximum may be negative, and the inequality leaves that part out; for one worker
        it would say 0 ≥ t·P(X ≥ t). The corrected one is sharp: loads a ± t with equal chances
        meet it with equality, for any number of workers.
    Correction: E[max] ≥ t·P(max ≥ t) − E[(S_1 − μB)⁻]·P(S_1 < μB)^{G−1}. The maximum is negative
        only if all loads lie below their mean, and they are independent, so the missing term is at
        most σ_s√B/2·P(S_1 < μB)^{G−1}: exponentially small in G. Eq. (16) survives with a smaller
        constant, and by exact computation (balance.eq16) with the printed one.
    """
    cases = list(_alike(context))
    domain = Domain("loads uniform on every set of small values, 2 or 3 workers, all t", cases)

    def printed_holds(case: LoadsAndLevel) -> bool:
        variables, t = case
        if non_negative:
            # Without centring the loads are positive, and the inequality is Markov's.
            share = Fraction(sum(max(x) >= t for x in product(*variables)))
            return expected_maximum(variables) >= t * share / prod(map(len, variables))
        return (
            verify_maximum({"values": list(variables[0]), "workers": len(variables), "t": t})
            is None
        )

    tight = 0

    def corrected_holds(case: LoadsAndLevel) -> bool:
        nonlocal tight
        variables, t = case
        right = _means(variables)[0] + t * chance_of_excess(variables, t)
        room = expected_maximum(variables) - right + with_correction * left_out(variables)
        tight += room == 0
        return room >= 0

    printed = domain.refute("printed inequality", verify_maximum, _alike_data, holds=printed_holds)
    corrected = domain.examine("with the correction term", corrected_holds)
    return Findings(
        printed, corrected, numbers={"instances that meet the corrected one with equality": tight}
    )


# Loads of different means: eq. (49).


def verify_family(data: Data) -> str | None:
    """Confirm ``E max_i X_i < max_i a_i + t·P(max_i (X_i − a_i) ≥ t)``, exactly."""
    variables, t = data["variables"], data["t"]
    # The loads of a family with one mean are the matter of balance.maximum.
    if not _sound(variables, t) or len(set(_means(variables))) == 1:
        return None
    right = max(_means(variables)) + t * chance_of_excess(variables, t)
    return None if expected_maximum(variables) >= right else _described(variables, t, right)


def _families(context: Context, alike: bool) -> Iterator[LoadsAndLevel]:
    largest = context.choose(5, 6, 8)
    laws = list(combinations(range(1, largest + 1), 2))
    for variables in product(laws, repeat=2):
        if alike and variables[0] != variables[1]:
            continue
        for t in range(1, largest):
            yield variables, t


@CLAIMS.step(
    "balance.eq49",
    Mutation("the largest mean in the correction", floor=False),
    Mutation("the term left out of the correction", with_correction=0),
    Mutation("one law for both loads", alike=True),
    defect=Defect.FORMULA,
    verify=verify_family,
)
def _family_check(
    context: Context, *, alike: bool = False, floor: bool = True, with_correction: int = 1
) -> Outcome:
    """The inequality for loads of different means.

    Source: BF-IO paper, eq. (49) (appendix C.3)
    Statement: For any family {X_i} with means a_i and any t > 0 the mean of the maximum is at
        least the largest mean plus t times the probability that some X_i exceeds its own mean by
        t.
    Formula: E[max_i X_i] ≥ max_i a_i + t·P(max_i (X_i − a_i) ≥ t),  a_i = E[X_i]
    Assumes: any family of random variables; t > 0
    Summary: That some load exceeds its own mean by t says nothing of the maximum if its mean is
        low: a load of 100 and one of 20 ± 1 have the maximum 100.
    Reading: the counterexamples are independent, as the loads are; a family with one mean is left
        to balance.maximum.
    Correction: E[max_i X_i] ≥ min_i a_i + t·P(max_i (X_i − a_i) ≥ t) − E[(X_1 − a_1)⁻]·Π_{i>1}
        P(X_i < a_i) for independent X_i. Loads that begin with fresh prompts all have one mean,
        and then this is balance.maximum; from any other start the means draw together like (1 −
        p)^k, so the time average in Theorem 3 keeps its order.
    """
    cases = list(_families(context, alike))
    domain = Domain("two independent loads, each uniform on two small values, all t", cases)
    printed = domain.refute(
        "E max X ≥ max a + t·P(max (X − a) ≥ t)",
        verify_family,
        lambda c: {"variables": [list(v) for v in c[0]], "t": c[1]},
    )

    def corrected_holds(case: LoadsAndLevel) -> bool:
        variables, t = case
        level = (min if floor else max)(_means(variables))
        right = level + t * chance_of_excess(variables, t)
        return expected_maximum(variables) >= right - with_correction * left_out(variables)

    corrected = domain.examine("from min a, with the correction term", corrected_holds)
    return printed, corrected
