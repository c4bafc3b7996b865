"""Statistics of a workload, as plain numbers for tables and JSON.

`requests_used` summarizes the source of a workload and the rows that were left out.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from bfio.workloads.request_data import ArrivalTimes
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import check_kind
from formulations.words import counted

# Statistics that are None for an empty workload, and counts that are 0.
_LENGTH_STATISTICS = (
    "mean", "median", "std", "p95", "p99", "min", "max", "cv", "ks_to_geometric",
)  # fmt: skip
_ARRIVAL_STATISTICS = (
    "first_s", "last_s", "span_s", "requests_per_s", "inter_arrival_cv", "longest_gap_s",
)  # fmt: skip
_ARRIVAL_COUNTS = ("distinct_times", "ties", "most_at_one_time")


def describe(workload: Workload) -> dict[str, object]:
    """Return statistics of the lengths and arrivals of a workload.

    Returns
    -------
    dict
        ``name``, ``requests``; ``prompt_tokens`` and ``output_tokens`` with total, mean, median,
        std (over n), p95, p99 (linear interpolation), min, max, cv and ``ks_to_geometric``;
        ``correlation`` (Pearson); ``distinct_prompts``, None if the source does not identify
        prompts; ``arrivals`` (see `describe_arrivals`) or None; ``provenance``. Undefined
        statistics, for example the correlation of a constant, are None.
    """
    check_kind(workload, Workload, "workload", "describe(workload)")
    times, keys = workload.arrival_times, workload.prompt_keys
    return {
        "name": workload.name,
        "requests": len(workload),
        "prompt_tokens": describe_lengths(workload.prompt_tokens),
        "output_tokens": describe_lengths(workload.output_tokens),
        "correlation": correlation(workload.prompt_tokens, workload.output_tokens),
        "distinct_prompts": None if keys is None else len(np.unique(keys)),
        "arrivals": None if times is None else describe_arrivals(times),
        "provenance": dict(workload.provenance),
    }


def describe_lengths(lengths: IntArray) -> Mapping[str, float | int | None]:
    """Return statistics of lengths, shape (n,) [tokens]; see `describe`."""
    if len(lengths) == 0:
        return {"total": 0, **dict.fromkeys(_LENGTH_STATISTICS)}
    median, p95, p99 = np.quantile(lengths, (0.5, 0.95, 0.99))
    mean, std = float(lengths.mean()), float(lengths.std())
    return {
        "total": sum(lengths.tolist()),
        "mean": mean,
        "median": float(median),
        "std": std,
        "p95": float(p95),
        "p99": float(p99),
        "min": int(lengths.min()),
        "max": int(lengths.max()),
        "cv": std / mean,
        "ks_to_geometric": ks_to_geometric(lengths),
    }


def ks_to_geometric(lengths: IntArray) -> float:
    """Return the Kolmogorov distance of the lengths to the geometric law of the same mean.

    The supremum over integers k >= 0 of ``|F_n(k) - (1 - (1 - p)^k)|`` with ``p = 1 / mean``, the
    maximum-likelihood fit. Between two observed values ``F_n`` is flat and the law increases, so
    the supremum is attained at an observed value or just below one.
    """
    values, counts = np.unique(lengths, return_counts=True)
    at = np.cumsum(counts) / len(lengths)
    below = at - counts / len(lengths)
    mean = float(lengths.mean())
    if mean == 1.0:
        return 0.0
    log_survival = np.log1p(-1.0 / mean)
    law_at = -np.expm1(values * log_survival)
    law_below = -np.expm1((values - 1) * log_survival)
    return float(max(np.abs(at - law_at).max(), np.abs(below - law_below).max()))


def correlation(first: IntArray, second: IntArray) -> float | None:
    """Return the Pearson correlation of two columns, None if one is constant."""
    if len(first) < 2:
        return None
    x, y = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > 0.0 else None


def describe_arrivals(times: Sequence[Fraction]) -> Mapping[str, float | int | None]:
    """Return statistics of arrival times in order [s].

    Returns
    -------
    dict
        ``first_s``, ``last_s``, ``span_s``; ``requests_per_s`` (requests over span);
        ``inter_arrival_cv``; ``longest_gap_s``; ``distinct_times``; ``ties`` (requests at the same
        time as the previous one); ``most_at_one_time``. None where undefined.
    """
    if not len(times):
        return {**dict.fromkeys(_ARRIVAL_STATISTICS), **dict.fromkeys(_ARRIVAL_COUNTS, 0)}
    gaps = ArrivalTimes.of(times).gaps()
    span = float(times[-1] - times[0])
    changes = np.flatnonzero(np.append(True, gaps > 0))
    return {
        "first_s": float(times[0]),
        "last_s": float(times[-1]),
        "span_s": span,
        "requests_per_s": len(times) / span if span > 0 else None,
        "inter_arrival_cv": float(gaps.std() / gaps.mean()) if span > 0 else None,
        "longest_gap_s": float(gaps.max()) if len(gaps) else None,
        "distinct_times": len(changes),
        "ties": len(times) - len(changes),
        "most_at_one_time": int(np.diff(np.append(changes, len(times))).max()),
    }


#: Keys of provenance that count omitted rows, with their texts.
_LEFT_OUT = {
    "dropped_zero_output": "without output dropped",
    "skipped_bad_rows": "damaged rows skipped",
}

#: Maximum number of columns shown; JSON documents list all.
_SHOWN = 5


def requests_used(workload: Workload) -> str:
    """Return one line with the number and source of requests, and rows that were left out."""
    text = f"{workload.name}: {counted(len(workload), 'request')}"
    left_out = [
        f"{count:,} {words}"
        for key, words in _LEFT_OUT.items()
        if isinstance(count := workload.provenance.get(key), int) and count
    ]
    if (law := workload.provenance.get("arrival_law")) is not None:
        left_out.append(f"arriving by {law}")
    unused = workload.provenance.get("unused_columns")
    if isinstance(unused, list) and unused:
        more = f" and {len(unused) - _SHOWN} more" if len(unused) > _SHOWN else ""
        left_out.append(f"columns not read: {' '.join(unused[:_SHOWN])}{more}")
    if workload.history is not None:
        left_out.append(f"after {len(workload.history):,} training requests")
    return f"{text} ({', '.join(left_out)})" if left_out else text
