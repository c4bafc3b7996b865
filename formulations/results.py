"""What a solver run says: why it stopped, and what it left in hand. Two axes, never mixed."""

from enum import StrEnum


class Termination(StrEnum):
    """Why a run stopped, and how much of its answer is proven."""

    #: The objective, recomputed in integers, equals a bound that integers prove.
    OPTIMAL = "optimal"
    #: A checked solution without such a proof (a heuristic, or a float solver that finished).
    FEASIBLE = "feasible"
    #: No solution exists.
    INFEASIBLE = "infeasible"
    #: The time limit struck; a solution may or may not be in hand.
    TIME_LIMIT = "time_limit"
    #: The solver gave up for another reason, kept in the solver details.
    FAILED = "failed"


class BoundKind(StrEnum):
    """How far a bound can be trusted."""

    #: Derived in integer arithmetic.
    INTEGER = "integer"
    #: Reported by a floating-point solver, subject to its tolerances.
    FLOAT = "float"


class TieRule(StrEnum):
    """Which of several equally good solutions is returned."""

    #: The smallest in arrival order, lower workers first, waiting last.
    LEXICOGRAPHIC = "lexicographic"
    #: Oldest request first, then lowest worker, as the heuristic meets them.
    OLDEST_FIRST = "oldest-first"
    #: Whichever the solver met first.
    BACKEND = "backend"
