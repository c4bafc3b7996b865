"""What may be believed of a backend's answer: the rules every program's solve shares."""

import math
from dataclasses import replace

from formulations.backends import Outcome
from formulations.results import BoundKind, Termination

#: What a `lower_bound` of ours is called where it proves an answer.
COMBINATORIAL = "a combinatorial bound, derived in integers"


def trusted_outcome(outcome: Outcome, known: int | None) -> Outcome:
    """Return what a backend left, without the claims that a checked solution refutes.

    Parameters
    ----------
    outcome : Outcome
        What the backend said.
    known : int, optional
        Least objective of the checked solutions in hand, whoever found them.

    Returns
    -------
    Outcome
        A word that there is no solution stands only where it counts as proven, and none is known.
        A bound above a known objective is dropped, and the details say so.
    """
    in_integers = outcome.bound_kind is BoundKind.INTEGER
    if outcome.termination is Termination.INFEASIBLE and not (in_integers and known is None):
        outcome = replace(outcome, termination=Termination.FAILED, bound=None)
        if known is None:
            return outcome
    elif not in_integers or known is None or outcome.bound is None or outcome.bound <= known:
        return outcome
    return replace(outcome, bound=None, details={**outcome.details, "refuted": True})


def trusted_bound(outcome: Outcome, own: int, objective: int | None) -> tuple[int, BoundKind]:
    """Return the best lower bound in hand.

    Parameters
    ----------
    outcome : Outcome
        What the backend said.
    own : int
        A bound of ours, derived in integers.
    objective : int, optional
        Objective of the checked solution.

    Returns
    -------
    tuple of int and BoundKind
        A float bound only where it claims more than integers prove.
    """
    if outcome.bound is None:
        return own, BoundKind.INTEGER
    if outcome.bound_kind is BoundKind.INTEGER:
        return max(own, int(outcome.bound)), BoundKind.INTEGER
    slack = 1e-6 * max(1.0, abs(outcome.bound))
    claimed = math.ceil(outcome.bound - slack)
    if objective is not None:
        claimed = min(claimed, objective)
    if claimed <= own:
        return own, BoundKind.INTEGER
    return claimed, BoundKind.FLOAT


def proof_of(outcome: Outcome, bound: int, own: int) -> str:
    """Return what proves an answer: a backend's bound, or one of ours that is as good.

    Parameters
    ----------
    outcome : Outcome
        What the backend said.
    bound : int
        The best bound in hand, see `trusted_bound`.
    own : int
        Our bound.
    """
    name = str(outcome.details.get("confirmed_by") or name_of(outcome))
    if outcome.termination is Termination.INFEASIBLE:
        return f"{name}, which finds no solution"
    if bound == own:
        return COMBINATORIAL
    return f"the bound of {name}, derived in integers"


def name_of(outcome: Outcome) -> str:
    """Return name and version of the solver."""
    return f"{outcome.details.get('name')} {outcome.details.get('version')}"


def is_proven(objective: int | None, bound: int, kind: BoundKind) -> bool:
    """Return whether an objective meets a bound that integers prove."""
    return objective is not None and objective == bound and kind is BoundKind.INTEGER


def trusted_termination(
    said: Termination, *, proven: bool, broken: bool, always_feasible: bool = False
) -> Termination:
    """Return what a solve may call itself.

    Parameters
    ----------
    said : Termination
        The backend's word.
    proven : bool
        Whether the objective meets an integer bound, see `is_proven`.
    broken : bool
        Whether the checker refused the solution.
    always_feasible : bool
        Whether every problem of the program has a solution, so that "infeasible" is an error.
    """
    if broken or (always_feasible and said is Termination.INFEASIBLE):
        return Termination.FAILED
    if proven:
        return Termination.OPTIMAL
    # A float solver's "optimal" is only its word.
    return Termination.FEASIBLE if said is Termination.OPTIMAL else said
