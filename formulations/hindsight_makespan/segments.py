"""Stretches of arrivals between which the system is surely empty."""

from dataclasses import replace

from formulations.hindsight_makespan.problem import MakespanProblem


def segments(problem: MakespanProblem) -> list[list[int]]:
    """Split the requests, in order of arrival, where all earlier ones have surely completed.

    When work is conserved, the requests that arrive before some step a end by ``max_i (a_i +
    ⌊R_i / m⌋ + o_i)`` among themselves (`latest_starts`), whatever arrives from a on. If
    that is at most a, they never meet the others: the optimum is the sum of the parts' optima.
    For latency without conservation the same holds with their last arrival in place of a_i: their
    own optimum ends by then, and the sum of the parts' optima is a bound that it meets. With a
    memory the sum of all outputs stands for its m-th part.

    Parameters
    ----------
    problem : MakespanProblem
        Data; for the free wall-clock time, which ignores arrivals, the split says nothing.

    Returns
    -------
    list of list of int
        Requests of each part.
    """
    arrivals, outputs = problem.arrival.tolist(), problem.output.tolist()
    parts: list[list[int]] = []
    total = latest = longest = 0
    shared = problem.total_slots if problem.memory is None else 1
    for i in sorted(range(problem.num_requests), key=lambda i: (arrivals[i], i)):
        # ⌊R_i / m⌋ <= ⌊total / m⌋, so this is no earlier than the steps of the proof.
        if not parts or latest + total // shared <= arrivals[i]:
            parts.append([])
            total = latest = longest = 0
        parts[-1].append(i)
        total += outputs[i]
        longest = max(longest, outputs[i])
        end = arrivals[i] + (outputs[i] if problem.work_conserving else longest)
        latest = max(latest, end)
    return parts


def part(problem: MakespanProblem, members: list[int]) -> MakespanProblem:
    """Return the problem of some of the requests."""
    return replace(
        problem,
        arrival=problem.arrival[members],
        prompt=problem.prompt[members],
        output=problem.output[members],
    )
