"""What a policy chooses by among the optima of its steps, and how that went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from bfio.common.options import CheckedOptions, one_of, option, whole
from bfio.decode.option_kinds import HORIZON, WORK_LIMIT
from bfio.decode.state import DecodeState
from formulations.scalars import MAX_TOKENS
from formulations.second.problem import Second, second_problem
from formulations.step.problem import StepProblem
from formulations.work import work_limit_beside

if TYPE_CHECKING:
    from bfio.decode.policies.bf_io import BFIOOptions

#: Any of the optima of a step will do.
NO_SECOND = "none"


@dataclass(frozen=True)
class SecondOptions(CheckedOptions):
    """Which of the optima of a step is taken."""

    second: str = option(
        NO_SECOND, one_of(NO_SECOND, *Second), "S", "which optimum (none; docs/second.md)"
    )
    slack: int = option(
        0, whole(0, MAX_TOKENS), "E", "second may cost so much of the first (0)", beside="second"
    )
    second_proof: int = option(
        0,
        WORK_LIMIT,
        "TICKS",
        "work to prove each second (0)",
        beside="second",
    )
    second_horizon: int = option(
        20,
        HORIZON,
        "H",
        "look-ahead of second=window (20)",
        beside=f"second={Second.WINDOW}",
    )


class SecondChoice:
    """A second objective among the optima of the steps of one run.

    Parameters
    ----------
    options : BFIOOptions
        Those that say ``second``.

    Attributes
    ----------
    horizon : int
        Look-ahead steps that it reads.
    """

    def __init__(self, options: BFIOOptions) -> None:
        from bfio.step.second.search import prepare_second

        self._second = Second(options.second)
        self._slack = options.slack
        self._gamma = options.gamma
        self.horizon = options.second_horizon if self._second is Second.WINDOW else 0
        self._proof = options.second_proof
        self._time_limit = options.time_limit
        self._work_limit = work_limit_beside(options.time_limit, options.work_limit)
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
        """Return an assignment as good as ``found``, of least second objective.

        The clock may have ended the search for it: that is returned beside.

        Parameters
        ----------
        state : DecodeState
            The step.
        problem : StepProblem
            Its program.
        found : sequence of int or None
            A feasible assignment.
        proven : bool
            Whether it is optimal.
        """
        from bfio.step.second.solve import solve_second

        window = None
        if self._second is Second.WINDOW:
            window = StepProblem.from_state(
                state, horizon=self.horizon, gamma=self._gamma, objective=problem.objective
            )
        most = problem.objective_value(found) + self._slack * problem.scale
        began = perf_counter()
        chosen = solve_second(
            second_problem(problem, most, self._second, window),
            found,
            prove=self._proof > 0,
            time_limit=self._time_limit,
            work_limit=self._proof or self._work_limit,
        )
        self._seconds.append(perf_counter() - began)
        self._ticks.append(chosen.ticks or 0)
        self._num_proven += proven and chosen.is_optimal
        assert chosen.assignment is not None
        self._num_changed += list(chosen.assignment) != list(found)
        return list(chosen.assignment), chosen.stopped_by_time

    @property
    def all_proven(self) -> bool:
        """Whether each step so far has a least second objective, proven."""
        return self._num_proven == len(self._seconds)

    def statistics(self) -> dict[str, object]:
        """Return counts of steps and times [s] so far.

        Returns
        -------
        dict
            ``second``, the objective; ``second_proven_steps`` whose first and second objective are
            proven; ``second_changed_steps`` where it changed the assignment; ``second_s`` in all
            and ``max_second_s`` of one step, the same of work as ``second_ticks``.
        """
        return {
            "second": self._second.value,
            "second_proven_steps": self._num_proven,
            "second_changed_steps": self._num_changed,
            "second_ticks": sum(self._ticks),
            "second_s": sum(self._seconds),
            "max_second_s": max(self._seconds, default=0.0),
        }


def second_choice(options: BFIOOptions) -> SecondChoice | None:
    """Return the choice that the options name, None if they name none."""
    return None if options.second == NO_SECOND else SecondChoice(options)
