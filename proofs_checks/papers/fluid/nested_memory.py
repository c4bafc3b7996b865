"""Equation (12): the memory that Nested WAIT needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import floor, log

import numpy as np

from bfio.wait.chains import nested_policy
from bfio.wait.queues import queue_lengths
from bfio.wait.run import StageRun
from formulations.thresholds import drift_exponent
from formulations.thresholds.printed import printed_policy_memory
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.fluid.full_batch import Full, full_batch
from proofs_checks.papers.fluid.queues import binomial_law
from proofs_checks.papers.fluid.runs import instance_of, random_setting, reference
from proofs_checks.search import corrected_evidence, examine


@dataclass(frozen=True)
class Load:
    """Requests for Nested WAIT: prompt, ends, thresholds, (time, output) pairs, engine times."""

    prompt: int
    ends: tuple[int, ...]
    thresholds: tuple[int, ...]
    requests: tuple[tuple[int, int], ...]
    fixed: int
    per_token: int

    def run(self) -> StageRun:
        """Serve them."""
        rows = [(t, self.prompt, output) for t, output in self.requests]
        policy = nested_policy(self.ends, self.thresholds)
        horizon = max(t for t, _ in self.requests) + 40 * self.fixed
        return reference(instance_of(rows, self.fixed, self.per_token), policy, horizon)

    def worst(self, full: Fraction | int) -> Fraction:
        """Largest ``memory − full − Σ_k W_k (l + l'_{k−1})`` over the batches."""
        run, policy = self.run(), nested_policy(self.ends, self.thresholds)
        if not len(run.batches):
            return Fraction(-1)
        queues = queue_lengths(run, policy).recorded[:, 1:]
        held = queues @ np.array([self.prompt + end for end in self.ends[:-1]], dtype=np.int64)
        return Fraction(int((run.batches.memory - held).max())) - full


def verify_memory(data: Data) -> str | None:
    """Confirm that a run exceeds M^π of (11) and its queues."""
    requests = tuple((t, o) for t, o in data["requests"])
    load = Load(
        data["prompt"], tuple(data["ends"]), tuple(data["thresholds"]), requests, data["fixed"], 0
    )
    positive = (load.prompt, load.fixed, *load.ends, *load.thresholds)
    if not requests or min(positive) < 1 or min(min(r) for r in requests) < 0:
        return None
    # Prompts that end at ends of segments, as in section 5.
    if not {o for _, o in requests} <= set(load.ends) or len(load.ends) != len(load.thresholds):
        return None
    printed = printed_policy_memory(load.prompt, load.ends, load.thresholds)
    over = load.worst(printed)
    if over <= 0:
        return None
    return f"M^π of (11) is {printed}; a batch needs {over} more than that and the queues' tokens"


def _loads(context: Context) -> Iterator[Load]:
    rng = context.rng
    for _ in range(context.choose(24, 240, 2400)):
        setting = random_setting(rng, context.choose(25, 40, 100), equal_prompts=True)
        ends = tuple(sorted({max(1, output) for _, output in setting.classes}))
        thresholds = tuple(rng.integers(1, 4, len(ends)).tolist())
        requests = tuple((t, max(1, output)) for t, _, output in setting.requests)
        yield Load(
            setting.classes[0][0], ends, thresholds, requests, setting.fixed, setting.per_token
        )


def _memory_check(context: Context, *, queues: bool = True, printed: bool = True) -> Evidence:
    loads = list(_loads(context))
    made = "runs of Nested WAIT on random small engines, thresholds of any size"

    def exact(load: Load) -> int:
        return full_batch((load.prompt, load.ends, load.thresholds))

    def within(load: Load) -> bool:
        if not queues:
            return load.run().peak_memory <= exact(load)
        return load.worst(exact(load)) <= 0

    return corrected_evidence(
        examine(
            "memory ≤ M^π of (11) + Σ W_k(l + l'_{k−1})", made, loads,
            lambda c: c.worst(
                printed_policy_memory(c.prompt, c.ends, c.thresholds) if printed else exact(c)
            ) <= 0,
        ),
        examine("the same with the memory of a full batch", made, loads, within),
        verify_memory,
        lambda c: {
            "prompt": c.prompt, "ends": list(c.ends), "thresholds": list(c.thresholds),
            "requests": [list(r) for r in c.requests], "fixed": c.fixed,
        },
        "At every batch, also where thresholds break (10); with equality in many.",
        attained=sum(c.worst(exact(c)) == 0 for c in loads),
    )  # fmt: skip


@dataclass(frozen=True)
class TwoSegments:
    """Segment 2 has one stage; ``P_2 = λ_2/(λ_1 + λ_2)``.

    Parameters
    ----------
    prompt, output : int
        ``l`` and ``l'_1``; ``l'_2 = l'_1 + 1``.
    thresholds : tuple of int
        ``n_1 > n_2 > n_1 P_2``.
    rates : tuple of int
        In ratio; slow enough for the first part of (10).
    batches : int
        ``S``.
    inverse : int
        ``1/δ``.
    """

    prompt: int
    output: int
    thresholds: tuple[int, int]
    rates: tuple[int, int]
    batches: int
    inverse: int

    @property
    def share(self) -> Fraction:
        """``P_2``."""
        return Fraction(self.rates[1], sum(self.rates))

    @property
    def full(self) -> Full:
        """Prompt, outputs and thresholds."""
        return self.prompt, (self.output, self.output + 1), self.thresholds

    @property
    def applies(self) -> bool:
        """Whether ``n_1 > n_2 > n_1 P_2``."""
        first, second = self.thresholds
        return first > second > first * self.share

    def allowance(self, count: int) -> float:
        """``n_2 + ln(count·S/δ)/θ_2``: what (12) allows for the queue."""
        theta = drift_exponent(*self.thresholds, self.share)
        return self.thresholds[1] + log(count * self.batches * self.inverse) / theta

    def exceeds(self, limit: float, *, when_served: bool) -> float:
        """Return ``P(W_2 > limit at some batch)`` over S batches, by convolution.

        Parameters
        ----------
        limit : float
            On the queue left after the decision about a batch.
        when_served : bool
            Count only batches that serve segment 2: then both segments are full.
        """
        first, second = self.thresholds
        arrival = binomial_law(first, float(self.share))
        kept, law = floor(limit) + 1, np.ones(1)
        # The first l'_1 + 1 batches fill segment 1; the last one's transfer comes too late.
        for _ in range(self.batches - self.output - 1):
            there = np.convolve(law, arrival)
            after = np.zeros(max(second, len(there) - second))
            after[: min(second, len(there))] += there[:second]
            served = there[second:]
            if when_served:
                served = served[: max(0, kept)]
            after[: len(served)] += served
            law = after if when_served else after[: max(0, kept)]
        return 1 - float(law.sum())


def overflow_chance(case: TwoSegments) -> float:
    """Return a lower bound on the chance that the memory of (12) with (11) is exceeded."""
    held = case.prompt + case.output
    spare = float(printed_policy_memory(*case.full) - full_batch(case.full))
    return case.exceeds(case.allowance(2) + spare / held, when_served=True)


def verify_overflow(data: Data) -> str | None:
    """Confirm that the printed memory is exceeded with probability above δ."""
    case = TwoSegments(
        data["prompt"], data["output"], tuple(data["thresholds"]), tuple(data["rates"]),
        data["batches"], data["inverse"],
    )  # fmt: skip
    if len(case.thresholds) != 2 or len(case.rates) != 2 or case.inverse < 2 or case.batches > 400:
        return None
    if min(case.prompt, case.output, *case.thresholds, *case.rates) < 1 or not case.applies:
        return None
    chance = overflow_chance(case)
    if case.batches <= case.output + 1 or chance <= 1 / case.inverse + 1e-9:
        return None
    held = case.prompt + case.output
    memory = float(printed_policy_memory(*case.full)) + held * case.allowance(2)
    return (
        f"l' = ({case.output}, {case.output + 1}), P_2 = {case.share}, δ = 1/{case.inverse}: "
        f"(12) with (11) gives {memory:.2f}; a full batch alone has {full_batch(case.full)}, and "
        f"within {case.batches} batches more than the memory is needed with probability "
        f"{chance:.3f} at least"
    )


def _overflow_check(
    context: Context, *, count: int = 1, buffer: float = 1, fixed: bool = False
) -> Evidence:
    cases = [
        TwoSegments(prompt, output, thresholds, rates, batches, 10)
        for prompt, output, thresholds, rates, batches in product(
            (1, 5), (1, 2), ((2, 1), (4, 3), (10, 9), (6, 4)), ((9, 1), (1, 1), (3, 2)),
            context.choose((60,), (60, 300), (60, 300, 1000)),
        )
    ]  # fmt: skip
    made = "l = 1, 5, l'_1 = 1, 2, four pairs of thresholds, three P_2, δ = 1/10; by convolution"

    def printed(case: TwoSegments) -> bool:
        if fixed:
            return case.exceeds(case.allowance(2), when_served=True) <= 0.1
        return overflow_chance(case) <= 1 / case.inverse

    def corrected(case: TwoSegments) -> bool:
        limit = case.thresholds[1] + buffer * (case.allowance(count) - case.thresholds[1])
        return case.exceeds(limit, when_served=False) <= 1 / case.inverse

    return corrected_evidence(
        examine("exceeded with probability at most δ", made, cases, printed, lambda c: c.applies),
        examine("with the memory of a full batch", made, cases, corrected, lambda c: c.applies),
        verify_overflow,
        lambda c: {
            "prompt": c.prompt, "output": c.output, "thresholds": list(c.thresholds),
            "rates": list(c.rates), "batches": c.batches, "inverse": c.inverse,
        },
        "For two segments (11) lacks so much that the buffer cannot make up for it. With the full "
        "batch's memory, (m − 1)S in the logarithm is enough.",
    )  # fmt: skip


_SEGMENTS = ("l'_1 < ... < l'_m", "one prompt length l")


CLAIMS = (
    Claim(
        id="fluid.nested-memory",
        source="WAIT paper, proof of Theorem 2 ('Memory Consumption', appendix C)",
        title="Memory of a batch in terms of the queues",
        statement="At batch s the memory is M^π of (11) and l + l'_{j−1} for each prompt that "
        "waits before segment j ≥ 2.",
        formula="Memory^s ≤ M^π + Σ_{j≥2} W_j^s·(l + l'_{j−1})",
        hypotheses=(*_SEGMENTS, "W after the decision, at the last batch with segment j − 1"),
        kind=Kind.COUNTEREXAMPLE,
        check=_memory_check,
        mutations=(
            Mutation("no queues in the correction", partial(_memory_check, queues=False)),
            Mutation("the full batch as printed", partial(_memory_check, printed=False)),
        ),
        correction="It holds with the memory of a full batch in place of (11) (fluid.eq11), "
        "path by path and for any thresholds.",
        verify=verify_memory,
    ),
    Claim(
        id="fluid.theorem2-memory",
        source="WAIT paper, Theorem 2 and (12) (section 5.2)",
        title="Memory that suffices with probability 1 − δ",
        statement="With thresholds that satisfy (10) and the memory of (12), memory is not "
        "exceeded on [0, T] with probability at least 1 − δ.",
        formula="M ≥ M^π + Σ_{j≥2} (l + l'_{j−1})(n_j + θ_j^{−1}·ln(mS/δ))",
        hypotheses=(
            *_SEGMENTS,
            "n_{j−1} > n_j > n_{j−1}p_j, so that (16) has a root",
            "M^π of (11)",
        ),
        kind=Kind.COUNTEREXAMPLE,
        check=_overflow_check,
        mutations=(
            Mutation(
                "an eighth of the deviation in the correction",
                partial(_overflow_check, buffer=0.125),
            ),
            Mutation("the full batch's memory as printed", partial(_overflow_check, fixed=True)),
        ),
        correction="With M^π the memory of a full batch; ln((m−1)S/δ), as in appendix C, is "
        "enough. (If n_j ≥ n_{j−1}, (16) has no root and fewer than n_j ever wait: no deviation "
        "is needed.) S must be a bound on the number of batches that is known beforehand.",
        verify=verify_overflow,
    ),
)
