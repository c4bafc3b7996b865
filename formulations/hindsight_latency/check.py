"""The checker of schedules, and a brute-force oracle.

Both read the problem data only and share no code with the solvers.
"""

import math
from collections import Counter
from collections.abc import Sequence

from formulations.errors import CapabilityError
from formulations.hindsight_latency.problem import LatencyProblem, kinds


def violations(
    problem: LatencyProblem, starts: Sequence[int], objective: int | None = None
) -> dict[str, int]:
    """Return every violated constraint and by how much.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    starts : sequence of int
        Start round ``p_i`` of each request, length n.
    objective : int, optional
        Claimed total latency, compared with the recomputed one.

    Returns
    -------
    dict of str to int
        Constraint name to positive amount; empty for a feasible schedule. ``memory[τ]`` gives the
        tokens in excess at round τ.
    """
    if len(starts) != problem.num_requests:
        return {"starts": abs(len(starts) - problem.num_requests)}
    strangers = {f"starts[{i}]": 1 for i, start in enumerate(starts) if type(start) is not int}
    if strangers:
        return strangers
    arrivals = problem.arrival.tolist()
    violated = {
        f"arrival[{i}]": arrival - start
        for i, (arrival, start) in enumerate(zip(arrivals, starts, strict=True))
        if start < arrival
    }
    used = memory_used(problem, starts)
    for round_, tokens in sorted(used.items()):
        if tokens > problem.memory:
            violated[f"memory[{round_}]"] = tokens - problem.memory
    if objective is not None and (error := abs(objective - total_latency(problem, starts))):
        violated["objective"] = error
    return violated


def total_latency(problem: LatencyProblem, starts: Sequence[int]) -> int:
    """Return ``Σ (p_i + o_i - a_i)`` [rounds]."""
    outputs, arrivals = problem.output.tolist(), problem.arrival.tolist()
    return sum(p + o - a for p, o, a in zip(starts, outputs, arrivals, strict=True))


def memory_used(problem: LatencyProblem, starts: Sequence[int]) -> dict[int, int]:
    """Return the tokens in the cache at every round with a nonempty cache."""
    convention = problem.convention
    used: dict[int, int] = {}
    prompts, outputs = problem.prompt.tolist(), problem.output.tolist()
    for start, prompt, output in zip(starts, prompts, outputs, strict=True):
        for age in range(convention.first_age, convention.last_age(output) + 1):
            used[start + age] = used.get(start + age, 0) + prompt + age
    return used


#: Largest number of start vectors up to the last step.
MAX_VECTORS = 10**9


def brute_force(problem: LatencyProblem, most: int | None = None) -> tuple[int, list[int]]:
    """Return the least total latency and the lexicographically smallest starts that reach it.

    Partial vectors that exceed the memory, or cost at least as much as the best, are pruned.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    most : int, optional
        Largest number of starts that are tried, over all requests.

    Raises
    ------
    CapabilityError
        If ``most`` starts do not suffice or, without ``most``, there are more than `MAX_VECTORS`
        vectors up to the last step.
    """
    last = {i: kind.last_start for kind in kinds(problem) for i in kind.members}
    arrivals = problem.arrival.tolist()
    size = math.prod(last[i] - arrival + 1 for i, arrival in enumerate(arrivals))
    if most is None and size > MAX_VECTORS:
        raise CapabilityError(
            "problem",
            f"more than {MAX_VECTORS} start vectors",
            "use --method cp-sat",
        )
    convention, prompts, outputs = problem.convention, problem.prompt, problem.output
    ages = [range(convention.first_age, convention.last_age(o) + 1) for o in outputs.tolist()]
    left = math.inf if most is None else most
    best: tuple[int, list[int]] | None = None
    starts: list[int] = []
    # Memory of the requests placed so far.
    used: Counter[int] = Counter()

    def extend(total: int) -> None:
        """Try every start of the next request, recursively."""
        nonlocal best, left
        i = len(starts)
        if i == problem.num_requests:
            if best is None or total < best[0]:
                best = total, list(starts)
            return
        rest = sum(arrivals[i + 1 :])
        for start in range(arrivals[i], last[i] + 1):
            if best is not None and total + start + rest >= best[0]:
                return
            left -= 1
            if left < 0:
                raise CapabilityError("problem", "too many schedules", "use --method cp-sat")
            held = {start + age: int(prompts[i]) + age for age in ages[i]}
            used.update(held)
            if all(used[round_] <= problem.memory for round_ in held):
                starts.append(start)
                extend(total + start)
                starts.pop()
            used.subtract(held)

    extend(0)
    constant = sum(outputs.tolist()) - sum(arrivals)
    assert best is not None
    return best[0] + constant, best[1]
