"""Tests of the machine: compiled runs against interpreted ones, its operations on arrays."""
