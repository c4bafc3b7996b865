"""Work limits: the effort of a solve, in units that are equal on every machine.

The unit is the *tick*, about a microsecond on one core of 2023. Seconds depend on the machine and
its load. Ticks depend on the problem alone, so that the same command stops at the same point on
every machine. Definition of a tick for each method:

- our own exact search counts operations (cells of tables, swaps, pivots, nodes, each phase with
  its own constant), 1,000 per tick, and checks the limit before each piece of work;
- CP-SAT counts its own deterministic seconds, 2,000,000 ticks each, with one worker;
- HiGHS counts nodes of its tree, 5,000 ticks each, or iterations of the simplex, 50 ticks each,
  if the program is continuous. Presolve, cuts, heuristics and the iterations at a node are not
  limited, so the root node may take much longer than the limit suggests;
- solvers driven by Pyomo are limited by nodes if the option is known (`SCIP`, `HiGHS`), or by
  Gurobi's own units of work, and refused otherwise;
- the two-stage heuristic and brute force ignore the limit and count no ticks.

Stating and writing a program counts no ticks.
"""

from formulations.scalars import integer

#: Ticks of a solve in runs, gaps and studies unless another limit is given: about a second.
DEFAULT_WORK_LIMIT = 1_000_000
#: Largest accepted limit; no search reaches it.
MAX_WORK_LIMIT = 10**15

#: Operations of our own search per tick.
OPERATIONS = 1_000
#: Ticks per deterministic second of CP-SAT.
CP_SAT_SECOND = 2_000_000
#: Ticks per node of a solver's tree, and per simplex iteration.
NODE = 5_000
ITERATION = 50
#: Ticks per Gurobi work unit, about a second.
GUROBI_UNIT = 1_000_000


def checked_work_limit(value: object, where: str = "work_limit") -> int | None:
    """Return a validated limit in ticks; None means no limit.

    Raises
    ------
    InputError
        If it is no integer from 0 to `MAX_WORK_LIMIT`.
    """
    return None if value is None else integer(value, where, maximum=MAX_WORK_LIMIT)


def work_limit_beside(time_limit: float | None, work_limit: int | None) -> int | None:
    """Return the work limit of runs, gaps and studies: the default if no limit is given."""
    if work_limit is None and time_limit is None:
        return DEFAULT_WORK_LIMIT
    return work_limit


def count_within(work_limit: int, ticks: int) -> int:
    """Return how many nodes or iterations of ``ticks`` each a limit allows, capped at 31 bits."""
    return min(work_limit // ticks, 2**31 - 1)
