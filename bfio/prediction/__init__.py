"""Prediction of output lengths: predictors and their evaluation (BalanceRoute, appendix C)."""
