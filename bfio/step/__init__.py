"""One decode step: the exact method, the two-stage heuristic, and one door to all solvers."""
