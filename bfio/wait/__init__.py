"""Simulate one engine of the fluid-guided scheduling paper: WAIT, Nested WAIT, baselines."""
