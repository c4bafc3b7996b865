"""The checker of the batch program and a brute-force oracle, independent of the solvers."""

import math
from collections.abc import Sequence
from itertools import product
from numbers import Integral

from formulations.batch_composition.problem import Batch, BatchProblem
from formulations.errors import CapabilityError

Tokens = Sequence[int]


def worth(problem: BatchProblem, prefill: Tokens, decode: Tokens) -> int:
    """Return the worth of a batch: ``Σ weight_i tokens_i`` plus bonuses of completed prompts."""
    total = 0
    for i, (x, y) in enumerate(zip(prefill, decode, strict=True)):
        total += int(problem.weights[i]) * (x + y)
        if problem.prefill[i] > 0 and x == problem.prefill[i]:
            total += int(problem.bonuses[i])
    return total


def num_in_batch(prefill: Tokens, decode: Tokens) -> int:
    """Return the number of requests with tokens in the batch."""
    return sum(x > 0 or y > 0 for x, y in zip(prefill, decode, strict=True))


def violations(
    problem: BatchProblem, prefill: Tokens, decode: Tokens, objective: int | None = None
) -> dict[str, int]:
    """Return each violated constraint of a batch and the amount; empty if it is feasible.

    Parameters
    ----------
    problem : BatchProblem
        Data.
    prefill, decode : sequence of int
        Length n: ``δ^p_i`` and ``δ^d_i``.
    objective : int, optional
        Claimed objective: ``−scale·worth``, plus the number of requests with ``fewest_requests``.
    """
    if len(prefill) != problem.num_requests or len(decode) != problem.num_requests:
        return {"length": abs(len(prefill) - problem.num_requests) or 1}
    rows = enumerate(zip(prefill, decode, strict=True))
    broken = [i for i, row in rows if not all(isinstance(tokens, Integral) for tokens in row)]
    if broken:
        return {f"whole[{i}]": 1 for i in broken}
    violated = _of_requests(problem, prefill, decode)
    # (2.5d)
    _exceeds(violated, "budget", sum(prefill) + sum(decode), problem.budget)
    if not problem.mixing:
        _exceeds(violated, "mixing", min(sum(prefill), sum(decode)), 0)
    if problem.max_requests is not None:
        _exceeds(violated, "requests", num_in_batch(prefill, decode), problem.max_requests)
    if objective is not None and objective != objective_of(problem, prefill, decode):
        violated["objective"] = abs(objective - objective_of(problem, prefill, decode))
    return violated


def objective_of(problem: BatchProblem, prefill: Tokens, decode: Tokens) -> int:
    """Return the minimised objective: ``−scale·worth``, plus the requests if they count."""
    requests = num_in_batch(prefill, decode) if problem.fewest_requests else 0
    return requests - problem.scale * worth(problem, prefill, decode)


def _of_requests(problem: BatchProblem, prefill: Tokens, decode: Tokens) -> dict[str, int]:
    violated: dict[str, int] = {}
    for i, (x, y) in enumerate(zip(prefill, decode, strict=True)):
        left = int(problem.prefill[i])
        if min(x, y) < 0:
            violated[f"negative[{i}]"] = -min(x, y)
        if left > 0:
            _exceeds(violated, f"phase[{i}]", y, 0)  # (2.5a)
        _exceeds(violated, f"prompt[{i}]", x, left)  # (2.5b)
        _exceeds(violated, f"token[{i}]", y, 1)  # (2.5c)
    return violated


def _exceeds(violated: dict[str, int], name: str, value: int, most: int) -> None:
    if value > most:
        violated[name] = value - most


_MAX_BATCHES = 1_000_000


def brute_force(problem: BatchProblem) -> tuple[int, Batch]:
    """Return the minimum objective and the lexicographically first batch that reaches it.

    Raises
    ------
    CapabilityError
        If there are too many batches.
    """
    caps = [min(cap, problem.budget) for cap in problem.caps.tolist()]
    if math.prod(cap + 1 for cap in caps) > _MAX_BATCHES:
        raise CapabilityError(
            "method", f"more than {_MAX_BATCHES:,} batches to enumerate", 'use method="cp-sat"'
        )
    in_prefill = problem.in_prefill.tolist()
    best: tuple[int, Batch] | None = None
    for tokens in product(*(range(cap + 1) for cap in caps)):
        prefill = tuple(x if p else 0 for x, p in zip(tokens, in_prefill, strict=True))
        decode = tuple(0 if p else x for x, p in zip(tokens, in_prefill, strict=True))
        if not violations(problem, prefill, decode):
            found = objective_of(problem, prefill, decode), (prefill, decode)
            best = found if best is None or found < best else best
    assert best is not None, "the empty batch is feasible"
    return best
