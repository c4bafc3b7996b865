"""Secondary objective among the optima of a step: our own search, and proofs."""
