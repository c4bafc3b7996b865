"""The policy BF-IO: the integer program of each step, solved exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from bfio.common.options import TEXT, CheckedOptions, checked, one_of, option, whole, word_of
from bfio.decode.option_kinds import (
    DISCOUNT,
    HORIZON,
    STAGE_2_KEY,
    TIME_LIMIT,
    WORK_LIMIT,
    look_ahead_option,
)
from bfio.decode.policies.balance_route import (
    BENEFIT,
    MAX_WAIT,
    cache_worth,
    overdue,
    two_stage_of,
)
from bfio.decode.policy import LooksAhead
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import TwoStageParameters, prepare_kernels, two_stage_step
from formulations.deadline import work_limit_beside
from formulations.named_objects import is_users
from formulations.results import Termination, TieRule
from formulations.scalars import MAX_TOKENS
from formulations.second.problem import Second, second_problem
from formulations.step.check import violations
from formulations.step.problem import Objective, StepProblem

#: No secondary objective: any optimum of a step is accepted.
NO_SECOND = "none"


class SecondChoice:
    """The secondary objective of a run, which selects among optimal assignments of a step.

    ``look_ahead`` is the number of look-ahead steps that the secondary objective uses.
    """

    def __init__(self, options: BFIOOptions) -> None:
        from bfio.step.second import prepare_second

        self._options, self._second = options, Second(options.second)
        self.look_ahead = options.second_horizon if self._second is Second.WINDOW else 0
        self._num_proven = self._num_changed = 0
        self._seconds: list[float] = []
        self._ticks: list[int] = []
        prepare_second()

    def choose(
        self,
        state: DecodeState,
        problem: StepProblem,
        found: Sequence[int | None],
        *,
        proven: bool,
    ) -> tuple[list[int | None], bool]:
        """Return the assignment of least secondary objective among those as good as ``found``.

        ``found`` is a feasible assignment, and ``proven`` is true if it is optimal. The second
        result is true if the time limit ended the search.
        """
        from bfio.step.second import solve_second

        options, window = self._options, None
        if self._second is Second.WINDOW:
            window = StepProblem.from_state(
                state, look_ahead=self.look_ahead, gamma=options.gamma, objective=problem.objective
            )
        most = problem.objective_value(found) + options.slack * problem.units_per_token
        began = perf_counter()
        chosen = solve_second(
            second_problem(problem, most, self._second, window),
            found,
            prove=options.second_proof > 0,
            time_limit=options.time_limit,
            work_limit=options.second_proof or options.most_work,
        )
        self._seconds.append(perf_counter() - began)
        self._ticks.append(chosen.ticks or 0)
        self._num_proven += proven and chosen.is_optimal
        assert chosen.assignment is not None
        self._num_changed += list(chosen.assignment) != list(found)
        return list(chosen.assignment), chosen.stopped_by_time

    @property
    def all_proven(self) -> bool:
        """Whether the secondary optimum of every step so far is proven."""
        return self._num_proven == len(self._seconds)

    def statistics(self) -> dict[str, object]:
        """Return counts of steps, and times [s] and work of the secondary solves so far.

        ``second_proven_steps`` counts steps with both objectives proven, ``second_changed_steps``
        steps at which the secondary objective changed the assignment.
        """
        return {
            "second": self._second.value,
            "second_proven_steps": self._num_proven,
            "second_changed_steps": self._num_changed,
            "second_ticks": sum(self._ticks),
            "second_s": sum(self._seconds),
            "max_second_s": max(self._seconds, default=0.0),
        }


#: Solvers that can be called at each step.
BACKENDS = ("exact", "cp-sat", "highs", "pyomo")
#: Prefix of a backend that is followed by the name of a solver of Pyomo.
NAMED_SOLVER = "pyomo:"


def is_own_backend(name: str) -> bool:
    """Return whether a backend is a user's ``module:NAME``."""
    return is_users(name) and not name.startswith(NAMED_SOLVER)


def _backend(value: object, name: str) -> object:
    return value if is_users(str(value)) else one_of(*BACKENDS).checked(value, name)


@dataclass(frozen=True)
class BFIOOptions(CheckedOptions):
    """Options of `bf-io`; the first four choose among the optima of a step."""

    second: str = option(
        NO_SECOND,
        one_of(NO_SECOND, *Second),
        "S",
        "second objective among optima (none; docs/second.md)",
    )
    slack: int = option(
        0,
        whole(0, MAX_TOKENS),
        "E",
        "largest increase of the first objective for the second (0)",
        beside="second",
    )
    second_proof: int = option(
        0, WORK_LIMIT, "TICKS", "work limit to prove each second optimum (0)", beside="second"
    )
    second_horizon: int = option(
        20, HORIZON, "H", "look-ahead of second=window (20)", beside=f"second={Second.WINDOW}"
    )
    look_ahead: int = look_ahead_option(0, "look-ahead steps (0)")
    gamma: Fraction = option(Fraction(1), DISCOUNT, "C", "discount per look-ahead step (1)")
    objective: Objective = option(
        Objective.IMBALANCE,
        word_of(Objective),
        "O",
        "imbalance (default), max-load or gap",
    )
    benefit: Fraction = option(*BENEFIT, beside="prefix_cache")
    max_wait: int | None = option(*MAX_WAIT)
    threshold: int = option(7, whole(), "N", "θ, most free slots for stage 2 (7)")
    key: str = option("lexicographic", STAGE_2_KEY, "K", "stage 2 order: lexicographic, product")
    backend: str = option(
        "exact", checked(TEXT, _backend), "B", "exact (default), cp-sat, highs or pyomo"
    )
    work_limit: int | None = option(
        None,
        WORK_LIMIT,
        "TICKS",
        "work limit of each solve, the same on every machine (default 1000000, about a second)",
    )
    time_limit: float | None = option(
        None,
        TIME_LIMIT,
        "SECONDS",
        "wall-clock limit of each solve instead: results may differ between machines",
    )

    @property
    def most_work(self) -> int | None:
        """Work limit of each solve [ticks]: as given, or the default if there is no time limit."""
        return work_limit_beside(self.time_limit, self.work_limit)


class Answer(NamedTuple):
    """The answer of a solver, the ticks used, and whether the time limit ended a search."""

    assignment: tuple[int | None, ...] | None
    is_proven: bool
    tie_rule: TieRule
    is_clocked: bool = False
    ticks: int | None = None


_Solver = Callable[[StepProblem, list[int | None]], Answer]


class BFIO(LooksAhead):
    """Balance-Future by integer optimisation (BF-IO, Algorithm 1).

    At each step with a choice, the program (IO) over the window is solved, starting from the
    answer of the two-stage heuristic. If a limit leaves a step unproven, the better of the
    solver's incumbent and this answer is used, and the step is counted.

    With ``benefit`` μ > 0, the objective is reduced by μ times the prompt tokens that are cached
    on the chosen workers.

    With a secondary objective, the answer has the least secondary objective among equally good
    assignments. ``look_ahead`` is the longer of the look-aheads of both objectives.

    With immediate dispatch, the program covers all unbound requests of a step. Its loads are the
    projected and bound loads. Its slots are the numbers of requests that each worker still
    accepts.
    """

    binds_together = True

    def __init__(self, options: BFIOOptions) -> None:
        self._options = options
        self._second = None if options.second == NO_SECOND else SecondChoice(options)
        second = 0 if self._second is None else self._second.look_ahead
        self.look_ahead = max(options.look_ahead, second)
        self._hint = TwoStageParameters(threshold=options.threshold, key=options.key)
        # Load or compile kernels now, so that the time of the first solve excludes it.
        prepare_kernels()
        self._solve = _solver(options)
        self._num_trivial = self._num_proven = self._num_clocked = self._num_kept = 0
        self._seconds: list[float] = []
        self._ticks: list[int] = []
        self._tie_rules: set[TieRule] = set()

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Return an optimal assignment of the program of this step."""
        options = self._options
        problem = StepProblem.from_state(
            state,
            look_ahead=options.look_ahead,
            gamma=options.gamma,
            objective=options.objective,
            benefit=cache_worth(state, options.benefit),
        )
        required = overdue(state, options.max_wait)
        if required is not None:
            problem = replace(problem, required=required)
        if problem.token_capacity is None:
            start = two_stage_step(problem, self._hint)
        else:
            # Memory may not allow all slots to be filled: admit as many as the heuristic does.
            worth = problem.benefit
            start = two_stage_of(state, problem.weights, self._hint, required, worth)
            starts = np.array([worker is not None for worker in start])
            required = None if required is None else required & starts
            problem = replace(problem, admit=int(starts.sum()), required=required)
        if _has_no_choice(problem):
            self._num_trivial += 1
            return start
        proven, clocked = self._num_proven, self._num_clocked
        answer = self._best_answer(problem, start)
        if self._second is None:
            return answer
        is_proven = self._num_proven > proven
        chosen, is_clocked = self._second.choose(state, problem, answer, proven=is_proven)
        if is_clocked and self._num_clocked == clocked:
            self._num_clocked += 1
        return chosen

    def statistics(self) -> dict[str, object]:
        """Return counts of steps and solve times [s] so far.

        Returns
        -------
        dict
            ``steps`` with a choice, split into ``proven_steps`` and ``unproven_steps``;
            ``trivial_steps`` without a choice; ``clocked_steps``, whose solve the time limit
            ended, so that they may differ between machines; ``solve_s`` in total and
            ``max_solve_s`` of one step; likewise the work in ``ticks`` and ``max_ticks`` (None if
            not counted); ``kept_steps``, which keep the two-stage answer because no better one was
            found; ``tie_rule``, the tie rule of every step, or ``backend`` if steps differ. With a
            secondary objective, also `SecondChoice.statistics`.
        """
        rules = self._tie_rules or {TieRule.LEXICOGRAPHIC}
        second = self._second
        if second is not None and self._tie_rules:
            rules = {TieRule.SECOND if second.all_proven else TieRule.BACKEND}
        return {
            "backend": self._options.backend,
            "steps": len(self._seconds),
            "proven_steps": self._num_proven,
            "unproven_steps": len(self._seconds) - self._num_proven,
            "trivial_steps": self._num_trivial,
            "kept_steps": self._num_kept,
            "clocked_steps": self._num_clocked,
            "work_limit": self._options.most_work,
            "time_limit": self._options.time_limit,
            "ticks": sum(self._ticks) if self._ticks else None,
            "max_ticks": max(self._ticks, default=None),
            "solve_s": sum(self._seconds),
            "max_solve_s": max(self._seconds, default=0.0),
            "tie_rule": (min(rules) if len(rules) == 1 else TieRule.BACKEND).value,
        } | ({} if second is None else second.statistics())

    def _best_answer(self, problem: StepProblem, start: list[int | None]) -> list[int | None]:
        began = perf_counter()
        found, proven, tie_rule, clocked, ticks = self._solve(problem, start)
        self._seconds.append(perf_counter() - began)
        self._num_clocked += clocked
        if ticks is not None:
            self._ticks.append(ticks)
        if found is None or violations(problem, found):
            self._tie_rules.add(TieRule.BACKEND)
            return start
        self._num_proven += proven
        # Among equally good answers take the heuristic's, so that the choice is independent of the
        # backend.
        if problem.objective_value(found) >= problem.objective_value(start):
            self._num_kept += 1
            self._tie_rules.add(TieRule.OLDEST_FIRST if proven else TieRule.BACKEND)
            return start
        self._tie_rules.add(tie_rule if proven else TieRule.BACKEND)
        return list(found)


def _has_no_choice(problem: StepProblem) -> bool:
    """Return whether there is only one assignment: no starts, or all on the only worker."""
    num_open = int((problem.capacity > 0).sum())
    return problem.num_admitted == 0 or (
        num_open == 1 and problem.num_admitted == problem.num_requests
    )


def _solver(options: BFIOOptions) -> _Solver:
    """Return the solver of the backend; it is imported here, not when policies are listed."""
    limits: dict[str, Any] = {"time_limit": options.time_limit, "work_limit": options.most_work}
    if options.backend == "exact":
        from bfio.step.exact import prepare, solve_exact

        prepare()

        def solve(problem: StepProblem, start: list[int | None]) -> Answer:
            found = solve_exact(problem, hint=start, **limits)
            clocked, ticks = found.stopped_by_time, found.ticks
            return Answer(found.assignment, found.proven, found.tie_rule, clocked, ticks)

        return solve
    from formulations.step.solver import solve as solve_program

    def solve_by(problem: StepProblem, start: list[int | None]) -> Answer:
        found = solve_program(problem, backend=options.backend, hint=start, **limits)
        clocked = found.termination is Termination.TIME_LIMIT
        return Answer(found.assignment, found.is_optimal, found.tie_rule, clocked, found.ticks)

    return solve_by


SPEC = PolicySpec(
    name="bf-io",
    factory=BFIO,
    options=BFIOOptions(),
    summary="the step program solved exactly",
    source="BF-IO, section 4",
)
