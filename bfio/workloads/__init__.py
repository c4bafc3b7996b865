"""Workloads: trace readers and writers, generators, and their statistics."""

from bfio.workloads.adversarial import Lengths, jsq_bad, round_robin_bad
from bfio.workloads.arrival_times import ArrivalTimes
from bfio.workloads.arrivals import (
    ArrivalProcess,
    Diurnal,
    GammaRenewal,
    MarkovModulated,
    OnOff,
    Poisson,
    Surges,
)
from bfio.workloads.generators import generate, resample, with_arrivals
from bfio.workloads.lengths import (
    Empirical,
    Geometric,
    Homogeneous,
    LengthDistribution,
    Lognormal,
    Uniform,
)
from bfio.workloads.overload import (
    is_overloaded,
    overload_violations,
    overloaded,
    overloaded_steps,
)
from bfio.workloads.pmf import read_pmf
from bfio.workloads.reader import detect_format, read_trace
from bfio.workloads.request_columns import RequestColumns, TimeColumn, TimeText
from bfio.workloads.statistics import describe
from bfio.workloads.synthetic_workloads import synthetic, synthetic_names
from bfio.workloads.trace_format import Layout, RequestRow, Row, TraceFormat
from bfio.workloads.trace_formats import formats
from bfio.workloads.workload import Workload
from bfio.workloads.writer import write_trace

__all__ = [
    "ArrivalProcess", "ArrivalTimes", "Diurnal", "Empirical", "GammaRenewal", "Geometric",
    "Homogeneous", "Layout", "LengthDistribution", "Lengths", "Lognormal", "MarkovModulated",
    "OnOff", "Poisson", "RequestColumns", "RequestRow", "Row", "Surges", "TimeColumn", "TimeText",
    "TraceFormat", "Uniform", "Workload", "describe", "detect_format", "formats", "generate",
    "is_overloaded", "jsq_bad", "overload_violations", "overloaded", "overloaded_steps",
    "read_pmf", "read_trace", "resample", "round_robin_bad", "synthetic", "synthetic_names",
    "with_arrivals", "write_trace",
]  # fmt: skip
