"""Phases of the exact method that can be skipped, for ablation studies."""

from collections.abc import Collection, Iterable
from enum import StrEnum

from formulations.errors import InputError, use_one_of
from formulations.problem_data import shown


class Phase(StrEnum):
    """Phases that may be skipped; docs/exact.md describes them.

    Without a phase, a solve proves less or takes longer, but its proofs are still valid.
    ``branches`` exists for every problem, ``refits``, ``margins`` and ``worker-sums`` for problems
    without a one-dimensional core (docs/windows.md), all others for those with one.
    """

    SUMS = "sums"
    REFILLS = "refills"
    PRICES = "prices"
    BRANCHES = "branches"
    REBALANCING = "rebalancing"
    PACKING_PRICES = "packing-prices"
    ENUMERATION = "enumeration"
    REFITS = "refits"
    MARGINS = "margins"
    WORKER_SUMS = "worker-sums"


def skipped_phases(names: Iterable[str]) -> Collection[Phase]:
    """Return the phases of these names.

    Raises
    ------
    InputError
        If there is no such phase.
    """
    known = [phase.value for phase in Phase]
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError("skip", f"{shown(names)} is not a list of names", use_one_of("", known))
    names = list(names)
    for name in names:
        if name not in known:
            raise InputError(f"phase {name!r}", "unknown", use_one_of(name, known))
    return frozenset(Phase(name) for name in names)
