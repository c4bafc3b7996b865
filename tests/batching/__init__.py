"""Tests of token-budget engines and networks of agents."""
