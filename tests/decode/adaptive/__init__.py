"""Tests of the policy that rehearses its settings."""
