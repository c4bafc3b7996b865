"""Rows that run an algorithm on the instances used in proofs of lower bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bfio.kvcache.lower_bounds import (
    costs_6_2,
    delayed_starts,
    limit_6_2,
    limit_6_4,
    printed_bound_6_4,
    square_root_bound,
    theorem_6_2,
    theorem_6_4,
)
from bfio.kvcache.simulation import serve
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_kinds.hindsight_ratio import problem_digest
from bfio.studies.row_parts.arguments import (
    ALGORITHM_ARGUMENTS,
    Arguments,
    algorithm_digest,
    algorithm_of,
    convention_of,
    refused,
)
from formulations.arrays import frozen
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem, total_latency, violations
from formulations.scalars import exact_rational

#: Arguments of each instance, in addition to algorithm, convention and seed.
_TAKES = {
    "theorem-6.2": ("memory", "epsilon"),
    "remark-6.3": ("memory", "epsilon", "short"),
    "theorem-6.4": ("memory", "epsilon", "constant", "wait"),
    "square-root": ("requests",),
}
_OWN = tuple(dict.fromkeys(name for names in _TAKES.values() for name in names))
#: Arguments of a row.
ARGUMENTS = (*ALGORITHM_ARGUMENTS, "instance", *_OWN, "convention", "seed")
VALUES = descriptions(
    """
    total_latency | rounds | total latency of the algorithm
    reference_latency | rounds | total latency of the reference schedule, which may idle
    ratio_at_least | 1 | `total_latency` / `reference_latency`
    printed_ratio | 1 | ratio that the formulas of the printed proof give
    limit_ratio | 1 | limit of the ratio of MC-SF as M grows
    requests | requests | requests of the instance
    instances | | number of instances in the sums
    """
)


@dataclass(frozen=True)
class Adversary:
    """The instances of an adversary, taken together, and the ratios stated in its proof.

    Parameters
    ----------
    problems : sequence of LatencyProblem
        Equally likely instances. In each, request 0 is the long request.
    printed : float, optional
        Ratio by the formulas of the proof, for these parameters.
    limit : float, optional
        Limit of the ratio of MC-SF as M grows.
    wait : int
        Round until which the long request is hidden from the algorithm.
    """

    problems: Sequence[LatencyProblem]
    printed: float | None
    limit: float | None
    wait: int = 0


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    adversary, algorithm = _adversary(given), algorithm_of(given)
    data = [
        np.stack([problem.arrival, problem.prompt, problem.output]).tobytes().hex()
        for problem in adversary.problems[1:]
    ]
    source = algorithm_digest(algorithm)
    return Planned(
        problem_digest(adversary.problems[0], f"{data}{adversary.wait}{source}"),
        partial(_compute, adversary, algorithm, given.whole("seed", 0)),
    )


def _compute(adversary: Adversary, algorithm: str, seed: int) -> RowResult:
    found: dict[str, int] = {}
    latency = reference = 0
    for k, problem in enumerate(adversary.problems):
        starts = _starts(problem, algorithm, adversary.wait, seed)
        candidates = [delayed_starts(problem, 0), delayed_starts(problem)]
        best = min(candidates, key=lambda other: total_latency(problem, other))
        for who, schedule in (("algorithm", starts), ("reference", best)):
            for name, amount in violations(problem, schedule).items():
                found[f"{who}[{k}].{name}"] = amount
        latency += total_latency(problem, starts)
        reference += total_latency(problem, best)
    return RowResult(
        values={
            "requests": adversary.problems[0].num_requests,
            "instances": len(adversary.problems),
            "total_latency": latency,
            "reference_latency": reference,
            "ratio_at_least": latency / reference,
            "printed_ratio": adversary.printed,
            "limit_ratio": adversary.limit,
        },
        violations=found,
    )


def _starts(problem: LatencyProblem, algorithm: str, wait: int, seed: int) -> list[int]:
    arrival = problem.arrival.copy()
    arrival[0] = wait
    held = LatencyProblem(
        problem.memory, frozen(arrival), problem.prompt, problem.output, problem.convention
    )
    run = serve(held, algorithm, seed=seed)
    if not run.is_finished:
        raise InputError(algorithm, f"it did not finish ({run.reason})", "use another algorithm")
    starts: list[int] = run.start.tolist()
    return starts


def _adversary(given: Arguments) -> Adversary:
    """Build the instances of the named adversary; reject arguments of other adversaries."""
    name = given.choice("instance", tuple(_TAKES), default="")
    for other in _OWN:
        if given.has(other) and other not in _TAKES[name]:
            raise refused(other, f"{name} takes {', '.join(_TAKES[name])}", "remove it")
    convention = convention_of(given)
    if name == "square-root":
        requests = given.whole("requests", 0, maximum=10**7)
        if requests < 3:
            raise refused("requests", f"{requests} are too few", "give 3 or more")
        return Adversary([square_root_bound(2 * (requests - 1), convention)], None, None)
    memory = given.whole("memory", 1000, minimum=1, maximum=10**9)
    epsilon = exact_rational(given.rational("epsilon", "0.1"), "argument epsilon")
    if name == "remark-6.3":
        short = given.whole("short", 1, maximum=10**6)
        return Adversary([theorem_6_2(memory, epsilon, convention, short)], None, None)
    if name == "theorem-6.2":
        problem = theorem_6_2(memory, epsilon, convention)
        keep, pause, wait = costs_6_2(memory, epsilon)
        limit = float(limit_6_2(epsilon, convention))
        return Adversary([problem], float(min(keep, pause) / wait), limit)
    constant = given.whole("constant", 2, minimum=1, maximum=1000)
    problems = theorem_6_4(memory, epsilon, constant, convention)
    held = exact_rational(given.rational("wait", "0"), "argument wait") * memory
    if held.denominator != 1:
        raise refused("wait", f"{held} rounds", "use a multiple of 1/memory")
    # The limit assumes that the algorithm starts the long request at round 0.
    bound = None if held else float(limit_6_4(epsilon, constant, convention))
    return Adversary(problems, float(printed_bound_6_4(epsilon, constant)), bound, int(held))


KIND = planned_kind(
    "lower-bound",
    "an algorithm on the instances used to prove lower bounds",
    plan,
    VALUES,
)
