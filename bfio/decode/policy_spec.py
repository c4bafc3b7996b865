"""The specification of a policy in the registry: its rule in Python, and its kernel if any."""

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
    """Registry entry of one policy.

    Parameters
    ----------
    name : str
        Name on the command line.
    factory : callable
        Makes a new policy for one run from its options.
    summary : str
        One line for listings.
    source : str
        Origin of the rule.
    options : CheckedOptions
        An instance of a dataclass: the options (`bfio.common.options.option`) with their default
        values. `bfio.decode.option_kinds.look_ahead_option` creates the look-ahead option. An
        option ``base`` names another policy that routes requests. That policy receives the options
        that this policy does not declare, and is stored in the field ``router``.
    kernel : Kernel or str, optional
        Kernel for compiled runs, or ``module:object`` if the kernel is slow to import. Without a
        kernel, runs are interpreted.
    draws : bool
        Whether decisions depend on the seed; assumed for unregistered policies.
    interruptible : bool
        Whether the policy supports requests that leave their worker before they finish.
    pauses : bool
        Whether the policy may pause active requests.
    unled : callable
        For policies that use prefixes: returns the fallback rule if the trace has no prefix
        information, as the rest of a sentence that begins with the name of the policy; empty
        otherwise. Arguments: whether requests have prefix information, and whether workers have
        prefix caches.
    why_pooled : str
        Why the policy does not support immediate dispatch; empty if it does.
    reads_reports : bool
        Whether the policy reads load reports of workers; if not, telemetry has no effect on it.
    breaks_ties : bool
        Whether the policy chooses the lowest index among equally good workers, and keeps no data
        by worker index.
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
        """Dispatch modes that the policy supports."""
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
    """Return the specification of a policy that assigns each request to the worker of least key.

    Parameters
    ----------
    name, summary, source, reads_reports
        See `PolicySpec`.
    key : callable
        A compilable function of a `WorkerTally`, used in interpreted and compiled runs. The key of
        a worker may change only when a request is assigned to this worker. Ties go to the lowest
        index.
    order : ServingOrder
        Order in which requests are assigned. If the order is not by age, immediate dispatch calls
        the policy once for all unbound requests.
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
