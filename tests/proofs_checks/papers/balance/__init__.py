"""Tests of the parts of the claims on BF-IO."""
