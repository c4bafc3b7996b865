"""Simulate engines with a token budget, alone and in networks of agents; time is in slots."""
