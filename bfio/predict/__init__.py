"""Predictions of how many decode steps a request still needs."""
