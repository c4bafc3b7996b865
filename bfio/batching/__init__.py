"""Engines with a token budget, in slots: throughput-optimal batching, alone and in networks."""
