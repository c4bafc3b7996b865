"""Prediction of output lengths: predictors, and how good they are (BalanceRoute, appendix C)."""
