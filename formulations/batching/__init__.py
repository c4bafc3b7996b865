"""Engines with a token budget, and networks of engines: data of the throughput-optimal paper."""

from formulations.batching.batch_time import BatchTime, RateCheck
from formulations.batching.network import (
    Agent,
    AgentNetwork,
    Route,
    Stage,
    fork_join,
    multi_type,
    rybko_stolyar,
    single_engine,
)

__all__ = [
    "Agent",
    "AgentNetwork",
    "BatchTime",
    "RateCheck",
    "Route",
    "Stage",
    "fork_join",
    "multi_type",
    "rybko_stolyar",
    "single_engine",
]
