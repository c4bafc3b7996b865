"""Predictors of output lengths, one module each."""
