"""Simulate one worker with a KV cache: instances, policies, two engines, and a checker of runs."""
