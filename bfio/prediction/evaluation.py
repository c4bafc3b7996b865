"""Evaluation of predictors on requests with known lengths: both stages of BalanceRoute, C.2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from statistics import median
from time import perf_counter

import numpy as np

from bfio.common.memory import require_memory
from bfio.common.options import MAX_SHOWN, spelled_out
from bfio.prediction.length_history import Walk, walk
from bfio.prediction.options import EvaluationOptions
from bfio.prediction.predictor import (
    CheckedPredictor,
    Estimates,
    LengthSource,
    Predictor,
    composite,
    expected_steps,
)
from bfio.prediction.registry import find, made, names
from bfio.prediction.report import (
    AgeBin,
    PredictorReport,
    brier_score,
    calibration,
    calibration_error,
    roc_auc,
    roc_curve,
)
from bfio.workloads.statistics import requests_used
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError, check_kind
from formulations.scalars import integer

#: Maximum number of points per call of a predictor.
_AT_ONCE = 1 << 16
#: Memory per point of an evaluation [bytes].
_POINT_BYTES = 150
#: Number of timed calls, and number of requests in a large call.
_CALLS, _LARGE = 100, 64
_MANTISSAS = (1, 2, 5)


@spelled_out(EvaluationOptions)
def evaluate_predictor(
    workload: Workload,
    predictor: str | Predictor,
    look_ahead: int = 20,
    *,
    options: EvaluationOptions | None = None,
) -> PredictorReport:
    """Evaluate a predictor on a trace: the first part trains it, the rest tests it.

    Parameters
    ----------
    workload : Workload
        The trace in order of arrival; if it has a history, that is used for training instead.
    predictor : str or Predictor
        Name of a registered predictor, ``module:object``, or an object. Requests are identified by
        their index among the evaluated ones.
    look_ahead : int
        ``H >= 1``.
    options : EvaluationOptions, optional
        Options of the evaluation; each field can be given as a keyword instead.

    Returns
    -------
    PredictorReport
        Both stages, their composite, calibration, and the time of a call.

    Raises
    ------
    InputError
        If an argument is out of range, no request is left to evaluate, or the predictor violates
        its interface.
    """
    check_kind(
        workload, Workload, "workload", "evaluate_predictor(workload, predictor, look_ahead)"
    )
    look_ahead = integer(look_ahead, "look_ahead", minimum=1, maximum=MAX_SHOWN)
    how = options or EvaluationOptions()
    history, evaluated = split(workload, how)
    if how.online >= len(evaluated):
        what = f"{how.online:,} are not fewer than the {len(evaluated):,} evaluated requests"
        raise InputError("online", what, "use fewer requests, or 0 for never")
    points = _points(evaluated, how)
    asked = made(predictor, evaluated, how.seed, evaluated.history)
    found = _answers(asked, evaluated, points, look_ahead, how.online)
    call_us, request_us = _times(asked, points, look_ahead)
    positive = points.remaining <= look_ahead
    base_rate = float(positive.mean())
    curve = calibration(found.probability, positive)
    # If p̂ = 0, the mean is undefined and the prediction is H.
    stage_2 = np.abs(np.where(found.probability > 0, found.mean, look_ahead) - points.remaining)
    ended = points.remaining[positive]
    gated = composite(found, look_ahead)
    window = np.minimum(points.remaining, look_ahead)
    errors = np.abs(expected_steps(found, look_ahead) - window)
    auc = roc_auc(found.probability, positive)
    return PredictorReport(
        predictor=predictor if isinstance(predictor, str) else asked.name,
        look_ahead=look_ahead,
        requests=requests_used(workload),
        options=how,
        trained_on=len(history),
        evaluated_on=len(evaluated),
        points=len(positive),
        base_rate=base_rate,
        auc=auc,
        brier=brier_score(found.probability, positive),
        brier_base_rate=base_rate * (1 - base_rate),
        calibration_error=calibration_error(curve),
        conditional_mae=_mean(stage_2[positive]),
        conditional_mae_constant=_mean(np.abs(ended - np.median(ended)) if len(ended) else ended),
        composite_mae=float(errors.mean()),
        composite_mae_none=float((look_ahead - window).mean()),
        composite_rmse=_root_mean_square(errors),
        composite_rmse_none=_root_mean_square(look_ahead - window),
        gated_mae=float(np.abs(np.minimum(gated, look_ahead) - window).mean()),
        gate_open_share=float((gated <= look_ahead).mean()),
        call_us=call_us,
        request_us=request_us,
        calibration=curve,
        by_age=list(_by_age(points, look_ahead, found.probability, stage_2, errors)),
        roc=None if auc is None else roc_curve(found.probability, positive),
    )


def default_predictors() -> list[str]:
    """Return the predictors that learn from past lengths and whose packages are installed."""
    specs = [find(name) for name in names()]
    return [
        spec.name
        for spec in specs
        if not spec.knows_future
        and spec.lengths is not LengthSource.UNKNOWN
        and (not spec.needs or find_spec(spec.needs) is not None)
    ]


def split(workload: Workload, options: EvaluationOptions) -> tuple[Workload, Workload]:
    """Return the requests for training and for evaluation.

    If the workload has a history, these are the history and the workload; otherwise its first
    requests and the rest.

    Raises
    ------
    InputError
        If no request is left to evaluate, or training is requested but has no requests.
    """
    kept = _of_outputs(workload, options)
    if workload.history is not None:
        past = workload.history
        return _with_past(past.part(_of_outputs(past, options)), workload.part(kept))
    first = int(options.train_share * len(kept))
    if options.train_share and not first:
        what = f"{options.train_share} of {len(kept)} requests leaves none to learn from"
        remedy = "give more requests" + (" or a larger share" if len(kept) > 1 else "")
        raise InputError("train_share", what, remedy)
    return _with_past(workload.part(kept[:first]), workload.part(kept[first:]))


def _with_past(past: Workload, rest: Workload) -> tuple[Workload, Workload]:
    """Return past and remaining requests, the past ones as history of the others."""
    return past, replace(rest, history=past if len(past) else None)


def _of_outputs(workload: Workload, options: EvaluationOptions) -> IntArray:
    """Return the indices of requests with outputs in the given range; at least one."""
    least, most = options.min_output or 1, options.max_output
    kept = workload.output_tokens >= least
    if most is not None:
        kept &= workload.output_tokens <= most
    if not kept.any():
        what = f"no request has {least} to {'any' if most is None else most} output tokens"
        raise InputError(workload.name, what, "widen min_output and max_output")
    return np.flatnonzero(kept)


def _points(evaluated: Workload, how: EvaluationOptions) -> Walk:
    tokens = evaluated.total_output_tokens
    count = tokens // how.every + len(evaluated)
    remedy = "increase every, or use fewer requests"
    require_memory(_POINT_BYTES * count, "every", f"{count:,} points", remedy)
    return walk(evaluated.output_tokens, how.every, how.max_age)


def _answers(
    asked: CheckedPredictor, evaluated: Workload, points: Walk, look_ahead: int, online: int
) -> Estimates:
    """Estimate all points, group by group of requests; each group's lengths are then revealed."""
    parts = []
    size = online or len(evaluated)
    for begin in range(0, len(evaluated), size):
        turn = np.arange(begin, min(begin + size, len(evaluated)))
        first, last = np.searchsorted(points.requests, (turn[0], turn[-1] + 1))
        for start in range(first, last, _AT_ONCE):
            some = slice(start, min(start + _AT_ONCE, last))
            parts.append(asked.estimate(points.requests[some], points.ages[some], look_ahead))
        if online:
            asked.finished(turn, evaluated.output_tokens[turn])
    return Estimates(*(np.concatenate(stage) for stage in zip(*parts, strict=True)))


def _times(asked: CheckedPredictor, points: Walk, look_ahead: int) -> tuple[float, float]:
    """Return the median time of a call for one request, and per request of a large call [µs]."""
    count = len(points.requests)
    chosen = np.linspace(0, count - 1, _CALLS).astype(np.int64)
    # Spread over the points, because requests predicted in one step have various ages.
    spread = (np.arange(_LARGE) * count) // _LARGE
    large = [(spread + shift) % count for shift in chosen.tolist()]
    small = [chosen[k : k + 1] for k in range(_CALLS)]

    def seconds(which: IntArray) -> float:
        requests, ages = points.requests[which], points.ages[which]
        began = perf_counter()
        # The engine calls `remaining`; some predictors implement it as a table look-up.
        asked.remaining(requests, ages, look_ahead)
        return perf_counter() - began

    return median(map(seconds, small)) * 1e6, median(map(seconds, large)) / _LARGE * 1e6


def _mean(values: FloatArray | IntArray) -> float | None:
    return float(values.mean()) if len(values) else None


def _root_mean_square(errors: FloatArray | IntArray) -> float:
    return float(np.sqrt(np.mean(np.square(errors, dtype=np.float64))))


def _by_age(
    points: Walk, look_ahead: int, probability: FloatArray, stage_2: FloatArray, errors: FloatArray
) -> Iterator[AgeBin]:
    """Yield the results for ages 0..9, 10..19, 20..49, and so on, where points occur."""
    edges = _edges(int(points.ages.max()))
    place = np.searchsorted(edges, points.ages, side="right") - 1
    for k, lower in enumerate(edges[:-1].tolist()):
        own = np.flatnonzero(place == k)
        if not len(own):
            continue
        positive = points.remaining[own] <= look_ahead
        yield AgeBin(
            lower=lower,
            upper=int(edges[k + 1]),
            points=len(own),
            base_rate=float(positive.mean()),
            auc=roc_auc(probability[own], positive),
            conditional_mae=_mean(stage_2[own][positive]),
            composite_mae=float(errors[own].mean()),
        )


def _edges(oldest: int) -> IntArray:
    edges, scale = [0], 10
    while edges[-1] <= oldest:
        edges += [mantissa * scale for mantissa in _MANTISSAS]
        scale *= 10
    return np.array(edges)
