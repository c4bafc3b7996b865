"""Data and results of the pausing program: one decode step in which requests may be paused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, Self

import numpy as np

from formulations.arrays import (
    BoolArray,
    IntArray,
    check_length,
    frozen,
    integer,
    integer_vector,
    optional_flags,
    optional_vector,
    read_columns,
)
from formulations.errors import InputError, known_fields
from formulations.hindsight_makespan.problem import STEP_OVERHEAD, TOKEN_TIME
from formulations.problem_data import ProblemData, check_keys
from formulations.results import (
    BoundKind,
    ProgramResult,
    Solved,
    Termination,
    check_bound,
    fields_frame,
)
from formulations.scalars import exact_rational, plain_number
from formulations.step.problem import MAX_OBJECTIVE
from formulations.words import counted

_REQUIRED_KEYS = ("capacity", "active", "max_pauses")
_OPTIONAL_KEYS = ("waiting", "required", "step_overhead", "token_time", "token_capacity")
#: Input type of times: one for all workers, or one for each.
Times = Fraction | int | str | Sequence[Fraction | int | str]


class Action(StrEnum):
    """What happens to an active request in the step: it runs, resumes or pauses."""

    KEEP = "keep"
    PAUSE = "pause"
    RESUME = "resume"
    #: Paused before and at this step.
    STAY = "stay"


@known_fields
@dataclass(frozen=True)
class PausingProblem(ProblemData):
    """One step in which active requests run or pause, and waiting ones start or wait.

    A running request emits one token and adds its load to its worker. A paused request keeps its
    slot and memory and emits nothing. A step lasts ``max_g (C_g + τ_g L_g)`` with ``L_g`` the load
    of the running requests on g. The objective is the minimum time per emitted token.

    Parameters
    ----------
    capacity : IntArray
        Shape (G,): free slots of each worker, clipped to N; paused requests occupy their slots.
    worker : IntArray
        Shape (J,): worker of each active request.
    load : IntArray
        Shape (J,), >= 1: tokens held by each active request, its load if it runs.
    paused : IntArray
        Shape (J,): number of consecutive steps each active request has been paused, 0 if it ran.
    waiting : IntArray
        Shape (N,), >= 1: tokens that each waiting request adds if it starts, oldest first.
    max_pauses : int
        ``P``: a request that has been paused for this many consecutive steps must run.
    step_overhead, token_time : tuple of Fraction
        ``C_g >= 0`` [s] and ``τ_g > 0`` [s/token], one for all workers or one each, exact; by
        default the values of the BF-IO authors' simulator.
    token_capacity : IntArray, optional
        Shape (G,): token limit ``κ_g`` of worker g at the step, for running and paused requests.
    required : BoolArray, optional
        Shape (N,): waiting requests that must start now.

    Raises
    ------
    InputError
        If a value breaks its rule, naming field and index.
    """

    capacity: IntArray
    worker: IntArray
    load: IntArray
    paused: IntArray
    waiting: IntArray
    max_pauses: int
    step_overhead: Times = STEP_OVERHEAD
    token_time: Times = TOKEN_TIME
    token_capacity: IntArray | None = None
    required: BoolArray | None = None

    def __post_init__(self) -> None:
        """Validate, freeze and clip."""
        capacity = integer_vector(self.capacity, "capacity")
        G = len(capacity)
        if G == 0:
            raise InputError("capacity", "no worker", "give the free slots of at least one worker")
        worker = integer_vector(self.worker, "worker", maximum=G - 1)
        J = len(worker)
        load = integer_vector(self.load, "load", minimum=1)
        paused = integer_vector(self.paused, "paused")
        for name, column in (("load", load), ("paused", paused)):
            check_length(column, J, name, "active request")
        waiting = integer_vector(self.waiting, "waiting", minimum=1)
        self._set(
            capacity=frozen(np.minimum(capacity, len(waiting))),
            worker=worker,
            load=load,
            paused=paused,
            waiting=waiting,
            max_pauses=integer(self.max_pauses, "max_pauses"),
            step_overhead=_times(self.step_overhead, "step_overhead", G),
            token_time=_times(self.token_time, "token_time", G),
            token_capacity=optional_vector(self.token_capacity, "token_capacity", G, 0),
            required=optional_flags(self.required, "required", len(waiting)),
        )
        self._check_magnitude()

    @property
    def num_workers(self) -> int:
        """``G``."""
        return len(self.capacity)

    @property
    def num_active(self) -> int:
        """``J``."""
        return len(self.worker)

    @property
    def num_requests(self) -> int:
        """``N``, number of waiting requests."""
        return len(self.waiting)

    @cached_property
    def scale(self) -> int:
        """Units of time per second, chosen so that all times are integers."""
        return lcm(*(t.denominator for t in (*self._overheads, *self._rates)))

    @cached_property
    def overheads(self) -> IntArray:
        """Fixed time ``C_g`` of a step on each worker, in units, shape (G,)."""
        return frozen(np.array([int(c * self.scale) for c in self._overheads], dtype=np.int64))

    @cached_property
    def rates(self) -> IntArray:
        """Time ``τ_g`` per token on each worker, in units, shape (G,)."""
        return frozen(np.array([int(t * self.scale) for t in self._rates], dtype=np.int64))

    @cached_property
    def must_run(self) -> BoolArray:
        """Whether each active request must run after ``max_pauses`` pauses, shape (J,)."""
        return frozen(self.paused >= self.max_pauses)

    @cached_property
    def must_start(self) -> BoolArray:
        """Whether each waiting request must start now, shape (N,); false where not required."""
        if self.required is None:
            return frozen(np.zeros(self.num_requests, dtype=np.bool_))
        return self.required

    @cached_property
    def room(self) -> IntArray:
        """Free tokens of each worker, shape (G,); negative for a worker above its limit."""
        if self.token_capacity is None:
            return frozen(np.full(self.num_workers, int(self.waiting.sum())))
        return frozen(self.token_capacity - self.active_loads())

    def active_loads(self, chosen: BoolArray | slice = slice(None)) -> IntArray:
        """Return the tokens of active requests on each worker, shape (G,); by default of all."""
        loads = np.zeros(self.num_workers, dtype=np.int64)
        np.add.at(loads, self.worker[chosen], self.load[chosen])
        return loads

    def ratio(self, time: int, tokens: int) -> Fraction:
        """Return the seconds per token of a step of ``time`` units that emits ``tokens``."""
        return Fraction(time, tokens * self.scale)

    def actions(self, runs: Sequence[bool]) -> tuple[Action, ...]:
        """Return the action on each active request, length J, given which requests run."""
        rested, ran = (Action.STAY, Action.RESUME), (Action.PAUSE, Action.KEEP)
        return tuple(
            (rested if paused else ran)[bool(run)]
            for run, paused in zip(runs, self.paused.tolist(), strict=True)
        )

    def frozen_workers(
        self, runs: Sequence[bool], assignment: Sequence[int | None]
    ) -> tuple[int, ...]:
        """Return the workers that have active requests but run none and start none."""
        on = self.worker.tolist()
        busy = {g for g, run in zip(on, runs, strict=True) if run} | set(assignment)
        return tuple(sorted(set(on) - busy))

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Build a problem from the JSON document that ``bfio pause`` reads."""
        fields = check_keys(document, "document", _REQUIRED_KEYS, _OPTIONAL_KEYS)
        columns = {"worker": (0, None), "load": (1, None), "paused": (0, 0)}
        active: dict[str, Any] = read_columns(fields["active"], "active", columns)
        given = {"waiting": []} | {n: fields[n] for n in fields if n != "active"}
        try:
            return cls(**active, **given)
        except InputError as error:
            column, _, row = error.where.partition("[")
            if column not in active:
                raise
            # The document has the columns as fields of the rows.
            raise InputError(f"active[{row}.{column}", error.what, error.remedy) from None

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        columns = (self.worker.tolist(), self.load.tolist(), self.paused.tolist())
        document: dict[str, Any] = {
            "capacity": self.capacity.tolist(),
            "active": [
                {"worker": g, "load": w, "paused": p} for g, w, p in zip(*columns, strict=True)
            ],
            "waiting": self.waiting.tolist(),
            "max_pauses": self.max_pauses,
            "step_overhead": [str(time) for time in self._overheads],
            "token_time": [str(time) for time in self._rates],
        }
        for key in ("token_capacity", "required"):
            if (value := getattr(self, key)) is not None:
                document[key] = value.tolist()
        return document

    @property
    def _overheads(self) -> tuple[Fraction, ...]:
        return self.step_overhead  # type: ignore[return-value]

    @property
    def _rates(self) -> tuple[Fraction, ...]:
        return self.token_time  # type: ignore[return-value]

    def _check_magnitude(self) -> None:
        """Raise if sums of the data could exceed 64-bit integers, or a token takes no time."""
        for g, rate in enumerate(self._rates):
            if rate == 0:
                raise InputError(
                    f"token_time[{g}]", "0: tokens would take no time", "give a time > 0"
                )
        tokens = int(self.load.sum()) + int(self.waiting.sum())
        slowest = max(int(c * self.scale) for c in self._overheads) + tokens * max(
            int(t * self.scale) for t in self._rates
        )
        if slowest * max(1, self.num_active + self.num_requests) >= MAX_OBJECTIVE:
            what = f"the step could last {slowest:.1e} units of 1/{self.scale} s, beyond 64 bits"
            remedy = "write times with fewer digits, for example in units of the time of one token"
            raise InputError("step_overhead, token_time", what, remedy)


@dataclass(frozen=True)
class PricedPausing:
    """A pausing problem with prices of time and tokens: minimise ``q·time − p·tokens``.

    The minimum is 0 iff p/q is the minimum ratio of time to tokens (Dinkelbach 1967).

    Parameters
    ----------
    problem : PausingProblem
        The step.
    time_price, token_price : int
        ``q >= 1`` per unit of time, ``p >= 0`` per token.
    """

    problem: PausingProblem
    time_price: int
    token_price: int

    @classmethod
    def at(cls, problem: PausingProblem, ratio: Fraction) -> Self:
        """Return the problem priced at a ratio in units of time per token."""
        return cls(problem, ratio.denominator, ratio.numerator)

    def value(self, time: int, tokens: int) -> int:
        """Return ``q·time − p·tokens``."""
        return self.time_price * time - self.token_price * tokens


def _times(times: object, where: str, workers: int) -> tuple[Fraction, ...]:
    """Return the times of the workers as exact fractions, length G."""
    if not isinstance(times, list | tuple):
        return (exact_rational(times, where, exponents=True),) * workers
    if len(times) != workers:
        raise InputError(
            where,
            f"{counted(len(times), 'entry')} where {workers} are expected",
            "give one per worker",
        )
    return tuple(
        exact_rational(time, f"{where}[{g}]", exponents=True) for g, time in enumerate(times)
    )


@dataclass(frozen=True, kw_only=True)
class PricedResult(ProgramResult[tuple[tuple[bool, ...], tuple[int | None, ...]]]):
    """The result of a `PricedPausing` problem.

    Parameters
    ----------
    runs : tuple of bool, optional
        Whether each active request runs.
    assignment : tuple of (int or None), optional
        Worker of each waiting request, None for one that keeps waiting.
    """

    solution_fields = ("runs", "assignment")

    runs: tuple[bool, ...] | None = None
    assignment: tuple[int | None, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PausingResult(Solved):
    """The result of a pausing program: termination, step and bound (None if missing).

    "Optimal" means that the ratio, recomputed in integers, equals a bound derived in integers.

    Parameters
    ----------
    problem : PausingProblem
        The problem that was solved.
    time, tokens : int, optional
        Time of the step in units (``problem.scale`` per second), and tokens that it emits.
    bound : Fraction, optional
        Lower bound on the seconds per token of every feasible step.
    bound_kind : BoundKind
        Whether the bound was derived in integers.
    runs : tuple of bool, optional
        Whether each active request runs.
    assignment : tuple of (int or None), optional
        Worker of each waiting request, None for one that keeps waiting.
    rounds : int
        Number of integer programs solved, one for each price of tokens.
    violations : mapping
        Violations found by the checker; empty for a feasible step.
    """

    solution_fields = ("runs", "assignment")

    problem: PausingProblem
    time: int | None = None
    tokens: int | None = None
    bound: Fraction | None = None
    bound_kind: BoundKind = BoundKind.INTEGER
    runs: tuple[bool, ...] | None = None
    assignment: tuple[int | None, ...] | None = None
    rounds: int = 0
    violations: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise if the fields contradict each other."""
        if self.is_optimal and (self.objective != self.bound or self.violations):
            raise ValueError("an optimal result needs a feasible step and an equal exact bound")
        check_bound(self.method, self.objective, self.bound, checked=not self.violations)

    @property
    def objective(self) -> Fraction | None:
        """Seconds per token of the step; None if there is none."""
        if self.time is None or not self.tokens:
            return None
        return self.problem.ratio(self.time, self.tokens)

    @property
    def gap(self) -> float | None:
        """``(objective - bound) / objective``; None if one is missing."""
        if self.objective is None or self.bound is None:
            return None
        return float(1 - self.bound / self.objective) if self.objective else 0.0

    def summary(self) -> str:
        """Return termination, ratio, bound and step as a few lines of text."""
        lines = [f"{self.method}: {self.termination} in {self.seconds * 1e3:.1f} ms"]
        bound = "none" if self.bound is None else f"{float(self.bound):.9g}"
        if self.objective is not None:
            lines.append(f"{float(self.objective):.9g} s per token, bound {bound}")
        elif self.termination is Termination.RELAXED:
            lines.append(f"bound {bound} s per token, no solution")
        lines.append(self.origin())
        if self.runs is not None and self.assignment is not None and self.time is not None:
            seconds = float(Fraction(self.time, self.problem.scale))
            lines.append(f"{self.tokens} tokens in {seconds:.9g} s")
            lines.append(self.solution_text())
        lines += [f"violated: {name} by {amount}" for name, amount in self.violations.items()]
        return "\n".join(lines)

    def solution_text(self) -> str:
        """Return paused requests, started requests and frozen workers in one line."""
        runs, assignment = self.runs, self.assignment
        assert runs is not None
        assert assignment is not None
        rest = [str(j) for j, run in enumerate(runs) if not run]
        starts = [f"{i}->{g}" for i, g in enumerate(assignment) if g is not None]
        parts = [f"rest: {', '.join(rest) or 'none'}", f"start: {', '.join(starts) or 'none'}"]
        if idle := self.problem.frozen_workers(runs, assignment):
            parts.append(f"frozen workers: {', '.join(map(str, idle))}")
        return "; ".join(parts)

    def to_frame(self) -> Any:
        """Return the result as a pandas data frame."""
        return fields_frame(self)

    def to_mapping(self) -> dict[str, object]:
        """Return the JSON document that ``bfio pause`` prints."""
        runs, assignment = self.runs, self.assignment
        actions, idle = None, None
        if runs is not None and assignment is not None:
            actions = [action.value for action in self.problem.actions(runs)]
            idle = list(self.problem.frozen_workers(runs, assignment))
        return {
            "method": self.method,
            "termination": self.termination.value,
            "objective": plain_number(self.objective),
            "bound": plain_number(self.bound),
            "exact": {
                name: None if value is None else str(value)
                for name, value in (("objective", self.objective), ("bound", self.bound))
            },
            "time": self.time,
            "tokens": self.tokens,
            "scale": self.problem.scale,
            "actions": actions,
            "frozen_workers": idle,
            "assignment": None if assignment is None else list(assignment),
            "violations": dict(self.violations),
            "rounds": self.rounds,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "solver": dict(self.solver),
            "proof": self.proof,
        }
