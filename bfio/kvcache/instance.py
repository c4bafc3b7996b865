"""Define the instance of a single worker: requests, KV cache and clock; and its offered load.

The offered load is the work of the arriving requests relative to the capacity of the worker.

Under any algorithm, a request that starts once is in d_i batches and holds ``f_i``, ``f_i + 1``,
... tokens in them: its *area* is ``A_i = d_i f_i + d_i (d_i - 1)/2`` token-batches. A batch holds
at most M tokens, so n requests take at least ``Σ A_i / M`` batches. A batch takes ``base +
request·b + context·Σ j + prompt·Σ s``. All terms but the first are sums over requests, independent
of the batching. So the worker is busy for at least ::

    Σ_i ( base·A_i / M + request·d_i + context·d_i (d_i - 1)/2 + prompt·s_i )

and the offered load ρ is the arrival rate times the mean of that. For ρ > 1 no algorithm is
stable. For ρ < 1 an algorithm may still be unstable, because the bound assumes that every batch is
full.
"""

from dataclasses import dataclass, field, fields
from fractions import Fraction

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.memory import refuse_oversized
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, frozen, integer, integer_vector
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.problem_data import member

#: Maximum coefficient [clock units]: an hour in nanoseconds; sums over a run stay exact.
_MAX_COEFFICIENT = 3_600 * 10**9


@dataclass(frozen=True)
class BatchTime:
    """Duration of a batch, ``base + request·b + context·Σ j + prompt·Σ s``, in clock units.

    ``b`` is the number of requests in the batch, ``Σ j`` the output tokens they already have, and
    ``Σ s`` the prompt tokens of those that start in it. The clock counts integers, so that results
    do not depend on rounding: rounds in theory, nanoseconds in `PUBLISHED`.

    Parameters
    ----------
    base : int
        Per batch, >= 1.
    request, context, prompt : int
        Per request, per output token it already has, per prompt token that starts; >= 0.
    units_per_second : int or None
        Clock units per second; None if the clock counts rounds.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    base: int = 1
    request: int = 0
    context: int = 0
    prompt: int = 0
    units_per_second: int | None = None

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        for entry in fields(self):
            if (value := getattr(self, entry.name)) is not None:
                lowest = 1 if entry.name in ("base", "units_per_second") else 0
                integer(value, entry.name, minimum=lowest, maximum=_MAX_COEFFICIENT)

    @property
    def unit(self) -> str:
        """Unit of results: ``"round"`` or ``"s"``."""
        return "round" if self.units_per_second is None else "s"

    def shown(self, clock: float) -> float:
        """Convert a clock value to rounds or seconds."""
        return clock / (self.units_per_second or 1)

    def duration(self, requests: int, context: int, prompt: int) -> int:
        """Return the duration of a batch with these sums over its requests [clock units]."""
        return batch_duration(
            self.base, self.request, self.context, self.prompt, requests, context, prompt
        )


@compilable
def batch_duration(
    base: int, per_request: int, per_context: int, per_prompt: int,
    requests: int, context: int, prompt: int,
) -> int:  # fmt: skip
    """Return the duration of a batch [clock units], see `BatchTime`."""
    return base + per_request * requests + per_context * context + per_prompt * prompt


#: Theory: every batch takes one round.
UNIT_ROUNDS = BatchTime()
#: Published surrogate of Llama2-70B on two A100, in nanoseconds. As published in milliseconds:
#: (0.0027·mean context + 0.52)·b + 44.6 + 0.378·prompt tokens; mean context · b is Σ j.
PUBLISHED = BatchTime(44_600_000, 520_000, 2_700, 378_000, units_per_second=10**9)


#: Maximum arrival [clock units]: thirty years of nanoseconds.
_MAX_CLOCK = 10**18
_MAX_MEMORY = 10**9
#: Remedy for requests that exceed the memory alone, in Python and in a study file.
_REMEDY = (
    "raise memory, or exclude them: leave_out_oversized=True (studies: skip_oversized = true)"
)


@dataclass(frozen=True)
class CacheInstance:
    """Requests for one worker whose KV cache holds ``M`` tokens, on an integer clock.

    A request occupies consecutive batches. In the first it needs `first_need` tokens, in each
    later one a token more. Need and number of batches depend on the convention:

    ==========  =============  =======  ==============================
    convention  first need     batches  completes at
    ==========  =============  =======  ==============================
    A           s              o + 1    the start of its last batch
    B           s              o        the end of its last batch
    C           s + 1          o        the end of its last batch
    ==========  =============  =======  ==============================

    In unit rounds the completion is ``p + o`` in all three, where p is the round of the start,
    with the memory stated in `formulations.hindsight_latency`.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    arrival : IntArray
        Shape (n,), clock value at which each request becomes known.
    prompt, output : IntArray
        Shape (n,), ``s_i >= 1`` and ``o_i >= 1`` [tokens]; each must fit alone.
    convention : Convention
        Definition of the occupied batches.
    batch_time : BatchTime
        Duration of a batch; it also defines the clock's unit.
    left_out : int
        Number of requests of the source that exceed the memory and were excluded on request.

    Raises
    ------
    InputError
        If a value is invalid.
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
        set_field(self, "convention", member(Convention, self.convention, "convention"))
        set_field(self, "memory", integer(self.memory, "memory", minimum=1, maximum=_MAX_MEMORY))
        for name in ("arrival", "prompt", "output"):
            lowest, highest = (0, _MAX_CLOCK) if name == "arrival" else (1, _MAX_MEMORY)
            values = integer_vector(getattr(self, name), name, minimum=lowest, maximum=highest)
            set_field(self, name, values)
        if not len(self.arrival) == len(self.prompt) == len(self.output):
            raise InputError(
                "requests", "the arrays have different lengths", "give one value per request"
            )
        set_field(self, "first_need", frozen(self.prompt + self.convention.first_age))
        set_field(self, "num_batches", frozen(self.batches(self.output)))
        refuse_oversized(
            self.peaks() > self.memory, self.memory, "raise memory, or remove these requests"
        )

    def __len__(self) -> int:
        return len(self.output)

    def batches(self, output: IntArray) -> IntArray:
        """Return the number of batches that requests with the given outputs occupy."""
        return output + (1 if self.convention is Convention.CLOSED else 0)

    def peaks(self) -> IntArray:
        """Return the maximum tokens held by each request, shape (n,)."""
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
        """Return the instance of a workload, with batches in real time.

        Parameters
        ----------
        workload : Workload
            Requests with arrival times.
        memory : int
            ``M`` [tokens].
        convention, batch_time
            See `CacheInstance`; the clock must count fractions of a second.
        rate_scale : Fraction or int
            Factor on the arrival rate.
        leave_out_oversized : bool
            Whether requests that exceed the memory alone are excluded and counted. By default they
            raise an error with their number.

        Raises
        ------
        InputError
            If the workload has no times, or a value is invalid.
        """
        units = batch_time.units_per_second
        if units is None:
            raise InputError(
                "batch_time", "the clock counts rounds, not seconds", "set units_per_second"
            )
        if rate_scale <= 0:
            raise InputError("rate_scale", f"{rate_scale} is out of range", "use a number > 0")
        scale = units / Fraction(rate_scale)
        # Rounded up, so that a decision never sees a request before its arrival.
        arrival = workload.exact_arrivals("draw arrival times").rounded_up(scale)
        columns, left_out = _kept(workload, arrival, memory, convention, leave_out_oversized)
        return CacheInstance(memory, *columns, convention, batch_time, left_out)


def rounds_problem(
    workload: Workload,
    memory: int,
    *,
    convention: Convention = Convention.HALF_OPEN,
    round_s: Fraction | None = None,
    leave_out_oversized: bool = False,
) -> tuple[LatencyProblem, int]:
    """Return the hindsight latency problem of a workload, and the number of excluded requests.

    Parameters
    ----------
    workload : Workload
        Requests.
    memory : int
        ``M`` [tokens].
    convention : Convention
        Definition of the occupied rounds.
    round_s : Fraction, optional
        Length of a round [s], by which arrival times are divided and rounded up; None: all
        requests arrive at round 0.
    leave_out_oversized : bool
        See `CacheInstance.in_seconds`.
    """
    arrival = np.zeros(len(workload), dtype=np.int64)
    if round_s is not None:
        if round_s <= 0:
            raise InputError("round_s", f"{round_s} s is not > 0", "give a length > 0")
        length = Fraction(round_s)
        arrival = workload.exact_arrivals("draw arrival times").rounded_up(1 / length)
    columns, left_out = _kept(workload, arrival, memory, convention, leave_out_oversized)
    return LatencyProblem(memory, *columns, convention), left_out


def _kept(
    workload: Workload, arrival: IntArray, memory: int, convention: Convention, leave_out: bool
) -> tuple[tuple[IntArray, IntArray, IntArray], int]:
    """Return arrivals, prompts and outputs of the kept requests, and how many are left out."""
    peak = workload.prompt_tokens + workload.output_tokens - (convention is Convention.PRINTED)
    oversized = np.asarray(peak > memory)
    if not leave_out:
        refuse_oversized(oversized, memory, _REMEDY)
    prompt, output = workload.prompt_tokens[~oversized], workload.output_tokens[~oversized]
    return (arrival[~oversized], prompt, output), int(np.count_nonzero(oversized))


def least_busy_time(instance: CacheInstance) -> Fraction:
    """Return a lower bound on the busy time of the worker for serving all requests.

    Parameters
    ----------
    instance : CacheInstance
        Requests; their arrival times are not used.

    Returns
    -------
    Fraction
        Busy time [clock units]; tight if every batch is full and no request is cleared.
    """
    time = instance.batch_time
    # Python integers: a sum of areas times nanoseconds exceeds 64 bits.
    needs: list[int] = instance.first_need.tolist()
    batches: list[int] = instance.num_batches.tolist()
    behind = sum(d * (d - 1) // 2 for d in batches)
    area = behind + sum(d * need for d, need in zip(batches, needs, strict=True))
    prompts: int = sum(instance.prompt.tolist())
    work = time.request * sum(batches) + time.context * behind + time.prompt * prompts
    return Fraction(time.base * area, instance.memory) + work


def arrival_rate(instance: CacheInstance, load: Fraction) -> Fraction:
    """Return the arrivals per clock unit at which these requests offer a given load.

    Parameters
    ----------
    instance : CacheInstance
        Requests that represent the arrivals, at least one.
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
        raise InputError(
            "load", "the instance has no requests", "give requests that fit the memory"
        )
    return load * len(instance) / least_busy_time(instance)
