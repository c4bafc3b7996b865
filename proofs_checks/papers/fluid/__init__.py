"""Claims of the paper on fluid-guided scheduling: WAIT and Nested WAIT."""
