"""Thresholds of WAIT and Nested WAIT as integer programs, and the memory that they need."""

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
    drift_exponent,
    group_buffers,
    largest_batch_count,
    safety_buffer,
)
from formulations.thresholds.cheapest import cheapest_thresholds
from formulations.thresholds.check import (
    nested_violations,
    threshold_violations,
    time_varying_violations,
    wait_violations,
)
from formulations.thresholds.conditions import ThresholdProblem, batch_time, policy_memory
from formulations.thresholds.least import brute_force, least_thresholds
from formulations.thresholds.nested_problem import NestedProblem
from formulations.thresholds.prompt_group import PromptGroup
from formulations.thresholds.result import SegmentResult, ThresholdResult
from formulations.thresholds.segment_solver import solve_segments
from formulations.thresholds.segments import (
    SegmentPlan,
    best_plan,
    equal_boundaries,
    equal_plans,
    plan,
)
from formulations.thresholds.solver import ThresholdProgram, solve
from formulations.thresholds.time_varying import TimeVaryingProblem
from formulations.thresholds.wait_problem import WaitProblem

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
