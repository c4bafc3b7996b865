"""The regret of decisions, step by step, and its distribution over a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.common.text import number
from formulations.results import data_frame, html_table
from formulations.scalars import percent

if TYPE_CHECKING:
    from bfio.common.figure_style import ShownFigure
    from formulations.step import StepProblem

#: The rule by which `keep_worst` selects the steps to keep.
RULE = "largest objective minus bound, steps without a bound first; of equals the earliest"
#: Columns of tables: two over the proven steps, one over all that were solved.
COLUMNS = ("same number admitted", "full use of slots", "certified gap, every step")


@dataclass(frozen=True)
class StepRegret:
    """One decision against the optimum of its step.

    Objectives are scaled by ``GapReport.scale``; None where no bound or solution was found.

    Parameters
    ----------
    step : int
        Decode step.
    waiting, admitted : int
        Number of requests waiting, and of those that the policy admitted.
    objective : int
        Objective of the decision.
    optimum : int or None
        Least objective with the same number of admissions, if proven.
    bound : int or None
        Best proven lower bound on that objective; always given by `measure_gap`.
    full_use_optimum : int or None
        Least objective if every slot that can be filled is filled, if proven.
    seconds : float
        Time of the solve [s].
    ticks : int or None
        Ticks of the solve (`formulations.deadline`); None if they are not counted.
    is_clocked : bool
        Whether the time limit left an optimum unproven. The result may then differ on another
        machine.
    """

    step: int
    waiting: int
    admitted: int
    objective: int
    optimum: int | None
    bound: int | None
    full_use_optimum: int | None
    seconds: float
    ticks: int | None = None
    is_clocked: bool = False

    @property
    def regret(self) -> int | None:
        """Regret: objective minus optimum; None if the optimum is unproven."""
        return None if self.optimum is None else self.objective - self.optimum

    @property
    def regret_at_most(self) -> int | None:
        """Certified gap: objective minus bound, an upper bound on the regret."""
        return None if self.bound is None else self.objective - self.bound

    @property
    def full_use_regret(self) -> int | None:
        """Objective minus the optimum with full use of slots; negative where refusing pays."""
        return None if self.full_use_optimum is None else self.objective - self.full_use_optimum


@dataclass(frozen=True)
class KeptStep:
    """A step of a run, kept with its program and its regret.

    Parameters
    ----------
    problem : StepProblem
        Program of the step, with the number of admissions fixed to that of the decision.
    decision : tuple of (int or None)
        Decision of the policy.
    row : StepRegret
        Measurements of the step.
    """

    problem: StepProblem
    decision: tuple[int | None, ...]
    row: StepRegret


def keep_worst(kept: list[KeptStep], step: KeptStep, count: int) -> None:
    """Keep a step if it is among the ``count`` steps with the largest possible regret.

    Steps without a bound come first, then steps by decreasing objective minus bound (the regret if
    the optimum is proven). Ties go to the earlier step.
    """

    def rank(one: KeptStep) -> float:
        at_most = one.row.regret_at_most
        return -inf if at_most is None else -at_most

    kept.append(step)
    # The sort is stable: among equal steps the earliest stays in front.
    kept.sort(key=rank)
    del kept[count:]


@dataclass(frozen=True, repr=False)
class GapReport:
    """The regret of a policy's decisions.

    Parameters
    ----------
    rows : tuple of StepRegret
        One per solved decision.
    num_decisions : int
        Decisions taken; more than ``rows`` if only every n-th was solved.
    scale : int
        Factor by which the objectives of the rows are scaled, due to a fractional discount.
    unseen : tuple of str
        One sentence per schedule of the run of which no event took place.
    """

    rows: tuple[StepRegret, ...]
    num_decisions: int
    scale: int = 1
    unseen: tuple[str, ...] = ()

    def __repr__(self) -> str:
        proven = len(self.regrets())
        return f"<GapReport: {proven:,} of {len(self.rows):,} solved steps proven>"

    def to_frame(self) -> Any:
        """Return the solved steps as a data frame of pandas; objectives are scaled."""
        return data_frame([_document(row) for row in self.rows])

    def plot(self, label: str = "regret") -> ShownFigure:
        """Draw the distribution of the regret over the steps not decided optimally."""
        from matplotlib.ticker import MaxNLocator

        from bfio.common.figure_style import styled

        regrets = np.array(self.regrets(), dtype=np.float64) / self.scale
        positive = regrets[regrets > 0]
        with styled(7, 3.4) as (figure, axes):
            if len(positive):
                edges = np.geomspace(positive.min(), positive.max() * 1.0001, 40)
                axes.hist(positive, bins=edges.tolist(), color="C0")
                axes.set_xscale("log")
            share = percent(float(np.mean(regrets == 0)) if len(regrets) else 0.0)
            proven = f"{share} of {len(regrets)} proven steps decided optimally; the others:"
            axes.set(title=f"{label}: {proven}")
            axes.set(xlabel="regret: objective minus optimum [tokens]", ylabel="steps")
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        return figure

    def _repr_html_(self) -> str:
        """Return the distribution of the regret as a table, for notebooks."""
        kinds = (self.regrets(), self.full_use_regrets(), self.certified_gaps())
        parts = [self._distribution(regrets) for regrets in kinds]
        show = {"share_optimal": percent}
        names = ("count", "share_optimal", "mean", "median", "p95", "p99", "max")
        rows = [(name, *(show.get(name, number)(part[name]) for part in parts)) for name in names]
        head = ("regret per step [tokens]", *COLUMNS)
        return html_table(head, rows, f"{self!r}")

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document: counts, distribution of the regret, and the rows.

        Regrets, objectives and optima are in tokens, summed over the look-ahead window with the
        discount weights. The two means are over the proven steps; certified gaps are over all
        steps.
        """
        proven = [row for row in self.rows if row.optimum is not None]
        worst = max(
            proven, key=lambda row: (row.objective - (row.optimum or 0), -row.step), default=None
        )
        unproven = [row.regret_at_most for row in self.rows if row.optimum is None]
        return {
            "decisions": self.num_decisions,
            "solved": len(self.rows),
            "proven": len(proven),
            "unproven": len(self.rows) - len(proven),
            "proven_share": _share(len(proven), len(self.rows)),
            "scale": self.scale,
            "regret_per_step": self._distribution(self.regrets()),
            "regret_per_step_full_use": self._distribution(self.full_use_regrets()),
            "unproven_regret_at_most": self._distribution(
                [most for most in unproven if most is not None]
            ),
            "certified_gap_per_step": self._distribution(self.certified_gaps()),
            "relative_certified_gap": self.relative_certified_gap(),
            "objective_mean": _spread([row.objective / self.scale for row in proven])["mean"],
            "optimum_mean": _spread([(row.optimum or 0) / self.scale for row in proven])["mean"],
            "worst_step": None if worst is None else worst.step,
            "solve_seconds": _spread([row.seconds for row in self.rows]),
            "solve_ticks": _spread([row.ticks for row in self.rows if row.ticks is not None]),
            "clocked": sum(row.is_clocked for row in self.rows),
            "rows": [_document(row) for row in self.rows],
        }

    def regrets(self) -> list[int]:
        """Return the scaled regret of every proven step, in order."""
        return [row.regret for row in self.rows if row.regret is not None]

    def full_use_regrets(self) -> list[int]:
        """Return the scaled regret against full use of slots, where proven."""
        return [row.full_use_regret for row in self.rows if row.full_use_regret is not None]

    def certified_gaps(self) -> list[int]:
        """Return the scaled certified gap of every solved step, with a proven optimum or not."""
        return [row.regret_at_most for row in self.rows if row.regret_at_most is not None]

    def relative_certified_gap(self) -> float | None:
        """Return the sum of certified gaps over that of objectives; None if the latter is 0."""
        bounded = [row for row in self.rows if row.bound is not None]
        return _share(sum(self.certified_gaps()), sum(row.objective for row in bounded))

    def _distribution(self, regrets: list[int]) -> dict[str, float | int | None]:
        """Describe the distribution of regrets in tokens; None for each value without any."""
        optimal = sum(regret == 0 for regret in regrets)
        return _spread([regret / self.scale for regret in regrets]) | {
            "share_optimal": _share(optimal, len(regrets))
        }


def _document(row: StepRegret) -> dict[str, Any]:
    return asdict(row) | {"regret": row.regret, "certified_gap": row.regret_at_most}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return count, mean, quantiles and extremes; None if there are no values."""
    names = ("mean", "median", "p95", "p99", "min", "max")
    if not values:
        return {"count": 0, **dict.fromkeys(names)}
    numbers = (float(np.mean(values)), *np.percentile(values, (50, 95, 99)).tolist())
    extremes = min(values), max(values)
    return {"count": len(values), **dict(zip(names, (*numbers, *extremes), strict=True))}
