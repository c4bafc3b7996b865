"""One decode step: the exact method, the two-stage heuristic, and `solve_step` for all solvers."""
