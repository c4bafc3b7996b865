"""Tests of the formulations."""
