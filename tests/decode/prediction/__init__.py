"""Tests of the length predictors."""
