"""Options of a run of the decode engine: arrivals, dispatch, look-ahead, prediction, growth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bfio.common.options import (
    MAX_SEED,
    NUMBER,
    RATIONAL,
    TEXT,
    CheckedOptions,
    check_beside,
    checked,
    described,
    option,
    whole,
    word_of,
)
from bfio.decode.machine.counters import NONE
from bfio.decode.option_kinds import PREFILL, SLO, TELEMETRY, TIMED, checked_time
from formulations.errors import InputError, known_fields
from formulations.scalars import MAX_TOKENS, exact_rational, integer

if TYPE_CHECKING:
    import numpy as np

    from bfio.decode.cluster import Cluster
    from bfio.decode.drift import Drift
    from bfio.decode.option_kinds import PrefillTier, ServiceLevel, Telemetry
    from bfio.prediction.predictor import Predictor

#: Number of the random stream that policies draw from; predictors use another stream.
_POLICY_STREAM = 1
_POOL = 128
#: Time per token to swap its KV cache to the host and back [s]: half a MiB, moved twice over a
#: link of 50 GB/s.
SWAP_TIME_S = 2e-5
#: A schedule without events.
NO_EVENTS = "none"
#: Prefix of a schedule that is drawn with the seed of the run; its options follow.
RANDOM = "random"
#: Default rule for forming batches under a token budget.
BATCHING = "sarathi"
#: Longest delay of decisions [steps].
MAX_DELAY = 10**6
#: Largest in-flight margin.
MAX_MARGIN = 10**9


def is_drawn(schedule: object) -> bool:
    """Return whether an event schedule is drawn at random with the seed of the run."""
    return isinstance(schedule, str) and schedule.partition(":")[0] == RANDOM


def is_schedule_file(schedule: object) -> bool:
    """Return whether an event schedule is the name of a file."""
    return isinstance(schedule, str) and schedule != NO_EVENTS and not is_drawn(schedule)


def _predictor_draws(predictor: Any) -> bool:
    from bfio.prediction.registry import draws

    return draws(predictor)


def _drift(value: Drift | str | None, name: str) -> Drift:
    from bfio.decode.drift import LLM, Drift, parse_drift

    if value is None:
        return LLM
    return value if isinstance(value, Drift) else parse_drift(str(value), name)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(name, f"{value!r:.40} is not a string", "name a rule, or module:function")
    return value


def _rate(value: Fraction | float | str, name: str) -> Fraction:
    try:
        if isinstance(value, str):
            rate = exact_rational(value, name, exponents=True)
        else:
            # A float is the decimal that it is written as, as in other options.
            rate = Fraction(str(value) if isinstance(value, float) else value)
    except (TypeError, ValueError, OverflowError):
        what = f"{value!r} is not a number"
        raise InputError(name, what, "give a number > 0 such as 2, 0.8 or 4/5") from None
    if rate <= 0:
        raise InputError(name, f"{value} is out of range", "give a number > 0")
    return rate


def _schedule(given: object, name: str) -> str | tuple[tuple[Any, ...], ...]:
    """Return a text as it is, and events with Python's own numbers, which documents can hold."""
    if given is None or isinstance(given, str):
        return given or NO_EVENTS
    from formulations.arrays import entries

    events = [entries(event, f"{name}, event {k}") for k, event in enumerate(entries(given, name))]
    return tuple(tuple(map(_plain, event)) for event in events) or NO_EVENTS


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


_RATE = checked(RATIONAL, _rate)
_SCHEDULE = replace(TEXT, draws=is_drawn, is_file=is_schedule_file, check=_schedule)
_PREDICTOR = replace(TEXT, draws=_predictor_draws)


class ArrivalMode(StrEnum):
    """The rule by which requests become visible to the policy.

    ``pool`` reveals in trace order while fewer than R requests wait; ``timed`` reveals a request
    at the first step that starts at or after its arrival.
    """

    POOL = "pool"
    TIMED = "timed"


class Dispatch(StrEnum):
    """The time at which a request is bound to a worker: when it starts, or when it is revealed.

    ``immediate`` asks the policy about each revealed request separately; the request joins the
    FIFO queue of the worker that the policy returns.
    """

    POOLED = "pooled"
    IMMEDIATE = "immediate"


class Overflow(StrEnum):
    """The rule if the KV cache of a worker would overflow; read only if memory is limited.

    Under ``reserve``, a request starts only if its peak memory fits, so nothing overflows. Under
    the other rules, a request starts if it fits now. If growth then overflows the memory of a
    worker, the request that started last on this worker leaves it. Under ``recompute``, this
    request loses its cache and waits again, with its emitted tokens added to its prompt
    (BalanceRoute's re-entry on the recompute path). Under ``swap``, the host holds its cache, and
    the request returns to its worker before any other request may start there.
    """

    RESERVE = "reserve"
    RECOMPUTE = "recompute"
    SWAP = "swap"


class Projection(StrEnum):
    """The rule for loads over the look-ahead window: constant or growing."""

    CONSTANT = "constant"
    GROWING = "growing"


class WindowKnows(StrEnum):
    """The requests whose predicted ends the look-ahead window contains.

    BF-IO's look-ahead describes "the near-future evolution of the currently active jobs, not the
    newly arriving jobs" (section 2.1): this is ``active``. A waiting request is then projected to
    grow over the whole window, whatever its length.
    """

    ACTIVE = "active"
    ALL = "all"


class Ties(StrEnum):
    """The rule that selects one of several workers that a policy considers equally good.

    ``lowest`` is the lowest index; ``rotating`` the first in an order that begins one worker later
    at each decision; ``random`` the first in an order drawn for each decision.
    """

    LOWEST = "lowest"
    ROTATING = "rotating"
    RANDOM = "random"


@described
@known_fields
@dataclass(frozen=True)
class RunOptions(CheckedOptions):
    """The checked options of a run; texts are converted to the objects that they describe.

    ``seed`` is the seed of the generator that the policy may use, and of random ties.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    arrivals: ArrivalMode = option(
        ArrivalMode.POOL,
        word_of(ArrivalMode),
        "MODE",
        "pool (default): reveal in trace order up to --pool waiting; timed: at arrival times",
    )
    pool: int = option(
        _POOL, whole(1, MAX_TOKENS), "R", "waiting requests revealed (128)", beside="arrivals=pool"
    )
    rate_scale: Fraction = option(
        Fraction(1), _RATE, "X", "with timed arrivals, multiply the rate (1)", beside=TIMED
    )
    load: Fraction | None = option(
        None,
        _RATE,
        "RHO",
        "with timed arrivals, scale the rate to this share of the machine's capacity, e.g. 0.8",
        beside=TIMED,
    )
    dispatch: Dispatch = option(
        Dispatch.POOLED,
        word_of(Dispatch),
        "MODE",
        "pooled (default), or immediate: bind each request when it is revealed",
    )
    margin: int | None = option(
        None,
        whole(maximum=MAX_MARGIN),
        "N",
        "with immediate dispatch: requests in flight per worker beyond its slots, at most (by "
        "default 2 or any number: docs/cluster.md)",
        beside="dispatch=immediate",
    )
    delay: int = option(
        0, whole(maximum=MAX_DELAY), "D", "steps after which a decision takes effect (0)"
    )
    projection: Projection = option(
        Projection.CONSTANT,
        word_of(Projection),
        "P",
        "loads over the look-ahead window: constant (default) or growing",
    )
    predictor: str | Predictor = option(
        "none",
        _PREDICTOR,
        "P",
        "output lengths: none (default), survival, exact-match or learned (from requests that "
        "have finished), oracle, noisy-oracle:0.5 or noisy-classifier (docs/predictors.md)",
    )
    window_knows: WindowKnows = option(
        WindowKnows.ACTIVE,
        word_of(WindowKnows),
        "W",
        "requests with predicted lengths: active (default; running requests) or all (waiting ones "
        "too)",
    )
    drift: Drift = option(
        "llm",
        checked(RATIONAL, _drift),
        "MODEL",
        "load growth: llm (default), constant, a rate such as 2/3, or increments such as "
        "age:1,0, age:8*1,-4 (a cache that is compressed) or global-step:2,1",
    )
    steps: int | None = option(
        None, whole(maximum=MAX_TOKENS), "K", "stop after K steps (default: drain)"
    )
    overflow: Overflow = option(
        Overflow.RECOMPUTE,
        word_of(Overflow),
        "RULE",
        "with --memory: reserve (start only if the peak fits), recompute (default: the youngest "
        "loses its cache) or swap (it goes to the host)",
    )
    swap_time_s: float = option(
        SWAP_TIME_S,
        checked(NUMBER, partial(checked_time, unit="s per token")),
        "T",
        "time per token to swap to the host and back [s] (2e-5)",
        name="swap_time",
    )
    batching: str = option(
        BATCHING,
        checked(TEXT, _text),
        "RULE",
        "with --token-budget: sarathi (default), orca, vllm, faster-transformer, vllm-chunked, "
        "sjf, with options such as sarathi:kp=4, or your own module:function (docs/batching.md)",
    )
    failures: str | tuple[tuple[float, int, str], ...] = option(
        NO_EVENTS,
        _SCHEDULE,
        "F",
        "workers that fail: none (default), random:mtbf=3600:mttr=60 [s], or a CSV file of "
        "time_s,worker,event",
    )
    stragglers: str | tuple[tuple[float, int, float], ...] = option(
        NO_EVENTS,
        _SCHEDULE,
        "S",
        "workers that are slow for a while: none (default), random:mtbf=3600:mttr=60:factor=2 "
        "[s], or a CSV file of time_s,worker,factor",
    )
    slo: ServiceLevel | None = SLO
    cancellations: str | tuple[tuple[float, int], ...] = option(
        NO_EVENTS,
        _SCHEDULE,
        "C",
        "with timed arrivals, clients that give up: none (default), random:patience=30 [s] or a "
        "CSV file of time_s,request",
        beside=TIMED,
    )
    prefill: PrefillTier | None = PREFILL
    telemetry: Telemetry | None = TELEMETRY
    ties: Ties = option(
        Ties.LOWEST,
        word_of(Ties),
        "RULE",
        "choice among equally good workers: lowest (default), rotating or random (seeded)",
    )
    seed: int = 0

    def __post_init__(self) -> None:
        """Validate the options, and convert texts to the objects that they describe."""
        super().__post_init__()
        object.__setattr__(self, "seed", integer(self.seed, "seed", maximum=MAX_SEED))
        if self.load is not None and self.rate_scale != 1:
            raise InputError("load", "cannot be combined with rate_scale", "keep one of the two")
        check_beside(self)

    def generator(self) -> np.random.Generator:
        """Return the random generator for the policy.

        The generator is independent of a workload drawn with the same seed, so that a random
        policy cannot predict the requests.
        """
        import numpy as np

        return np.random.default_rng(
            np.random.SeedSequence(self.seed, spawn_key=(_POLICY_STREAM,))
        )


class Settings(NamedTuple):
    """The fixed settings of a run, as the phases of a step read them."""

    #: Whether arrivals are timed; whether dispatch is immediate.
    timed: bool
    immediate: bool
    #: With immediate dispatch: requests in flight to a worker beyond its slots; -1 for no limit.
    margin: int
    delay: int  #: Steps after which decisions take effect.
    pool: int  #: ``R``: number of waiting requests up to which a pool reveals requests.
    steps: int  #: Largest number of steps; -1 for no limit.
    #: Whether the growth of a request depends on its age, so that requests grow differently.
    by_age: bool
    look_ahead: int  #: ``H``: length of the ring buffer of endings [steps].
    #: Whether the window contains known or predicted endings of waiting requests.
    waiting_ends: bool
    mean_time_s: float  #: See `bfio.decode.cluster.Cluster`.
    one_pace: bool  #: Whether the same load takes the same time on all workers at every step.
    interrupts: bool  #: Whether requests may leave their worker before they finish.
    overflow: int  #: The overflow rule; NONE if memory is not limited.
    swap_time_s: float  #: Time to swap a token's cache to the host and back [s/token].
    caches: bool  #: Whether workers have prefix caches.


def settings_of(cluster: Cluster, options: RunOptions, look_ahead: int) -> Settings:
    """Return the settings of a run from its machine, its options and its look-ahead [steps]."""
    return Settings(
        timed=options.arrivals is ArrivalMode.TIMED,
        immediate=options.dispatch is Dispatch.IMMEDIATE,
        margin=-1 if options.margin is None else options.margin,
        delay=options.delay,
        pool=options.pool,
        steps=-1 if options.steps is None else options.steps,
        by_age=options.drift.is_by_age,
        look_ahead=look_ahead,
        waiting_ends=options.window_knows is WindowKnows.ALL,
        mean_time_s=float(cluster.mean_time_s),
        one_pace=keeps_one_pace(cluster, options),
        interrupts=may_interrupt(cluster, options),
        overflow=NONE if cluster.memory is None else list(Overflow).index(options.overflow),
        swap_time_s=options.swap_time_s,
        caches=cluster.prefix_cache is not None,
    )


def may_interrupt(cluster: Cluster, options: RunOptions) -> bool:
    """Return whether requests may leave their worker before they finish."""
    overflows = cluster.memory is not None and options.overflow is not Overflow.RESERVE
    return overflows or options.failures != NO_EVENTS or options.cancellations != NO_EVENTS


def keeps_one_pace(cluster: Cluster, options: RunOptions) -> bool:
    """Return whether the same load takes the same time on all workers at every step."""
    alike = cluster.keeps_one_pace and cluster.token_budget is None
    return alike and options.stragglers == NO_EVENTS
