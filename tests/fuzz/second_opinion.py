"""Verify answers that claim to be optimal by enumeration, if that is cheap."""

import json
from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.case import Case
from tests.fuzz.oracle import Finding
from tests.fuzz.process import Outcome, run
from tests.fuzz.surface import surface_of

#: Seconds that enumeration may take; problems that need more go unchecked.
_SECONDS = 2.0
_ENUMERATION = "brute-force"


def disagreements(case: Case, outcome: Outcome) -> Iterator[Finding]:
    """Yield what enumeration says against an optimum that a command claims to have proven."""
    answer = _answer(case, outcome)
    if answer is None:
        return
    again = replace(case, argv=(*_without_limit(case.argv), "--method", _ENUMERATION))
    other = run(again, soft_s=_SECONDS)
    if other.status not in (0, 3) or other.interrupt_s is not None:
        return
    enumerated = json.loads(other.out)
    fields = ("termination", "objective", "scale")
    told, truth = ([d.get(field) for field in fields] for d in (answer, enumerated))
    if told != truth:
        yield Finding("wrong optimum", f"{told} where enumeration finds {truth}")


def _answer(case: Case, outcome: Outcome) -> dict[str, object] | None:
    """Return the answer of a command that solves one problem, if it claims a proof."""
    surface = surface_of(case.argv)
    if surface is None or outcome.status not in (0, 3) or "--json" not in case.argv:
        return None
    if not (surface.option("--method") and surface.positionals) or "--" in case.argv:
        return None
    try:
        answer = json.loads(outcome.out)
    except ValueError:
        return None
    proven = answer.get("termination") in ("optimal", "infeasible")
    return answer if proven and answer.get("method") != _ENUMERATION else None


def _without_limit(argv: tuple[str, ...]) -> list[str]:
    """Return the words without limits of work: enumeration has its own."""
    kept, skip = [], False
    for word in argv:
        if not skip and word not in ("--time-limit", "--work-limit"):
            kept += [] if word.startswith(("--time-limit=", "--work-limit=")) else [word]
        skip = word in ("--time-limit", "--work-limit") and not skip
    return kept
