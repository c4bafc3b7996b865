"""The hindsight latency program: when to start each request under one KV cache."""

from formulations.hindsight_latency.check import memory_used, total_latency, violations
from formulations.hindsight_latency.problem import Convention, LatencyProblem

__all__ = ["Convention", "LatencyProblem", "memory_used", "total_latency", "violations"]
