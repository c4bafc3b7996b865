"""The list of the features of the machine, used by settings, checks, remarks and replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bfio.decode.features
from bfio.common.plugins import members
from bfio.decode.policy_registry import built_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bfio.decode.cluster import Cluster
    from bfio.decode.features.feature import Feature
    from bfio.decode.options import RunOptions
    from bfio.decode.run import Run

_PACKAGE = bfio.decode.features
#: In the order of settings, remarks and rules.
FEATURES: tuple[Feature, ...] = tuple(
    sorted(
        (found for _, found in members(_PACKAGE.__name__, _PACKAGE.__path__, "FEATURE")),
        key=lambda feature: (feature.rank, feature.name),
    )
)


def settings_after(part: str, cluster: Cluster, options: RunOptions) -> dict[str, str]:
    """Return the settings texts of the features that follow a part of the settings line."""
    told = (each for each in FEATURES if each.after == part)
    return {each.name: each.setting(cluster, options) for each in told}


def idle(
    names: Sequence[str], cluster: Cluster, options: RunOptions, *, tells_prompts: bool
) -> Iterator[str]:
    """Yield the requested feature options that have no effect, one sentence each.

    ``names`` are the policies of the runs; ``tells_prompts`` is true if requests have prefix
    information.
    """
    known = built_in()
    policies = [known[name] for name in dict.fromkeys(names) if name in known]
    for feature in FEATURES:
        yield from feature.idle(policies, cluster, options, tells_prompts)


def unseen(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the event schedules of which no event took place in any run."""
    for feature in FEATURES:
        yield from feature.unseen(runs)
