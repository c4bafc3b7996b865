"""Propositions 4 and 5: memory M* exactly, where blind policies lose throughput."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import exp, factorial

import numpy as np

from bfio.wait.arrivals import poisson_instance
from bfio.wait.chains import wait_policy
from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.policy import StagePolicy, StageState
from formulations.arrays import FloatArray
from proofs_checks.claim import Claim, Context, Effort, Kind, Mutation
from proofs_checks.evidence import Estimate, Evidence, Verdict, accepted
from proofs_checks.papers.fluid.replicas import wait_replicas
from proofs_checks.papers.fluid.runs import canonical, reference
from proofs_checks.search import examine
from proofs_checks.statistics import mean_estimate


def overflows_within_two(first: int, second: int, *, prompts: int = 1) -> bool:
    """Whether arrivals (X_1, X_2) next to the equilibrium batch exceed 9 tokens soon.

    After the equilibrium batch one of type 1 stands before stage 1, two of type 2 before stages 1
    and 2: 2 + 2 + 3 tokens. The iteration after it brings (1, 1), as it does on average.
    """
    at_once = 2 + 2 + 3 + prompts * (first + second)
    then = 3 + 2 * first + 2 * second + 2 * prompts
    after = 2 + 2 + 3 * second + 2 * prompts
    return max(at_once, then, after) > 9


def _overflow_check(context: Context, *, prompts: int = 1) -> Evidence:
    most = context.choose(12, 12, 20)
    safe = [
        pair
        for pair in product(range(most), repeat=2)
        if not overflows_within_two(*pair, prompts=prompts)
    ]
    printed = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    seen = examine(
        "safe are (0,0), (1,0), (0,1), (1,1), (2,0) only",
        f"all pairs below {most}, three iterations ahead",
        product(range(most), repeat=2),
        lambda pair: (pair in safe) == (pair in printed),
    )
    weight = sum(Fraction(1, factorial(a) * factorial(b)) for a, b in safe)
    chance = 1 - float(weight) * exp(-2)
    value = examine("p = 1 − (9/2)·e^{−2} ≈ 0.391", "from the safe pairs", [weight], lambda w: (
        w == Fraction(9, 2) and round(chance, 3) == 0.391
    ))  # fmt: skip
    holds = seen.tally.verdict() is value.tally.verdict() is Verdict.HOLDS
    return Evidence(
        Verdict.HOLDS if holds else Verdict.REFUTED,
        summary="(0,2) is safe at once and in two iterations; it overflows in the third. The "
        "text says two.",
        tallies=(seen.tally, value.tally),
        numbers={"p": chance},
    )


@dataclass(frozen=True)
class BlindReservation:
    """Starts a prompt only if all that run could be of the longest type; knows no type."""

    memory: int

    def __call__(self, state: StageState) -> list[int]:
        """Return everything that runs and as many new ones as are safe."""
        batch = list(state.held)
        for i in state.waiting:
            stages = [int(state.stage[k]) for k in (*batch, i)]
            # After s more iterations a prompt at stage k holds 1 + k + s, up to stage 2.
            peak = max(sum(1 + k + s for k in stages if k + s <= 2) for s in range(3))
            if peak > self.memory:
                break
            batch.append(i)
        return batch


def gaps_of(
    context: Context, policy: StagePolicy, horizons: Sequence[int], runs: int, memory: int = 9
) -> FloatArray:
    """Return the gap of a policy on the instance of A.3 at some horizons, shape (R, H)."""
    problem, rows = canonical(memory), []
    for seed in context.rng.integers(10**9, size=runs).tolist():
        instance = poisson_instance(problem, horizons[-1], seed)
        units = instance.clock.units_per_second
        run = reference(instance, policy, horizons[-1] * units)
        done = np.where(run.completion < 0, 2**62, run.completion)
        rows.append(
            [
                int(instance.iterations[(instance.arrival < h * units) & (done > h * units)].sum())
                / h
                for h in horizons
            ]
        )
    return np.array(rows)


def _stays(name: str, gaps: FloatArray, horizon: int, least: float) -> Estimate:
    return mean_estimate(
        f"gap of {name} at T = {horizon} (Thr* = 5)", gaps, f"lower end at least {least}",
        lambda low, high: low >= least,
    )  # fmt: skip


def _proposition4_check(
    context: Context, *, policy: StagePolicy | None = None, memory: int = 9
) -> Evidence:
    horizons = context.choose([200], [200, 400], [1000, 4000])
    policy = policy or FirstComeFirstServed()
    gaps = gaps_of(context, policy, horizons, context.choose(14, 24, 32), memory)
    estimates = [_stays("FCFS", gaps[:, k], h, 0.3) for k, h in enumerate(horizons)]
    long = context.choose(1024, 4096, 16384)
    replicas = wait_replicas(canonical(), (1, 1), long, 64, context.rng)
    units = replicas.instance(0).clock.units_per_second
    estimates.append(
        mean_estimate(
            f"gap of WAIT with the same memory at T = {long}",
            replicas.unfinished(long * units) / long,
            "upper end at most 0.25",
            lambda low, high: high <= 0.25,
        )
    )
    return Evidence(
        accepted(*estimates),
        summary="On overflow FCFS evicts the last to have arrived, which starts anew. Its gap "
        "does not fall with T; WAIT's does, with the same memory. (The printed 'queue of type 2 "
        "≥ 0.3t' is not tested: its constant is not derived.)",
        estimates=tuple(estimates),
    )


def _proposition5_check(context: Context, *, memory: int = 9) -> Evidence:
    horizons = context.choose([100], [200, 400], [1000, 4000])
    policies: list[tuple[str, StagePolicy]] = [
        ("FCFS", FirstComeFirstServed()),
        ("worst-case reservation", BlindReservation(memory)),
    ]
    if context.effort is not Effort.QUICK:
        limited = FirstComeFirstServed(limit=5)
        policies.append(("FCFS with at most 5 prompts, ongoing first", limited))
    runs = context.choose(14, 24, 32)
    estimates = [
        _stays(name, gaps[:, k], h, 0.35)
        for name, policy in policies
        for gaps in (gaps_of(context, policy, horizons, runs, memory),)
        for k, h in enumerate(horizons)
    ]
    return Evidence(
        accepted(*estimates),
        summary="Each of these policies, none of which reads the type, loses a fixed part of the "
        "throughput.",
        estimates=tuple(estimates),
    )


_INSTANCE = ("l = (1, 1), l' = (1, 2), λ = (1, 1), d0 + 9·d1 = 1, C = M* = 9", "Poisson arrivals")


CLAIMS = (
    Claim(
        id="fluid.proposition4-overflow",
        source="WAIT paper, proof of Proposition 4 (appendix A.3)",
        title="Chance that FCFS overflows",
        statement="From the equilibrium batch, memory 9 is exceeded unless the arrivals are one "
        "of five pairs; the chance is 0.391.",
        formula="p = 1 − (9/2)·e^{−2} ≈ 0.391",
        hypotheses=_INSTANCE,
        kind=Kind.FINITE,
        check=_overflow_check,
        mutations=(Mutation("prompts of 2 tokens", partial(_overflow_check, prompts=2)),),
        reading="the iteration after brings one prompt of each type, and three iterations are "
        "looked at.",
    ),
    Claim(
        id="fluid.proposition4",
        source="WAIT paper, Proposition 4 (section 4.3)",
        title="First come, first served never reaches the fluid throughput",
        statement="With C = M* there is an instance on which FCFS has a throughput gap of Ω(1).",
        formula="Thr* − E[Thr^T] = Ω(1)",
        hypotheses=_INSTANCE,
        kind=Kind.STATISTICAL,
        check=_proposition4_check,
        mutations=(
            Mutation(
                "WAIT in place of FCFS",
                partial(_proposition4_check, policy=wait_policy(canonical().classes, (1, 1))),
            ),
            Mutation("memory of 60", partial(_proposition4_check, memory=60)),
        ),
        reading="FCFS as in A.3: arrivals start whenever the current memory permits; on "
        "overflow the last to have arrived are removed and start again.",
    ),
    Claim(
        id="fluid.proposition5",
        source="WAIT paper, Proposition 5 (section 5.2)",
        title="Not knowing the types costs throughput",
        statement="With C = M* there is an instance on which any policy unaware of types has a "
        "throughput gap of Ω(1).",
        formula="Thr* − E[Thr^(ζ,π)] = Ω(1)",
        hypotheses=(*_INSTANCE, "the policy does not read the type"),
        kind=Kind.STATISTICAL,
        check=_proposition5_check,
        mutations=(Mutation("memory of 60", partial(_proposition5_check, memory=60)),),
        reading="for a few concrete policies only; the proof is a sketch ('easy discussion') "
        "and 'any policy' is not checkable by runs.",
    ),
)
