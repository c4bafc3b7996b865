"""What a single worker serves: requests, cache, clock, and the load that they offer.

Offered load: the work that requests bring, over what the worker can do.

Whatever the algorithm, a request that starts once is in d_i batches and holds ``f_i``,
``f_i + 1``, ... tokens in them: its *area* is ``A_i = d_i f_i + d_i (d_i - 1)/2`` token-batches.
A batch holds at most M tokens, so n requests take at least ``Σ A_i / M`` batches. A batch lasts
``base + request·b + context·Σ j + prompt·Σ s``, and all terms but the first add up request by
request, however the requests are batched. So the worker is busy for at least ::

    Σ_i ( base·A_i / M + request·d_i + context·d_i (d_i - 1)/2 + prompt·s_i )

and the offered load ρ is the arrival rate times the mean of that. Above ρ = 1 no algorithm keeps
up. Below it one may fail as well: the bound needs every batch to be full.
"""

from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import ClassVar

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.memory_fit import refuse_oversized
from bfio.workloads.workload import Workload
from formulations.arrays import BoolArray, IntArray, frozen, integer, integer_vector
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem

#: Largest coefficient [clock units]: an hour in nanoseconds; sums over a run stay exact.
_MAX_COEFFICIENT = 3_600 * 10**9


@dataclass(frozen=True)
class BatchTime:
    """Duration of a batch, ``base + request·b + context·Σ j + prompt·Σ s``, in clock units.

    ``b`` counts the requests in the batch, ``Σ j`` the output tokens they have behind them, and
    ``Σ s`` the prompt tokens of those that start in it. The clock counts integers, so that no
    result depends on rounding: rounds in theory, nanoseconds in `PUBLISHED`.

    Parameters
    ----------
    base : int
        Every batch, >= 1.
    request, context, prompt : int
        Per request, per output token behind it, per prompt token that starts; >= 0.
    units_per_second : int or None
        Clock units in a second; None if the clock counts rounds.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    base: int = 1
    request: int = 0
    context: int = 0
    prompt: int = 0
    units_per_second: int | None = None

    #: Coefficients, in the order of the formula.
    COEFFICIENTS: ClassVar[tuple[str, ...]] = ("base", "request", "context", "prompt")

    def __post_init__(self) -> None:
        """Validate."""
        for entry in fields(self):
            if (value := getattr(self, entry.name)) is not None:
                lowest = 1 if entry.name in ("base", "units_per_second") else 0
                integer(value, entry.name, minimum=lowest, maximum=_MAX_COEFFICIENT)

    @property
    def unit(self) -> str:
        """What results are stated in: ``"round"`` or ``"s"``."""
        return "round" if self.units_per_second is None else "s"

    def shown(self, clock: float) -> float:
        """Return a clock value in rounds or seconds."""
        return clock / (self.units_per_second or 1)

    def duration(self, requests: int, context: int, prompt: int) -> int:
        """Return how long a batch with these totals lasts [clock units]."""
        return batch_duration(
            self.base, self.request, self.context, self.prompt, requests, context, prompt
        )


@compilable
def batch_duration(
    base: int, per_request: int, per_context: int, per_prompt: int,
    requests: int, context: int, prompt: int,
) -> int:  # fmt: skip
    """Return how long a batch lasts, see `BatchTime` [clock units]."""
    return base + per_request * requests + per_context * context + per_prompt * prompt


#: Theory: every batch takes one round.
UNIT_ROUNDS = BatchTime()
#: Published surrogate of Llama2-70B on two A100, in nanoseconds. As published in milliseconds:
#: (0.0027·mean context + 0.52)·b + 44.6 + 0.378·prompt tokens; mean context · b is Σ j.
PUBLISHED = BatchTime(44_600_000, 520_000, 2_700, 378_000, units_per_second=10**9)


#: Latest arrival [clock units]: thirty years of nanoseconds.
_MAX_CLOCK = 10**18
_MAX_MEMORY = 10**9
#: What users of workloads can do about requests that never fit, in Python and in a study file.
_REMEDY = (
    "raise memory, or leave them out: leave_out_oversized=True, in a study skip_oversized = true"
)


@dataclass(frozen=True)
class CacheInstance:
    """Requests for one worker whose KV cache holds ``M`` tokens, on an integer clock.

    A request occupies a run of consecutive batches; in the first it needs `first_need` tokens, in
    each later one a token more. How many batches and how much follows from the convention:

    ==========  =============  =======  ==============================
    convention  first need     batches  completes at
    ==========  =============  =======  ==============================
    A           s              o + 1    the start of its last batch
    B           s              o        the end of its last batch
    C           s + 1          o        the end of its last batch
    ==========  =============  =======  ==============================

    In unit rounds that is ``p + o`` in all three, with the memory that
    `formulations.hindsight_latency` states.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    arrival : IntArray
        Shape (n,), clock value at which each request is known.
    prompt, output : IntArray
        Shape (n,), ``s_i >= 1`` and ``o_i >= 1`` [tokens]; each must fit alone.
    convention : Convention
        Which batches are occupied.
    batch_time : BatchTime
        Duration of a batch; the clock's unit is its.
    left_out : int
        Requests of the source that do not fit and were left out on request.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    memory: int
    arrival: IntArray
    prompt: IntArray
    output: IntArray
    convention: Convention = Convention.HALF_OPEN
    batch_time: BatchTime = UNIT_ROUNDS
    left_out: int = 0
    #: Shape (n,): tokens needed in the first batch.
    first_need: IntArray = field(init=False)
    #: Shape (n,): batches occupied.
    num_batches: IntArray = field(init=False)

    def __post_init__(self) -> None:
        """Validate, and derive needs and batches."""
        set_field = object.__setattr__
        set_field(self, "memory", integer(self.memory, "memory", minimum=1, maximum=_MAX_MEMORY))
        bounds = {
            "arrival": (0, _MAX_CLOCK),
            "prompt": (1, _MAX_MEMORY),
            "output": (1, _MAX_MEMORY),
        }
        for name, (lowest, highest) in bounds.items():
            values = integer_vector(getattr(self, name), name, minimum=lowest, maximum=highest)
            set_field(self, name, values)
        if not len(self.arrival) == len(self.prompt) == len(self.output):
            raise InputError("requests", "fields of different lengths", "give one per request")
        set_field(self, "first_need", frozen(self.prompt + self.convention.first_age))
        set_field(self, "num_batches", frozen(self.batches(self.output)))
        refuse_oversized(
            self.peaks() > self.memory, self.memory, "raise memory, or leave them out"
        )

    def __len__(self) -> int:
        return len(self.output)

    def batches(self, output: IntArray) -> IntArray:
        """Return the batches that requests of such outputs occupy."""
        return output + (1 if self.convention is Convention.CLOSED else 0)

    def peaks(self) -> IntArray:
        """Return the most tokens each request ever holds, shape (n,)."""
        return self.first_need + self.num_batches - 1

    @staticmethod
    def in_rounds(problem: LatencyProblem) -> "CacheInstance":
        """Return the instance of a hindsight latency problem: every batch takes one round."""
        return CacheInstance(
            problem.memory, problem.arrival, problem.prompt, problem.output, problem.convention
        )

    @staticmethod
    def in_seconds(
        workload: Workload,
        memory: int,
        *,
        convention: Convention = Convention.HALF_OPEN,
        batch_time: BatchTime = PUBLISHED,
        rate_scale: Fraction | int = 1,
        leave_out_oversized: bool = False,
    ) -> "CacheInstance":
        """Return the instance of a workload whose batches take real time.

        Parameters
        ----------
        workload : Workload
            Requests with arrival times.
        memory : int
            ``M`` [tokens].
        convention, batch_time
            See `CacheInstance`; the clock must count parts of a second.
        rate_scale : Fraction or int
            Multiplies the arrival rate.
        leave_out_oversized : bool
            Leave out requests that exceed the memory alone, and count them; by default they are
            an error that states how many there are.

        Raises
        ------
        InputError
            If the workload has no times, or a value breaks its rule.
        """
        units = batch_time.units_per_second
        if units is None:
            raise InputError("batch_time", "its clock counts rounds", "set units_per_second")
        if rate_scale <= 0:
            raise InputError("rate_scale", f"{rate_scale} is out of range", "use a number > 0")
        scale = units / Fraction(rate_scale)
        # Rounded up: a decision at a whole clock unit sees the request from then on.
        arrival = workload.exact_arrivals("draw some").rounded_up(scale)
        kept, left_out = _kept(workload, memory, convention, leave_out_oversized)
        return CacheInstance(
            memory,
            arrival[kept],
            workload.prompt_tokens[kept],
            workload.output_tokens[kept],
            convention,
            batch_time,
            left_out,
        )


def rounds_problem(
    workload: Workload,
    memory: int,
    *,
    convention: Convention = Convention.HALF_OPEN,
    round_s: Fraction | None = None,
    leave_out_oversized: bool = False,
) -> tuple[LatencyProblem, int]:
    """Return the hindsight latency problem of a workload, and how many requests were left out.

    Parameters
    ----------
    workload : Workload
        Requests.
    memory : int
        ``M`` [tokens].
    convention : Convention
        Which rounds are occupied.
    round_s : Fraction, optional
        Length of a round [s], which turns arrival times into rounds (up); None: all requests are
        there at round 0.
    leave_out_oversized : bool
        See `CacheInstance.in_seconds`.
    """
    arrival = np.zeros(len(workload), dtype=np.int64)
    if round_s is not None:
        if round_s <= 0:
            raise InputError("round_s", f"{round_s} s", "give a length > 0")
        length = Fraction(round_s)
        arrival = workload.exact_arrivals("draw some").rounded_up(1 / length)
    kept, left_out = _kept(workload, memory, convention, leave_out_oversized)
    problem = LatencyProblem(
        memory,
        arrival[kept],
        workload.prompt_tokens[kept],
        workload.output_tokens[kept],
        convention,
    )
    return problem, left_out


def _kept(
    workload: Workload, memory: int, convention: Convention, leave_out: bool
) -> tuple[BoolArray, int]:
    peak = workload.prompt_tokens + workload.output_tokens - (convention is Convention.PRINTED)
    oversized = np.asarray(peak > memory)
    if not leave_out:
        refuse_oversized(oversized, memory, _REMEDY)
    return ~oversized, int(np.count_nonzero(oversized))


def least_busy_time(instance: CacheInstance) -> Fraction:
    """Return a lower bound on the time that serving all requests keeps the worker busy.

    Parameters
    ----------
    instance : CacheInstance
        Requests; their arrival times do not matter.

    Returns
    -------
    Fraction
        In clock units; exact for the work, and tight if every batch is full and none is repeated.
    """
    time = instance.batch_time
    # Python integers: a sum of areas times nanoseconds leaves 64 bits.
    needs: list[int] = instance.first_need.tolist()
    batches: list[int] = instance.num_batches.tolist()
    behind = sum(d * (d - 1) // 2 for d in batches)
    area = behind + sum(d * need for d, need in zip(batches, needs, strict=True))
    prompts: int = sum(instance.prompt.tolist())
    work = time.request * sum(batches) + time.context * behind + time.prompt * prompts
    return Fraction(time.base * area, instance.memory) + work


def arrival_rate(instance: CacheInstance, load: Fraction) -> Fraction:
    """Return the arrivals per clock unit with which such requests offer a load.

    Parameters
    ----------
    instance : CacheInstance
        Requests that stand for all that arrive, at least one.
    load : Fraction
        ``ρ > 0``.

    Raises
    ------
    InputError
        If there are no requests or the load is not positive.
    """
    if load <= 0:
        raise InputError("load", f"{load} is out of range", "use a number > 0")
    if len(instance) == 0:
        raise InputError("load", "there are no requests to offer it", "give some that fit")
    return load * len(instance) / least_busy_time(instance)
