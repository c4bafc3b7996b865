"""Tests of the predictors of output lengths, and of their evaluation."""
