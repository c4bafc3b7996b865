"""Claims of the BalanceRoute paper (online routing by F-scores)."""
