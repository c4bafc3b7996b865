"""What the registry knows about a policy: its readable rule and, if there is one, its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bfio.common.options import CheckedOptions
from bfio.decode.options import Dispatch
from bfio.decode.tally import Key, ServingOrder, assign_to_least, in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from bfio.decode.machine.kernel import Kernel
    from bfio.decode.policy import Policy
    from bfio.decode.state import DecodeState

#: Options of a policy that has none.
NO_OPTIONS = CheckedOptions()


@dataclass(frozen=True)
class PolicySpec:
    """What the registry knows about one policy.

    Parameters
    ----------
    name : str
        Name on the command line.
    factory : callable
        Makes a fresh policy, for one run, from its options.
    summary : str
        One line for listings.
    source : str
        Where the rule comes from.
    options : CheckedOptions
        A dataclass of its options (`bfio.common.options.option`), with the values that hold unless
        others are given; `bfio.decode.option_kinds.look_ahead_option` makes that of its
        look-ahead. One called ``base`` names another policy, which takes the options that are none
        of its own, and which comes to it as the field ``router``.
    kernel : Kernel or str, optional
        How whole runs are compiled, or where it is as ``module:object`` if loading it takes long;
        without one they are interpreted.
    draws : bool
        Whether its decisions depend on the seed; assumed of policies that are not registered.
    interruptible : bool
        Whether it copes with requests that leave their worker before they are done.
    pauses : bool
        Whether it may let active requests rest.
    unled : callable
        What it does instead if it goes by prefixes and nothing tells of any, the rest of a
        sentence that begins with its name; empty otherwise. From whether requests tell which
        prompts begin alike, and whether workers keep prefixes.
    why_pooled : str
        Why it cannot decide with immediate dispatch, if it cannot.
    reads_reports : bool
        Whether it goes by what workers report of themselves: telemetry changes nothing else.
    breaks_ties : bool
        Whether it takes the lowest of workers that are equally good, and keeps nothing of them by
        their numbers.
    """

    name: str
    factory: Callable[[Any], Policy]
    summary: str
    source: str
    options: CheckedOptions = NO_OPTIONS
    kernel: Kernel | str | None = None
    draws: bool = False
    interruptible: bool = True
    pauses: bool = False
    unled: Callable[[bool, bool], str] = lambda tells_prompts, caches: ""
    why_pooled: str = ""
    reads_reports: bool = True
    breaks_ties: bool = True

    @property
    def dispatch(self) -> tuple[Dispatch, ...]:
        """Dispatch modes that it supports."""
        return (Dispatch.POOLED,) if self.why_pooled else tuple(Dispatch)


def greedy_policy(
    name: str,
    key: Key,
    order: ServingOrder = ServingOrder.OLDEST,
    *,
    summary: str,
    source: str,
    margin: int | None = None,
    reads_reports: bool = True,
) -> PolicySpec:
    """Describe a policy that gives each request in turn to the worker with the least key.

    Parameters
    ----------
    name, summary, source, reads_reports
        See `PolicySpec`.
    key : callable
        A compilable function of a `WorkerTally`, for interpreted and compiled runs alike; it may
        change only for a worker that has just been assigned. Ties go to the lowest index.
    order : ServingOrder
        In which order requests are served. Where it is not by age, immediate dispatch asks about
        all requests at once.
    margin : int, optional
        See `bfio.decode.policy`.
    """
    from bfio.decode.machine.greedy import greedy_kernel, least_by

    def assign(state: DecodeState) -> list[int | None]:
        return assign_to_least(state, in_order(state, order), key)

    if order is not ServingOrder.OLDEST:
        assign.binds_together = True  # type: ignore[attr-defined]
    elif margin is not None:
        assign.margin = margin  # type: ignore[attr-defined]
    return PolicySpec(
        name=name,
        factory=lambda _: assign,
        summary=summary,
        source=source,
        kernel=greedy_kernel(least_by(key), order),
        reads_reports=reads_reports,
    )
