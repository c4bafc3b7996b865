"""Work: how much a solve may do, counted so that every machine counts alike.

The unit is the *tick*, about a microsecond on one core of 2023. Seconds depend on the machine and
on what else runs there; ticks depend on the problem alone, so that the same command stops at the
same place everywhere. What a tick is to each method:

- our own exact search counts operations (cells of tables, swaps, pivots, nodes, each phase with
  its own constant), 1,000 to a tick, and looks at the sum before each next piece of work;
- CP-SAT counts deterministic seconds of its own, 2,000,000 ticks each, with one worker;
- HiGHS counts nodes of its tree, 5,000 ticks each, or iterations of the simplex, 50 ticks each,
  if the program is continuous. Presolve, cuts, heuristics and the iterations at a node are not
  limited, so that the root may take far more seconds than the limit has ticks;
- solvers of Pyomo's are limited by nodes where we know the option (`SCIP`, `HiGHS`), or by
  Gurobi's own units of work, and refused otherwise;
- the two-stage heuristic and brute force are never stopped, and count nothing.

Statements and forms are written before work is counted.
"""

from formulations.scalars import integer

#: Ticks of a solve in runs, gaps and studies unless another limit is given: about a second.
DEFAULT_WORK_LIMIT = 1_000_000
#: Largest limit: no search comes near.
MAX_WORK_LIMIT = 10**15

#: Operations of our own search to a tick.
OPERATIONS = 1_000
#: Ticks to a deterministic second of CP-SAT.
CP_SAT_SECOND = 2_000_000
#: Ticks to a node of a solver's tree, and to an iteration of the simplex.
NODE = 5_000
ITERATION = 50
#: Ticks to Gurobi's unit of work, about a second.
GUROBI_UNIT = 1_000_000


def checked_work_limit(value: object, where: str = "work_limit") -> int | None:
    """Return a limit in ticks, None for none.

    Raises
    ------
    InputError
        If it is no integer from 0 to `MAX_WORK_LIMIT`.
    """
    return None if value is None else integer(value, where, maximum=MAX_WORK_LIMIT)


def work_limit_beside(time_limit: float | None, work_limit: int | None) -> int | None:
    """Return the work limit of runs, gaps and studies: the default unless any limit is given."""
    if work_limit is None and time_limit is None:
        return DEFAULT_WORK_LIMIT
    return work_limit


def count_within(work_limit: int, ticks: int) -> int:
    """Return how many nodes or iterations of so many ticks a limit allows, in 31 bits."""
    return min(work_limit // ticks, 2**31 - 1)
