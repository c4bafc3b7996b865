"""Workloads: trace readers and writers, generators of requests, and statistics."""

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
    read_pmf,
)
from bfio.workloads.overload import (
    Lengths,
    is_overloaded,
    jsq_bad,
    overload_violations,
    overloaded,
    overloaded_steps,
    round_robin_bad,
)
from bfio.workloads.request_data import ArrivalTimes
from bfio.workloads.statistics import describe
from bfio.workloads.synthetic_workloads import synthetic, synthetic_names
from bfio.workloads.trace_file import detect_format, read_trace, write_trace
from bfio.workloads.trace_format import (
    Layout,
    RequestColumns,
    RequestRow,
    Row,
    TimeColumn,
    TimeText,
    TraceFormat,
)
from bfio.workloads.trace_formats import formats
from bfio.workloads.workload import Workload

__all__ = [
    "ArrivalProcess", "ArrivalTimes", "Diurnal", "Empirical", "GammaRenewal", "Geometric",
    "Homogeneous", "Layout", "LengthDistribution", "Lengths", "Lognormal", "MarkovModulated",
    "OnOff", "Poisson", "RequestColumns", "RequestRow", "Row", "Surges", "TimeColumn", "TimeText",
    "TraceFormat", "Uniform", "Workload", "describe", "detect_format", "formats", "generate",
    "is_overloaded", "jsq_bad", "overload_violations", "overloaded", "overloaded_steps",
    "read_pmf", "read_trace", "resample", "round_robin_bad", "synthetic", "synthetic_names",
    "with_arrivals", "write_trace",
]  # fmt: skip
