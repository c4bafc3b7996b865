"""Section 6.3: average imbalance, throughput and time per token, against the toolkit's metrics."""

from collections.abc import Callable, Iterator
from functools import partial
from math import isclose

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import measure
from bfio.decode.run import Run
from proofs_checks.claim import Claim, Context, Mutation, Scope
from proofs_checks.evidence import Outcome
from proofs_checks.runs import full_run, random_requests, step_loads
from proofs_checks.search import examine
from proofs_checks.step_enumeration import imbalance

#: A run with the outputs of its requests, to the value of a formula.
Formula = Callable[[Run, list[int]], float]


def average_imbalance(run: Run, outputs: list[int]) -> float:
    """Equation (7), from the loads of each step [tokens]."""
    del outputs
    rows = step_loads(run).tolist()
    return float(sum(map(imbalance, rows)) / len(rows))


def throughput(run: Run, outputs: list[int]) -> float:
    """Equation (8): each request is active in as many steps as it has tokens [tokens/s]."""
    return sum(outputs) / float(run.duration_s.sum())


def time_per_token(run: Run, outputs: list[int]) -> float:
    """Equation (9), from the durations of the steps of each request [s]."""
    spans = (
        float(run.duration_s[start : start + output].sum()) / output
        for start, output in zip(run.start_step.tolist(), outputs, strict=True)
    )
    return sum(spans) / len(outputs)


def mean_gap(run: Run, outputs: list[int]) -> float:
    """Return the mean of max − min, which is another metric [tokens]."""
    del outputs
    rows = step_loads(run).tolist()
    return float(sum(max(row) - min(row) for row in rows) / len(rows))


def tokens_weighted(run: Run, outputs: list[int]) -> float:
    """Return the time per token averaged over tokens instead of requests [s]."""
    total = sum(
        float(run.duration_s[start : start + output].sum())
        for start, output in zip(run.start_step.tolist(), outputs, strict=True)
    )
    return total / sum(outputs)


def per_step(run: Run, outputs: list[int]) -> float:
    """Return the mean over steps of tokens per second [tokens/s]."""
    del outputs
    return float((run.active / run.duration_s).mean())


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


def _claim(
    number: str,
    name: str,
    formula: Formula,
    other: tuple[str, Formula],
    *texts: str,
    more: tuple[Mutation, ...] = (),
) -> Claim:
    title, statement, printed, reading = texts
    return Claim(
        scope=Scope.FORMULA,
        id=f"balance.eq{number}",
        source=f"BF-IO paper, section 6.3, eq. ({number})",
        title=title,
        statement=statement,
        formula=printed,
        hypotheses=("a drained run",),
        check=partial(_check, name=name, formula=formula),
        summary="Recomputed from when and where each request ran.",
        mutations=(Mutation(other[0], formula=other[1]), *more),
        reading=reading,
    )


CLAIMS = (
    _claim(
        "7",
        "avg_imbalance",
        average_imbalance,
        ("max − min in place of the sum", mean_gap),
        "Average imbalance",
        "The average imbalance is the mean of the steps' imbalances.",
        "AvgImbalance = (1/K)·Σ_k Imbalance(k)",
        "a mean over steps, not over time: a long step counts as a short one.",
    ),
    _claim(
        "8",
        "throughput_tokens_per_s",
        throughput,
        ("the mean of the steps' rates", per_step),
        "Throughput",
        "Throughput is the active requests of all steps over their duration.",
        "Σ_k |A(k)| / Σ_k Δt(k)",
        "one token per active request and step, so the tokens of all requests over the time.",
        more=(Mutation("runs cut off after four steps", steps=4),),
    ),
    _claim(
        "9",
        "tpot_mean_s",
        time_per_token,
        ("averaged over tokens", tokens_weighted),
        "Time per output token",
        "TPOT is the mean over requests of their time in service per token.",
        "TPOT = (1/N)·Σ_i (t_i^finish − t_i^start)/o_i",
        "from the beginning of the first step to the end of the last; the wait before the start "
        "is not in it, so a policy that lets requests wait does not look worse by it.",
    ),
)
