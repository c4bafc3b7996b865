"""All batches of a tiny problem: an oracle that knows no more than the checker."""

from itertools import product

from formulations.batch_composition.check import objective_of, violations
from formulations.batch_composition.greedy import Batch
from formulations.batch_composition.problem import BatchProblem
from formulations.errors import CapabilityError

_MAX_BATCHES = 1_000_000


def brute_force(problem: BatchProblem) -> tuple[int, Batch]:
    """Return the least objective and the first batch in lexicographic order that has it.

    Raises
    ------
    CapabilityError
        If there are too many batches.
    """
    caps = [min(cap, problem.budget) for cap in problem.caps.tolist()]
    count = 1
    for cap in caps:
        count *= cap + 1
    if count > _MAX_BATCHES:
        raise CapabilityError("method", f"{count:.1e} batches to enumerate", "use --method cp-sat")
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
