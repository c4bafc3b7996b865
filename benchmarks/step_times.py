"""Rows that solve one harvested step problem with one method, and time it.

``solve_s`` is the time of the whole call for our own methods, and of the solver's run alone for
backends; writing their program is counted in ``build_s``. This difference favours the backends.
``counted_s`` is the time limit for a solve that does not finish.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from benchmarks.requests import SYNTHETIC, requests_digest
from benchmarks.step_harvest import (
    EXTRAS,
    LONGEST,
    Harvest,
    Size,
    harvested,
    with_discount,
    with_extra,
    with_horizon,
)
from bfio.common.clock import timed
from bfio.common.options import LOOK_AHEAD
from bfio.decode.options import WindowKnows
from bfio.prediction import registry as predictors
from bfio.step.exact import prepare, solve_exact
from bfio.step.exact.effort import skipped_phases
from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, refused
from formulations.backends import Outcome, SolveLimits
from formulations.backends.highs import Highs
from formulations.errors import InputError
from formulations.results import BoundKind, Termination
from formulations.standard_form import StandardForm
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.check import violations
from formulations.step.problem import StepProblem
from formulations.step.solver import StepProgram, assess, solve

ARGUMENTS = (
    "size", "requests", "output_mean", "projection", LOOK_AHEAD, "moment", "method", "time_limit",
    "work_limit", "seed", "policy", "predictor", "window_knows", "discount", "extra", "without",
)  # fmt: skip
#: Final stages of the exact method that need no general solver.
OWN_STAGES = ("closed-form", "bound", "columns", "enumeration")
#: No modification of the problem.
_NO_EXTRA = "nothing"
#: Warm steps per run, because all come from one simulation: two, or tens where more are wanted.
_FEW_WARM, _MANY_WARM = 2, 10

_Assignment: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True)
class Answer:
    """The answer of a method to one problem.

    Parameters
    ----------
    assignment : tuple, optional
        Worker of each request.
    bound : int, optional
        Lower bound derived in integers.
    termination : Termination
        Reason for stopping.
    finished : bool
        Whether the method claims to be done: an optimum (proven, or claimed by a float solver), or
        the end of a heuristic or at a limit of work.
    claims_optimum : bool
        Whether it claims that its assignment is optimal.
    seconds : float
        The counted time [s], see the module.
    phases : mapping
        ``build_s``, ``bound_s``, ``search_s``, as far as the method reports them.
    details : mapping
        Further values of the row.
    certificate : Certificate, optional
        Certificate of the exact method.
    """

    assignment: _Assignment | None
    bound: int | None
    termination: Termination
    finished: bool
    claims_optimum: bool
    seconds: float
    phases: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None


#: Details of the challenged HiGHS on its claims.
_CHALLENGE = ("challenged", "refuted_claims")

_Method: TypeAlias = Callable[[StepProblem, float, int], Answer]


def measure(
    problem: StepProblem,
    method: str,
    time_limit: float,
    seed: int,
    skip: tuple[str, ...] = (),
    work_limit: int | None = None,
) -> RowResult:
    """Solve one problem with one method; every answer passes the checker of the problem data.

    With ``skip``, the method is the exact one without these phases. With ``work_limit`` [ticks] it
    is the exact one without clock and fallback, so that all values are those of any machine.
    """
    began = time.process_time()
    if skip or work_limit is not None:
        answer = _exact(problem, time_limit, seed, skip, work_limit)
    else:
        answer = METHODS[method](problem, time_limit, seed)
    processor_s = time.process_time() - began
    objective, violated = None, dict[str, int]()
    if answer.assignment is not None:
        objective = problem.objective_value(answer.assignment)
        violated = dict(violations(problem, answer.assignment, objective))
    certificate = derived_again(problem, answer.certificate)
    proven = objective is not None and objective == answer.bound
    return RowResult(
        values={
            "waiting": problem.num_requests,
            "free_slots": int(problem.capacity.sum()),
            "admitted": problem.num_admitted,
            "problem": digest(problem),
            "termination": answer.termination.value,
            "finished": answer.finished,
            "claims_optimum": answer.claims_optimum,
            "proven": proven,
            "objective": objective,
            "bound": answer.bound,
            **answer.details,
        },
        timings={
            "solve_s": answer.seconds,
            "counted_s": answer.seconds if answer.finished else time_limit,
            "processor_s": processor_s,
            **answer.phases,
            **certificate.timings,
            "load_average": os.getloadavg()[0],
        },
        solves=1,
        unproven=int(not proven),
        violations={**violated, **(certificate.violations or {})},
        stopped_by_clock=not answer.finished,
    )


@cache
def warm_up(method: str) -> None:
    """Load kernels and solve a tiny problem, so that no measured solve includes loading time."""
    prepare()
    problem = StepProblem(
        capacity=np.array([1, 2]),
        base=np.array([[40], [25]]),
        contribution=np.array([[18], [9], [30], [22], [5]]),
    )
    METHODS[method](problem, 5.0, 0)


def digest(problem: StepProblem) -> str:
    """Return a digest of the problem data."""
    text = json.dumps(problem.to_mapping(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _exact(
    problem: StepProblem,
    time_limit: float,
    seed: int,
    skip: tuple[str, ...] = (),
    work_limit: int | None = None,
) -> Answer:
    began = time.perf_counter()
    if work_limit is None:
        result = solve_exact(problem, time_limit=time_limit, skip=skip)
    else:
        result = solve_exact(problem, work_limit=work_limit, fallback=None, skip=skip)
    whole_s = time.perf_counter() - began
    bound_s, search_s = result.seconds.bound, result.seconds.search + result.seconds.fallback
    return Answer(
        assignment=result.assignment,
        bound=result.bound,
        termination=result.to_step_result(problem).termination,
        finished=result.proven or work_limit is not None,
        claims_optimum=result.proven,
        seconds=whole_s,
        phases=_phases(whole_s, bound_s, search_s),
        details={
            "closed_by": result.method if result.proven else "open",
            "without_solver": result.proven and result.method in OWN_STAGES,
            "nodes": result.nodes,
            "ticks": result.ticks,
        },
        certificate=result.certificate,
    )


def _br_0(problem: StepProblem, time_limit: float, seed: int) -> Answer:
    """Run BR-0 on the current step only, even if its answer is evaluated on a window."""
    now = problem.base[:, :1], problem.contribution[:, :1]
    parameters = TwoStageParameters()
    assignment, seconds = timed(lambda: two_stage(problem.capacity, *now, (1,), parameters))
    return Answer(
        assignment=tuple(assignment),
        bound=None,
        termination=Termination.FEASIBLE,
        finished=True,
        claims_optimum=False,
        seconds=seconds,
        phases=_phases(seconds, None, seconds),
    )


def _by_backend(problem: StepProblem, time_limit: float, seed: int, *, backend: str) -> Answer:
    result, whole_s = timed(
        lambda: solve(problem, backend=backend, time_limit=time_limit, seed=seed)
    )
    # HiGHS and CP-SAT spell the status differently. For HiGHS it is a claim, not a proof.
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
    """Solve by plain HiGHS, as most users call it; `highs-challenged` is the toolkit's backend."""
    highs, limits = Highs(challenge=False), SolveLimits(time_limit, seed)
    return _alone(problem, *timed(lambda: highs.solve(StepProgram(problem), limits, None)))


def _scip(problem: StepProblem, time_limit: float, seed: int) -> Answer:
    """Solve by plain SCIP, on the same matrix as HiGHS."""
    began = time.perf_counter()
    model, variables = _scip_model(StepProgram(problem).write())
    model.setParam("limits/time", time_limit)
    model.setParam("randomization/randomseedshift", seed)
    _, seconds = timed(model.optimize)
    is_done = model.getStatus() == "optimal"
    values = [model.getVal(x) for x in variables] if model.getNSols() else None
    outcome = Outcome(
        termination=Termination.OPTIMAL if is_done else Termination.TIME_LIMIT,
        values=None if values is None else np.array(values),
        bound=None,
        bound_kind=BoundKind.FLOAT,
        seconds=seconds,
        details={},
    )
    return _alone(problem, outcome, time.perf_counter() - began)


def _scip_model(form: StandardForm) -> tuple[Any, list[Any]]:
    """Return a SCIP model with default tolerances and gaps, and its variables."""
    from pyscipopt import Model, quicksum

    model = Model()
    model.hideOutput()
    columns = zip(form.integral, form.lower, form.upper, form.objective, strict=True)
    variables = [
        model.addVar(vtype="I" if integral else "C", lb=lower, ub=upper, obj=cost)
        for integral, lower, upper, cost in columns
    ]
    matrix = form.matrix.tocsr()
    for row, (lower, upper) in enumerate(zip(form.row_lower, form.row_upper, strict=True)):
        entries = range(matrix.indptr[row], matrix.indptr[row + 1])
        total = quicksum(matrix.data[k] * variables[matrix.indices[k]] for k in entries)
        if lower == upper:
            model.addCons(total == lower)
            continue
        if np.isfinite(lower):
            model.addCons(total >= lower)
        if np.isfinite(upper):
            model.addCons(total <= upper)
    return model, variables


def _alone(problem: StepProblem, outcome: Outcome, whole_s: float) -> Answer:
    """Return the answer of a float solver that was run on the matrix alone."""
    claims = outcome.termination is Termination.OPTIMAL
    assignment = bound = None
    if outcome.values is not None:
        cells = problem.num_requests * problem.num_workers
        chosen = outcome.values[:cells].reshape(-1, problem.num_workers)
        assignment = tuple(int(row.argmax()) if row.max() > 0.5 else None for row in chosen)
        bound = assess(problem, assignment, method="alone").bound
    return Answer(
        assignment=assignment,
        bound=bound,
        termination=outcome.termination,
        finished=claims,
        claims_optimum=claims,
        seconds=outcome.seconds,
        phases=_phases(whole_s, None, outcome.seconds),
    )


#: Methods accepted by `measure`.
METHODS: Mapping[str, _Method] = MappingProxyType(
    {
        "exact": _exact,
        "br-0": _br_0,
        "cp-sat": partial(_by_backend, backend="cp-sat"),
        "highs": _highs,
        "highs-challenged": partial(_by_backend, backend="highs"),
        "scip": _scip,
    }
)


def _phases(whole_s: float, bound_s: float | None, search_s: float) -> dict[str, float]:
    """Split the time of a call [s] into phases; the build is the rest after bound and search."""
    phases = {"build_s": max(0.0, whole_s - search_s - (bound_s or 0.0)), "search_s": search_s}
    return phases if bound_s is None else phases | {"bound_s": bound_s}


def derived_again(problem: StepProblem, certificate: Certificate | None) -> RowResult:
    """Derive the bound of a certificate from the problem data again; return time and errors."""
    if certificate is None:
        return RowResult({})
    began = time.perf_counter()
    refused = {}
    try:
        certified_bound(problem, certificate)
    except InputError as error:
        refused = {f"certificate rejected: {error}": 1}
    timings = {"certificate_s": time.perf_counter() - began}
    return RowResult({}, timings=timings, violations=refused)


def _chosen(given: Arguments, context: RowContext) -> tuple[Harvest, int]:
    """Return the run and the index of the problem in it; index 0 is the cold start."""
    moment = given.text("moment", "cold")
    word, _, number = moment.partition("-")
    if moment != "cold" and not (word == "warm" and number.isdigit() and int(number) >= 1):
        raise refused("moment", f"{moment!r} is not a moment", "write cold, warm-1, warm-2")
    place = int(number or 0)
    harvest = Harvest(
        size=Size.parse(given.text("size", "16x72-r128")),
        requests=given.text("requests", SYNTHETIC),
        folder=context.folder,
        output_mean=given.whole("output_mean", 100, minimum=1),
        projection=given.text("projection", "constant"),
        seed=given.whole("seed", 0),
        warm=_FEW_WARM if place <= _FEW_WARM else -(-place // _MANY_WARM) * _MANY_WARM,
        policy=given.text("policy", "br-0"),
        predictor=given.text("predictor", "none"),
        window_knows=given.choice("window_knows", list(WindowKnows)),
    )
    predictors.find(harvest.predictor)
    return harvest, place


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Check the arguments of a row, which solves one step problem harvested from a run."""
    given = Arguments(arguments, ARGUMENTS)
    harvest, place = _chosen(given, context)
    look_ahead = given.whole(LOOK_AHEAD, 0, maximum=LONGEST)
    discount = given.exact("discount", positive=True) or Fraction(1)
    if discount > 1:
        raise refused("discount", f"{discount} exceeds 1", "give a factor from 0 to 1")
    extra = given.choice("extra", [_NO_EXTRA, *EXTRAS])
    method = given.choice("method", list(METHODS))
    limit = given.optional_number("time_limit") or 30.0
    without = given.optional_text("without")
    skip = () if without is None or without == "nothing" else (without,)
    skipped_phases(skip)
    work_limit = given.optional_whole("work_limit")
    for name, wanted in (("without", bool(skip)), ("work_limit", work_limit is not None)):
        if wanted and method != "exact":
            raise refused(name, f"method {method} takes none", "remove it")

    def compute() -> RowResult:
        window = with_discount(with_horizon(harvested(harvest)[place], look_ahead), discount)
        problem = with_extra(window, extra, harvest.seed)
        warm_up(method)
        return measure(problem, method, limit, harvest.seed, skip, work_limit)

    return Planned(requests_digest(harvest.requests, harvest.folder), compute)


KIND = planned_kind(
    "step-times",
    "one method on one harvested step problem",
    plan,
    descriptions("""
        waiting | requests | requests that may be admitted
        free_slots | slots | free slots of all workers
        admitted | requests | requests that the step admits
        problem | | digest of the problem data
        termination | | why the method stopped
        finished | | whether the method claims an optimum, or met no time limit
        claims_optimum | | whether the method claims that its answer is optimal
        proven | | whether the objective equals a bound, both in integers
        objective | | objective of the answer, in integers
        bound | | lower bound derived in integers
        closed_by | | stage of the exact method that proved the optimum
        without_solver | | whether that stage needs no general solver
        nodes | | nodes of the exact method's search
        ticks | ticks | work of the exact method
        challenged | | whether HiGHS was run again to beat its claim
        refuted_claims | | claims of HiGHS that its second run beat
        solve_s | s | time of the whole call of bfio's methods, or of the solver's run alone
        counted_s | s | `solve_s`; the time limit if the method did not finish
        processor_s | s | processor time of the whole call
        build_s | s | time of building the program
        bound_s | s | time of the bound
        search_s | s | time of the search
        certificate_s | s | time of verifying the certificate
        load_average | | load average of the machine
    """),
)
