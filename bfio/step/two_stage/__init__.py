"""The two-stage F-score heuristic of BalanceRoute, its subset choices and its kernels."""
