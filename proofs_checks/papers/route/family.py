"""BR-0 as a special case of BR-H: the toolkit's two-stage heuristic against enumerated BR-0."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage_reference
from formulations.arrays import IntArray
from proofs_checks.claim import Claims, Context, Effort, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.route.br0 import (
    Key,
    Rules,
    decision,
    decisions,
    free_then_margin,
    free_then_small_margin,
)
from proofs_checks.search import examine

CLAIMS = Claims()


#: Decides from free slots, loads, sizes, window weights and parameters.
Router = Callable[
    [IntArray, IntArray, IntArray, tuple[int, ...], TwoStageParameters], list[int | None] | None
]


@dataclass(frozen=True)
class RandomStep:
    """A step: free slots, loads and sizes [tokens], threshold, candidates."""

    free: tuple[int, ...]
    loads: tuple[int, ...]
    sizes: tuple[int, ...]
    threshold: int
    candidates: int


@dataclass(frozen=True)
class Break:
    """Changes made by a mutation, in BR-H (factors) or in BR-0 (the rest)."""

    beta: int = 0
    threshold: int = 0
    candidates: int | None = None
    key: Key = free_then_margin


_INTACT = Break()


def _cases(context: Context) -> Iterator[RandomStep]:
    rng = context.rng
    for n in range(context.choose(150, 1500, 20_000)):
        G, N = int(rng.integers(1, 4)), int(rng.integers(1, 7))
        # Every other step has few distinct numbers, so that keys, margins and scores tie.
        load, size = ((30, 12), (3, 4))[n % 2]
        yield RandomStep(
            tuple(rng.integers(0, 4, G).tolist()),
            tuple(rng.integers(0, load, G).tolist()),
            tuple(rng.integers(1, size, N).tolist()),
            int(rng.integers(0, 5)),
            (6, 6, 2, 3)[n % 4],
        )


def _two_routers(case: RandomStep, broken: Break, route: Router) -> list[list[int | None] | None]:
    """Return BR-H's decisions with the defaults, and with explicit α, β and discount."""
    arrays = (
        np.array(case.free, dtype=np.int64),
        np.array(case.loads, dtype=np.int64)[:, None],
        np.array(case.sizes, dtype=np.int64)[:, None],
    )
    explicit = TwoStageParameters(
        threshold=case.threshold,
        candidates=case.candidates,
        alpha=Fraction(1),
        beta=Fraction(len(case.free) + broken.beta),
    )
    # At most six requests wait, so without a limit all are candidates.
    limit = None if case.candidates == 6 else case.candidates
    default = TwoStageParameters(threshold=case.threshold, candidates=limit)
    # A discount has no effect if there is only one step.
    return [route(*arrays, (1,), default), route(*arrays, (7,), explicit)]


def _decides_as_by_hand(case: RandomStep, broken: Break, route: Router) -> bool:
    rules = Rules(
        case.threshold + broken.threshold, broken.candidates or case.candidates, broken.key
    )
    allowed = decisions(case.free, case.loads, case.sizes, rules)
    one, other = _two_routers(case, broken, route)
    return (
        one is not None and one == other and decision(one, case.sizes, len(case.free)) in allowed
    )


def _routers(context: Context) -> Iterator[tuple[str, Router]]:
    yield "readable", two_stage_reference
    if context.effort is not Effort.QUICK:
        # Loading the compiled kernels takes too long for quick effort, and for listing claims.
        from bfio.step.two_stage.kernels.decide import two_stage_compiled

        yield "compiled", two_stage_compiled


@CLAIMS.remark(
    "route.family",
    Mutation("β = G + 3", broken=Break(beta=3)),
    Mutation("≥ θ in place of > θ", broken=Break(threshold=-1)),
    Mutation("one candidate in stage 2", broken=Break(candidates=1)),
    Mutation(
        "the smallest margin first among workers with equally many free slots",
        broken=Break(key=free_then_small_margin),
    ),
)
def _family_check(context: Context, *, broken: Break = _INTACT) -> Outcome:
    """BR-0 is BR-H with H = 0.

    Source: BalanceRoute paper, sections 3.2 and 4, and contributions
    Statement: With H = 0, α = 1 and β = G the two-stage algorithm of BR-H takes the decisions of
        BR-0, whatever the discount.
    Formula: F_0(S, g; α = 1, β = G) = F(S, g)
    Assumes: the same threshold and candidates
    Summary: With H = 0, α = 1, β = G the score of BR-H is that of BR-0. BR-0 is written from the
        paper's text for this check and shares nothing with the toolkit's.
    Reading: what the paper leaves open, as in the toolkit's description: the queue's key is free
        slots, then margin, then index, in both stages; the candidates are the largest waiting
        requests; where no subset has a positive score, the best single request of all that wait
        goes. Requests of one size, and sets of equal score, are exchangeable.
    """
    cases = list(_cases(context))
    seen = [
        examine(
            f"BR-H takes a decision of BR-0 by hand ({name} version), with the defaults and with "
            "α, β and a discount written out",
            "random steps of up to 3 workers and 6 requests, any threshold, every other one with "
            "many ties; all choices among equal scores followed",
            cases,
            partial(_decides_as_by_hand, broken=broken, route=route),
        )
        for name, route in _routers(context)
    ]
    return tuple(seen)
