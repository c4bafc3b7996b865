"""Optima in hindsight: everything that will arrive is known."""
