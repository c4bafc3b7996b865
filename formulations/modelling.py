"""Pyomo, in which every program is stated; only modules that state programs import this."""

import logging

import pyomo.environ as pyo

__all__ = ["pyo"]

# It also writes to stdout what it raises, such as the end of time within a rule.
logging.getLogger("pyomo").setLevel(logging.CRITICAL)
