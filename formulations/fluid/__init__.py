"""The fluid model of batched inference: equilibrium, throughput, stability region."""

from typing import TYPE_CHECKING

from formulations.fluid.check import (
    admission_bound,
    admission_price_violations,
    admission_violations,
    limited_bound,
    limited_violations,
    margin_bound,
    margin_violations,
    throughput_of,
    work_of,
)
from formulations.fluid.limited import LimitedProgram, LimitedResult, solve_limited_throughput
from formulations.fluid.problem import (
    Equilibrium,
    FluidObjective,
    FluidProblem,
    FluidWorker,
    RequestClass,
    ServiceLimits,
    equilibrium,
    throughput,
    work_rate,
)
from formulations.fluid.rate_profile import (
    RateProfile,
    SinusoidalRates,
    VaryingRates,
    varying_rates,
)
from formulations.fluid.solver import (
    AdmissionResult,
    EquilibriumProgram,
    EquilibriumResult,
    FluidResult,
    MarginProgram,
    MarginResult,
    ThroughputProgram,
    knapsack,
    solve_equilibrium,
    solve_margin,
    solve_throughput,
)
from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from formulations.fluid.programs import (
        build_equilibrium,
        build_limited_throughput,
        build_margin,
        build_throughput,
    )

__all__ = [
    "AdmissionResult",
    "Equilibrium",
    "EquilibriumProgram",
    "EquilibriumResult",
    "FluidObjective",
    "FluidProblem",
    "FluidResult",
    "FluidWorker",
    "LimitedProgram",
    "LimitedResult",
    "MarginProgram",
    "MarginResult",
    "RateProfile",
    "RequestClass",
    "ServiceLimits",
    "SinusoidalRates",
    "ThroughputProgram",
    "VaryingRates",
    "admission_bound",
    "admission_price_violations",
    "admission_violations",
    "build_equilibrium",
    "build_limited_throughput",
    "build_margin",
    "build_throughput",
    "equilibrium",
    "knapsack",
    "limited_bound",
    "limited_violations",
    "margin_bound",
    "margin_violations",
    "solve_equilibrium",
    "solve_limited_throughput",
    "solve_margin",
    "solve_throughput",
    "throughput",
    "throughput_of",
    "varying_rates",
    "work_of",
    "work_rate",
]

# Stating a program needs Pyomo, which loads at first use.
_STATED = "build_equilibrium build_limited_throughput build_margin build_throughput"
__getattr__, __dir__ = lazy_attributes(__name__, {"formulations.fluid.programs": _STATED})
