"""Tests of the decode engine."""
