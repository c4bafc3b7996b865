"""Engines with a token budget, and networks of engines: data of the throughput-optimal paper."""

from formulations.batching.batch_time import BatchTime, RateCheck
from formulations.batching.examples import fork_join, multi_type, rybko_stolyar, single_engine
from formulations.batching.network import Agent, AgentNetwork, Route, Stage

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
