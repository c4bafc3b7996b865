"""Which of the optima of a step: our own search for the least second objective, and proofs."""
