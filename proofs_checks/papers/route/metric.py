"""Section 6.1: the reported imbalance against the minimised one."""

from collections.abc import Sequence
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.search import examine, named, refute
from proofs_checks.step_enumeration import gap, imbalance

CLAIMS = Claims()


def verify_metric(data: Data) -> str | None:
    """Confirm that a lower objective comes with a higher metric."""
    first, second = data["first"], data["second"]
    if len(first) != len(second) or len(first) < 2 or min(*first, *second) < 0:
        return None
    if imbalance(first) >= imbalance(second) or gap(first) <= gap(second):
        return None
    return (
        f"loads {first} and {second}: Σ(max − L_g) is {imbalance(first)} < {imbalance(second)}, "
        f"max − min is {gap(first)} > {gap(second)}"
    )


@CLAIMS.own(
    "route.metric",
    Mutation("two workers, for which they are one", workers=(2,)),
    Mutation("twice the gap in the correction", factor=2),
    defect=Defect.INFERENCE,
    verify=verify_metric,
)
def _metric_check(
    context: Context, *, workers: Sequence[int] = (2, 3), factor: int = 1
) -> Outcome:
    """The metric is not the objective.

    Source: BalanceRoute paper, section 6.1 against section 3.1 (our question)
    Statement: Where the objective, the sum of the distances to the largest load, is less, the
        reported imbalance, max − min, is no more.
    Formula: Σ_g(max − L_g) < Σ_g(max − L′_g)  ⇒  max − min ≤ max′ − min′
    Assumes: loads of the same workers
    Summary: One idle worker counts fully in max − min and once in the sum.
    Reading: the paper calls max − min a proxy, and does not say that they agree.
    Correction: They are within a factor of G − 1: max − min ≤ Σ(max − L_g) ≤ (G − 1)·(max − min).
        What is lost at the barrier in a step is the sum.
    """
    most = context.choose(3, 4, 6)
    loads = {G: list(product(range(most + 1), repeat=G)) for G in workers}
    made = f"all pairs of loads up to {most} of {' and '.join(map(str, workers))} workers"
    printed = refute(
        "less Σ(max − L_g) means no more max − min", made,
        [(a, b) for G in workers for a, b in product(loads[G], repeat=2)],
        verify_metric,
        named("first second"),
        holds=lambda pair: imbalance(pair[0]) >= imbalance(pair[1])
        or gap(pair[0]) <= gap(pair[1]),
    )  # fmt: skip
    corrected = examine(
        "max − min ≤ Σ(max − L_g) ≤ (G − 1)·(max − min)", made,
        [x for G in workers for x in loads[G]],
        lambda x: factor * gap(x) <= imbalance(x) <= (len(x) - 1) * gap(x),
    )  # fmt: skip
    return printed, corrected
