"""Data and result of the hindsight makespan program, for G barrier-synchronised workers."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import accumulate
from math import lcm
from numbers import Integral
from typing import Any, Self

from formulations.arrays import IntArray, integer, integer_vector
from formulations.errors import InputError
from formulations.problem_data import ProblemData, check_keys, member, shown
from formulations.request_table import checked_columns, read_requests, written_requests
from formulations.results import ProgramResult
from formulations.scalars import exact_rational
from formulations.words import Words, counted

#: A running request as (constant, end): at a step k < end it holds ``constant + k`` tokens.
Held = tuple[int, int]


def checked_memory(memory: object, workers: int, peaks: IntArray) -> IntArray | None:
    """Return the validated token limit of each worker, shape (G,); None if not given.

    Parameters
    ----------
    memory : object
        One number for all workers, or one each.
    workers : int
        ``G``.
    peaks : IntArray
        Shape (n,): largest number of tokens that each request holds.

    Raises
    ------
    InputError
        If a value breaks its rule, or a request fits no worker.
    """
    if memory is None:
        return None
    if isinstance(memory, Integral):
        memory = [integer(memory, "memory", minimum=1)] * workers
    tokens = integer_vector(memory, "memory", minimum=1)
    if len(tokens) != workers:
        what = f"{counted(len(tokens), 'entry')} for {counted(workers, 'worker')}"
        raise InputError("memory", what, "give one per worker, or one number")
    if len(peaks) and int(peaks.max()) > int(tokens.max()):
        i = int(peaks.argmax())
        what = f"its peak of {peaks[i]} tokens exceeds the largest memory, {tokens.max()}"
        raise InputError(f"requests[{i}]", what, "leave out the request, or give more memory")
    return tokens


def fits(held: Iterable[Held], new: Held, memory: int) -> bool:
    """Return whether a worker can take one more request within its memory at every later step.

    Loads only drop when a request ends, so it suffices to check the last step of each request.
    """
    together = [*held, new]
    return all(
        sum(constant + end - 1 for constant, other in together if other >= end) <= memory
        for _, end in together
    )


def most_at_once(prompt: IntArray, slots: int, memory: IntArray) -> int:
    """Return an upper bound on the number of requests that run at the same time."""
    sums = list(accumulate(sorted(prompt.tolist())[:slots]))
    return sum(sum(total <= tokens for total in sums) for tokens in memory.tolist())


#: Largest number of workers, and of slots per worker.
_MAX_COUNT = 10**6
_REQUIRED_KEYS = ("workers", "slots", "requests")
_OPTIONAL_KEYS = ("step_overhead", "token_time", "objective", "work_conserving", "memory")

#: Fixed time of a step and time per token [s] in the simulator that the BF-IO authors released.
STEP_OVERHEAD = Fraction("4.8875e-3")
TOKEN_TIME = Fraction("1.0052490234375e-7")


class MakespanObjective(StrEnum):
    """The minimised objective.

    ``IMBALANCE`` requires work conservation. The work ``Σ_k Σ_g L_g(k)`` of a drained run is a
    constant, so the total imbalance ``Σ_k Σ_g (max_h L_h(k) − L_g(k))`` is ``G·Σ_k max_h L_h(k)``
    less a constant. The imbalance charges nothing for slots left idle on purpose, or for a request
    held back until an equal one can run on another worker. Without work conservation, a schedule
    with twice as many steps, half as full, could have a smaller imbalance.
    """

    #: ``Σ over busy steps of C + t_l·max_g L_g(k)``; idle steps are free.
    WALL_CLOCK = "wall-clock"
    #: ``Σ_k (G·max_g L_g(k) − Σ_g L_g(k))`` [tokens].
    IMBALANCE = "imbalance"
    #: ``Σ_i (completion_i − a_i)`` [steps].
    LATENCY = "latency"


@dataclass(frozen=True)
class MakespanProblem(ProblemData):
    """Requests for G workers of B slots that decode in lockstep, with all data known in advance.

    Request i starts at a step ``k_i >= a_i`` on one worker and occupies one of its slots, without
    preemption, for the steps ``k_i .. k_i + o_i − 1``. At the j-th of them (j = 0, 1, ...) its
    load is ``s_i + j``. It completes at ``k_i + o_i``. A step with running requests lasts ``C +
    t_l · max_g L_g(k)``. An idle step counts as a step but takes no time. (Without work
    conservation, arrivals therefore do not affect the wall-clock optimum: all requests may start
    after the last arrival at no cost.)

    Parameters
    ----------
    workers, slots : int
        ``G`` and ``B``, at least 1.
    arrival, prompt, output : IntArray
        Shape (n,): first step ``a_i >= 0`` at which a request may start, prompt ``s_i >= 1``
        [tokens], output ``o_i >= 1`` [steps].
    step_overhead, token_time : Fraction
        ``C`` and ``t_l``, exact; not both 0 for the wall clock.
    objective : MakespanObjective
        The minimised objective.
    work_conserving : bool, optional
        Whether every step must admit ``min(free slots, waiting)`` requests. Imbalance requires
        it; by default it holds for imbalance only.
    memory : IntArray, optional
        Shape (G,), or one number for all: token limit ``κ_g`` of worker g at any step (KV memory).
        Every request must fit some worker alone. Not allowed with work conservation, which does
        not define which waiting request must start if memory is short.

    Raises
    ------
    InputError
        If a value breaks its rule, naming field and index.
    """

    workers: int
    slots: int
    arrival: IntArray
    prompt: IntArray
    output: IntArray
    step_overhead: Fraction = STEP_OVERHEAD
    token_time: Fraction = TOKEN_TIME
    objective: MakespanObjective = MakespanObjective.WALL_CLOCK
    work_conserving: bool | None = None
    memory: IntArray | None = None

    def __post_init__(self) -> None:
        """Validate and freeze."""
        self._set(
            workers=integer(self.workers, "workers", minimum=1, maximum=_MAX_COUNT),
            slots=integer(self.slots, "slots", minimum=1, maximum=_MAX_COUNT),
            **checked_columns(self),
            objective=member(MakespanObjective, self.objective, "objective"),
        )
        self._set(
            work_conserving=self._conserves(),
            memory=checked_memory(self.memory, self.workers, self.prompt + self.output - 1),
            step_overhead=exact_rational(self.step_overhead, "step_overhead", exponents=True),
            token_time=exact_rational(self.token_time, "token_time", exponents=True),
        )
        free = self.step_overhead == 0 and self.token_time == 0
        if free and self.objective is MakespanObjective.WALL_CLOCK:
            raise InputError(
                "token_time", "both times are 0: every step would take no time", "give a time > 0"
            )

    @property
    def num_requests(self) -> int:
        """``n``."""
        return len(self.output)

    @property
    def total_slots(self) -> int:
        """``G·B``, the number of slots of all workers."""
        return self.workers * self.slots

    @property
    def most_running(self) -> int:
        """Upper bound on running requests: ``G·B``, or the smallest that fit in memory."""
        if self.memory is None:
            return self.total_slots
        return most_at_once(self.prompt, self.slots, self.memory)

    @property
    def is_symmetric(self) -> bool:
        """Whether all workers have the same memory limit."""
        return self.memory is None or bool((self.memory == self.memory[0]).all())

    @property
    def work(self) -> int:
        """``Σ_i Σ_j (s_i + j)`` [tokens]: the sum of all loads of any drained run."""
        rows = zip(self.prompt.tolist(), self.output.tolist(), strict=True)
        return sum(o * s + o * (o - 1) // 2 for s, o in rows)

    @property
    def largest_load(self) -> int:
        """Upper bound on a worker's load [tokens]: requests of highest peak in all slots."""
        peaks = sorted((self.prompt + self.output - 1).tolist(), reverse=True)
        most: int = sum(peaks[: self.slots])
        return most if self.memory is None else min(most, int(self.memory.max()))

    @property
    def scale(self) -> int:
        """Units of the integer objective per unit of the real objective."""
        if self.objective is not MakespanObjective.WALL_CLOCK:
            return 1
        return lcm(self.step_overhead.denominator, self.token_time.denominator)

    @property
    def rates(self) -> tuple[int, int]:
        """Integer cost of a busy step and of a token of its peak; (0, 0) for latency.

        The objective is ``rates[0]·(busy steps) + rates[1]·Σ_k max_g L_g(k) + offset``.
        """
        if self.objective is MakespanObjective.WALL_CLOCK:
            return int(self.step_overhead * self.scale), int(self.token_time * self.scale)
        return (0, self.workers) if self.objective is MakespanObjective.IMBALANCE else (0, 0)

    @property
    def offset(self) -> int:
        """Constant of the objective, see `rates`: minus the total work for imbalance, else 0."""
        return -self.work if self.objective is MakespanObjective.IMBALANCE else 0

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        document = {
            "workers": self.workers,
            "slots": self.slots,
            "requests": written_requests(self),
            "step_overhead": str(self.step_overhead),
            "token_time": str(self.token_time),
            "objective": self.objective.value,
            "work_conserving": self.work_conserving,
        }
        return document if self.memory is None else document | {"memory": self.memory.tolist()}

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"workers": G, "slots": B, "requests": [{"prompt", "output"}...]}``.

        Optional: ``arrival`` of a request (0), ``step_overhead`` and ``token_time`` (strings such
        as "0.0049"), ``objective``, ``work_conserving``, ``memory`` (one number, or one each);
        ``provenance``, which is ignored.
        """
        check_keys(document, "document", _REQUIRED_KEYS, (*_OPTIONAL_KEYS, "provenance"))
        columns: dict[str, Any] = read_requests(document["requests"], arrival_optional=True)
        given = {name: document[name] for name in _OPTIONAL_KEYS if name in document}
        return cls(document["workers"], document["slots"], **columns, **given)

    def _conserves(self) -> bool:
        conserves = self.work_conserving
        if conserves is None:
            conserves = self.objective is MakespanObjective.IMBALANCE
        if not isinstance(conserves, bool):
            raise InputError("work_conserving", shown(conserves), "write true or false")
        if self.objective is MakespanObjective.IMBALANCE and not conserves:
            what = "false is not allowed for imbalance, which ignores idle slots"
            raise InputError("work_conserving", what, "set it to true, or minimise wall-clock")
        if conserves and self.memory is not None:
            what = "a memory limit is not allowed with work conservation"
            remedy = "omit it, or set work_conserving to false (objective wall-clock or latency)"
            raise InputError("memory", what, remedy)
        return conserves


#: First step and worker of each request.
Schedule = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class MakespanResult(ProgramResult[Schedule]):
    """The result of a hindsight makespan program, with ``scale`` units per second (or 1).

    Parameters
    ----------
    starts, workers : tuple of int, optional
        First step and worker of each request.
    """

    solution_fields = ("starts", "workers")

    starts: tuple[int, ...] | None = None
    workers: tuple[int, ...] | None = None

    def to_mapping(self) -> dict[str, object]:
        """Return the result as a JSON document."""
        return super().to_mapping() | {"scale": self.scale}


WORDS = Words(
    title="the hindsight makespan program",
    source="BF-IO (arXiv:2601.17855), section 3: the barrier, with all requests known",
    objective="wall-clock time [s], imbalance [tokens] or total latency [steps]",
    variables={
        "x": "x(c,g,k) = how many requests of kind c start on lane g at step k; lanes are the "
        "workers, numbered as they are first used (one lane for latency)",
        "peak": "peak(k) = load of the most loaded worker at step k",
        "busy": "busy(k) = 1 if anything runs at step k",
        "full": "full(k) = 1 if every slot is used at step k",
    },
    broken={
        "start_once": "{kind}: {by} starts too many or too few",
        "slots": "step {1}: worker {0} runs {by} requests more than it has slots, or is not busy",
        "barrier": "step {1}: worker {0} is {by} tokens above the peak",
        "filled": "step {0}: full({0}) = 1, but {by} slots are free",
        "waiting": "step {1}: {by} of {kind} wait while slots are free",
        "gapless": "step {0} is idle, and a later one is not",
        "memory": "step {1}: worker {0} holds {by} tokens more than its memory",
        "arrival": "request {0} starts {by} steps before it arrives",
        "workers": "request {0} is on a worker that does not exist",
        "work_conserving": "step {0}: {by} requests wait while slots are free",
        "objective": "the objective is off by {by}",
    },
)
