"""``bfio pause``: decide which active requests run a step, pause or start."""

from bfio.cli.problem_command import problem_command
from bfio.programs import PAUSING

_DESCRIPTION = """\
Decide which active requests run in the next step, which pause (keeping their KV cache), and which
waiting requests start, so that the time per emitted token is least. A step lasts
max_g (C_g + t_g * load of the requests that run on worker g). A paused request emits no token,
keeps its slot and memory, and must run again after "max_pauses" consecutive pauses.

FILE is JSON ("-" reads stdin):

  {"capacity": [1, 0],                            free slots of each worker
   "active": [{"worker": 0, "load": 40},          load: tokens it holds, and adds if it runs
              {"worker": 1, "load": 90, "paused": 2}],   paused: consecutive pauses so far, 0
   "waiting": [30],                               optional: tokens each adds if it starts
   "max_pauses": 3,
   "required": [false],                           optional: waiting ones that must start
   "token_capacity": [100, 100],                  optional: most tokens of each worker
   "step_overhead": "0.0048875",                  optional: C [s], exact, or one per worker
   "token_time": "1.0052490234375e-7"}            optional: t [s/token], or one per worker

  bfio pause step.json
  bfio pause step.json --method heuristic --json
  bfio pause step.json --write step.lp                    (docs/exchange.md)

The answer gives an action for each active request (keep, pause, resume, or stay: paused again) and
the frozen workers, which run no request. The ratio, time per token, is exact; "optimal" means that
it equals a bound derived in integers. exact: bfio's own method, with CP-SAT for open cases;
heuristic: takes milliseconds, no bound; cp-sat, highs, pyomo[:SOLVER]: a sequence of integer
programs at decreasing prices per token; brute-force: enumeration for a few requests; lp: the bound
of the linear relaxation.
"""

COMMAND = problem_command(
    "pause",
    "decide which active requests run, pause or start, for the least time per token",
    _DESCRIPTION,
    kind=PAUSING,
    file="workers, active and waiting requests (.json)",
    methods="exact (default), heuristic, cp-sat, highs, pyomo[:SOLVER], brute-force, "
    "lp (bound only)",
)
