"""The compared methods behind one signature, and the measurement of one of them.

``solve_s`` is the whole call for our own methods, and the solver's run alone for the backends;
writing their program is in ``phases["build"]``. The difference favours the backends.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from benchmarks.step_solvers.instances import digest
from bfio.step.exact import solve_exact
from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage
from formulations.backends import Limits
from formulations.backends.highs import Highs
from formulations.errors import InputError
from formulations.results import BoundKind, Termination
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.check import violations
from formulations.step.problem import StepProblem
from formulations.step.result import StepResult
from formulations.step.solver import assess, solve
from formulations.step.step_program import StepProgram

_Assignment: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True)
class Answer:
    """What a method says of one problem.

    Parameters
    ----------
    assignment : tuple, optional
        Worker of each request.
    bound : int, optional
        Lower bound derived in integers.
    termination : Termination
        Why it stopped.
    finished : bool
        It claims to be done: an optimum, proven or on a float solver's word, or a heuristic's end.
    claims_optimum : bool
        It calls its assignment optimal.
    seconds : float
        The time that counts: see above.
    phases : mapping
        Seconds of ``build``, ``bound``, ``search``; None where a method does not tell.
    details : mapping
        What else is kept in the row.
    certificate : Certificate, optional
        Of the exact method.
    """

    assignment: _Assignment | None
    bound: int | None
    termination: Termination
    finished: bool
    claims_optimum: bool
    seconds: float
    phases: Mapping[str, float | None]
    details: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None


#: What the challenged HiGHS says of its claims.
_CHALLENGE = ("challenged", "refuted_claims")

_Method: TypeAlias = Callable[[StepProblem, float, int], Answer]


def measure(problem: StepProblem, method: str, time_limit: float, seed: int) -> dict[str, Any]:
    """Solve one problem with one method; every answer passes the checker of the problem data."""
    began = time.perf_counter()
    answer = METHODS[method](problem, time_limit, seed)
    wall_s = time.perf_counter() - began
    objective = None
    found: dict[str, int] = {}
    if answer.assignment is not None:
        objective = problem.objective_value(answer.assignment)
        found = violations(problem, answer.assignment, objective)
    return {
        "waiting": problem.num_requests,
        "free_slots": int(problem.capacity.sum()),
        "admitted": problem.num_admitted,
        "problem": digest(problem),
        "termination": answer.termination.value,
        "finished": answer.finished,
        "claims_optimum": answer.claims_optimum,
        "proven": objective is not None and objective == answer.bound and not found,
        "objective": objective,
        "bound": answer.bound,
        "violations": found,
        "solve_s": answer.seconds,
        "counted_s": counted_seconds(answer.seconds, time_limit, finished=answer.finished),
        "wall_s": wall_s,
        "phases": dict(answer.phases),
        "certificate": derived_again(problem, answer.certificate),
        **answer.details,
    }


def counted_seconds(solve_s: float, time_limit: float, *, finished: bool) -> float:
    """Return the time that medians use: a run that did not finish counts as the limit."""
    return solve_s if finished else time_limit


def warm_up() -> None:
    """Load solvers and kernels with a tiny problem, so that no measured solve pays for it."""
    problem = StepProblem(
        capacity=np.array([1, 2]),
        base=np.array([[40], [25]]),
        contribution=np.array([[18], [9], [30], [22], [5]]),
    )
    for method in METHODS.values():
        method(problem, 5.0, 0)


def _exact(problem: StepProblem, time_limit: float, seed: int) -> Answer:
    del seed
    began = time.perf_counter()
    result = solve_exact(problem, time_limit=time_limit)
    whole_s = time.perf_counter() - began
    bound_s, search_s = result.seconds.bound, result.seconds.search + result.seconds.fallback
    return Answer(
        assignment=result.assignment,
        bound=result.bound,
        termination=result.to_step_result(problem).termination,
        finished=result.proven,
        claims_optimum=result.proven,
        seconds=whole_s,
        phases=_phases(whole_s, bound_s, search_s),
        details={
            "closed_by": result.method if result.proven else None,
            "fallback_s": result.seconds.fallback,
            "nodes": result.nodes,
        },
        certificate=result.certificate,
    )


def _br_0(problem: StepProblem, time_limit: float, seed: int) -> Answer:
    """BR-0 looks at the current step alone, whatever the window its answer is judged on."""
    del time_limit, seed
    now = problem.base[:, :1], problem.contribution[:, :1]
    began = time.perf_counter()
    assignment = two_stage(problem.capacity, *now, (1,), TwoStageParameters())
    seconds = time.perf_counter() - began
    return Answer(
        assignment=tuple(assignment),
        bound=None,
        termination=Termination.FEASIBLE,
        finished=True,
        claims_optimum=False,
        seconds=seconds,
        phases=_phases(seconds, None, seconds),
    )


def _cp_sat(problem: StepProblem, time_limit: float, seed: int) -> Answer:
    began = time.perf_counter()
    result = solve(problem, backend="cp-sat", time_limit=time_limit, seed=seed)
    return _of_backend(result, time.perf_counter() - began)


def _highs_challenged(problem: StepProblem, time_limit: float, seed: int) -> Answer:
    began = time.perf_counter()
    result = solve(problem, backend="highs", time_limit=time_limit, seed=seed)
    return _of_backend(result, time.perf_counter() - began)


def _of_backend(result: StepResult, whole_s: float) -> Answer:
    # HiGHS and CP-SAT write the word differently; HiGHS's is a claim, not a proof.
    claims = result.is_optimal or str(result.solver.get("status", "")).lower() == "optimal"
    return Answer(
        assignment=result.assignment,
        bound=result.bound if result.bound_kind is BoundKind.INTEGER else None,
        termination=result.termination,
        finished=claims,
        claims_optimum=claims,
        seconds=result.seconds,
        phases=_phases(whole_s, None, result.seconds),
        details={key: result.solver[key] for key in _CHALLENGE if key in result.solver},
    )


def _highs(problem: StepProblem, time_limit: float, seed: int) -> Answer:
    """HiGHS alone, as anyone would call it; `highs-challenged` is the backend of the toolkit."""
    began = time.perf_counter()
    outcome = Highs(challenge=False).solve(StepProgram(problem), Limits(time_limit, seed), None)
    whole_s = time.perf_counter() - began
    claims = outcome.termination is Termination.OPTIMAL
    assignment = bound = None
    if outcome.values is not None:
        cells = problem.num_requests * problem.num_workers
        chosen = outcome.values[:cells].reshape(-1, problem.num_workers)
        assignment = tuple(int(row.argmax()) if row.max() > 0.5 else None for row in chosen)
        bound = assess(problem, assignment, method="highs").bound
    return Answer(
        assignment=assignment,
        bound=bound,
        termination=outcome.termination,
        finished=claims,
        claims_optimum=claims,
        seconds=outcome.seconds,
        phases=_phases(whole_s, None, outcome.seconds),
    )


#: What `measure` accepts.
METHODS: Mapping[str, _Method] = MappingProxyType(
    {
        "exact": _exact,
        "br-0": _br_0,
        "cp-sat": _cp_sat,
        "highs": _highs,
        "highs-challenged": _highs_challenged,
    }
)


def _phases(whole_s: float, bound_s: float | None, search_s: float) -> dict[str, float | None]:
    """Split a call into its phases: the build is what bound and search leave of it."""
    build_s = max(0.0, whole_s - search_s - (bound_s or 0.0))
    return {"build": build_s, "bound": bound_s, "search": search_s}


def derived_again(problem: StepProblem, certificate: Certificate | None) -> dict[str, Any] | None:
    """Derive the bound of a certificate again from the problem data, and time that."""
    if certificate is None:
        return None
    began = time.perf_counter()
    refusal = None
    try:
        certified_bound(problem, certificate)
    except InputError as error:
        refusal = str(error)
    seconds = time.perf_counter() - began
    return {
        "kind": certificate.kind,
        "derived": refusal is None,
        "seconds": seconds,
        "refusal": refusal,
    }
