"""Scheduling and load balancing in LLM serving: policies, exact solvers, simulators, studies."""
