"""The answers of the fluid programs, in rationals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from formulations.fluid.objective import FluidObjective
from formulations.fluid.problem import FluidProblem
from formulations.frames import fields_frame
from formulations.results import BoundKind, Solved

_ZERO = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class FluidResult(Solved):
    """Why a solve stopped and what is proven, exactly; None where missing.

    The counterpart of `formulations.results.ProgramResult` for continuous programs, whose values
    are fractions. Here "optimal" means that the value, recomputed in rationals, equals a bound
    that dual prices prove in rationals.

    Parameters
    ----------
    value, bound : Fraction, optional
        Objective of the exact point, and of the exact prices.
    claimed : float, optional
        The objective as a floating-point solver reported it.
    violations : mapping
        What the checker found.
    pivots : int
        Exact pivots that the solver's vertex still needed.
    """

    value: Fraction | None = None
    bound: Fraction | None = None
    claimed: float | None = None
    violations: Mapping[str, Fraction] = field(default_factory=dict)
    pivots: int = 0

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        if self.is_optimal and (self.value is None or self.value != self.bound or self.violations):
            raise ValueError("optimal needs an equal exact bound and a feasible point")

    def to_frame(self) -> Any:
        """Return what it holds of each class, or its figures, as a data frame of pandas."""
        return fields_frame(self)

    @property
    def bound_kind(self) -> BoundKind:
        """How the bound was derived: exactly, if there is one."""
        return BoundKind.FLOAT if self.bound is None else BoundKind.INTEGER


@dataclass(frozen=True, kw_only=True)
class EquilibriumResult(FluidResult):
    """The answer of the equilibrium program; the value is the memory [tokens].

    Parameters
    ----------
    per_stage : tuple of Fraction, optional
        Requests of each class in each of its stages; None if the load has no equilibrium.
    iteration_time : Fraction, optional
        ``ΔT*`` [s].
    farkas : mapping, optional
        Row name to multiplier, proving that there is none.
    """

    per_stage: tuple[Fraction, ...] | None = None
    iteration_time: Fraction | None = None
    farkas: Mapping[str, Fraction] | None = None


@dataclass(frozen=True, kw_only=True)
class AdmissionResult(FluidResult):
    """The answer of the throughput program; the value is in stages or decode tokens per second.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        What the value counts.
    routing : tuple of tuple of Fraction
        Shape (m, G): admitted rates [1/s].
    work_prices : tuple of Fraction
        Length G: worth of one more unit of work per second.
    rate_prices : tuple of Fraction
        Length m: worth of one more request per second of a class.
    work_prices_below : tuple of Fraction, optional
        What one unit less would cost, where it is known; it differs from `work_prices` where the
        throughput has a kink. (`work_prices` of a linear program lie anywhere in between.)
    """

    problem: FluidProblem
    objective: FluidObjective
    routing: tuple[tuple[Fraction, ...], ...]
    work_prices: tuple[Fraction, ...]
    rate_prices: tuple[Fraction, ...]
    work_prices_below: tuple[Fraction, ...] | None = None

    @property
    def admitted(self) -> tuple[Fraction, ...]:
        """``x_j``: admitted rate of each class [1/s]."""
        return tuple(sum(row, _ZERO) for row in self.routing)

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """Admitted share of each class, 0 to 1."""
        pairs = zip(self.admitted, self.problem.classes, strict=True)
        return tuple(x / kind.rate for x, kind in pairs)

    @property
    def memory_prices(self) -> tuple[Fraction, ...]:
        """Throughput that one more token of each worker's memory adds [1/(token s)]."""
        return self._per_token(self.work_prices)

    @property
    def memory_prices_below(self) -> tuple[Fraction, ...] | None:
        """Throughput that one token less would cost, where it is known."""
        below = self.work_prices_below
        return None if below is None else self._per_token(below)

    def _per_token(self, prices: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        pairs = zip(prices, self.problem.workers, strict=True)
        return tuple(price * worker.capacity_per_token for price, worker in pairs)


@dataclass(frozen=True, kw_only=True)
class MarginResult(FluidResult):
    """The answer of the margin program; the value is the largest factor on all rates.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    routing : tuple of tuple of Fraction
        Shape (m, G): rates at the margin [1/s].
    work_prices : tuple of Fraction
        Length G: prices that prove no larger margin exists.
    """

    problem: FluidProblem
    routing: tuple[tuple[Fraction, ...], ...]
    work_prices: tuple[Fraction, ...]

    @property
    def is_stable(self) -> bool:
        """Whether the rates are in the region: all can be served within the memories."""
        return self.value is not None and self.value >= 1

    @property
    def is_critical(self) -> bool:
        """Whether they are on its boundary, where queues grow like the square root of time."""
        return self.value == 1

    @property
    def balanced_routing(self) -> tuple[tuple[Fraction, ...], ...]:
        """The routing at the margin scaled to the rates themselves, each class in full.

        No worker's work exceeds its capacity by more than the factor ``1/margin``.
        """
        # A program may route more of a class than the margin asks for, where there is room.
        factors = [
            kind.rate / sum(row, _ZERO)
            for kind, row in zip(self.problem.classes, self.routing, strict=True)
        ]
        return tuple(
            tuple(factor * rate for rate in row)
            for factor, row in zip(factors, self.routing, strict=True)
        )
