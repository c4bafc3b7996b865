"""Tests of what all simulators and commands share."""
