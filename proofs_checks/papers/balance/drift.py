"""Definition 2: what indexes the increments of a drift, the request's age or the step."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from bfio.decode.drift import Drift, DriftReading
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.runs import random_requests, small_run, step_loads
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


#: Load of a request at a step: increments, prompt, first step, step.
Weight = Callable[[Sequence[int], int, int, int], int]

_PROMPT = 5


def weight_by_age(increments: Sequence[int], prompt: int, start: int, step: int) -> int:
    """``w(j) = s + δ_1 + ... + δ_{j−1}`` in the j-th step of the request, as printed."""
    return prompt + sum(increments[: step - start])


def weight_by_step(increments: Sequence[int], prompt: int, start: int, step: int) -> int:
    """``s + Σ δ_t`` over the cluster's steps since the start, as the proof of Theorem 3 has it."""
    return prompt + sum(increments[start:step])


def late_weight(increments: Sequence[int], prompt: int, start: int, step: int) -> int:
    """Return the same without the increment of the first step: a wrong load, but a common gain."""
    return prompt + sum(increments[start + 1 : step])


def verify_drift(data: Data) -> str | None:
    """Compute the gains of two running requests at one step by the printed formula."""
    increments, starts = data["increments"], data["starts"]
    step = len(increments)
    if len(starts) != 2 or min(starts) < 0 or max(starts) >= step or min(increments) < 1:
        return None
    # w(j + 1) − w(j) = δ_j; a request that started at x is in its (step − x)-th step before.
    gains = [increments[step - x - 1] for x in starts]
    if gains[0] == gains[1]:
        return None
    return f"with δ = {increments} requests started at steps {starts} gain {gains} at step {step}"


def _toolkit(increments: Sequence[int], reading: DriftReading) -> Drift:
    # The toolkit repeats its increments; one that is never reached must be never repeated either.
    return Drift((*increments, 9), reading)


def _as_toolkit(
    increments: Sequence[int], starts: Sequence[int], reading: DriftReading, weight: Weight
) -> bool:
    """Whether the toolkit gives the weights of a formula at every step of all these requests."""
    drift = _toolkit(increments, reading)
    first = np.array(starts, dtype=np.int64)
    prompts = np.full(len(starts), _PROMPT, dtype=np.int64)
    return all(
        drift.weights(prompts, first, step).tolist()
        == [weight(increments, _PROMPT, x, step) for x in starts]
        for step in range(max(starts), len(increments) + 1)
    )


def _run_agrees(
    increments: Sequence[int],
    requests: tuple[list[int], list[int]],
    reading: DriftReading,
    weight: Weight,
) -> bool:
    """Whether the loads of a run are those of a formula."""
    run = small_run(*requests, "fcfs", 2, 2, drift=Drift(tuple(increments), reading))
    repeated = list(increments) * run.steps
    loads = [[0] * run.cluster.workers for _ in range(run.steps)]
    for i, prompt in enumerate(requests[0]):
        start = int(run.start_step[i])
        for step in range(start, int(run.finish_step[i]) + 1):
            loads[step][int(run.worker[i])] += weight(repeated, prompt, start, step)
    return bool(step_loads(run).tolist() == loads)


@CLAIMS.formula(
    "balance.definition2",
    Mutation("constant increments only, where both agree", constant=True),
    Mutation("the correction indexed by age", weight=weight_by_age),
    Mutation("requests that miss the increment of their first step", weight=late_weight),
    defect=Defect.MISPRINT,
    verify=verify_drift,
)
def _drift_check(
    context: Context, *, constant: bool = False, weight: Weight = weight_by_step
) -> Outcome:
    """Drift by age or by global step.

    Source: BF-IO paper, Definition 2 (section 5.1)
    Statement: With w(j) = s + δ_1 + ... + δ_{j−1} for every request, all alive requests share the
        same increment δ_k at global step k.
    Formula: w_i(j) = s_i + Σ_{t<j} δ_t  ⇒  every request alive at step k gains δ_k
    Assumes: 0 ≤ δ_t ≤ δ_max
    Summary: With a constant increment both readings agree; otherwise the formula gives requests of
        different age different increments.
    Correction: The formula indexes δ by the request's age, the sentence below it by the cluster's
        step. The proof of Theorem 3 needs the latter: w_i at step k is s_i + Σ δ_t over the global
        steps t = x_i..k−1. All claims on drift here take that reading. The toolkit has both, and
        its loads are compared with both formulas.
    """
    length = context.choose(3, 4, 5)
    cases = [
        (deltas, starts)
        for n in range(1, length + 1)
        for deltas in product(range(1, 4), repeat=n)
        for starts in product(range(n), repeat=2)
        if not constant or len(set(deltas)) == 1
    ]
    domain = Domain(
        f"all sequences of up to {length} increments in 1..3 and two start steps", cases
    )
    printed = domain.refute(
        "all running requests share the increment (printed formula)", verify_drift, _as_data
    )

    def corrected_holds(case: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
        deltas, starts = case
        last = len(deltas)
        gains = {
            weight(deltas, _PROMPT, x, last) - weight(deltas, _PROMPT, x, last - 1) for x in starts
        }
        return (
            len(gains) == 1
            and _as_toolkit(deltas, starts, DriftReading.GLOBAL_STEP, weight)
            and _as_toolkit(deltas, starts, DriftReading.AGE, weight_by_age)
        )

    corrected = domain.examine(
        "the same with increments indexed by the global step; the toolkit's weights in both "
        "readings are those of the formulas",
        corrected_holds,
    )
    runs = examine(
        "so are the loads of its runs",
        "random runs of 12 requests on 2 workers, up to 3 random increments in 0..3, repeated",
        [
            (
                context.rng.integers(0, 4, 1 + n % 3).tolist(),
                random_requests(context.rng, 12, 9, 5),
            )
            for n in range(context.choose(6, 60, 1000))
        ],
        lambda case: (
            _run_agrees(*case, DriftReading.GLOBAL_STEP, weight)
            and _run_agrees(*case, DriftReading.AGE, weight_by_age)
        ),
    )
    return printed, corrected, runs


def _as_data(case: tuple[tuple[int, ...], tuple[int, ...]]) -> Data:
    return {"increments": list(case[0]), "starts": list(case[1])}
