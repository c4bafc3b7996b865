"""Thresholds of WAIT and Nested WAIT as integer programs, and their memory requirement."""

from formulations.thresholds.batch_limit import (
    BatchRule,
    batch_limit_thresholds,
    corrected_batch_limit_thresholds,
    nested_batch_limit_thresholds,
    whole_thresholds,
)
from formulations.thresholds.buffer import (
    BufferTarget,
    LogArgument,
    SafetyBuffer,
    cheapest_thresholds,
    drift_exponent,
    group_buffers,
    largest_batch_count,
    safety_buffer,
)
from formulations.thresholds.check import (
    brute_force,
    nested_violations,
    threshold_violations,
    time_varying_violations,
    wait_violations,
)
from formulations.thresholds.conditions import (
    ThresholdProblem,
    batch_time,
    least_thresholds,
    policy_memory,
)
from formulations.thresholds.problem import (
    NestedProblem,
    PromptGroup,
    TimeVaryingProblem,
    WaitProblem,
)
from formulations.thresholds.segments import (
    SegmentPlan,
    best_plan,
    equal_boundaries,
    equal_plans,
    plan,
)
from formulations.thresholds.solver import (
    SegmentResult,
    ThresholdProgram,
    ThresholdResult,
    solve,
    solve_segments,
)

__all__ = [
    "BatchRule",
    "BufferTarget",
    "LogArgument",
    "NestedProblem",
    "PromptGroup",
    "SafetyBuffer",
    "SegmentPlan",
    "SegmentResult",
    "ThresholdProblem",
    "ThresholdProgram",
    "ThresholdResult",
    "TimeVaryingProblem",
    "WaitProblem",
    "batch_limit_thresholds",
    "batch_time",
    "best_plan",
    "brute_force",
    "cheapest_thresholds",
    "corrected_batch_limit_thresholds",
    "drift_exponent",
    "equal_boundaries",
    "equal_plans",
    "group_buffers",
    "largest_batch_count",
    "least_thresholds",
    "nested_batch_limit_thresholds",
    "nested_violations",
    "plan",
    "policy_memory",
    "safety_buffer",
    "solve",
    "solve_segments",
    "threshold_violations",
    "time_varying_violations",
    "wait_violations",
    "whole_thresholds",
]
