"""The worst instance by integer programs that contain the policy's run and the optimum."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.case import Case, Found, Ratio, Target, exceeds
from formulations.backends import ModelProgram, SolveLimits, backend, run_backend
from formulations.deadline import OutOfTime
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem
from formulations.results import BoundKind, Termination


def bilevel(target: Target, space: object, *, time_limit: float | None = None) -> Found:
    """Find the maximum ratio of Algorithm 1 by a sequence of integer programs.

    For every memory CP-SAT searches for an instance and a schedule whose ratio exceeds the best so
    far (`shortest_first_program`), until it proves that there is none. Each solution is verified:
    the policy runs on the instance, and the checker evaluates both schedules.

    Parameters
    ----------
    target : Target
        Algorithm 1, or MC-SF with all requests at 0.
    space : CacheSpace
        The space of instances, with all requests at 0.
    time_limit : float, optional
        Time limit of each program [s]; if it is reached, nothing is proven.

    Raises
    ------
    InputError
        If the program does not describe this policy or these arrivals.
    """
    if not isinstance(space, CacheSpace) or not isinstance(target, CacheTarget):
        raise InputError("method", "bilevel supports only one KV cache", "use --method exhaustive")
    if space.last_arrival or not target.ignores_order:
        what = "bilevel supports only shortest first with all requests at 0"
        raise InputError("method", what, "use --method exhaustive")
    search = _Search(target, space, time_limit)
    for memory in space.memories:
        search.close(memory)
    assert search.best is not None
    return Found(
        search.best, "bilevel", str(space), search.programs, search.programs, search.is_maximal
    )


class _Search:
    """The best instance so far, and whether its maximality is proven."""

    def __init__(self, target: CacheTarget, space: CacheSpace, time_limit: float | None) -> None:
        self._target, self._space, self._time_limit = target, space, time_limit
        self.best: Case | None = None
        self.programs, self.is_maximal = 0, True
        self._ratio: Ratio = (1, 1)

    def close(self, memory: int) -> None:
        """Search for larger ratios with one memory until there are none, or the time is up."""
        if self.best is None:
            # Any instance can be the first one.
            problem = self._space.problem(memory, [(0, 1)] * self._space.requests)
            self._take(Case(self._target, problem, *self._judged(problem), proven=True))
        while True:
            self.programs += 1
            point, is_proven = self._solved(memory)
            if point is None:
                self.is_maximal = self.is_maximal and is_proven
                return
            problem = self._space.problem(memory, [(0, o) for o in _outputs(point)])
            case = Case(self._target, problem, *self._judged(problem), proven=True)
            if not exceeds((case.cost, case.least), self._ratio):
                raise InputError("bilevel", "program and policy disagree", "report this")
            self._take(case)

    def _take(self, case: Case) -> None:
        self.best, divisor = case, gcd(case.cost, case.least)
        self._ratio = case.cost // divisor, case.least // divisor

    def _judged(self, problem: LatencyProblem) -> tuple[object, object]:
        """Return the policy's schedule, and an optimum."""
        schedule = self._target.schedule(problem)
        cost = self._target.program(problem).objective_value(schedule)
        return schedule, self._target.optimum(problem, cost)

    def _solved(self, memory: int) -> tuple[Mapping[str, float] | None, bool]:
        """Return a point with a larger ratio, or None and whether its absence is proven."""
        # Imported here, so that Pyomo is only loaded when needed.
        from bfio.worst_cases.shortest_first_program import build

        space, longest = self._space, self._space.outputs(memory)[-1]
        if space.requests == 1:
            return None, True
        program = ModelProgram(
            lambda: build(
                space.requests, memory, space.prompt, longest, space.convention, self._ratio
            )
        )
        limits = replace(SolveLimits(), time_limit=self._time_limit)
        try:
            outcome, _ = run_backend(backend("cp-sat"), program, limits)
        except OutOfTime:
            return None, False
        form = program.standard_form
        if outcome.values is not None:
            value = float(form.objective @ outcome.values) + form.offset
            if value < -0.5:
                return dict(zip(form.column_names, outcome.values.tolist(), strict=True)), False
        bound = outcome.bound if outcome.bound_kind is BoundKind.INTEGER else None
        closed = outcome.termination is Termination.OPTIMAL and bound is not None and bound >= 0
        return None, closed


def _outputs(point: Mapping[str, float]) -> list[int]:
    """Return the outputs in a point, shortest first."""
    chosen = []
    for name, value in point.items():
        if name.startswith("x[") and value > 0.5:
            i, output, _ = (int(part) for part in name[2:-1].split(","))
            chosen.append((i, output))
    return [output for _, output in sorted(chosen)]
