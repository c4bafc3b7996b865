"""The safety buffer of Nested WAIT, and plans: segments, thresholds and memory.

The safety buffer is the memory for requests that wait between segments.

At any one batch, more than c requests wait before segment k with probability at most ``exp(−θ_k (c
− n_k))``. With at most S batches, full batch and all queues together stay within

    (12)  M(n) + Σ_{k=2..L} (l + b_{k−1}) (n_k + ln(argument/δ)/θ_k)

with probability 1 − δ. ``θ_k > 0`` is the root of (16).

With several prompt lengths, each has its own queues, and a union bound divides ``δ`` among all of
them. The segments k = 2..L_g of group g are in at most S_g batches. In total there are ``Σ_g (L_g
− 1) S_g`` pairs of queue and batch, and each gets the same probability of excess.

θ and deviations are floats. θ is rounded down, so that the buffer is conservative, and the
deviations of each group are rounded up to whole tokens.

`cheapest_thresholds` minimise the memory (12), including the safety buffer, for given segments.

A larger n_k enlarges the full batch, but also θ_k, so that fewer requests wait before segment k.
The least thresholds therefore do not always minimise the memory. For a given n_1 the logarithm of
(12) is fixed and the buffer is a sum over pairs (n_{k−1}, n_k), which allows a dynamic program
along the segments. Condition (10) bounds the full batch, ``M < (n_1/Λ_1 − d0)/d1``, so each state
keeps all pairs (batch, memory) that are not dominated. Values of n_1 are tried in ascending order
until, even without deviation, they need more memory than the best known thresholds.

No n_k above n_{k−1} needs to be tried (unless no request ends in segment k−1), because n_{k−1}
already makes θ_k infinite. Deviations are floats, so near-ties may be resolved either way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations, product
from math import ceil, expm1, floor, inf, isfinite, log, log1p
from typing import NotRequired, TypedDict, Unpack

from formulations.errors import CapabilityError, InputError
from formulations.fluid import FluidWorker
from formulations.scalars import exact_number
from formulations.thresholds.conditions import (
    SegmentChain,
    ThresholdProblem,
    least_thresholds,
    policy_memory,
)
from formulations.thresholds.problem import NestedProblem

_HALVINGS = 200
#: Smallest drift per request that floats can distinguish from 0.
_LEAST_DRIFT = Fraction(1, 10**6)
#: Relative steps below the floating-point root at which a safe lower value is sought.
_STEPS_DOWN = (0.0, *(2.0**k for k in range(-52, -24, 2)))
#: Relative margin added to deviations before they are rounded up, against rounding errors.
_ROUNDING = 1e-12


class LogArgument(StrEnum):
    """Argument of the logarithm in (12), in its four printed forms; m classes, L segments.

    With several prompt lengths, the form is summed over them.
    """

    #: ``(L − 1)·S``: the union bound of the proof in appendix C, the smallest proven form.
    PROOF = "proof"
    #: ``m·S``: theorems 2 and 4.
    THEOREM = "theorem"
    #: ``(L − 1)·(T + 1)``: figures 16 to 18, with the duration [s] instead of batches.
    FIGURES = "figures"
    #: ``(L − 1)·(S + 1)``: appendix D.
    TIME_VARYING = "time-varying"


class BufferTarget(TypedDict):
    """Keyword arguments: duration and probability with which a safety buffer must suffice.

    Parameters
    ----------
    duration : int, float, str or Fraction
        T > 0 [s] (with the paper's scaling, ζT).
    probability : int, float, str or Fraction
        ``δ`` in (0, 1), the probability of ever exceeding the memory.
    argument : LogArgument, optional
        Argument of the logarithm; `LogArgument.PROOF` by default.
    """

    duration: object
    probability: object
    argument: NotRequired[LogArgument]


@dataclass(frozen=True)
class SafetyBuffer:
    """The memory (12) of Nested WAIT and its three parts [tokens].

    Parameters
    ----------
    exponents : tuple of float
        ``θ_2 .. θ_L``; infinite if no queue builds up, 0 if the queue has no drift.
    policy_memory : int
        ``M(n)``, the full batch.
    waiting : int
        ``Σ (l + b_{k−1}) n_k``, requests that wait for a threshold between segments.
    deviation : int, optional
        ``Σ (l + b_{k−1}) ln(argument/δ)/θ_k``, rounded up.
    """

    exponents: tuple[float, ...]
    policy_memory: int
    waiting: int
    deviation: int | None

    @property
    def total(self) -> int | None:
        """The memory that suffices with probability ``1 − δ`` [tokens]; None if unbounded."""
        if self.deviation is None:
            return None
        return self.policy_memory + self.waiting + self.deviation


def drift_exponent(before: int, threshold: int, share: Fraction) -> float:
    """Return θ > 0 with ``exp(−θ n_k) (1 − P + P e^θ)^{n_{k−1}} = 1``, equation (16).

    Parameters
    ----------
    before, threshold : int
        ``n_{k−1}`` and ``n_k``.
    share : Fraction
        ``P_k`` in (0, 1], the probability that a request continues to segment k.

    Returns
    -------
    float
        At most the root. Infinite if ``n_k >= n_{k−1}``, since fewer than n_k requests ever wait;
        0 if ``n_k <= n_{k−1} P``, since the queue has no negative drift.
    """
    if threshold >= before:
        return inf
    if threshold <= before * share:
        return 0.0
    drift = threshold - before * share
    # (18): the root is at least 8 (n_k − n_{k−1} P)/n_{k−1}.
    low, p = float(4 * drift / before), float(share)
    if drift > before * _LEAST_DRIFT:
        theta = _largest(low, lambda t: _cumulant(before, threshold, p, t) < 0)
        for step in _STEPS_DOWN:
            theta *= 1 - step
            if _is_below_root(before, threshold, share, theta):
                return theta
    return _largest(low, lambda t: _is_below_root(before, threshold, share, t))


def _largest(low: float, is_below: Callable[[float], bool]) -> float:
    """Return the largest float for which ``is_below`` holds, by bisection above ``low``."""
    high = 2 * low
    while is_below(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if is_below(middle):
            low = middle
        else:
            high = middle
    return low


def _is_below_root(before: int, threshold: int, share: Fraction, theta: float) -> bool:
    """Return whether θ is below the root of g (`_cumulant`), with enough digits to decide.

    The two terms of g can agree in their first ``2·log10(n v)`` digits, with v the denominator of
    P, so the precision exceeds this number. Decimal rounds exp and ln correctly.
    """
    with localcontext() as context:
        context.prec = 30 + 2 * (len(str(before)) + len(str(share.denominator)))
        p, t = Decimal(share.numerator) / share.denominator, Decimal(theta)
        terms = before * (1 - p + p * t.exp()).ln(), threshold * t
        doubt = (before + terms[1]).scaleb(5 - context.prec)
        return terms[0] - terms[1] < -doubt


def _cumulant(before: int, threshold: int, share: float, theta: float) -> float:
    """Return ``g(θ) = −θ n_k + n_{k−1} ln(1 − P + P e^θ)``."""
    if theta < 1:
        # Near 0 the terms are small and nearly cancel; expm1 and log1p keep the precision.
        return before * log1p(share * expm1(theta)) - theta * threshold
    rest = log(share + (1 - share) * (expm1(-theta) + 1))
    return before * rest + theta * (before - threshold)


def largest_batch_count(worker: FluidWorker, prompt: int, first: int, duration: Fraction) -> int:
    """Return ``⌈T/(d0 + d1 n_1 l)⌉``, an upper bound on the batches of a run of T seconds.

    Every batch of Nested WAIT has n_1 new prompts. The printed S is random and depends on the run.
    """
    return max(1, ceil(duration / (worker.d0 + worker.d1 * first * prompt)))


def safety_buffer(
    problem: ThresholdProblem, thresholds: Sequence[int], **target: Unpack[BufferTarget]
) -> SafetyBuffer:
    """Return the memory (12) of Nested WAIT with its safety buffer.

    Parameters
    ----------
    problem : NestedProblem or TimeVaryingProblem
        Data. (WAIT has no queues between segments, and no buffer.)
    thresholds : sequence of int
        One per segment.
    **target
        ``duration``, ``probability`` and ``argument``, see `BufferTarget`.

    Raises
    ------
    InputError
        If duration or probability are out of range.
    """
    return sum_of_buffers(group_buffers(problem, thresholds, **target))


def sum_of_buffers(parts: Sequence[SafetyBuffer]) -> SafetyBuffer:
    """Return the sum of the safety buffers of all prompt lengths."""
    deviations = [part.deviation for part in parts if part.deviation is not None]
    return SafetyBuffer(
        exponents=tuple(theta for part in parts for theta in part.exponents),
        policy_memory=sum(part.policy_memory for part in parts),
        waiting=sum(part.waiting for part in parts),
        deviation=sum(deviations) if len(deviations) == len(parts) else None,
    )


def group_buffers(
    problem: ThresholdProblem, thresholds: Sequence[int], **target: Unpack[BufferTarget]
) -> tuple[SafetyBuffer, ...]:
    """Return the contribution of each prompt length to `safety_buffer`."""
    conditions = problem.conditions
    parts = conditions.split(thresholds)
    logarithm = buffer_logarithm(problem, [part[0] for part in parts], **target)
    return tuple(
        _chain_buffer(chain, part, logarithm)
        for chain, part in zip(conditions.chains, parts, strict=True)
    )


def _chain_buffer(
    chain: SegmentChain, thresholds: Sequence[int], logarithm: float
) -> SafetyBuffer:
    exponents = tuple(map(drift_exponent, thresholds, thresholds[1:], chain.passing))
    deviation = sum(
        tokens * logarithm / theta if theta else inf
        for tokens, theta in zip(chain.held, exponents, strict=True)
    )
    return SafetyBuffer(
        exponents=exponents,
        policy_memory=policy_memory(chain.weights, thresholds),
        waiting=sum(t * n for t, n in zip(chain.held, thresholds[1:], strict=True)),
        deviation=ceil(deviation * (1 + _ROUNDING)) if isfinite(deviation) else None,
    )


def buffer_logarithm(
    problem: ThresholdProblem, first: Sequence[int], **target: Unpack[BufferTarget]
) -> float:
    """Return ``ln(argument/δ)`` of (12), given the n_1 of each chain."""
    seconds = exact_number(target["duration"], "duration", positive=True)
    delta = exact_number(target["probability"], "probability")
    if not 0 < delta < 1:
        raise InputError(
            "probability", f"{delta} is not between 0 and 1", "use a probability in (0, 1)"
        )
    argument = target.get("argument", LogArgument.PROOF)
    count = max(Fraction(1), _argument(problem, first, seconds, argument))
    # δ may be smaller than any float.
    return log(count) + log(delta.denominator) - log(delta.numerator)


def _argument(
    problem: ThresholdProblem, first: Sequence[int], duration: Fraction, argument: LogArgument
) -> Fraction:
    conditions = problem.conditions
    if argument is LogArgument.FIGURES:
        return sum(len(chain.passing) for chain in conditions.chains) * (duration + 1)
    total = 0
    for chain, n in zip(conditions.chains, first, strict=True):
        batches = largest_batch_count(conditions.worker, chain.prompt, n, duration)
        if argument is LogArgument.THEOREM:
            total += chain.num_classes * batches
        else:
            total += len(chain.passing) * (batches + (argument is LogArgument.TIME_VARYING))
    return Fraction(total)


#: Largest n_1 tried; states and steps grow with its square.
_MAX_FIRST = 2000
#: Full batch, memory of (12), thresholds so far.
Label = tuple[int, float, tuple[int, ...]]


def cheapest_thresholds(
    problem: NestedProblem, **target: Unpack[BufferTarget]
) -> tuple[int, ...] | None:
    """Return the thresholds of least memory (12) that satisfy (10) strictly.

    See `BufferTarget` for the keywords.

    Returns
    -------
    tuple of int, optional
        One per segment; None if the load is 1 or more.

    Raises
    ------
    CapabilityError
        If thresholds are too large for the dynamic program.
    """
    strict = replace(problem, strict=True, within_memory=False)
    best, _ = least_thresholds(strict)
    if best is None:
        return None
    memory = safety_buffer(strict, best, **target).total
    most = inf if memory is None else float(memory)
    search = _Search(strict)
    for first in range(best[0], _MAX_FIRST):
        if search.floor_from(0, first)[1] >= most:
            return best
        logarithm = buffer_logarithm(strict, [first], **target)
        for _, total, thresholds in search.labels(first, logarithm, most):
            if total < most:
                best, most = thresholds, total
    raise CapabilityError(
        "thresholds", f"n_1 would exceed {_MAX_FIRST}", "use the thresholds of least_thresholds"
    )


class _Search:
    """The dynamic program of `cheapest_thresholds` along the segments of one problem."""

    def __init__(self, problem: NestedProblem) -> None:
        self.problem = problem
        self.weights = problem.weights
        self.shares = (Fraction(0), *problem.group.chain.passing)
        self.held = (0, *problem.group.chain.held)
        self.floor_from = cache(self._floor_from)
        self._exponent = cache(drift_exponent)

    def largest_batch(self, first: int) -> float:
        """Return the largest full batch that (10) allows [tokens]."""
        worker = self.problem.worker
        time = first / self.problem.arriving[0] - worker.d0
        if worker.d1 == 0:
            return inf if time > 0 else -1
        return ceil(time / worker.d1) - 1

    def labels(self, first: int, logarithm: float, most: float) -> list[Label]:
        """Return the undominated threshold vectors with n_1 = ``first`` and memory < ``most``."""
        limit = self.largest_batch(first)
        batch = first * self.weights[0]
        states: dict[int, list[Label]] = {first: [(batch, float(batch), (first,))]}
        for k in range(1, len(self.weights)):
            after: dict[int, list[Label]] = {}
            for before, labels in states.items():
                for n, deviation in self._steps(k, before, logarithm):
                    batch, cost = n * self.weights[k], n * (self.weights[k] + self.held[k])
                    rest_batch, rest_cost = self.floor_from(k, n)
                    after.setdefault(n, []).extend(
                        (m + batch, total + cost + deviation, (*vector, n))
                        for m, total, vector in labels
                        # `floor_from` includes segment k.
                        if m + rest_batch <= limit and total + deviation + rest_cost < most
                    )
            states = {n: _undominated(labels) for n, labels in sorted(after.items())}
        return [label for labels in states.values() for label in labels if label[0] <= limit]

    def _steps(self, k: int, before: int, logarithm: float) -> Iterator[tuple[int, float]]:
        """Yield each useful n_k after n_{k−1} = ``before``, with its deviation [tokens]."""
        least = floor(self.shares[k] * before) + 1
        for n in range(least, max(least, before) + 1):
            theta = self._exponent(before, n, self.shares[k])
            yield n, self.held[k] * logarithm / theta

    def _floor_from(self, k: int, n: int) -> tuple[int, int]:
        """Return lower bounds on batch and memory of segments k..L, given n_k = n [tokens]."""
        batch = cost = 0
        for i in range(k, len(self.weights)):
            n = n if i == k else floor(self.shares[i] * n) + 1
            batch += n * self.weights[i]
            cost += n * (self.weights[i] + self.held[i])
        return batch, cost


def _undominated(labels: list[Label]) -> list[Label]:
    """Return the labels that are undominated in (batch, memory), ascending by batch."""
    kept: list[Label] = []
    for label in sorted(labels):
        if not kept or label[1] < kept[-1][1]:
            kept.append(label)
    return kept


#: Largest number of inner boundaries whose subsets are enumerated (at most 2^16 subsets).
_MAX_INNER = 16


@dataclass(frozen=True)
class SegmentPlan:
    """A plan of Nested WAIT: segments with their thresholds and memory.

    Parameters
    ----------
    problem : NestedProblem
        Data, including the segments.
    thresholds : tuple of int
        Threshold of each segment, per stage.
    group_buffers : tuple of SafetyBuffer
        Contribution of each prompt length to the memory of (12).
    """

    problem: NestedProblem
    thresholds: tuple[int, ...]
    group_buffers: tuple[SafetyBuffer, ...]

    @cached_property
    def buffer(self) -> SafetyBuffer:
        """The memory of (12) and its parts."""
        return sum_of_buffers(self.group_buffers)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Last stage of each segment, concatenated over the prompt lengths."""
        return tuple(end for group in self.problem.groups for end in group.ends)

    @property
    def num_segments(self) -> int:
        """``L``."""
        return len(self.boundaries)

    @property
    def memory(self) -> int | None:
        """Memory that suffices with the required probability [tokens]; None if unbounded."""
        return self.buffer.total


def plan(
    problem: NestedProblem, *, raised: bool = False, **target: Unpack[BufferTarget]
) -> SegmentPlan | None:
    """Return the plan for the segments of the problem; None if their load is 1 or more.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    raised : bool
        Whether thresholds may exceed the least ones to save memory, see `cheapest_thresholds`.
    **target
        ``duration``, ``probability`` and ``argument``, see `BufferTarget`.

    Raises
    ------
    CapabilityError
        If ``raised`` is used with several prompt lengths or too large thresholds.
    """
    if raised:
        if len(problem.groups) > 1:
            raise CapabilityError(
                "raised", "not supported with several prompt lengths", "set it to false"
            )
        thresholds = cheapest_thresholds(problem, **target)
    else:
        thresholds, _ = least_thresholds(problem)
    if thresholds is None:
        return None
    return SegmentPlan(problem, thresholds, group_buffers(problem, thresholds, **target))


def equal_boundaries(outputs: Sequence[int], num_segments: int) -> tuple[int, ...]:
    """Return the boundaries of L segments of ``m/L`` classes each (section 7.2).

    Raises
    ------
    InputError
        If L does not divide m.
    """
    m = len(outputs)
    if not 1 <= num_segments <= m or m % num_segments:
        what = f"{num_segments} do not divide {m} output lengths evenly"
        raise InputError("segments", what, f"use a divisor of {m}")
    width = m // num_segments
    return tuple(outputs[width - 1 :: width])


def printed_segment_memory(prompt: int, width: int, thresholds: Sequence[int]) -> Fraction:
    """Return the memory printed in (14), ``Σ n_i (l + i·Δ/2)·Δ``, for segments of Δ stages.

    Segment i ends at stage ``iΔ``; its mean stage is ``(i − 1/2)Δ + 1/2``, not ``iΔ/2``.
    """
    return sum(
        (n * (prompt + Fraction(i * width, 2)) * width for i, n in enumerate(thresholds, 1)),
        Fraction(0),
    )


def equal_plans(
    problem: NestedProblem, counts: Iterable[int], **target: Unpack[BufferTarget]
) -> dict[int, SegmentPlan | None]:
    """Return the plan for each number of equal segments, as in figures 16 to 18.

    With several prompt lengths, each has this number of segments. See `BufferTarget` for the
    keywords.
    """
    return {
        count: plan(
            problem.with_segments([equal_boundaries(g.outputs, count) for g in problem.groups]),
            **target,
        )
        for count in counts
    }


def all_boundaries(outputs: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every choice of boundaries among the output lengths; the last is always included."""
    inner = outputs[:-1]
    sizes = range(len(inner) + 1)
    return [(*chosen, outputs[-1]) for size in sizes for chosen in combinations(inner, size)]


def all_segments(problem: NestedProblem) -> Iterator[NestedProblem]:
    """Yield the problem for every choice of boundaries among the outputs of every group.

    Raises
    ------
    CapabilityError
        If there are too many choices.
    """
    inner = sum(len(group.outputs) - 1 for group in problem.groups)
    if inner > _MAX_INNER:
        what = f"2^{inner} choices of boundaries"
        raise CapabilityError("outputs", what, "merge some outputs, or use solve_segments")
    for boundaries in product(*(all_boundaries(group.outputs) for group in problem.groups)):
        yield problem.with_segments(boundaries)


def best_plan(
    problem: NestedProblem, *, raised: bool = False, **target: Unpack[BufferTarget]
) -> SegmentPlan | None:
    """Return the plan of least memory (12) over all boundaries; see `plan` for the parameters.

    Ties go to fewer segments. None if no choice of segments is stable with a bounded buffer.

    Raises
    ------
    CapabilityError
        If there are too many choices to enumerate.
    """
    plans = (plan(candidate, raised=raised, **target) for candidate in all_segments(problem))
    known = [(p.memory, p) for p in plans if p is not None and p.memory is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None
