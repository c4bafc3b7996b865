"""What the registry knows about a policy, and how policies without options are made."""

from collections.abc import Callable
from dataclasses import dataclass

from bfio.decode.options import Dispatch
from bfio.decode.policy import Policy
from bfio.decode.policy_options import PolicyOptions

#: Dispatch modes of a policy that also works when requests are bound as soon as they arrive.
BOTH_DISPATCHES = (Dispatch.POOLED, Dispatch.IMMEDIATE)


@dataclass(frozen=True)
class PolicySpec:
    """What the registry knows about one policy.

    Parameters
    ----------
    name : str
        Name on the command line.
    factory : callable
        Makes a fresh policy, for one run, from the options.
    summary : str
        One line for listings.
    source : str
        Where the rule comes from.
    dispatch : tuple of Dispatch
        Dispatch modes it supports.
    uses_horizon : bool
        Whether it reads look-ahead columns beyond the first.
    """

    name: str
    factory: Callable[[PolicyOptions], Policy]
    summary: str
    source: str
    dispatch: tuple[Dispatch, ...] = (Dispatch.POOLED,)
    uses_horizon: bool = False


def stateless(function: Policy) -> Callable[[PolicyOptions], Policy]:
    """Return a factory that ignores the options and gives ``function`` itself."""
    return lambda options: function
