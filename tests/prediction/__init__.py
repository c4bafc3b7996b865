"""Tests of the evaluation of predictors."""
