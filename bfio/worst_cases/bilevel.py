"""The worst instance by integer programs that contain the policy's run and the optimum.

The adversary chooses outputs, the run of the algorithm follows from them, and a separate schedule
represents the optimum. A smaller cost of that schedule is better for the adversary, so no inner
minimisation is needed.

Sets
    requests i = 0..n − 1, shortest first; outputs o; starts t = 0..T; rounds τ
    T = (n − 1)·max d holds all starts of both, where d is how many rounds a request occupies
Data (all integers)
    M memory [tokens], s common prompt; a, b >= 1: the program asks for a ratio above a/b
    m(o, age) tokens of a request at an age: s + age in rounds that it occupies, else 0
Variables, all binary
    x[i,o,t]    request i has output o, and Algorithm 1 starts it at t
    y[i,o,t]    it has output o, and the other schedule starts it at t
    together[i] request i starts at the same round as i − 1
    block[i,τ]  if i started one round earlier, round τ would exceed the memory
Objective
    max b·(Σ (t + o) x[i,o,t]) − a·(Σ (t + o) y[i,o,t]);   above 0 iff some ratio exceeds a/b
Constraints
    (1) one[i], same[i,o]  Σ_{o,t} x[i,o,t] = 1;   Σ_t x[i,o,t] = Σ_t y[i,o,t]
    (2) sorted[i]          outputs and starts of x do not fall from i − 1 to i; x starts 0 at 0
    (3) memory[τ]          Σ m(o, τ − t) x[i,o,t] <= M;   the same of y
    (4) blocked[i,τ]       Σ_{j<i} m(o, τ − t) x[j,o,t] + Σ m(o, τ − t + 1) x[i,o,t]
                               >= (M + 1)·block[i,τ]
    (5) greedy[i]          together[i] + Σ_τ block[i,τ] >= 1
    (6) tied[i]            start of i − start of i − 1 <= T·(1 − together[i])

Why (4) to (6) describe Algorithm 1: the algorithm starts i at the first round, not before i − 1
starts, at which all started requests and i fit until their ends. No started request ends after i,
because none is longer and none starts later. So if i fits at some round, i also fits at the next
round, and only the round before the start must be tested.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import gcd
from typing import Any, TypeAlias

from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.case import Case, Found, Ratio, Target, Watch, exceeds, unwatched
from formulations.backends import ModelProgram, SolveLimits, backend, run_backend
from formulations.deadline import OutOfTime
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.modelling import pyo
from formulations.results import BoundKind, Termination


def build(
    requests: int,
    memory: int,
    prompt: int,
    longest: int,
    convention: Convention,
    ratio: tuple[int, int],
) -> Any:
    """Build the program.

    Parameters
    ----------
    requests, memory, prompt : int
        ``n``, ``M`` and ``s``.
    longest : int
        Maximum output; it must fit alone.
    convention : Convention
        Definition of the occupied rounds.
    ratio : tuple of int
        ``a`` and ``b``.

    Returns
    -------
    pyomo.environ.ConcreteModel
        A model with the variables and constraints named in the module docstring; the objective is
        negated.
    """
    model = pyo.ConcreteModel(name="shortest_first")
    rounds = convention.last_age(longest) - convention.first_age + 1
    last = (requests - 1) * rounds
    keys = [
        (i, o, t) for i in range(requests) for o in range(1, longest + 1) for t in range(last + 1)
    ]
    model.x = pyo.Var(keys, domain=pyo.Binary)
    model.y = pyo.Var(keys, domain=pyo.Binary)
    _same_outputs(model, requests, longest, last)
    _in_order(model, requests, keys)
    tokens = _tokens(model, keys, prompt, convention)
    horizon = range(1 + max(round_ for _, _, round_ in tokens))
    _memory(model, tokens, horizon, requests, memory)
    _greedy(model, tokens, horizon, requests, memory, last)
    cost, other = (_total(v, keys) for v in (model.x, model.y))
    a, b = ratio
    model.objective = pyo.Objective(expr=a * other - b * cost, sense=pyo.minimize)
    return model


def _total(variable: Any, keys: list[tuple[int, int, int]]) -> Any:
    return pyo.quicksum((t + o) * variable[i, o, t] for i, o, t in keys)


def _same_outputs(model: Any, requests: int, longest: int, last: int) -> None:
    """(1) One output and start each; both schedules have the same requests."""
    model.one, model.same = pyo.ConstraintList(), pyo.ConstraintList()
    for i in range(requests):
        sums = [
            [pyo.quicksum(v[i, o, t] for t in range(last + 1)) for v in (model.x, model.y)]
            for o in range(1, longest + 1)
        ]
        model.one.add(pyo.quicksum(mine for mine, _ in sums) == 1)
        for mine, other in sums:
            model.same.add(mine == other)


def _in_order(model: Any, requests: int, keys: list[tuple[int, int, int]]) -> None:
    """(2) Shortest first; the first request starts at 0."""
    model.starts = [
        pyo.quicksum(t * model.x[k] for k in keys if k[0] == i for t in k[2:])
        for i in range(requests)
    ]
    outputs = [pyo.quicksum(k[1] * model.x[k] for k in keys if k[0] == i) for i in range(requests)]
    model.sorted = pyo.ConstraintList()
    model.sorted.add(model.starts[0] == 0)
    for i in range(1, requests):
        model.sorted.add(outputs[i - 1] <= outputs[i])
        model.sorted.add(model.starts[i - 1] <= model.starts[i])


#: Tokens of each request at each round, as terms of the program: of ``x``, of ``y``, and of ``x``
#: if every request started one round ``earlier``.
_Tokens: TypeAlias = dict[tuple[str, int, int], list[Any]]


def _tokens(
    model: Any, keys: list[tuple[int, int, int]], prompt: int, convention: Convention
) -> _Tokens:
    tokens: _Tokens = defaultdict(list)
    for i, o, t in keys:
        for age in range(convention.first_age, convention.last_age(o) + 1):
            mine, other = ((prompt + age) * variable[i, o, t] for variable in (model.x, model.y))
            tokens["x", i, t + age].append(mine)
            tokens["y", i, t + age].append(other)
            tokens["earlier", i, t + age - 1].append(mine)
    return tokens


def _memory(model: Any, tokens: _Tokens, rounds: range, requests: int, memory: int) -> None:
    """(3) Both schedules fit the memory."""
    model.memory = pyo.ConstraintList()
    for who in ("x", "y"):
        for round_ in rounds:
            terms = [term for i in range(requests) for term in tokens[who, i, round_]]
            if terms:
                model.memory.add(pyo.quicksum(terms) <= memory)


def _greedy(
    model: Any, tokens: _Tokens, rounds: range, requests: int, memory: int, last: int
) -> None:
    """(4) to (6): every request starts as soon as it fits."""
    later = range(1, requests)
    model.together = pyo.Var(later, domain=pyo.Binary)
    model.block = pyo.Var(later, rounds, domain=pyo.Binary)
    model.greedy, model.tied = pyo.ConstraintList(), pyo.ConstraintList()
    model.blocked = pyo.ConstraintList()
    for i in later:
        for round_ in rounds:
            before = [term for j in range(i) for term in tokens["x", j, round_]]
            held = pyo.quicksum(before + tokens["earlier", i, round_])
            model.blocked.add(held >= (memory + 1) * model.block[i, round_])
        blocks = pyo.quicksum(model.block[i, round_] for round_ in rounds)
        model.greedy.add(model.together[i] + blocks >= 1)
        gap = model.starts[i] - model.starts[i - 1]
        model.tied.add(gap <= last * (1 - model.together[i]))


def bilevel(
    target: Target, space: object, *, time_limit: float | None = None, watch: Watch = unwatched
) -> Found:
    """Find the maximum ratio of Algorithm 1 by a sequence of integer programs.

    For every memory CP-SAT searches for an instance and a schedule whose ratio exceeds the best so
    far, until it proves that there is none. Each solution is verified: the policy runs on the
    instance, and the checker evaluates both schedules.

    Parameters
    ----------
    target : Target
        Algorithm 1, or MC-SF with all requests at 0.
    space : CacheSpace
        The space of instances, with all requests at 0.
    time_limit : float, optional
        Time limit of each program [s]; if it is reached, nothing is proven.
    watch : callable, optional
        Is called at every larger ratio.

    Raises
    ------
    InputError
        If the program does not describe this policy or these arrivals.
    """
    if not isinstance(space, CacheSpace) or not isinstance(target, CacheTarget):
        what = "bilevel searches instances of one worker with a KV cache only"
        raise InputError("method", what, 'use method="exhaustive"')
    if space.last_arrival or not target.ignores_order:
        what = "bilevel supports only shortest first with all requests at 0"
        raise InputError("method", what, 'use method="exhaustive"')
    search = _Search(target, space, time_limit, watch)
    for memory in space.memories:
        search.close(memory)
    return search.found(search.is_maximal)


class _Search:
    """The best instance so far, and whether its maximality is proven."""

    def __init__(
        self, target: CacheTarget, space: CacheSpace, time_limit: float | None, watch: Watch
    ) -> None:
        self._target, self._space, self._time_limit = target, space, time_limit
        self._watch = watch
        self.best: Case | None = None
        self.programs, self.is_maximal = 0, True
        self._ratio: Ratio = (1, 1)

    def found(self, is_maximal: bool) -> Found:
        """Return the best instance so far."""
        assert self.best is not None
        return Found(
            self.best, "bilevel", str(self._space), self.programs, self.programs, is_maximal
        )

    def close(self, memory: int) -> None:
        """Search for larger ratios with one memory size, until none exists or time runs out."""
        if self.best is None:
            # Any instance can be the first one.
            problem = self._space.problem(memory, [(0, 1)] * self._space.requests)
            self._take(self._judged(problem))
        while True:
            self.programs += 1
            point, is_proven = self._solved(memory)
            if point is None:
                self.is_maximal = self.is_maximal and is_proven
                return
            problem = self._space.problem(memory, [(0, o) for o in _outputs(point)])
            case = self._judged(problem)
            if not exceeds((case.cost, case.least), self._ratio):
                what = "the program and the run of the policy disagree"
                raise InputError("bilevel", what, "report this as a bug")
            self._take(case)

    def _take(self, case: Case) -> None:
        self.best, divisor = case, gcd(case.cost, case.least)
        self._ratio = case.cost // divisor, case.least // divisor
        self._watch(partial(self.found, is_maximal=False))

    def _judged(self, problem: LatencyProblem) -> Case:
        """Return the policy's schedule beside an optimum."""
        schedule = self._target.schedule(problem)
        cost = self._target.program(problem).objective_value(schedule)
        optimum = self._target.optimum(problem, cost)
        return Case(self._target, problem, schedule, optimum, proven=True)

    def _solved(self, memory: int) -> tuple[Mapping[str, float] | None, bool]:
        """Return a point with a larger ratio, or None and whether its absence is proven."""
        # Imported here, so that Pyomo is only loaded when needed.
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
