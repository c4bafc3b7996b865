"""Section 8.1: predicted outputs and a margin for their errors."""

from collections.abc import Sequence

import numpy as np

from bfio.kvcache.look_ahead import LookAhead
from bfio.kvcache.simulation import serve
from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.clearing import LIMITS
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    jobs,
    peak,
    problem_of,
    random_problem,
    selected,
)
from proofs_checks.search import examine, refute


def started_at_once(
    memory: int, prompt: int, believed: Sequence[int], convention: Convention
) -> list[int]:
    """Return the requests that Algorithm 2 starts at 0 on an empty worker by believed outputs."""
    data = jobs(problem_of(memory, [prompt] * len(believed), believed, convention))
    order = sorted(range(len(believed)), key=lambda job: (believed[job], job))
    chosen = selected(memory, (), [data.load(job) for job in order])
    return [order[position] for position in chosen]


def exceeds(data: Data, convention: Convention) -> bool:
    """Whether what starts at 0 by ô − δ exceeds the memory before it has completed."""
    believed = [hoped - data["error"] for _, hoped in data["requests"]]
    chosen = started_at_once(data["memory"], data["prompt"], believed, convention)
    outputs = [data["requests"][job][0] for job in chosen]
    true = problem_of(data["memory"], [data["prompt"]] * len(chosen), outputs, convention)
    return bool(chosen) and peak(jobs(true), [0] * len(chosen)) > data["memory"]


def verify_margin(data: Data) -> str | None:
    """Check that what starts at once by ô − δ exceeds the memory, under every convention."""
    rows, error, prompt = data["requests"], data["error"], data["prompt"]
    if not rows or min(error, prompt) < 1:
        return None
    if any(abs(o - hoped) > error or hoped - error < 1 for o, hoped in rows):
        return None
    if any(prompt + o > data["memory"] for o, _ in rows):
        return None
    if not all(exceeds(data, convention) for convention in CONVENTIONS):
        return None
    return (
        f"M = {data['memory']}, s = {prompt}, (o, ô) = {rows}, δ = {error}, all at 0: what passes "
        "(1) with ô − δ at round 0 exceeds M later, under conventions A, B and C"
    )


def _drawn(context: Context) -> Data:
    rng = context.rng
    error, prompt = (int(v) for v in rng.integers(1, 3, 2))
    memory = int(rng.integers(prompt + 2 * error + 1, 13))
    outputs = rng.integers(error + 1, memory - prompt + 1, int(rng.integers(2, 5)))
    predicted = np.maximum(error + 1, outputs + rng.integers(-error, error + 1, len(outputs)))
    rows = np.stack([outputs, predicted], 1).tolist()
    return {"memory": memory, "prompt": prompt, "requests": rows, "error": error}


def _safe(context: Context, sign: int) -> bool:
    """Let Algorithm 2 serve a random instance by predictions with a margin."""
    problem: LatencyProblem = random_problem(
        context.rng, least=2, rounds=0, convention=Convention.HALF_OPEN
    )
    error = int(context.rng.integers(1, 4))
    predicted = problem.output + context.rng.integers(-error, error + 1, problem.num_requests)
    believed = np.maximum(1, np.maximum(1, predicted) + sign * error)
    run = serve(problem, LookAhead(), predicted=believed, engine="reference", limits=LIMITS)
    return run.is_finished and run.overflows == 0


def _margin_check(context: Context, *, sign: int = 1) -> Outcome:
    cases = [_drawn(context) for _ in range(context.choose(300, 3000, 30_000))]
    runs = range(context.choose(60, 600, 5000))
    return refute(
        "ô − δ in place of o keeps the memory, under one convention at least",
        "random requests at 0, |ô − o| ≤ δ ≤ 2, ô − δ ≥ 1",
        cases,
        verify_margin,
    ), examine(
        "ô + δ does, in whole runs",
        "random instances, |ô − o| ≤ δ ≤ 3, convention C",
        runs,
        lambda _: _safe(context, sign),
    )


CLAIMS = (
    Claim(
        id="kv.section8.1",
        source="KV-cache paper, section 8.1",
        title="Safe margin for predictions",
        statement="If |o − ô| ≤ δ, replacing o by ô − δ, the lower bound on the output length, is "
        "one way to ensure that memory overflow is avoided.",
        formula="(1) with ô_i − δ  ⇒  memory ≤ M",
        hypotheses=("|o_i − ô_i| ≤ δ", "a common prompt s", "o_i ≤ M − s"),
        kind=Kind.COUNTEREXAMPLE,
        check=_margin_check,
        summary="A lower bound on the output is a lower bound on the memory: the wrong side.",
        mutations=(Mutation("ô − δ in the correction", sign=-1),),
        correction="ô + δ, the upper bound, does. Its purpose (no overflow) and the next sentence "
        "(overly conservative, inefficient for a large δ) fit ô + δ only, so that is what is "
        "meant; the printed words, the lower bound on output length, speak against it, so the "
        "slip is in both the sign and the word.",
        defect=Defect.MISPRINT,
        reading="the sentence to the letter. A counterexample has ô − δ ≥ 1 and exceeds M under "
        "every convention.",
        verify=verify_margin,
    ),
)
