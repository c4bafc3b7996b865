"""One engine of the fluid-guided scheduling paper: WAIT, Nested WAIT, their baselines."""
