"""Routing policies: baselines, BR-0, BR-H, exact BF-IO, and others."""
