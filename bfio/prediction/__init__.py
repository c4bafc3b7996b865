"""How good predictors of output lengths are, measured on traces (BalanceRoute, appendix C)."""
