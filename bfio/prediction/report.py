"""What an evaluation found: one predictor, one window, one trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bfio.common.number_text import number
from bfio.common.provenance import version_and_commit
from bfio.decode.option_kinds import LOOK_AHEAD
from bfio.prediction.measures import CalibrationBin
from bfio.prediction.options import EvaluationOptions
from formulations.arrays import FloatArray
from formulations.frames import data_frame, html_paragraphs, html_table

if TYPE_CHECKING:
    from bfio.decode.plots import ShownFigure

#: Fields that documents call by the option that sets them.
_KEYS = {"look_ahead": LOOK_AHEAD}
#: Columns of tables: value, heading.
COLUMNS = {
    "points": "points",
    "base_rate": "base\nrate",
    "auc": "AUC",
    "brier": "Brier",
    "brier_base_rate": "of base\nrate",
    "calibration_error": "calib.\nerror",
    "conditional_mae": "stage-2\nMAE",
    "conditional_mae_constant": "of a\nconstant",
    "composite_mae": "comp.\nMAE",
    "composite_mae_none": "MAE of\nH always",
    "composite_rmse": "comp.\nRMSE",
    "composite_rmse_none": "RMSE of\nH always",
    "gate_open_share": "gate\nopen",
    "call_us": "call\n[µs]",
    "request_us": "of 64\n[µs]",
}


@dataclass(frozen=True)
class AgeBin:
    """The points of an evaluation whose age lies in a bin; see `PredictorReport`.

    Parameters
    ----------
    lower, upper : int
        Ages ``lower <= a < upper`` [tokens].
    points : int
        Points in it.
    base_rate : float
        Share of them that end within the window.
    auc, conditional_mae : float, optional
        As of all points; None where undefined.
    composite_mae : float
        As of all points.
    """

    lower: int
    upper: int
    points: int
    base_rate: float
    auc: float | None
    conditional_mae: float | None
    composite_mae: float


@dataclass(frozen=True, repr=False)
class PredictorReport:
    """How good a predictor is on a trace.

    A point is a request at an age; r are its remaining steps, and it is positive if ``r <= H``.

    Parameters
    ----------
    predictor : str
        Its name.
    look_ahead : int
        ``H``.
    requests : str
        The requests, in words.
    options : EvaluationOptions
        How it was evaluated.
    trained_on, evaluated_on : int
        Requests of the history and of the evaluation.
    points : int
        Points of the evaluation.
    base_rate : float
        Share of positive points, c.
    auc : float, optional
        Stage 1: area under the ROC curve of p̂; None if there is one class only.
    brier, brier_base_rate : float
        Stage 1: mean ``(p̂ - [r <= H])²``, and that of the constant c, ``c(1 - c)``.
    calibration_error : float
        Mean distance of stated and true frequencies over the bins of ``calibration``.
    conditional_mae, conditional_mae_constant : float, optional
        Stage 2: mean ``|μ̂ - r|`` over the positive points, where ``μ̂`` counts as H if p̂ = 0, and
        the least that one constant for all of them could have [steps]; None without positives.
    composite_mae, composite_mae_none : float
        Mean ``|ŷ - min(r, H)|`` of the composite ``ŷ`` (eq. 6), and that of ``ŷ = H`` [steps].
    composite_rmse, composite_rmse_none : float
        Roots of mean squares of the same [steps]. ``ŷ`` estimates a mean, which has the least
        squares; the least absolute error belongs to the median, which is H where few end.
    gated_mae : float
        The same of what the engine takes: gated, rounded up.
    gate_open_share : float
        Share of points with ``p̂ >= 1/2``.
    call_us, request_us : float
        Median time of a call about one request, and per request of calls about 64 [µs].
    calibration : sequence of CalibrationBin
        Stated and true frequencies.
    by_age : sequence of AgeBin
        Parts of the points.
    roc : tuple of FloatArray, optional
        False and true positive rates, see `bfio.prediction.measures.roc_curve`.
    """

    predictor: str
    look_ahead: int
    requests: str
    options: EvaluationOptions
    trained_on: int
    evaluated_on: int
    points: int
    base_rate: float
    auc: float | None
    brier: float
    brier_base_rate: float
    calibration_error: float
    conditional_mae: float | None
    conditional_mae_constant: float | None
    composite_mae: float
    composite_mae_none: float
    composite_rmse: float
    composite_rmse_none: float
    gated_mae: float
    gate_open_share: float
    call_us: float
    request_us: float
    calibration: Sequence[CalibrationBin]
    by_age: Sequence[AgeBin]
    roc: tuple[FloatArray, FloatArray] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        auc = "undefined" if self.auc is None else number(self.auc)
        return (
            f"<PredictorReport of {self.predictor}, H = {self.look_ahead}: AUC {auc}, "
            f"conditional MAE {number(self.conditional_mae)}, {self.points:,} points>"
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return it as a plain document: all but the ROC curve."""
        options = {name: _plain(value) for name, value in asdict(self.options).items()}
        own = {_KEYS.get(k, k): v for k, v in vars(self).items() if k not in ("options", "roc")}
        bins = {k: [asdict(entry) for entry in own[k]] for k in ("calibration", "by_age")}
        return own | options | bins | {"remarks": self.remarks()}

    def to_frame(self) -> Any:
        """Return its numbers by age as a data frame of pandas, a line per bin.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        own = {"predictor": self.predictor, LOOK_AHEAD: self.look_ahead}
        return data_frame([own | asdict(entry) for entry in self.by_age])

    def plot(self) -> ShownFigure:
        """Return ROC curve, calibration and errors by age."""
        from bfio.prediction.plots import evaluation_figure

        return evaluation_figure([self])

    def _repr_html_(self) -> str:
        line = [self.predictor, *cells(self.to_mapping())]
        heading = [f"predictor (H = {self.look_ahead})", *COLUMNS.values()]
        return html_table(heading, [line], self.settings) + html_paragraphs(self.remarks())

    @property
    def settings(self) -> str:
        """One line: requests, split, walk, what is told, version."""
        told = self.options
        parts = [
            self.requests,
            f"{self.trained_on:,} learned from, {self.evaluated_on:,} evaluated",
            f"outputs {_range(told)}" if told.min_output or told.max_output else "",
            f"asked every {told.every} tokens",
            "" if told.max_age is None else f"up to age {told.max_age:,}",
            f"told lengths of each {told.online:,} requests" if told.online else "told no lengths",
            version_and_commit(),
        ]
        return ", ".join(filter(None, parts))

    def remarks(self) -> list[str]:
        """Return what a reader of the numbers might not expect, a sentence each."""
        if self.auc is not None:
            return []
        which = "every point ends" if self.base_rate else "no point ends"
        return [
            f"{self.predictor}, H = {self.look_ahead}: the AUC is undefined, as {which} within "
            f"the window; another --{LOOK_AHEAD} or more varied outputs would define it."
        ]


def cells(document: Mapping[str, Any]) -> list[str]:
    """Return the texts of `COLUMNS`."""
    return [number(document[name], 3 if name != "points" else 4) for name in COLUMNS]


def _range(told: EvaluationOptions) -> str:
    most = "" if told.max_output is None else f" to {told.max_output:,}"
    return f"{told.min_output or 1:,}{most or ' or more'}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else float(value)
