"""The phases of the exact method that a solve can do without, for ablation studies."""

from collections.abc import Collection, Iterable
from enum import StrEnum

from formulations.errors import InputError, use_one_of


class Phase(StrEnum):
    """What may be skipped; docs/exact.md says what each does.

    Without one of them a solve proves less or takes longer. What it proves is as valid as ever.
    They are those of problems with a one-dimensional core; others have none (docs/windows.md).
    """

    LEVEL = "level"
    FIRST_PLACEMENT = "first-placement"
    FIRST_SWAPS = "first-swaps"
    SUMS = "sums"
    PRICES = "prices"
    LATER_SWAPS = "later-swaps"
    NEAR_BEST = "near-best"
    BRANCHES = "branches"
    DIVES = "dives"
    REPLACEMENTS = "replacements"
    REBALANCING = "rebalancing"
    REFILLS = "refills"
    PACKING_PRICES = "packing-prices"
    RESTART = "restart"
    ENUMERATION = "enumeration"


def skipped_phases(names: Iterable[str]) -> Collection[Phase]:
    """Return the phases of these names.

    Raises
    ------
    InputError
        If there is no such phase.
    """
    known = [phase.value for phase in Phase]
    for name in names:
        if name not in known:
            raise InputError(f"phase {name!r}", "unknown", use_one_of(name, known))
    return frozenset(Phase(name) for name in names)
