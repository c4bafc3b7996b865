"""Lemma 2 for the policy that section 4 defines: minimisers of the imbalance, not of the gap."""

from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement

from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.balance.separation import (
    FORMULA,
    HYPOTHESES,
    Step,
    domain,
    small_steps,
    step_of,
    within,
)
from proofs_checks.search import corrected_evidence, examine
from proofs_checks.step_enumeration import gap, imbalance, multisets

# The same statement for the program the policy solves.


def verify_program(data: Data) -> str | None:
    """Confirm that no minimiser of the imbalance meets the lemma's bound."""
    step = step_of(data)
    if step is None or not within(step):
        return None
    found = step.minimisers(imbalance)
    if any(gap(loads) <= step.bound for loads in found):
        return None
    return (
        f"the minimisers of the imbalance have the loads {[list(x) for x in found]}, gaps "
        f"{[gap(x) for x in found]}, all above the bound {step.bound}"
    )


def _program_check(context: Context, *, workers: int = 3, factor: int = 1) -> Evidence:
    from proofs_checks.separation_search import violating_step

    largest, spread = context.choose((11, 12), (12, 14), (14, 20))
    data = violating_step(workers, workers + 2, largest, spread, int(context.rng.integers(2**31)))
    printed = examine(
        "D ≤ max{s_max, A_pre − γBp} for some minimiser of (IO)",
        f"one integer program over all overloaded steps of {workers} workers with one free slot, "
        f"{workers + 2} sizes up to {largest} and loads up to {spread}: feasible iff one breaks "
        "it",
        [data],
        lambda found: found is None,
    )
    corrected = examine(
        "Imbalance ≤ (G − 1)·max{s_max, A_pre − γBp} for every minimiser of (IO)",
        f"{domain(context)}; and the step found above",
        [*small_steps(context), *([step_of(data)] if data else [])],
        lambda step: (
            step is not None
            and all(
                factor * imbalance(loads) <= (len(loads) - 1) * step.bound
                for loads in step.minimisers(imbalance)
            )
        ),
        lambda step: step is not None and within(step),
    )
    return corrected_evidence(
        printed,
        corrected,
        verify_program,
        lambda found: dict(found or {}),
        "Algorithm 1 minimises the imbalance, the proof the gap. With three workers the program "
        "may prefer large requests on two heavy workers to a smaller gap.",
    )


# Does the program minimise the gap?


def verify_objective(data: Data) -> str | None:
    """Confirm that no minimiser of the imbalance has the least gap."""
    step = step_of(data)
    if step is None:
        return None
    best = min(gap(x) for x in step.minimisers(gap))
    reached = sorted({gap(x) for x in step.minimisers(imbalance)})
    if best in reached:
        return None
    return f"the least gap is {best}; minimisers of the imbalance have {reached}"


def _objective_check(
    context: Context, *, workers: int = 3, factor: Callable[[int], int] = lambda G: G - 1
) -> Evidence:
    largest, spread = context.choose((5, 1), (6, 4), (8, 8))
    # Workers are alike: loads in falling order are enough.
    steps = [
        Step((*base, 0), (1,) * G, pool)
        for G in (2, 3)
        if workers >= G
        for pool in multisets(G + 1, largest)
        for base in combinations_with_replacement(range(spread, -1, -1), G - 1)
    ]
    made = f"every step with one free slot per worker, one spare request, sizes up to {largest}"
    printed = examine(
        "some minimiser of (IO) minimises D", made, steps,
        lambda s: min(map(gap, s.minimisers(imbalance))) == gap(s.minimisers(gap)[0]),
    )  # fmt: skip
    corrected = examine(
        "the gap of every minimiser of (IO) is at most (G − 1) times the least gap", made, steps,
        lambda s: max(map(gap, s.minimisers(imbalance)))
        <= factor(len(s.slots)) * gap(s.minimisers(gap)[0]),
    )  # fmt: skip
    return corrected_evidence(
        printed, corrected, verify_objective, Step.to_data,
        "For two workers imbalance and gap are the same number; from three on they are not.",
    )  # fmt: skip


CLAIMS = (
    Claim(
        id="balance.lemma2-objective",
        source="BF-IO paper, proof of Lemma 2 against section 4, (IO) with H = 0",
        title="BF-IO minimises the gap",
        statement="Among all feasible assignments BF-IO chooses one that minimises D(k).",
        formula="argmin Imbalance(k) ⊆ argmin D(k)",
        hypotheses=("BF-IO is the program (IO) with H = 0",),
        kind=Kind.COUNTEREXAMPLE,
        check=_objective_check,
        mutations=(
            Mutation("two workers only", partial(_objective_check, workers=2)),
            Mutation(
                "factor 1 in place of G − 1 in the correction",
                partial(_objective_check, factor=lambda G: 1),
            ),
        ),
        correction="(IO) minimises the imbalance. Its minimisers have gaps of at most G − 1 times "
        "the "
        "least gap, because D ≤ Imbalance ≤ (G − 1)·D.",
        verify=verify_objective,
    ),
    Claim(
        id="own.separation-program",
        source="BF-IO paper, Lemma 2, for the policy of Algorithm 1 (our question)",
        title="Lemma 2 for the program (IO)",
        statement="Lemma 2 holds for the assignments that Algorithm 1 chooses: minimisers of the "
        "imbalance over all feasible assignments from the pool.",
        formula=FORMULA,
        hypotheses=HYPOTHESES,
        kind=Kind.COUNTEREXAMPLE,
        check=_program_check,
        mutations=(
            Mutation(
                "two workers only, where imbalance is gap", partial(_program_check, workers=2)
            ),
            Mutation("half the bound in the correction", partial(_program_check, factor=2)),
        ),
        correction="The bound holds for the imbalance: every minimiser has Imbalance ≤ (G − 1)·"
        "max{s_max, A_pre − γBp}, since the minimiser of D is feasible for (IO). So the event D ≤ "
        "(G − 1)·s_max keeps itself up where γBp ≥ U_B + (G − 1)·s_max; how the gap returns to it "
        "after a bad step this does not say. Theorem 2 as proven is about minimisers of D.",
        verify=verify_program,
    ),
)
