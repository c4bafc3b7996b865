"""Proposition 2: no policy exceeds the throughput of the fluid equilibrium."""

from collections.abc import Iterator

from bfio.wait.arrivals import poisson_instance
from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.run import StageRun
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.fluid.runs import (
    canonical,
    random_policy,
    random_setting,
    reference,
    sundry_policies,
)
from proofs_checks.search import examine


def _proposition2_check(context: Context, *, restarts_too: bool = False) -> Outcome:
    rng = context.rng

    def runs() -> Iterator[StageRun]:
        for _ in range(context.choose(8, 80, 1000)):
            setting = random_setting(rng, context.choose(16, 40, 100))
            horizon = setting.requests[-1][0] + 1
            for policy in sundry_policies(setting, rng):
                memory = max(p + o for p, o in setting.classes) + int(rng.integers(0, 20))
                yield reference(setting.instance(memory), policy, horizon)
        for seed in range(context.choose(2, 10, 100)):
            busy = poisson_instance(canonical(), 30, int(rng.integers(10**9)))
            yield reference(busy, FirstComeFirstServed())
            yield reference(busy, random_policy(seed), 30 * busy.clock.units_per_second)

    def holds(run: StageRun) -> bool:
        counted = int(run.batches.prompts.sum()) if restarts_too else run.tokens(run.is_completed)
        decoded = run.tokens(run.is_completed, decode=True)
        return counted <= run.tokens(run.arrived) and decoded <= run.tokens(
            run.arrived, decode=True
        )

    return examine(
        "tokens of completed prompts ≤ tokens of arrived prompts",
        "runs of WAIT, Nested WAIT, FCFS with evictions and limits, coin-tossing policies",
        runs(),
        holds,
    )


CLAIMS = (
    Claim(
        id="fluid.proposition2",
        source="fluid paper, Proposition 2 (section 3.2)",
        title="No policy exceeds the fluid throughput",
        statement="With C ≥ M* the expected throughput of any online policy is at most "
        "Throughput*.",
        formula="E[Thr^(T,π)] ≤ Thr*",
        hypotheses=("tokens of a prompt count when it completes",),
        kind=Kind.FINITE,
        check=_proposition2_check,
        summary="Path by path, for any policy and any memory; the mean of the right side is "
        "Thr*·T.",
        mutations=(Mutation("stages of restarted prompts counted", restarts_too=True),),
        reading="path by path and without C ≥ M*: what completes has arrived. In stages and in "
        "decode tokens, each with its own Thr*.",
    ),
)
