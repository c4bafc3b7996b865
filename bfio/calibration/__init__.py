"""Fit the constants of the step-time model to measured steps, and measure steps of a GPU."""
