"""Tests of gaps to the optimum of a step."""
