"""The offline optimum of barrier-synchronised decoding, with certified bounds."""

from bfio.hindsight.makespan.from_run import RunSchedule, hindsight_of_run
from bfio.hindsight.makespan.solve import list_interval, solve_makespan

__all__ = ["RunSchedule", "hindsight_of_run", "list_interval", "solve_makespan"]
