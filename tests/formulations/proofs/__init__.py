"""Proven results against enumeration, with coefficients up to the limits."""
