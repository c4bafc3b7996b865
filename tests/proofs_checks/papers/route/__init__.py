"""Tests of the parts of the claims on BalanceRoute."""
