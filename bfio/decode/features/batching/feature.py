"""Token budgets around a run: its words, and the rules of its record."""

from bfio.common.number_text import exact
from bfio.decode.cluster import Cluster, per_worker_text
from bfio.decode.features.batching.metrics import METRICS
from bfio.decode.features.batching.replay import RULES, malformed_chunks
from bfio.decode.features.feature import Feature
from bfio.decode.options import RunOptions
from bfio.decode.replay_record import Replay
from formulations.arrays import FloatArray


def _setting(cluster: Cluster, options: RunOptions) -> str:
    if cluster.token_budget is None:
        return ""
    time = f", {exact(cluster.batch_token_time_s)} s a token" if cluster.batch_token_time_s else ""
    free = f" beyond {cluster.free_tokens}" if time and cluster.free_tokens else ""
    return f"token budget {per_worker_text(cluster.token_budget)} ({options.batching}{time}{free})"


def _worker_s(replay: Replay) -> FloatArray | float:
    return replay.cluster.batch_times(replay.tokens) if replay.batches else 0.0


FEATURE = Feature(
    "token budget",
    setting=_setting,
    after="speed",
    malformed=malformed_chunks,
    rules=RULES,
    worker_s=_worker_s,
    metrics=METRICS,
    rank=12,
)
