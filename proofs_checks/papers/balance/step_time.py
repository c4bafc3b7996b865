"""Section 6.2: how long a step of the barrier-synchronised cluster takes."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from math import isclose

from bfio.decode.cluster import Cluster
from bfio.decode.run import Run
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.balance.model import loads_by_definition, printed_weight
from proofs_checks.papers.balance.toolkit import engines, full_run
from proofs_checks.runs import random_requests
from proofs_checks.search import examine

#: C [s] and t_l [s/token] of the authors' released simulator at 72 slots per worker.
RELEASED = (Fraction(782, 160_000), Fraction(105_408, 2**20 * 10**6))
#: Values at which the load weighs much more, much less, and not at all.
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
    # The toolkit's own defaults are what the released values have to be.
    if constants == RELEASED:
        return released
    overhead, per_token = map(float, constants)
    return Cluster(2, 2, step_overhead_s=overhead, token_time_s=per_token)


def step_times(run: Run, prompts: list[int], constants: tuple[Fraction, Fraction]) -> list[float]:
    """Return ``C + t_l·max_g L_g(k)`` from when and where each request ran [s]."""
    overhead, per_token = constants
    loads = loads_by_definition(run, prompts, printed_weight)
    return [float(overhead + per_token * max(row)) for row in loads]


def _time_check(context: Context, *, released: Cluster = _DEFAULT, mean: bool = False) -> Outcome:
    names = ("fcfs", "jsq", "longest-first")
    cases = list(_cases(context, names))

    def holds(case: _Case, engine: str) -> bool:
        name, (prompts, outputs), constants = case
        run = full_run(prompts, outputs, name, _cluster(constants, released), engine)
        expected = step_times(run, prompts, constants)
        if mean:
            means = (int(total) / run.cluster.workers for total in run.total_load)
            expected = [float(constants[0]) + float(constants[1]) * load for load in means]
        # Sums of two products in floating point: the fractions are met up to rounding.
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


CLAIMS = (
    Claim(
        id="balance.eq6",
        source="BF-IO paper, eq. (6) (section 6.2)",
        title="How long a step takes",
        statement="A step lasts C, a fixed overhead, plus t_l for each token of the most loaded "
        "worker; all workers wait for it.",
        formula="Δt(k) = C + t_l·max_g L_g(k)",
        hypotheses=("loads after admission and before growth, eq. (1)",),
        kind=Kind.FINITE,
        check=_time_check,
        summary="Loads are added up anew from when and where each request ran; the fractions are "
        "met up to rounding.",
        mutations=(
            Mutation("the mean load in place of the largest", mean=True),
            Mutation(
                "t_l smaller by a tenth",
                released=Cluster(2, 2, token_time_s=0.9 * float(RELEASED[1])),
            ),
            Mutation(
                "C smaller by a tenth",
                released=Cluster(2, 2, step_overhead_s=0.9 * float(RELEASED[0])),
            ),
        ),
        reading="a model, so what is checked is that the toolkit's runs keep to it. The paper "
        "prints neither constant; the toolkit's defaults must be those of the authors' released "
        "simulator, C = (0.0006·72 + 0.035)/16 s and t_l = 1.5·2·576·61·10⁻⁶/2²⁰ s.",
    ),
)
