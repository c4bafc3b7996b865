"""An independent check of a run: replay the record of each request and compare.

Nothing here uses the engine. From when and where each request ran, loads, counts and durations
are computed anew, and every rule of the model is tested on its own.
"""

from bfio.decode.replay.check import rules, run_violations
from bfio.decode.replay.profiles import profile, total_work

__all__ = ["profile", "rules", "run_violations", "total_work"]
