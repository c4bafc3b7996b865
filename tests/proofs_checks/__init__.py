"""Tests of the executable audit."""
