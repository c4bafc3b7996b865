"""The checker of schedules: it knows the problem data and nothing of any algorithm."""

from collections.abc import Sequence

from formulations.hindsight_latency.problem import LatencyProblem


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
    """Return the tokens in the cache at every round at which there are any."""
    convention = problem.convention
    used: dict[int, int] = {}
    prompts, outputs = problem.prompt.tolist(), problem.output.tolist()
    for start, prompt, output in zip(starts, prompts, outputs, strict=True):
        for age in range(convention.first_age, convention.last_age(output) + 1):
            used[start + age] = used.get(start + age, 0) + prompt + age
    return used
