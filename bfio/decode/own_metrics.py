"""User-defined metrics: functions of a part of a run, in addition to the built-in metrics."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias, cast

import numpy as np

from bfio.common.metrics import Metric, MetricTable, Value
from bfio.decode.metrics import METRICS
from bfio.decode.options import ArrivalMode
from bfio.decode.run import RunPart
from formulations.errors import InputError
from formulations.named_objects import check_call, is_users, load_object, users_code

#: The name of a metric, or a function of `RunPart`.
ChosenMetric: TypeAlias = str | Callable[[RunPart], Value] | Metric[RunPart]
#: Additional columns of a table for timed arrivals.
_TIMED = ("latency_mean_s", "latency_p95_s", "ttft_mean_s", "queueing_delay_mean_s")
#: Additional columns of a table for runs with latency limits.
_LIMITED = ("slo_share", "goodput_requests_per_s", "goodput_tokens_per_s")


@dataclass(frozen=True)
class MetricChoice:
    """The metrics to compute, and those that a table shows."""

    table: MetricTable[RunPart] = METRICS  #: The built-in and the user-defined metrics.
    #: Metrics that a table shows; None for those with a default column.
    shown: tuple[str, ...] | None = None


def chosen_metrics(
    chosen: ChosenMetric | Sequence[ChosenMetric] | None,
    arrivals: ArrivalMode,
    *,
    has_limits: bool = False,
) -> MetricChoice:
    """Return the metrics that a user has chosen; by default those that suit the run.

    A metric is chosen by name, as ``module:NAME`` or ``FILE.py:NAME``, or as a function of
    `RunPart`; anything else raises InputError. By default, timed arrivals add latency, TTFT and
    queueing delay, and limits (`bfio.decode.features.service_levels`) add goodput.
    """
    if chosen is None:
        timed = _TIMED if arrivals is ArrivalMode.TIMED else ()
        more = (*timed, *(_LIMITED if has_limits else ()))
        names = tuple(name for name, _ in METRICS.columns(more)) if more else None
        return MetricChoice(shown=names)
    if not isinstance(chosen, str | Metric | Iterable) and not callable(chosen):
        remedy = "give names of metrics, or functions of a part of a run"
        raise InputError("metrics", f"a {type(chosen).__name__} is not a metric", remedy)
    each = [chosen] if isinstance(chosen, str | Metric) or callable(chosen) else list(chosen)
    if not each:
        raise InputError("metrics", "no metric is given", "name at least one, e.g. avg_imbalance")
    own = {str(entry): metric for entry in each if (metric := _own(entry)) is not None}
    names = tuple(own[str(entry)].name if str(entry) in own else str(entry) for entry in each)
    return MetricChoice(extended(own.values()), tuple(dict.fromkeys(names)))


def named_metrics(text: str | None) -> list[str] | None:
    """Split a comma-separated list of names; None for None."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def extended(own: Iterable[Metric[RunPart]]) -> MetricTable[RunPart]:
    """Return the table of built-in metrics extended by user-defined ones.

    Raises InputError if a name is already taken.
    """
    added = list(own)
    known = {metric.name for metric in METRICS}
    for metric in added:
        if metric.name in known:
            raise InputError(
                f"metric {metric.name}", "a metric of that name exists", "rename your metric"
            )
        known.add(metric.name)
    return METRICS.extended(added) if added else METRICS


def own_metric(name: str, function: Callable[[RunPart], Value]) -> Metric[RunPart]:
    """Return a metric made from a user's function, with checks of its values.

    The function's attributes ``unit`` and ``description`` are used; the description defaults to
    the docstring.
    """

    def compute(part: RunPart) -> Value:
        where = f"metric {name}"
        with users_code(where, remedy="mend the metric"):
            value = function(part)
        plain = value.item() if isinstance(value, np.generic) else value
        is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
        if plain is not None and not (is_number and isfinite(plain)):
            remedy = "return a number, or None if undefined"
            raise InputError(where, f"returned {value!r:.40}", remedy)
        return plain

    lines = (getattr(function, "__doc__", None) or "a user's own").strip().splitlines()
    description = getattr(function, "description", lines[0])
    return Metric(name, str(getattr(function, "unit", "")), str(description), compute)


def _own(chosen: ChosenMetric) -> Metric[RunPart] | None:
    """Return the user-defined metric of a choice, or None for the name of a built-in metric."""
    if isinstance(chosen, str) and not is_users(chosen):
        METRICS.column(chosen)  # Raises for an unknown metric.
        return None
    where = chosen if isinstance(chosen, str) else "metrics"
    found = load_object(chosen, "metric") if isinstance(chosen, str) else chosen
    if isinstance(found, Metric):
        return found
    check_call(found, where, "part")
    given = getattr(found, "__name__", type(found).__name__)
    name = chosen.rpartition(":")[2] if isinstance(chosen, str) else given
    return own_metric(name, cast("Callable[[RunPart], Value]", found))
