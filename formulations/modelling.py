"""Deferred import of Pyomo, for the modules that state programs."""

import logging

import pyomo.environ as pyo

__all__ = ["pyo"]

# Pyomo also logs exceptions that it raises, such as OutOfTime inside a rule.
logging.getLogger("pyomo").setLevel(logging.CRITICAL)
