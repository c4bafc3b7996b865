"""Service levels and fairness."""

from bfio.common.metrics import Column, Domain, MetricTable, Value, exact_sum
from bfio.decode.metrics.part import RunPart
from formulations.arrays import FloatArray

#: Service levels and fairness.
SERVICE_LEVELS: MetricTable[RunPart] = MetricTable()


def jain_index(shares: FloatArray) -> float:
    """Return ``(Σx)² / (n·Σx²)`` of what each of n >= 1 got: from 1/n (one got all) to 1.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC-TR-301, 1984.

    Parameters
    ----------
    shares : FloatArray
        Shape (n,), >= 0 and not all 0, of one unit.
    """
    relative = shares / shares.max()
    # At most 1 by Cauchy and Schwarz; minimum() only removes the last bit of rounding.
    return min(1.0, float(relative.sum()) ** 2 / (len(shares) * float((relative**2).sum())))


@SERVICE_LEVELS.metric(
    "slo_share",
    "1",
    "share of the requests that started which completed within both limits of --slo",
    Column("in limits", is_share=True, by_default=False),
    Domain.SHARE,
)
def _slo_share(part: RunPart) -> Value:
    if part.met is None or len(part.started) == 0:
        return None
    return int(part.met.sum()) / len(part.started)


@SERVICE_LEVELS.metric(
    "goodput_requests_per_s",
    "requests/s",
    "requests that completed within both limits of --slo, over step and idle time",
    Column("goodput\n[requests/s]", by_default=False),
)
def _goodput_requests(part: RunPart) -> Value:
    if part.met is None or part.total_s == 0:
        return None
    return int(part.met.sum()) / part.total_s


@SERVICE_LEVELS.metric(
    "goodput_tokens_per_s",
    "tokens/s",
    "tokens of such requests, over step and idle time",
    Column("goodput\n[tokens/s]", by_default=False),
)
def _goodput_tokens(part: RunPart) -> Value:
    if part.met is None or part.total_s == 0:
        return None
    return exact_sum(part.run.emitted_tokens[part.completed[part.met]]) / part.total_s


@SERVICE_LEVELS.metric(
    "fairness_jain",
    "1",
    "Jain's index of the tokens per second that each request got, from arrival or reveal to its "
    "end: 1 if all got the same",
    Column("Jain", by_default=False),
    Domain.SHARE,
)
def _fairness(part: RunPart) -> Value:
    # Steps that take no time serve all alike at once, at no rate.
    if len(part.completed) == 0 or not part.latencies.all():
        return None
    return jain_index(part.run.emitted_tokens[part.completed] / part.latencies)
