"""Section 6.3: average imbalance, throughput and time per token, against the toolkit's metrics."""

from collections.abc import Callable, Iterator
from functools import partial
from math import isclose
from typing import TypeAlias

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import measure
from bfio.decode.run import Run
from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.runs import full_run, random_requests, step_loads
from proofs_checks.search import examine
from proofs_checks.step_enumeration import gap, imbalance

CLAIMS = Claims()

#: A run with the outputs of its requests, to the value of a formula.
Formula: TypeAlias = Callable[[Run, list[int]], float]


def _metric(number: str, name: str, *broken: Mutation) -> Callable[[Formula], Formula]:
    """Claim that the toolkit's metric of this name is an equation of the paper."""

    def add(formula: Formula) -> Formula:
        return CLAIMS.formula(
            f"balance.eq{number}",
            *broken,
            check=partial(_check, name=name, formula=formula),
            source=f"BF-IO paper, section 6.3, eq. ({number})",
            hypotheses=("a drained run",),
            summary="Recomputed from when and where each request ran.",
        )(formula)

    return add


def _runs(context: Context, steps: int | None) -> Iterator[tuple[Run, list[int]]]:
    cluster = Cluster(3, 2, step_overhead_s=0.25, token_time_s=0.125)
    for _ in range(context.choose(3, 20, 200)):
        for name in ("fcfs", "jsq", "br-0"):
            prompts, outputs = random_requests(context.rng, 14, 50, 6)
            yield full_run(prompts, outputs, name, cluster, steps=steps), outputs


def _check(context: Context, *, name: str, formula: Formula, steps: int | None = None) -> Outcome:
    def agrees(case: tuple[Run, list[int]]) -> bool:
        run, outputs = case
        value = measure(run)[name]
        return isinstance(value, float) and isclose(value, formula(run, outputs), rel_tol=1e-9)

    return examine(
        f"the toolkit's {name} is the printed formula",
        "random drained runs of 14 requests on 3 workers of 2 slots under fcfs, jsq and br-0",
        _runs(context, steps),
        agrees,
    )


def mean_gap(run: Run, outputs: list[int]) -> float:
    """Return the mean of max − min, which is another metric [tokens]."""
    del outputs
    rows = step_loads(run).tolist()
    return float(sum(map(gap, rows)) / len(rows))


@_metric("7", "avg_imbalance", Mutation("max − min in place of the sum", formula=mean_gap))
def average_imbalance(run: Run, outputs: list[int]) -> float:
    """Average imbalance.

    Statement: The average imbalance is the mean of the steps' imbalances.
    Formula: AvgImbalance = (1/K)·Σ_k Imbalance(k)
    Reading: a mean over steps, not over time: a long step counts as a short one.
    """
    del outputs
    rows = step_loads(run).tolist()
    return float(sum(map(imbalance, rows)) / len(rows))


def per_step(run: Run, outputs: list[int]) -> float:
    """Return the mean over steps of tokens per second [tokens/s]."""
    del outputs
    return float((run.active / run.duration_s).mean())


@_metric(
    "8",
    "throughput_tokens_per_s",
    Mutation("the mean of the steps' rates", formula=per_step),
    Mutation("runs cut off after four steps", steps=4),
)
def throughput(run: Run, outputs: list[int]) -> float:
    """Throughput.

    Statement: Throughput is the active requests of all steps over their duration.
    Formula: Σ_k |A(k)| / Σ_k Δt(k)
    Reading: one token per active request and step, so the tokens of all requests over the time.
    """
    return sum(outputs) / float(run.duration_s.sum())


def tokens_weighted(run: Run, outputs: list[int]) -> float:
    """Return the time per token averaged over tokens instead of requests [s]."""
    total = sum(
        float(run.duration_s[start : start + output].sum())
        for start, output in zip(run.start_step.tolist(), outputs, strict=True)
    )
    return total / sum(outputs)


@_metric("9", "tpot_mean_s", Mutation("averaged over tokens", formula=tokens_weighted))
def time_per_token(run: Run, outputs: list[int]) -> float:
    """Time per output token.

    Statement: TPOT is the mean over requests of their time in service per token.
    Formula: TPOT = (1/N)·Σ_i (t_i^finish − t_i^start)/o_i
    Reading: from the beginning of the first step to the end of the last; the wait before the start
        is not in it, so a policy that lets requests wait does not look worse by it.
    """
    spans = (
        float(run.duration_s[start : start + output].sum()) / output
        for start, output in zip(run.start_step.tolist(), outputs, strict=True)
    )
    return sum(spans) / len(outputs)
