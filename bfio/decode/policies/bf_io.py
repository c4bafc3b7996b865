"""BF-IO: the integer program of each step, solved exactly."""

from collections.abc import Callable
from fractions import Fraction
from time import perf_counter

from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import TwoStageParameters, prepare_kernels, two_stage_step
from formulations.results import TieRule
from formulations.step.check import violations
from formulations.step.problem import StepProblem

#: What a solver answers: the assignment if any, whether it is proven optimal, the tie rule.
_Answer = tuple[tuple[int | None, ...] | None, bool, TieRule]
_Solver = Callable[[StepProblem, list[int | None]], _Answer]


class BFIO:
    """Balance-Future by integer optimisation (BF-IO, Algorithm 1).

    Each step with a choice is solved as the program (IO) over the window, starting from the
    two-stage heuristic's answer. A step that the time limit leaves unproven uses the better of
    the solver's incumbent and that answer, and is counted.

    Attributes
    ----------
    horizon : int
        ``H``.
    """

    def __init__(self, options: PolicyOptions) -> None:
        self.horizon = 0 if options.horizon is None else options.horizon
        self._objective = options.objective
        self._gamma = Fraction(1) if options.gamma is None else options.gamma
        self._hint = TwoStageParameters(threshold=options.threshold, key=options.key)
        self._backend = options.backend
        # Loading or compiling kernels is no part of any step's solve.
        prepare_kernels()
        self._solve = _solver(options)
        self._num_trivial = 0
        self._seconds: list[float] = []
        self._num_proven = 0
        self._tie_rules: set[TieRule] = set()

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign by a minimiser of the program of this step."""
        problem = StepProblem.from_state(
            state, horizon=self.horizon, gamma=self._gamma, objective=self._objective
        )
        start = two_stage_step(problem, self._hint)
        if _has_no_choice(problem):
            self._num_trivial += 1
            return start
        return self._best_answer(problem, start)

    def statistics(self) -> dict[str, object]:
        """Return counts of steps and solve times [s] so far.

        Returns
        -------
        dict
            ``steps`` with a choice, of which ``proven_steps`` and ``unproven_steps``;
            ``trivial_steps`` without; ``solve_s`` in all and ``max_solve_s`` of one step;
            ``tie_rule``: lexicographic only if every step was solved so.
        """
        lexicographic = self._tie_rules <= {TieRule.LEXICOGRAPHIC}
        return {
            "backend": self._backend,
            "steps": len(self._seconds),
            "proven_steps": self._num_proven,
            "unproven_steps": len(self._seconds) - self._num_proven,
            "trivial_steps": self._num_trivial,
            "solve_s": sum(self._seconds),
            "max_solve_s": max(self._seconds, default=0.0),
            "tie_rule": (TieRule.LEXICOGRAPHIC if lexicographic else TieRule.BACKEND).value,
        }

    def _best_answer(self, problem: StepProblem, start: list[int | None]) -> list[int | None]:
        began = perf_counter()
        found, proven, tie_rule = self._solve(problem, start)
        self._seconds.append(perf_counter() - began)
        usable = found is not None and not violations(problem, found)
        if found is None or not usable:
            self._tie_rules.add(TieRule.BACKEND)
            return start
        self._num_proven += proven
        self._tie_rules.add(tie_rule if proven else TieRule.BACKEND)
        if not proven and problem.objective_value(found) > problem.objective_value(start):
            return start
        return list(found)


def _has_no_choice(problem: StepProblem) -> bool:
    """Whether one assignment is all there is: nobody starts, or all start on the only worker."""
    num_open = int((problem.capacity > 0).sum())
    return problem.num_admitted == 0 or (
        num_open == 1 and problem.num_admitted == problem.num_requests
    )


def _solver(options: PolicyOptions) -> _Solver:
    """Bind the backend; solvers are imported here, not when policies are listed."""
    if options.backend == "exact":
        return _exact_solver(options.time_limit)
    return _program_solver(options.backend, options.time_limit)


def _exact_solver(time_limit: float | None) -> _Solver:
    from bfio.step.exact import prepare, solve_exact

    prepare()

    def solve(problem: StepProblem, start: list[int | None]) -> _Answer:
        result = solve_exact(problem, time_limit=time_limit, hint=start)
        return result.assignment, result.proven, result.tie_rule

    return solve


def _program_solver(backend: str, time_limit: float | None) -> _Solver:
    from formulations.step.solver import solve as solve_program

    def solve(problem: StepProblem, start: list[int | None]) -> _Answer:
        result = solve_program(problem, backend=backend, time_limit=time_limit, hint=start)
        return result.assignment, result.is_optimal, result.tie_rule

    return solve


SPEC = PolicySpec(
    name="bf-io",
    factory=BFIO,
    summary="the step program solved exactly (--backend, --horizon)",
    source="BF-IO, section 4, Algorithm 1",
    uses_horizon=True,
)
