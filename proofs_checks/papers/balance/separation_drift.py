"""Lemma 5: separation and gap reduction where requests grow by a common increment."""

from collections.abc import Iterator
from dataclasses import dataclass

from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.balance.separation import FORMULA, HYPOTHESES, Step, within
from proofs_checks.search import examine
from proofs_checks.step_enumeration import gap

CLAIMS = Claims()


@dataclass(frozen=True)
class DriftStep:
    """One step with its past: sizes in the slots, which complete, the increment, the pool."""

    sizes: tuple[tuple[int, ...], ...]
    completes: tuple[tuple[bool, ...], ...]
    increment: int
    pool: tuple[int, ...]

    def after_growth(self, shared: bool = True) -> Step:
        """Return the step before admission; without ``shared`` only some requests grow."""
        rows = [
            [
                size + (self.increment if shared or i % 2 else 0)
                for i, (size, ends) in enumerate(zip(row, done, strict=True))
                if not ends
            ]
            for row, done in zip(self.sizes, self.completes, strict=True)
        ]
        return Step(
            tuple(map(sum, rows)), tuple(map(sum, self.completes)), self.pool
        )  # fmt: skip


def _drift_steps(context: Context) -> Iterator[DriftStep]:
    rng = context.rng
    for _ in range(context.choose(150, 1500, 20_000)):
        G = int(rng.integers(2, 4))
        B, done = 3, int(rng.integers(1, 3)) if G == 2 else 1
        # Sizes far above the pool's leave gaps that one admission cannot close.
        sizes = rng.integers(1, 25, (G, B)).tolist()
        pattern = tuple(i < done for i in range(B))
        pool = rng.integers(1, 4, G * done + 3).tolist()
        increment = int(rng.integers(0, 4))
        yield DriftStep(tuple(map(tuple, sizes)), (pattern,) * G, increment, tuple(pool))


@CLAIMS.result(
    "balance.lemma5",
    Mutation("increments that requests do not share (by age)", shared=False),
    formula=FORMULA,
    hypotheses=(*HYPOTHESES, "one increment δ_k ≥ 0 for all requests alive at step k"),
    proof="separation-levels",
)
def _lemma5_check(context: Context, *, shared: bool = True) -> Outcome:
    """Separation and gap reduction under drift.

    Source: BF-IO paper, Lemma 5 (appendix C.3)
    Statement: Lemma 2 holds unchanged if every alive request grows by δ_k at step k.
    Summary: Growth that all requests share shifts every load by Bδ and cancels in A_pre; the rest
        is Lemma 2.
    """
    steps = list(_drift_steps(context))
    unaffected = examine(
        "a common increment leaves the gap as it is",
        "random steps of 2 or 3 workers with 3 requests each and increments 0..3",
        steps,
        lambda s: (
            gap(tuple(map(sum, s.sizes)))
            == gap(
                tuple(
                    sum(
                        a + (s.increment if shared or (g + i) % 2 else 0)
                        for i, a in enumerate(row)
                    )
                    for g, row in enumerate(s.sizes)
                )
            )
        ),
    )
    contracted = examine(
        "D ≤ max{s_max, A_pre − γBp}",
        "the same steps, some requests ending",
        steps,
        lambda s: all(
            gap(loads) <= s.after_growth().bound for loads in s.after_growth().minimisers(gap)
        ),
        lambda s: within(s.after_growth()),
    )
    return unaffected, contracted
