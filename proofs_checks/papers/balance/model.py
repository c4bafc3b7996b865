"""Sections 3, 5 and 6.2: profiles, loads, imbalance, drift, and step duration."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import isclose

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.run import Run
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome, dismiss_if, verifier
from proofs_checks.runs import (
    engines,
    full_run,
    gap,
    random_requests,
    small_run,
    step_loads,
    vectors,
)
from proofs_checks.search import examine

CLAIMS = Claims()


#: Load of a request at a step: prompt, first step, step.
Weight = Callable[[int, int, int], int]


def printed_weight(prompt: int, start: int, step: int) -> int:
    """Return ``w(j) = s + j − 1`` at the j-th step of a request, ``j = step − start + 1``."""
    return prompt + step - start


# Equation (1): loads of a run by the definition.


def loads_by_definition(run: Run, prompts: Sequence[int], weight: Weight) -> list[list[int]]:
    """Recompute ``L_g(k) = Σ w_i(k − x_i + 1)`` from each request's worker, start and end."""
    loads = [[0] * run.cluster.workers for _ in range(run.steps)]
    for i, prompt in enumerate(prompts):
        start = int(run.start_step[i])
        for step in range(start, int(run.finish_step[i]) + 1):
            loads[step][int(run.worker[i])] += weight(prompt, start, step)
    return loads


@CLAIMS.formula(
    "balance.eq1",
    Mutation("loads one step ahead, w(j) = s + j", weight=lambda s, x, k: s + k - x + 1),
)
def _profile_check(context: Context, *, weight: Weight = printed_weight) -> Outcome:
    """Profiles and loads.

    Source: BF-IO paper, section 3, eq. (1) and the two examples before it
    Statement: A request that starts at step x with profile W adds w(k − x + 1) to its worker at
        each of the steps x..x+o−1. Prompt 3 and four steps give W = (3, 4, 5, 6).
    Formula: L_g(k) = Σ_{i active on g} w_i(k − x_i + 1),  w_i(j) = s_i + j − 1
    Assumes: assignments are sticky and not preempted
    Reading: checked on the engine that every other claim with runs uses.
    """
    runs = context.choose(5, 100, 2000)
    cases = [([3], [4]), *(random_requests(context.rng, 12, 9, 5) for _ in range(runs))]

    def holds(prompts: list[int], outputs: list[int]) -> bool:
        run = small_run(prompts, outputs, "fcfs", 2, 2)
        return bool(step_loads(run).tolist() == loads_by_definition(run, prompts, weight))

    seen = examine(
        "loads of every step of a run",
        "the printed example (prompt 3, four steps) and random runs of 12 requests on 2 workers",
        cases,
        holds,
    )
    constant = small_run([5], [3], "fcfs", 1, 1, drift=Drift((0,)))
    return Findings(
        seen,
        summary="The printed example, prompt 3 and four steps, gives the loads 3, 4, 5, 6; "
        f"constant work 5 for three steps gives {step_loads(constant)[:, 0].tolist()}.",
    )


# Number of active steps of a request.


@verifier
def verify_steps(prompt: int, output: int) -> str:
    """Confirm that the sentence (o − 1 steps, load s + k at the k-th) contradicts the profile."""
    # A request of one step is excluded, because it gives no instructive counterexample.
    dismiss_if(prompt < 1 or output < 2)
    profile = [prompt + j for j in range(output)]
    sentence = [prompt + k for k in range(1, output)]
    dismiss_if(profile == sentence)
    return f"the sentence gives {sentence}, the profile W = {profile}"


@CLAIMS.remark(
    "balance.decode-steps",
    Mutation("one step more in the correction", extra=1),
    defect=Defect.MISPRINT,
    verify=verify_steps,
)
def _steps_check(context: Context, *, extra: int = 0) -> Outcome:
    """Number of decode steps.

    Source: BF-IO paper, section 5, specialised workload model
    Statement: Once a request starts decoding it occupies exactly o − 1 consecutive steps, and its
        k-th step (k in 1..o−1) needs workload s + k; so its profile is (s, s+1, ..., s+o−1).
    Formula: steps k = 1..o−1 with loads s + k  ⇔  W = (s, s+1, ..., s+o−1)
    Assumes: s ≥ 1, o ≥ 1
    Summary: The sentence and the profile two lines below it never agree.
    Reading: shown for o ≥ 2; at o = 1 the sentence leaves no step at all.
    Correction: The profile is right: o steps, the j-th with load s + j − 1, as section 3 says. The
        sentence drops the first step.
    """
    largest = context.choose(4, 12, 40)
    requests = [(s, o) for s in range(1, largest) for o in range(2, largest)]
    printed = context.refute(
        "o − 1 steps with loads s + k agree with the profile",
        f"all prompts and outputs below {largest}",
        requests,
    )

    def runs_as_corrected(prompt: int, output: int) -> bool:
        loads = step_loads(small_run([prompt], [output], "fcfs", 1, 1))[:, 0].tolist()
        return bool(loads == [prompt + j for j in range(output + extra)])

    corrected = examine(
        "o steps with loads s + j − 1", "the same requests, run by the engine", requests,
        runs_as_corrected,
    )  # fmt: skip
    return printed, corrected


# Equation (2) and its bound by the gap.


def _small_loads(context: Context) -> tuple[str, list[tuple[int, ...]]]:
    """Return a description of the load vectors to try, and the vectors."""
    largest = context.choose(3, 6, 10)
    loads = [x for workers in (1, 2, 3, 4) for x in vectors(workers, largest)]
    return f"all load vectors of 1 to 4 workers with entries 0..{largest}", loads


@CLAIMS.formula(
    "balance.eq2", Mutation("the minimum in place of the maximum", peak=min), kind=Kind.IDENTITY
)
def _imbalance_check(context: Context, *, peak: Callable[..., int] = max) -> Outcome:
    """Two forms of the imbalance.

    Source: BF-IO paper, section 3, eq. (2)
    Statement: The sum of what each worker lacks to the maximum is G times the maximum less the sum
        of the loads.
    Formula: Σ_g (max_h L_h − L_g) = G·max_g L_g − Σ_g L_g
    Summary: An identity; the value is never negative.
    """
    return examine(
        "both forms of the imbalance agree",
        *_small_loads(context),
        lambda x: sum(max(x) - load for load in x) == len(x) * peak(x) - sum(x) >= 0,
    )


@CLAIMS.step(
    "balance.imbalance-gap", Mutation("G − 2 in place of G − 1", fewer=2), kind=Kind.IDENTITY
)
def _gap_check(context: Context, *, fewer: int = 1) -> Outcome:
    """Imbalance is at most (G − 1) gaps.

    Source: BF-IO paper, appendix C.2, step 1.C
    Statement: At every step and under every policy the imbalance is at most G − 1 times the gap
        between the most and the least loaded worker.
    Formula: Imbalance(k) ≤ (G − 1)·D(k)
    Summary: The lower bound is ours: it shows that the step to D loses at most a factor G − 1.
    """
    return examine(
        "D ≤ Imbalance ≤ (G − 1)·D",
        *_small_loads(context),
        lambda x: gap(x) <= len(x) * max(x) - sum(x) <= (len(x) - fewer) * gap(x),
    )


#: C [s] and t_l [s/token] of the authors' released simulator at 72 slots per worker.
RELEASED = (Fraction(782, 160_000), Fraction(105_408, 2**20 * 10**6))
#: Values for which the load affects the step time much more, much less, and not at all.
_OTHERS = (
    (Fraction(0), Fraction(1)),
    (Fraction(1, 4), Fraction(3, 8)),
    (Fraction(2), Fraction(0)),
)

#: A cluster with the toolkit's own constants.
_DEFAULT = Cluster(2, 2)

#: Policy, requests, constants.
_Case = tuple[str, tuple[list[int], list[int]], tuple[Fraction, Fraction]]


def _cases(context: Context, names: tuple[str, ...]) -> Iterator[_Case]:
    for _ in range(context.choose(2, 20, 300)):
        for name in names:
            for constants in (RELEASED, *_OTHERS):
                yield name, random_requests(context.rng, 12, 1000, 5), constants


def _cluster(constants: tuple[Fraction, Fraction], released: Cluster) -> Cluster:
    # The toolkit's defaults must equal the released values.
    if constants == RELEASED:
        return released
    overhead, per_token = map(float, constants)
    return Cluster(2, 2, step_overhead_s=overhead, token_time_s=per_token)


@CLAIMS.formula(
    "balance.eq6",
    Mutation("the mean load in place of the largest", mean=True),
    Mutation(
        "t_l smaller by a tenth",
        released=Cluster(2, 2, token_time_s=0.9 * float(RELEASED[1])),
    ),
    Mutation(
        "C smaller by a tenth",
        released=Cluster(2, 2, step_overhead_s=0.9 * float(RELEASED[0])),
    ),
)
def _time_check(context: Context, *, released: Cluster = _DEFAULT, mean: bool = False) -> Outcome:
    """How long a step takes.

    Source: BF-IO paper, eq. (6) (section 6.2)
    Statement: A step lasts C, a fixed overhead, plus t_l for each token of the most loaded worker;
        all workers wait for it.
    Formula: Δt(k) = C + t_l·max_g L_g(k)
    Assumes: loads after admission and before growth, eq. (1)
    Summary: Loads are added up anew from when and where each request ran; the fractions are met up
        to rounding.
    Reading: a model, so what is checked is that the toolkit's runs keep to it. The paper prints
        neither constant; the toolkit's defaults must be those of the authors' released simulator,
        C = (0.0006·72 + 0.035)/16 s and t_l = 1.5·2·576·61·10⁻⁶/2²⁰ s.
    """
    names = ("fcfs", "jsq", "longest-first")
    cases = list(_cases(context, names))

    def holds(case: _Case, engine: str) -> bool:
        name, (prompts, outputs), constants = case
        run = full_run(prompts, outputs, name, _cluster(constants, released), engine)
        loads = loads_by_definition(run, prompts, printed_weight)
        peaks = (Fraction(sum(row), len(row)) if mean else max(row) for row in loads)
        expected = [float(constants[0] + constants[1] * peak) for peak in peaks]
        # Sums of two products in floating point equal the fractions up to rounding.
        return len(expected) == run.steps and all(
            isclose(a, b, rel_tol=1e-12)
            for a, b in zip(run.duration_s.tolist(), expected, strict=True)
        )

    seen = [
        examine(
            f"every step of a run lasts C + t_l·max_g L_g ({engine} engine)",
            f"random runs of 12 requests on 2 workers under {', '.join(names)}, with the "
            "toolkit's own constants and three other pairs",
            cases,
            partial(holds, engine=engine),
        )
        for engine in engines(context)
    ]
    return Findings(
        *seen,
        numbers={
            "C by default [s]": float(RELEASED[0]),
            "t_l by default [s/token]": float(RELEASED[1]),
        },
    )


# Definition 2: whether the increments of a drift are indexed by request age or by step.


#: Load of a request at a step: increments, prompt, first step, step.
DriftWeight = Callable[[Sequence[int], int, int, int], int]

_PROMPT = 5


def weight_by_age(increments: Sequence[int], prompt: int, start: int, step: int) -> int:
    """Return ``w(j) = s + δ_1 + ... + δ_{j−1}`` in the j-th step of the request, as printed."""
    return prompt + sum(increments[: step - start])


def weight_by_step(increments: Sequence[int], prompt: int, start: int, step: int) -> int:
    """``s + Σ δ_t`` over the cluster's steps since the start, as the proof of Theorem 3 has it."""
    return prompt + sum(increments[start:step])


def late_weight(increments: Sequence[int], prompt: int, start: int, step: int) -> int:
    """Return the weight of `weight_by_step` without the first increment, a wrong formula."""
    return prompt + sum(increments[start + 1 : step])


@verifier
def verify_drift(increments: list[int], starts: list[int]) -> str:
    """Confirm that two running requests gain different loads at one step, as printed."""
    step = len(increments)
    dismiss_if(len(starts) != 2 or min(starts) < 0 or max(starts) >= step or min(increments) < 1)
    # w(j + 1) − w(j) = δ_j; a request that started at x is in its (step − x)-th step before.
    gains = [increments[step - x - 1] for x in starts]
    dismiss_if(gains[0] == gains[1])
    return f"with δ = {increments} requests started at steps {starts} gain {gains} at step {step}"


def _as_toolkit(
    increments: Sequence[int], starts: Sequence[int], reading: DriftReading, weight: DriftWeight
) -> bool:
    """Return whether the toolkit's weights equal a formula at every step of all these requests."""
    # The toolkit repeats its increments; an extra one keeps the given ones from being repeated.
    drift = Drift((*increments, 9), reading)
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
    weight: DriftWeight,
) -> bool:
    """Return whether the loads of a run equal a formula."""
    run = small_run(*requests, "fcfs", 2, 2, drift=Drift(tuple(increments), reading))
    repeated = list(increments) * run.steps
    loads = loads_by_definition(run, requests[0], partial(weight, repeated))
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
    context: Context, *, constant: bool = False, weight: DriftWeight = weight_by_step
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
    domain = context.domain(
        f"all sequences of up to {length} increments in 1..3 and two start steps", cases
    )
    printed = domain.refute("all running requests share the increment (printed formula)")

    def corrected_holds(deltas: tuple[int, ...], starts: tuple[int, ...]) -> bool:
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
        lambda increments, rows: (
            _run_agrees(increments, rows, DriftReading.GLOBAL_STEP, weight)
            and _run_agrees(increments, rows, DriftReading.AGE, weight_by_age)
        ),
    )
    return printed, corrected, runs
