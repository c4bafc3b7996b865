"""Appendix C.2.3: predictions between refreshes, and their floor."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.route.estimators import profile
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


# Refresh.
def verify_decrement(data: Data) -> str | None:
    """Compare H less the elapsed steps with the in-window contribution, R known."""
    remaining, horizon, elapsed = data["remaining"], data["horizon"], data["elapsed"]
    if min(remaining, horizon, elapsed) < 1 or elapsed >= min(remaining, horizon):
        return None
    counted, actual = min(remaining, horizon) - elapsed, min(remaining - elapsed, horizon)
    if counted == actual:
        return None
    return (
        f"R = {remaining}, H = {horizon}: ŷ = {min(remaining, horizon)} at a refresh, {counted} "
        f"after {elapsed} token(s), while min(R, H) of the next {horizon} steps is {actual}"
    )


@CLAIMS.remark(
    "route.refresh",
    Mutation("requests that end within the window", inside=True),
    Mutation("twice the shortfall in the correction", share=2),
    defect=Defect.HYPOTHESIS,
    verify=verify_decrement,
)
def _decrement_check(context: Context, *, inside: bool = False, share: int = 1) -> Outcome:
    """One step less per token.

    Source: BalanceRoute paper, appendix C.2.3, periodic refresh
    Statement: Between refreshes ŷ falls by one per generated token, since each elapsed step is one
        less step of in-window contribution.
    Formula: min(R − j, H) = min(R, H) − j
    Assumes: in-window: the next H steps, (4)
    Summary: The window moves on as well: a request that outlasts it contributes to all of its next
        H steps, and is projected to leave within it, up to q − 1 steps early.
    Reading: R known, so that nothing hangs on the predictor. In the toolkit a request that is
        predicted to outlast the window does so until it is predicted again.
    Correction: It holds for requests that end within the window, R ≤ H, or for the window that was
        current at the refresh. Else ŷ is min{j, R − H} too small after j tokens.
    """
    most = context.choose(6, 10, 20)
    cases = [
        {"remaining": r, "horizon": h, "elapsed": j}
        for r, h in product(range(1, most), repeat=2)
        for j in range(1, min(r, h))
        if not inside or r <= h
    ]
    domain = Domain(
        f"remaining steps and windows below {most}, all elapsed steps before the end of either",
        cases,
    )
    printed = domain.refute("min(R − j, H) = min(R, H) − j", verify_decrement)

    def short(case: Data) -> bool:
        r, h, j = case["remaining"], case["horizon"], case["elapsed"]
        return bool(min(r - j, h) - (min(r, h) - j) == share * min(j, max(0, r - h)))

    corrected = domain.examine(
        "min(R − j, H) = min(R, H) − j + min{j, (R − H)^+}: exact where R ≤ H", short
    )
    return printed, corrected


# The floor.
def projected(remaining: int, told: int, refresh: int, floor: int) -> Iterator[int]:
    """Yield ŷ at each step of a request whose predictor always tells the same.

    Asked at first, after every ``refresh`` tokens, and where the floor is crossed.
    """
    value = told
    for step in range(remaining):
        if step and step % refresh == 0:
            value = told
        elif step:
            value -= 1
            if value < floor:
                value = max(told, floor)
        yield max(value, floor)


@CLAIMS.remark("route.floor", Mutation("a floor of 0", floor=0))
def _floor_check(context: Context, *, floor: int = 1) -> Outcome:
    """The floor of one step.

    Source: BalanceRoute paper, appendix C.2.3, floor
    Statement: While a request is active ŷ is bounded below by 1, so that it is never dropped from
        the projection while it consumes work.
    Formula: y ≥ 1  ⇒  w(0) = s + a
    Assumes: crossing the floor triggers a refresh
    Summary: As it says; for predictions that are too early, too late or 0.
    """
    most = context.choose(6, 9, 14)
    cases = list(product(range(1, most), range(most), range(1, most)))
    return examine(
        "as long as a request runs, (7) gives it its load at h = 0",
        f"remaining steps, predictions and refreshes below {most}",
        cases,
        lambda case: all(
            profile(1, Fraction(value), 1) == [1] for value in projected(*case, floor)
        ),
    )
