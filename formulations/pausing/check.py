"""The checker of the pausing program, and a brute-force oracle.

Both read the problem data only and share no code with the solvers.
"""

from collections.abc import Sequence
from itertools import product

from formulations.errors import CapabilityError
from formulations.pausing.problem import PausingProblem


def violations(
    problem: PausingProblem,
    runs: Sequence[bool],
    assignment: Sequence[int | None],
    claimed: tuple[int, int] | None = None,
) -> dict[str, int]:
    """Return each violated constraint of the pausing program and the amount.

    Parameters
    ----------
    problem : PausingProblem
        Data.
    runs : sequence of bool
        Whether each active request runs, length J.
    assignment : sequence of int or None
        Worker of each waiting request, None for those that keep waiting, length N.
    claimed : tuple of (int, int), optional
        Claimed units of time and tokens, compared with the recomputed ones.

    Returns
    -------
    dict of str to int
        Constraint name to positive amount; empty for a feasible solution.
    """
    sizes = (("runs", runs, problem.num_active), ("assignment", assignment, problem.num_requests))
    for name, values, length in sizes:
        if len(values) != length:
            return {name: abs(len(values) - length)}
    strangers = {f"runs[{j}]": 1 for j, run in enumerate(runs) if not isinstance(run, bool)}
    strangers |= {
        f"worker[{i}]": 1
        for i, g in enumerate(assignment)
        if g is not None and not (type(g) is int and 0 <= g < problem.num_workers)
    }
    if strangers:
        return strangers
    must_run, must_start = problem.must_run.tolist(), problem.must_start.tolist()
    violated = {f"must_run[{j}]": 1 for j, m in enumerate(must_run) if m and not runs[j]}
    started = zip(must_start, assignment, strict=True)
    violated |= {f"required[{i}]": 1 for i, (m, g) in enumerate(started) if m and g is None}
    violated |= _limits(problem, assignment)
    time, tokens = time_and_tokens(problem, runs, assignment)
    if tokens == 0:
        violated["one_token"] = 1
    if claimed is not None:
        for name, is_so, said in zip(("time", "tokens"), (time, tokens), claimed, strict=True):
            if is_so != said:
                violated[name] = abs(is_so - said)
    return violated


def time_and_tokens(
    problem: PausingProblem, runs: Sequence[bool], assignment: Sequence[int | None]
) -> tuple[int, int]:
    """Return the time of the step, in units, and the number of tokens it emits."""
    loads = [0] * problem.num_workers
    tokens = 0
    for g, load, run in zip(problem.worker.tolist(), problem.load.tolist(), runs, strict=True):
        if run:
            loads[g] += load
            tokens += 1
    for prompt, worker in zip(problem.waiting.tolist(), assignment, strict=True):
        if worker is not None:
            loads[worker] += prompt
            tokens += 1
    columns = (problem.overheads.tolist(), problem.rates.tolist(), loads)
    return max(c + rate * load for c, rate, load in zip(*columns, strict=True)), tokens


def _limits(problem: PausingProblem, assignment: Sequence[int | None]) -> dict[str, int]:
    """Return the violated slot and token limits of workers, and the amounts."""
    violated = {}
    for g, slots in enumerate(problem.capacity.tolist()):
        if (excess := assignment.count(g) - slots) > 0:
            violated[f"capacity[{g}]"] = excess
    if problem.token_capacity is None:
        return violated
    held = [0] * problem.num_workers
    for g, load in zip(problem.worker.tolist(), problem.load.tolist(), strict=True):
        held[g] += load
    taken = [0] * problem.num_workers
    for prompt, worker in zip(problem.waiting.tolist(), assignment, strict=True):
        if worker is not None:
            taken[worker] += prompt
    for g, most in enumerate(problem.token_capacity.tolist()):
        # A worker that is already above its limit may start none; its excess is no violation here.
        if taken[g] and held[g] + taken[g] > most:
            violated[f"token_capacity[{g}]"] = held[g] + taken[g] - most
    return violated


#: Largest number of solutions (choices of running and starting requests) enumerated.
MAX_SOLUTIONS = 1_000_000

Solution = tuple[tuple[bool, ...], tuple[int | None, ...]]


def brute_force(problem: PausingProblem) -> tuple[tuple[int, int], Solution] | None:
    """Return time and tokens of least ratio, and the first solution that reaches the ratio.

    Solutions are ordered: running before pausing, lower workers first, waiting last.

    Returns
    -------
    tuple of ((int, int), solution), or None
        Units of time and tokens, then runs and assignment; None if no step is feasible.

    Raises
    ------
    CapabilityError
        If there are more than `MAX_SOLUTIONS` solutions.
    """
    size = 2**problem.num_active * (problem.num_workers + 1) ** problem.num_requests
    if size > MAX_SOLUTIONS:
        raise CapabilityError(
            "problem", f"more than {MAX_SOLUTIONS:,} solutions to enumerate", 'use method="exact"'
        )
    best: tuple[tuple[int, int], Solution] | None = None
    places: list[int | None] = [*range(problem.num_workers), None]
    for runs in product((True, False), repeat=problem.num_active):
        for assignment in product(places, repeat=problem.num_requests):
            if violations(problem, runs, assignment):
                continue
            time, tokens = time_and_tokens(problem, runs, assignment)
            if best is None or time * best[0][1] < best[0][0] * tokens:
                best = (time, tokens), (runs, assignment)
    return best
