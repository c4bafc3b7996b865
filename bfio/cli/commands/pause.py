"""``bfio pause``: which active requests run a step, which pause, and which waiting ones start."""

from bfio.cli.problem_command import problem_command
from bfio.programs import PAUSING

_DESCRIPTION = """\
Which active requests should run the next step, which pause (their cache kept), and which waiting
ones start, so that the time per token emitted is least? A step lasts as long as the worker that
needs most, max_g (C_g + t_g * load of what runs on g); a paused request emits nothing, keeps slot
and memory, and must run again after "max_pauses" pauses in a row.

FILE is JSON ("-" reads stdin):

  {"capacity": [1, 0],                            free slots of each worker
   "active": [{"worker": 0, "load": 40},          load: tokens it holds, and adds if it runs
              {"worker": 1, "load": 90, "paused": 2}],   paused: steps in a row until now, 0
   "waiting": [30],                               optional: tokens each adds if it starts
   "max_pauses": 3,
   "required": [false],                           optional: waiting ones that must start
   "token_capacity": [100, 100],                  optional: most tokens of each worker
   "step_overhead": "0.0048875",                  optional: C [s], exact, or one per worker
   "token_time": "1.00524902e-7"}                 optional: t [s/token], or one per worker

  bfio pause step.json
  bfio pause step.json --method heuristic --json

The answer names an action for each active request: keep, pause, resume, or stay (paused again),
and the workers that are frozen. Its ratio is exact; "optimal" means that a bound derived in
integers equals it. exact: ours, with CP-SAT for what it leaves open; heuristic: milliseconds, no
bound; cp-sat, highs, pyomo[:SOLVER]: integer programs at ever lower prices of tokens; brute-force:
a few requests.
"""

COMMAND = problem_command(
    "pause",
    "which active requests run a step, so that the time per token is least",
    _DESCRIPTION,
    kind=PAUSING,
    file="workers, active and waiting requests (.json)",
    methods="exact (default), heuristic, cp-sat, highs, pyomo[:SOLVER], brute-force",
)
