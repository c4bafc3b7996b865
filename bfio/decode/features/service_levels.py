"""Latency limits of requests: on time to first token and time per token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bfio.common.text import exact
from bfio.decode.features.feature import Feature

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.options import RunOptions


def _setting(cluster: Cluster, options: RunOptions) -> str:
    if options.slo is None:
        return ""
    limits = {"TTFT": options.slo.ttft_s, "TPOT": options.slo.tpot_s}
    told = [f"{name} <= {exact(limit)} s" for name, limit in limits.items() if limit < math.inf]
    return f"service level {' and '.join(told)}"


FEATURE = Feature("service level", setting=_setting, after="drift", rank=10)
