"""Sections 7 and 8: the size of the cache, slopes, predicted outputs."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from bfio.kvcache.hardware import PUBLISHED_MEMORY, cache_bytes_per_token, cache_tokens
from bfio.kvcache.look_ahead import LookAhead
from bfio.kvcache.simulation import serve
from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.kv.clearing import LIMITS
from proofs_checks.papers.kv.model import (
    Load,
    as_data,
    equation_1,
    from_data,
    random_problem,
    used,
)
from proofs_checks.search import (
    corrected_evidence,
    examine,
    smallest_counterexample,
)

# The size of the cache.
_LAYERS, _HIDDEN, _BYTES = 80, 8192, 2


_PARAMETERS = 70 * 10**9


def tokens_limit(data: Data) -> int:
    """Return the tokens that fit, for the printed sizes in units of ``gigabyte`` bytes."""
    per_token = cache_bytes_per_token(_LAYERS, _HIDDEN, _BYTES)
    model = _PARAMETERS * _BYTES if data["model_in_bytes"] else 140 * data["gigabyte"]
    return cache_tokens(160 * data["gigabyte"], model, per_token)


def verify_limit(data: Data) -> str | None:
    """Evaluate the printed formula and compare it with 16,492 tokens."""
    if data["gigabyte"] not in (10**9, 2**30) or data["model_in_bytes"] not in (0, 1):
        return None
    tokens = tokens_limit(data)
    if tokens == PUBLISHED_MEMORY:
        return None
    return f"with a GB of {data['gigabyte']} bytes: {tokens} tokens, not {PUBLISHED_MEMORY}"


def _limit_check(context: Context, *, layers: int = _LAYERS) -> Evidence:
    del context
    cases = [{"gigabyte": g, "model_in_bytes": m} for g in (10**9, 2**30) for m in (0, 1)]
    per_token = cache_bytes_per_token(layers, _HIDDEN, _BYTES)
    printed = examine(
        "(160 GB − 140 GB)/(2·L·H·D) = 16,492",
        "GB of 10^9 and of 2^30 bytes",
        cases,
        lambda c: verify_limit(c) is None,
    )
    corrected = examine(
        "2·L·H·D = 2,621,440 bytes and 20·10^9 of them hold 7,629 tokens",
        "L = 80, H = 8192, D = 2",
        [per_token],
        lambda b: b == 2_621_440 and 20 * 10**9 // b == 7629,
    )
    return corrected_evidence(
        printed,
        corrected,
        verify_limit,
        lambda case: case,
        "No reading of GB gives 16,492; a token of half the size does not either (15,258).",
    )


# Latency and slopes.
def verify_cap(data: Data) -> str | None:
    """Compare slope times arrivals with the latency that section 8.2 gives."""
    slope = Fraction(1, data["inverse_slope"])
    if data["inverse_slope"] != 6 or data["arrivals"] != 10_000 or data["cap"] != 200:
        return None
    grown = slope * data["arrivals"]
    if grown <= data["cap"]:
        return None
    return (
        f"{data['arrivals']} arrivals at {slope} s each add {float(grown):.0f} s, more than "
        f"{data['cap']} s"
    )


def _slopes_check(context: Context, *, high: int = 2, low: int = 100) -> Evidence:
    del context
    case = {"inverse_slope": 6, "arrivals": 10_000, "cap": 200}
    printed = examine(
        "a slope of 1/6 s per arrival stays below 200 s at 10,000 arrivals",
        "section 7.1 and 8.2",
        [case],
        lambda c: verify_cap(c) is None,
    )
    corrected = examine(
        "the slopes are in ratio 3 (1/2 to 1/6) and 8 (1/100 to 1/800)",
        "section 8.2",
        [((high, 6), 3), ((low, 800), 8)],
        lambda c: Fraction(c[0][1], c[0][0]) == c[1],
    )
    return corrected_evidence(
        printed,
        corrected,
        verify_cap,
        lambda c: c,
        "The unit of the slopes is not given: seconds per arrival contradicts section 8.2, "
        "where at most 1/50 fits.",
    )


# Predictions.
def overflows(
    memory: int, prompt: int, outputs: Sequence[int], believed: Sequence[int]
) -> int | None:
    """Return the first slot at which the true requests exceed the memory, if any.

    All are there at 0; Algorithm 2 starts, in slot 0, what passes Equation (1) by the believed
    outputs, under the rule of section 3.
    """
    new: list[Load] = []
    true: list[Load] = []
    for hoped, output in sorted(zip(believed, outputs, strict=True)):
        candidate = (prompt + 1, max(1, hoped))
        if not equation_1(memory, [], [*new, candidate]):
            break
        new.append(candidate)
        true.append((prompt + 1, output))
    slots = range(max((n for _, n in true), default=0))
    return next((slot for slot in slots if used(true, slot) > memory), None)


def _drawn(context: Context) -> list[Data]:
    cases = []
    for _ in range(context.choose(150, 1500, 20_000)):
        problem = random_problem(context.rng, least=2, rounds=0, convention=Convention.HALF_OPEN)
        error = int(context.rng.integers(1, 4))
        shift = context.rng.integers(-error, error + 1, problem.num_requests)
        predicted = np.maximum(1, problem.output + shift)
        rows = [
            [*row, int(hoped)]
            for row, hoped in zip(as_data(problem)["requests"], predicted, strict=True)
        ]
        cases.append(as_data(problem) | {"requests": rows, "error": error})
    return cases


def _read_predictions(data: Data) -> tuple[LatencyProblem, list[int], int]:
    problem = from_data(data | {"requests": [row[:3] for row in data["requests"]]})
    predicted = [row[3] for row in data["requests"]]
    pairs = zip(predicted, problem.output.tolist(), strict=True)
    if problem.arrival.any() or len(set(problem.prompt.tolist())) > 1 or min(predicted) < 1:
        raise ValueError("late arrivals, different prompts or no prediction")
    if problem.convention is not Convention.HALF_OPEN or data["error"] < 1:
        raise ValueError("another convention, or no error")
    if any(abs(hoped - output) > data["error"] for hoped, output in pairs):
        raise ValueError("a prediction further off than its error")
    return problem, predicted, data["error"]


def verify_margin(data: Data) -> str | None:
    """Check that what starts at once by ô − δ exceeds the memory later."""
    problem, predicted, error = _read_predictions(data)
    outputs, prompt = problem.output.tolist(), int(problem.prompt[0])
    believed = [hoped - error for hoped in predicted]
    slot = overflows(problem.memory, prompt, outputs, believed)
    if slot is None:
        return None
    return (
        f"M = {problem.memory}, s = {prompt}, o = {outputs}, ô = {predicted}, δ = {error}: what "
        f"passes with ô − δ at round 0 exceeds M {slot + 1} rounds later"
    )


def _margin_check(context: Context, *, sign: int = 1) -> Evidence:
    cases = _drawn(context)

    def safe(case: Data) -> bool:
        problem, predicted, error = _read_predictions(case)
        believed = np.maximum(1, np.array(predicted, dtype=np.int64) + sign * error)
        run = serve(problem, LookAhead(), predicted=believed, engine="reference", limits=LIMITS)
        return run.is_finished and run.overflows == 0

    printed = examine(
        "ô − δ in place of o never exceeds M",
        "random instances, |ô − o| ≤ δ ≤ 3",
        cases,
        lambda c: verify_margin(c) is None,
    )
    corrected = examine(
        "ô + δ never does", "the same, whole runs", cases[: context.choose(60, 600, 5000)], safe
    )
    return Evidence(
        printed.tally.verdict(),
        corrected.tally.verdict(),
        "A lower bound on the output is a lower bound on the memory: the wrong side.",
        (printed.tally, corrected.tally),
        counterexample=smallest_counterexample(
            printed.failures, verify_margin, f"search: {printed.tally.made}"
        ),
    )


CLAIMS = (
    Claim(
        id="kv.memory-limit",
        source="KV-cache paper, section 7 (simulation setup)",
        title="16,492 tokens",
        statement="For Llama2-70B on two A100 the limit is (160 GB − 140 GB) over 2·L·H·D = "
        "2,621,440 bytes per token, 16,492 tokens.",
        formula="(160 GB − 70·10⁹·2 B)/(2·80·8192·2 B) = 16,492",
        hypotheses=("P = 70 billion, L = 80, H = 8192, D = 2",),
        kind=Kind.COUNTEREXAMPLE,
        check=_limit_check,
        mutations=(Mutation("64 layers in the correction", partial(_limit_check, layers=64)),),
        correction="The size per token is right; the quotient is 7,629 tokens (8,192 with GB of "
        "2^30 bytes throughout, 12,130 with the model in bytes).",
        verify=verify_limit,
    ),
    Claim(
        id="kv.section8.2",
        source="KV-cache paper, sections 7.1, 7.2 and 8.2",
        title="Slopes and the latency cap",
        statement="Under high demand average latency grows with slope 1/6 in the arrivals and "
        "stays below 200 s up to 10,000 arrivals; the best benchmark's slope is 3 times that, "
        "under low demand 8 times.",
        formula="10,000·(1/6 s) ≤ 200 s;  (1/2)/(1/6) = 3;  (1/100)/(1/800) = 8",
        hypotheses=("slope in seconds per arrival", "a line through the origin"),
        kind=Kind.COUNTEREXAMPLE,
        check=_slopes_check,
        mutations=(Mutation("1/3 for 1/2 in the correction", partial(_slopes_check, high=3)),),
        correction="The ratios 3 and 8 are right.",
        verify=verify_cap,
    ),
    Claim(
        id="kv.section8.1",
        source="KV-cache paper, section 8.1",
        title="Safe margin for predictions",
        statement="If |o − ô| ≤ δ, replacing o by ô − δ avoids memory overflow.",
        formula="(1) with ô_i − δ  ⇒  memory ≤ M",
        hypotheses=("|o_i − ô_i| ≤ δ", "a common prompt s"),
        kind=Kind.COUNTEREXAMPLE,
        check=_margin_check,
        mutations=(Mutation("ô − δ in the correction", partial(_margin_check, sign=-1)),),
        correction="ô + δ does, as the text's own word conservative suggests.",
        reading="the rule of section 3 (C); ô − δ at least 1.",
        verify=verify_margin,
    ),
)
