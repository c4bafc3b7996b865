"""Incompatible settings of a run: a table that is checked before the run begins.

Each row names two facts of a run, and the message for a user if both hold. Checks of a single
option are made where the option is defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bfio.common.options import LOOK_AHEAD
from bfio.decode.options import BATCHING, Dispatch, Ties, may_interrupt
from bfio.prediction.predictor import LengthSource
from bfio.prediction.registry import lengths_of
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bfio.decode.cluster import Cluster
    from bfio.decode.options import RunOptions
    from bfio.decode.policy_spec import PolicySpec


class Asked(NamedTuple):
    """The settings of a requested run, from which facts are derived."""

    policy: str  #: Name of the policy.
    spec: PolicySpec  #: Its specification.
    #: The machine and the options of the run.
    cluster: Cluster
    options: RunOptions
    steps: int = 0  #: Look-ahead steps that the policy sees.
    pauses: bool = False  #: Whether the policy may pause requests.


class Clash(NamedTuple):
    """A pair of facts of a run that exclude each other, with the message for the user."""

    #: Keys of `FACTS`.
    first: str
    second: str
    #: Message: the conflict, and the remedy.
    what: str
    remedy: str
    where: str = ""  #: Option that the message names; by default the policy.


def _is_predicted(asked: Asked) -> bool:
    """Return whether a predictor fills the window; predictors do not count paused steps."""
    known = (LengthSource.UNKNOWN, LengthSource.KNOWN)
    return asked.steps > 0 and lengths_of(asked.options.predictor) not in known


#: Facts of a run, by key.
FACTS: Mapping[str, Callable[[Asked], bool]] = {
    "another dispatch": lambda asked: asked.options.dispatch not in asked.spec.dispatch,
    "batching": lambda asked: asked.options.batching != BATCHING,
    "delay": lambda asked: asked.options.delay > 0,
    "growth by age": lambda asked: asked.options.drift.is_by_age,
    "immediate dispatch": lambda asked: asked.options.dispatch is Dispatch.IMMEDIATE,
    "interruptions": lambda asked: may_interrupt(asked.cluster, asked.options),
    "mean time": lambda asked: asked.cluster.mean_time_s > 0,
    "memory": lambda asked: asked.cluster.memory is not None,
    "no ties": lambda asked: not asked.spec.breaks_ties,
    "no token budget": lambda asked: asked.cluster.token_budget is None,
    "offered load": lambda asked: asked.options.load is not None,
    "own tracking": lambda asked: not asked.spec.interruptible,
    "pauses": lambda asked: asked.pauses,
    "pausing program": lambda asked: asked.spec.pauses,
    "policy": lambda asked: True,
    "predicted window": _is_predicted,
    "prefill": lambda asked: asked.options.prefill is not None,
    "prefix cache": lambda asked: asked.cluster.prefix_cache is not None,
    "telemetry": lambda asked: asked.options.telemetry is not None,
    "ties": lambda asked: asked.options.ties is not Ties.LOWEST,
    "token budget": lambda asked: asked.cluster.token_budget is not None,
}

#: Facts that some policies do not support, whatever the other settings.
POLICIES = (
    Clash(
        "policy",
        "another dispatch",
        "cannot bind a request when it arrives",
        "use pooled dispatch",
    ),
)

_OTHER = "or another policy"
_NO_EVENTS = 'use overflow="reserve", no failures and no cancellations'
_NO_WINDOW = f"use {LOOK_AHEAD} 0, or predictor none or oracle"

#: Conflicts of policies that track requests; each message begins "assumes that requests".
_TRACKED = (
    ("delay", "start at once, but with a delay they start later", "use delay 0"),
    ("interruptions", "run to their end, but here they may be interrupted", _NO_EVENTS),
    ("telemetry", "are known one by one, but telemetry reports only workers", "use no telemetry"),
)
_TRACKED_TOKENS = (
    (
        "token budget",
        "emit a token at each step, but with a token budget prompts take steps",
        "use no token budget",
    ),
    (
        "prefill",
        "become ready in order of arrival, but prefill ends in another order",
        "use no prefill",
    ),
)
#: Conflicts with token budgets.
_BUDGETED = (
    ("interruptions", "requests may leave their worker during their prefill", _NO_EVENTS),
    ("prefill", "the prefill tier computes prompts as well", "use one of the two"),
    ("telemetry", "reports do not include the progress of prompts", "use no telemetry"),
    (
        "prefix cache",
        "prefix cache hits would not shorten prompts computed in chunks",
        "use no prefix cache",
    ),
    ("offered load", "the offered load is defined for decode tokens only", "use rate_scale"),
)
#: Conflicts of policies that pause requests; each message begins "pauses requests, but".
_PAUSED = (
    (
        "immediate dispatch",
        "immediate dispatch decides about each arriving request separately",
        "use pooled dispatch",
    ),
    ("delay", "decisions take effect later", "use delay 0"),
    ("telemetry", "telemetry reports only workers", "use no telemetry"),
    ("predicted window", "predictors do not count paused steps", _NO_WINDOW),
)


def _tracking(rows: Iterable[tuple[str, str, str]]) -> Iterator[Clash]:
    for fact, why, remedy in rows:
        what = f"assumes that requests {why}"
        yield Clash("own tracking", fact, what, f"{remedy}, {_OTHER}")


#: All pairs of facts that are incompatible in a run.
TOGETHER = (
    *POLICIES,
    *_tracking(_TRACKED),
    Clash(
        "own tracking",
        "ties",
        "tracks workers by index, but other tie rules permute the workers",
        f"use ties lowest, {_OTHER}",
    ),
    Clash(
        "no ties",
        "ties",
        "uses worker indices or draws workers, so tie rules do not apply",
        f"use ties lowest, {_OTHER}",
    ),
    *_tracking(_TRACKED_TOKENS),
    Clash(
        "pausing program",
        "mean time",
        "its program does not model the mean-load term of the step time (mean_time_s)",
        f"use mean_time_s 0, {_OTHER}",
    ),
    Clash(
        "no token budget",
        "batching",
        "there are no token budgets",
        "give token_budget",
        "batching",
    ),
    *(Clash("token budget", *row, where="token_budget") for row in _BUDGETED),
    Clash(
        "growth by age",
        "interruptions",
        "growth depends on the age of a request, and requests may be interrupted",
        f"use equal increments or global-step, or {_NO_EVENTS.removeprefix('use ')}",
        where="drift",
    ),
    Clash(
        "pauses",
        "token budget",
        "decides which requests rest, but with a token budget the batches decide this",
        "use another policy, or no token budget",
    ),
    Clash(
        "token budget",
        "predicted window",
        "predictors count decode steps, but prompts take further steps",
        _NO_WINDOW,
        where="token_budget",
    ),
    *(
        Clash("pauses", fact, f"pauses requests, but {why}", remedy)
        for fact, why, remedy in _PAUSED
    ),
)

#: Facts that compiled runs do not support; ``what`` is the object of a sentence.
INTERPRETED = (
    # Which request finds no memory then depends on the order in which decisions are executed.
    Clash("telemetry", "memory", "telemetry with limited memory", 'use engine="auto"'),
    Clash("policy", "token budget", "token budgets", 'use engine="auto"'),
    Clash("policy", "ties", "ties other than lowest", 'use engine="auto"'),
)


def first_clash(asked: Asked, table: Iterable[Clash]) -> Clash | None:
    """Return the first row of a table with both facts true, or None."""
    return next(
        (row for row in table if FACTS[row.first](asked) and FACTS[row.second](asked)), None
    )


def check_together(asked: Asked, table: Iterable[Clash] = TOGETHER) -> None:
    """Raise InputError if a run has both facts of a row of the table."""
    clash = first_clash(asked, table)
    if clash is not None:
        why = asked.spec.why_pooled if clash.second == "another dispatch" else ""
        what = f"{clash.what}: {why}" if why else clash.what
        raise InputError(clash.where or f"policy {asked.policy}", what, clash.remedy)
