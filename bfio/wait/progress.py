"""A policy that tells how far its run has got, for runs of the reference engine."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bfio.wait.chains import ThresholdPolicy
from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.instance import StageInstance
from bfio.wait.policy import Answer, StagePolicy, StageState, check_instance


@dataclass(frozen=True)
class Watched:
    """A policy and whom to tell, before each batch, how many requests have completed."""

    policy: StagePolicy
    tell: Callable[[int], None]

    def check(self, instance: StageInstance) -> None:
        """Ask the policy itself."""
        check_instance(self.policy, instance)

    def __call__(self, state: StageState) -> Answer:
        """Tell, and ask the policy itself."""
        arrived = int(np.searchsorted(state.instance.arrival, state.clock, side="right"))
        self.tell(arrived - len(state.waiting) - len(state.held))
        return self.policy(state)


def watched(policy: StagePolicy, tell: Callable[[int], None]) -> StagePolicy:
    """Return a policy that tells its progress; a built-in one stays as it is, to be compiled."""
    if type(policy) in (ThresholdPolicy, FirstComeFirstServed):
        return policy
    return Watched(policy, tell)
