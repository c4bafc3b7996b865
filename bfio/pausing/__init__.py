"""Pausing: the fast heuristic for the pausing program, and its exact method."""

from bfio.pausing.heuristic import quick_step
from bfio.pausing.solve import solve_pausing

__all__ = ["quick_step", "solve_pausing"]
