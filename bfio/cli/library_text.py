"""What ``bfio library`` prints of entries and verdicts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bfio.library import Entry, SolutionVerdict, Verdict

STATUSES = ("closed", "claimed", "open")
#: Columns of `listing`.
LISTED = ("name", "status", "best known", "proven bound", "gap", "found by", "certificate, by")


def counts(chosen: "list[Entry]") -> str:
    """Return in a line how many entries are closed, claimed and open."""
    number = {status: sum(e.status.value == status for e in chosen) for status in STATUSES}
    return (
        f"{len(chosen)} entries: {number['closed']} closed, {number['claimed']} claimed "
        f"but not certified, {number['open']} open"
    )


def listing(chosen: "list[Entry]") -> list[list[str]]:
    """Return the lines of a table of entries; columns are `LISTED`."""
    from bfio.common.number_text import percent
    from bfio.library.files import value_text

    rows = []
    for e in chosen:
        best = e.best
        if best is None:
            rows.append([e.name, e.status.value, *["–"] * 5])
            continue
        values = [value_text(value, e.scale) for value in (best.objective, best.bound)]
        by = f"{best.certificate}, {best.proven_by.method}"
        cells = [*values, percent(best.gap), best.found_by.method, by]
        rows.append([e.name, e.status.value, *cells])
    return rows


def summary(e: "Entry") -> dict[str, Any]:
    """Return an entry without problem, solution and certificate."""
    from bfio.library import sources

    known = None if e.best is None else e.best.to_mapping()
    if known is not None:
        del known["solution"]
    source = sources()[e.source]
    return {
        "name": e.name,
        "kind": e.kind_name,
        "command": e.kind.command,
        "family": e.family,
        "about": e.about,
        "source": {"title": source.title, "licence": source.licence},
        "digest": e.digest,
        "status": e.status.value,
        "unit": e.kind.unit,
        "scale": e.scale,
        "gap": None if e.best is None else e.best.gap,
        "best_known": known,
    }


def verified(verdicts: "list[Verdict]", seconds: float) -> dict[str, Any]:
    """Return what verifying found as JSON."""
    from bfio.library import VERSION

    return {
        "version": VERSION,
        "sound": all(verdict.is_sound for verdict in verdicts),
        "certified": sum(verdict.is_certified for verdict in verdicts),
        "seconds": seconds,
        "entries": [
            {
                "name": verdict.name,
                "status": verdict.status.value,
                "sound": verdict.is_sound,
                "faults": list(verdict.faults),
                "seconds": verdict.seconds,
            }
            for verdict in verdicts
        ],
    }


def verified_lines(chosen: "list[Entry]", verdicts: "list[Verdict]", seconds: float) -> list[str]:
    """Return what verifying found; claims without certificates are counted apart."""
    faults = [
        f"NOT VERIFIED {verdict.name}: {fault}" for verdict in verdicts for fault in verdict.faults
    ]
    claims: dict[str, int] = {}
    for e in chosen:
        if e.status.value == "claimed" and e.best is not None and e.best.claimed_by is not None:
            claims[e.best.claimed_by.method] = claims.get(e.best.claimed_by.method, 0) + 1
    told = [f"claimed by {method}, not certified: {n}" for method, n in sorted(claims.items())]
    certified = sum(verdict.is_certified for verdict in verdicts)
    slowest = max(verdicts, key=lambda verdict: verdict.seconds)
    return [
        *faults,
        counts(chosen),
        *told,
        f"{len(verdicts) - sum(not v.is_sound for v in verdicts)} of {len(verdicts)} sound; "
        f"{certified} bounds derived again from the problem data in {seconds:.1f} s "
        f"(longest {slowest.seconds:.1f} s, {slowest.name})",
    ]


def judged(verdict: "SolutionVerdict") -> dict[str, Any]:
    """Return what a solution is worth as JSON."""
    from bfio.library.files import written_value

    def told(value: Any) -> Any:
        return None if value is None else written_value(value)

    return {
        "name": verdict.name,
        "feasible": verdict.objective is not None,
        "objective": told(verdict.objective),
        "best_known": told(verdict.best_known),
        "better": verdict.is_better,
        "optimal": verdict.closes,
        "violations": {name: told(by) for name, by in verdict.violations.items()},
    }


def judged_lines(e: "Entry", verdict: "SolutionVerdict") -> list[str]:
    """Return what a solution is worth."""
    from bfio.cli.exchange import violated_lines
    from bfio.library.files import value_text

    if verdict.objective is None:
        told = [f"{name} by {by}" for name, by in verdict.violations.items()]
        return [f"{e.name}: infeasible", *violated_lines(told)]
    objective = value_text(verdict.objective, e.scale)
    best = value_text(verdict.best_known, e.scale)
    lines = [f"{e.name}: feasible, objective {objective} {e.kind.unit}, best known {best}"]
    if verdict.closes:
        lines.append("optimal: it meets the certified bound")
    if verdict.is_better:
        lines.append("better than the best known: docs/library.md says how to submit it")
    elif not verdict.closes:
        lines.append("not better than the best known")
    return lines
