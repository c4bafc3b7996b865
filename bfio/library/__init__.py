"""A library of instances: frozen problems, best known solutions, and certified bounds.

`entries` and `entry` read the library. `verify` recomputes all values from the problem data
without a solver. `check_solution` evaluates an external solution.
"""

from bfio.library.kinds import KINDS, Judged, Kind
from bfio.library.store import (
    VERSION,
    BestKnown,
    Entry,
    Origin,
    SolutionVerdict,
    Source,
    Status,
    Verdict,
    check_solution,
    check_solution_text,
    entries,
    entry,
    sources,
    verify,
)

__all__ = [
    "KINDS",
    "VERSION",
    "BestKnown",
    "Entry",
    "Judged",
    "Kind",
    "Origin",
    "SolutionVerdict",
    "Source",
    "Status",
    "Verdict",
    "check_solution",
    "check_solution_text",
    "entries",
    "entry",
    "sources",
    "verify",
]
