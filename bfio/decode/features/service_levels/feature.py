"""Service levels around a run: its words."""

import math

from bfio.common.number_text import exact
from bfio.decode.cluster import Cluster
from bfio.decode.features.feature import Feature
from bfio.decode.options import RunOptions


def _setting(cluster: Cluster, options: RunOptions) -> str:
    if options.slo is None:
        return ""
    limits = {"TTFT": options.slo.ttft_s, "TPOT": options.slo.tpot_s}
    told = [f"{name} <= {exact(limit)} s" for name, limit in limits.items() if limit < math.inf]
    return f"service level {' and '.join(told)}"


FEATURE = Feature("service level", setting=_setting, after="drift", rank=10)
