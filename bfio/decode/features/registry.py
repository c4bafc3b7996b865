"""The features of the machine: settings, checks, remarks, record and replay walk this list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bfio.decode.features.batching.feature import BATCHING
from bfio.decode.features.cancellations.feature import CANCELLATIONS
from bfio.decode.features.delay.feature import DELAY
from bfio.decode.features.failures.feature import FAILURES
from bfio.decode.features.memory.feature import MEMORY
from bfio.decode.features.pausing import PAUSING
from bfio.decode.features.prefill.feature import PREFILL
from bfio.decode.features.prefixes.feature import PREFIXES
from bfio.decode.features.service_levels.feature import SERVICE_LEVELS
from bfio.decode.features.stragglers.feature import STRAGGLERS
from bfio.decode.features.telemetry.feature import TELEMETRY
from bfio.decode.features.ties import TIES

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.features.feature import Feature
    from bfio.decode.options import RunOptions
    from bfio.decode.run import Run

#: In the order in which settings, remarks and rules tell of them.
FEATURES: tuple[Feature, ...] = (
    MEMORY, PREFIXES, BATCHING, PREFILL, TELEMETRY, TIES, DELAY, STRAGGLERS, FAILURES,
    CANCELLATIONS, SERVICE_LEVELS, PAUSING,
)  # fmt: skip


def settings_after(part: str, cluster: Cluster, options: RunOptions) -> dict[str, str]:
    """Return the words of the features that stand behind a part of the line of settings."""
    told = (each for each in FEATURES if each.after == part)
    return {each.name: each.setting(cluster, options) for each in told}


def idle(
    names: Sequence[str], cluster: Cluster, options: RunOptions, *, tells_prompts: bool
) -> Iterator[str]:
    """Yield what was asked of features and changes nothing, a sentence each.

    Parameters
    ----------
    names : sequence of str
        Names of the policies that run.
    cluster, options : Cluster, RunOptions
        What they run on, and how.
    tells_prompts : bool
        Whether requests tell which prompts begin alike.
    """
    for feature in FEATURES:
        yield from feature.idle(names, cluster, options, tells_prompts)


def unseen(runs: Sequence[Run]) -> Iterator[str]:
    """Yield which schedules no run saw anything of; the runs differ in the policy only."""
    for feature in FEATURES:
        yield from feature.unseen(runs)
