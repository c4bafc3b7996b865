"""The policy `pausing`: another policy routes, and a program decides which requests rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bfio.common.options import LOOK_AHEAD, TEXT, CheckedOptions, one_of, option, whole
from bfio.decode.cluster import NO_LIMIT
from bfio.decode.option_kinds import TIME_LIMIT
from bfio.decode.policy import MAX_PAUSES, Decision, Policy
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from formulations.arrays import BoolArray, IntArray
from formulations.errors import InputError
from formulations.scalars import MAX_TOKENS

if TYPE_CHECKING:
    from bfio.decode.policy_registry import ChosenPolicy
    from formulations.pausing import PausingProblem
    from formulations.pausing.check import Solution

#: Value of the option ``base`` if the program routes as well.
PROGRAM = "program"


@dataclass(frozen=True)
class PausingOptions(CheckedOptions):
    """Options of `pausing`; the options of the routing policy are given together with them."""

    base: str = option("br-0", TEXT, "B", "policy that routes, or program (br-0)")
    max_pauses: int = option(
        8, whole(0, MAX_PAUSES), "P", "most consecutive steps that a request rests (8)"
    )
    pausing_method: str = option(
        "heuristic",
        one_of("heuristic", "exact"),
        "M",
        "how each step is solved: heuristic (default), exact",
    )
    time_limit: float | None = option(
        None,
        TIME_LIMIT,
        "SECONDS",
        "wall-clock limit of each exact solve (none)",
        beside="pausing_method=exact",
    )
    router: ChosenPolicy | None = None


class Pausing:
    """The policy `pausing`: start, pause and resume requests for least time per token.

    A base policy assigns waiting requests, and then the program of ``docs/pausing.md`` decides
    which active requests rest. With base `PROGRAM`, the program does both. A request runs in the
    step in which it starts. With ``max_pauses = 0``, runs equal those of the base policy.
    """

    def __init__(self, options: PausingOptions) -> None:
        self.max_pauses = options.max_pauses
        self._base = _router(options)
        self._is_exact = options.pausing_method == "exact"
        self._time_limit = options.time_limit if self._is_exact else None
        self._proven = self._unproven = 0

    def __call__(self, state: DecodeState) -> Decision:
        """Call the base policy as in a run without rests, then solve the program."""
        waits = state.num_waiting > 0 and bool(state.free_slots.any())
        if self._base is None:
            return self._program(state)
        answer = self._base(state) if waits else [None] * state.num_waiting
        assignment: list[int | None] = list(answer)
        if self.max_pauses == 0:
            return Decision(assignment)
        starts = [i for i, worker in enumerate(assignment) if worker is not None]
        worker = np.array([assignment[i] for i in starts], dtype=np.int64)
        runs, _ = self._solved(self._problem(state, worker, state.sizes[starts]))
        return _decision(assignment, runs[: len(state.active.request)])

    def statistics(self) -> Mapping[str, object]:
        """Return the numbers of proven and unproven steps, if the exact method is used."""
        if not self._is_exact:
            return {}
        return {"proven_steps": self._proven, "unproven_steps": self._unproven}

    def _program(self, state: DecodeState) -> Decision:
        if state.reserves:
            what = "does not support overflow=reserve, because the program counts loads, not peaks"
            where = "policy pausing:base=program"
            raise InputError(where, what, "use another base or overflow rule")
        none = np.zeros(0, dtype=np.int64)
        runs, assignment = self._solved(self._problem(state, none, none, admits=True))
        return _decision(list(assignment), runs)

    def _problem(
        self, state: DecodeState, starts_on: IntArray, sizes: IntArray, admits: bool = False
    ) -> PausingProblem:
        """Return the program: requests started by the base policy count as active and must run."""
        from formulations.pausing import PausingProblem

        if state.step_units is None:
            what = "token_time_s is 0, so no rest shortens a step"
            raise InputError("policy pausing", what, "give token_time_s > 0, or max_pauses 0")
        active, must = state.active, np.full(len(sizes), self.max_pauses)
        overheads, rates = state.step_units
        limited = admits and int(state.room.max(initial=0)) < NO_LIMIT // 2
        return PausingProblem(
            capacity=state.free_slots if admits else np.zeros_like(state.free_slots),
            worker=np.concatenate((active.worker, starts_on)),
            load=np.concatenate((active.load, sizes)),
            paused=np.concatenate((active.rested, must)),
            waiting=state.sizes if admits else sizes[:0],
            max_pauses=self.max_pauses,
            step_overhead=overheads.tolist(),
            token_time=rates.tolist(),
            # The program accepts at most `MAX_TOKENS`, so larger memories are capped at it.
            token_capacity=np.clip(state.loads + state.room, 0, MAX_TOKENS) if limited else None,
        )

    def _solved(self, problem: PausingProblem) -> Solution:
        from bfio.pausing import quick_step, solve_pausing

        if problem.num_active + problem.num_requests == 0:
            return (), ()
        if not self._is_exact:
            step = quick_step(problem)
        else:
            found = solve_pausing(problem, time_limit=self._time_limit)
            self._proven += found.is_optimal
            self._unproven += not found.is_optimal
            known = found.runs is not None and found.assignment is not None
            step = (found.runs, found.assignment) if known else None  # type: ignore[assignment]
        # Nothing can run, and no request fits: the engine reports this as a stall.
        return step or ((), (None,) * problem.num_requests)


def _decision(assignment: list[int | None], runs: tuple[bool, ...] | BoolArray) -> Decision:
    return Decision(assignment, [place for place, run in enumerate(runs) if not run])


def _router(options: PausingOptions) -> Policy | None:
    """Return the policy that routes, or None if the program routes.

    Raises InputError for a policy that is not built in, looks ahead, tracks requests by itself, or
    pauses requests.
    """
    from bfio.decode.policy_registry import built_in, choose, look_ahead

    if options.base == PROGRAM:
        return None
    able = [
        name
        for name, spec in sorted(built_in().items())
        if spec.interruptible and name != SPEC.name and look_ahead(choose(name).in_force()) == 0
    ]
    if options.base not in able:
        remedy = f"use {PROGRAM} or one of {', '.join(able)}"
        raise InputError("base", f"{options.base!r} cannot route for pausing", remedy)
    router = options.router or choose(options.base)
    if router.look_ahead() > 0:
        what = f"{options.base} looks ahead, but pauses delay the ends of requests"
        raise InputError("base", what, f"set {LOOK_AHEAD} to 0")
    return router.make()


SPEC = PolicySpec(
    name="pausing",
    factory=Pausing,
    options=PausingOptions(),
    summary=(
        "another policy routes, and a program of each step decides which active requests pause "
        "([pausing.md](pausing.md#the-policy))"
    ),
    source="DyntraLB (vllm-ascend pull request 12292), as a program",
    why_pooled="it decides about a step as a whole, not about one request",
    pauses=True,
)
