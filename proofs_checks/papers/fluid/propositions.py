"""Proposition 4: memory M* exactly, where first come, first served loses throughput.

First come, first served is that of section 4.3, with four rules for whom an overflow removes:
"remove ongoing prompts to accommodate new arrivals", says the paper, and not which.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bfio.wait.arrivals import poisson_instance
from bfio.wait.chains import wait_policy
from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.policy import Decision, StagePolicy, StageState
from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Estimate, Findings, Outcome
from proofs_checks.papers.fluid.replicas import exponent_estimate, wait_replicas
from proofs_checks.papers.fluid.runs import canonical, reference
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


@dataclass(frozen=True)
class Removal:
    """FCFS where those removed wait again, from stage 0, in order of arrival.

    Parameters
    ----------
    oldest, everyone : bool
        Whether the first to have arrived are removed, or all; the last to have arrived by default.
    new_first : bool
        Whether arrivals start beside what is held now, before anyone is removed; by default they
        start beside what those who remain need next.
    """

    oldest: bool = False
    everyone: bool = False
    new_first: bool = False

    def __call__(self, state: StageState) -> Decision:
        """Return the next batch and whom to remove before it."""
        started = self._starts(state, state.waiting, self._held(state)) if self.new_first else []
        kept, removed = self._removals(state, sum(self._next(state, i) for i in started))
        if self.new_first:
            return Decision([*kept, *started], removed)
        waiting = sorted([*state.waiting, *removed])
        needed = sum(self._next(state, i) for i in kept)
        return Decision([*kept, *self._starts(state, waiting, needed)], removed)

    def _removals(self, state: StageState, needed: int) -> tuple[list[int], list[int]]:
        """Return who stays and who goes, so that the former fit beside some tokens."""
        kept, removed = list(state.held), []
        needed += sum(self._next(state, i) for i in kept)
        if self.everyone and needed > state.instance.memory:
            return [], kept
        while needed > state.instance.memory:
            removed.append(kept.pop(0 if self.oldest else -1))
            needed -= self._next(state, removed[-1])
        return kept, removed

    def _starts(self, state: StageState, waiting: list[int], needed: int) -> list[int]:
        """Return who starts: in order of arrival, up to the first for whom there is no room."""
        started: list[int] = []
        for i in waiting:
            needed += int(state.instance.prompt[i])
            if needed > state.instance.memory:
                break
            started.append(i)
        return started

    def _held(self, state: StageState) -> int:
        # A stage adds one token; nobody who is held has passed none.
        return sum(self._next(state, i) - 1 for i in state.held)

    def _next(self, state: StageState, i: int) -> int:
        return int(state.instance.prompt[i]) + (int(state.stage[i]) if i in state.held else 0)


#: Name and policy; the first is what `Removal` is by default.
EVICTION_RULES: dict[str, StagePolicy] = {
    "the youngest go": FirstComeFirstServed(),
    "the oldest go": Removal(oldest=True),
    "arrivals start, then the youngest ongoing go": Removal(new_first=True),
    "all go": Removal(everyone=True),
}


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


def _stays(name: str, gaps: FloatArray, duration: int, least: float) -> Estimate:
    return mean_estimate(
        f"gap of {name} at T = {duration} (Thr* = 5)", gaps, f"lower end at least {least}",
        lambda low, high: low >= least,
    )  # fmt: skip


INSTANCE = (
    "l = (1, 1), l' = (1, 2), λ = (1, 1), d0 + 9·d1 = 1, C = M* = 9",
    "Poisson arrivals",
    "the KV cache of paused prompts counts toward C",
)


@CLAIMS.result(
    "fluid.proposition4",
    Mutation("WAIT in place of FCFS", policy=wait_policy(canonical().classes, (1, 1))),
    Mutation("memory of 60", memory=60),
    hypotheses=INSTANCE,
    kind=Kind.STATISTICAL,
)
def _proposition4_check(
    context: Context, *, policy: StagePolicy | None = None, memory: int = 9
) -> Outcome:
    """First come, first served never reaches the fluid throughput.

    Source: fluid paper, Proposition 4 (section 4.3)
    Statement: With C = M* there is an instance on which FCFS has a throughput gap of Ω(1).
    Formula: Thr* − E[Thr^T] = Ω(1)
    Summary: Whomever FCFS removes on overflow, its gap does not fall with T; WAIT's does, with the
        same memory.
    Reading: FCFS as in A.3: arrivals start whenever the current memory permits; on overflow
        ongoing prompts are removed and start again. Who is removed is not said: four rules are
        tried, two of them at quick effort.
    """
    horizons = context.choose([150], [100, 200, 400], [500, 1000, 2000, 4000])
    # At quick effort the two rules under which the least is lost.
    rules = list(EVICTION_RULES.items())[: context.choose(2, 4, 4)]
    policies = [("WAIT as FCFS", policy)] if policy else rules
    measured = [
        (name, gaps_of(context, served, horizons, context.choose(12, 24, 32), memory))
        for name, served in policies
    ]
    estimates = [
        _stays(f"FCFS ({name})", gaps[:, k], h, 0.3)
        for name, gaps in measured
        for k, h in enumerate(horizons)
    ]
    if len(horizons) > 1:
        estimates += [
            exponent_estimate(
                f"exponent of the gap of FCFS ({name})", horizons, gaps, 8,
                "lower end at least -0.4 (-1/2 for WAIT with this memory)",
                lambda low, high: low >= -0.4,
            )
            for name, gaps in measured
        ]  # fmt: skip
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
    return Findings(estimates=tuple(estimates))
