"""Tables of docs/library.md, generated from the library."""

from collections.abc import Sequence

from bfio.common.number_text import percent
from bfio.common.table_text import TextTable
from bfio.library import Entry, Status, entries
from bfio.library.kinds.kind import value_text


def library_tables() -> dict[str, str]:
    """Return the Markdown tables by name."""
    known = entries()
    return {
        "library-families": _families(known),
        "library-open": _open([e for e in known if e.status is Status.OPEN]),
        "library-settled": _settled([e for e in known if e.status is not Status.OPEN]),
    }


def _families(known: Sequence[Entry]) -> str:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for e in known:
        groups.setdefault((e.kind_name, e.family), []).append(e)
    lines = []
    for (kind, family), of in sorted(groups.items(), key=lambda item: _order(item[0])):
        counts = [sum(e.status is status for e in of) for status in Status]
        worst = max((e.best.gap for e in of if e.best is not None), default=None)
        lines.append([kind, family, str(len(of)), *map(str, counts), percent(worst)])
    total = [sum(e.status is status for e in known) for status in Status]
    lines.append(["all", "", str(len(known)), *map(str, total), ""])
    heading = ["kind", "family", "entries", "closed", "claimed", "open", "largest gap"]
    return _table(heading, lines, words=2)


def _order(group: tuple[str, str]) -> tuple[int, str]:
    kinds = list(dict.fromkeys(e.kind_name for e in entries()))
    return kinds.index(group[0]), group[1]


def _open(known: Sequence[Entry]) -> str:
    lines = []
    for e in known:
        best = e.best
        values = (None, None, None) if best is None else (best.objective, best.bound, best.claim)
        gap = percent(None if best is None else best.gap)
        by = "" if best is None else best.found_by.method
        lines.append([e.name, by, *(value_text(value, e.scale) for value in values), gap])
    heading = ["open", "found by", "best known", "proven bound", "claimed bound", "gap"]
    return _table(heading, lines, words=2)


def _settled(known: Sequence[Entry]) -> str:
    lines = []
    for e in known:
        best = e.best
        assert best is not None
        proof = f"{best.certificate}, by {best.proven_by.method}"
        if e.status is Status.CLAIMED:
            assert best.claimed_by is not None
            proof = f"claimed by {best.claimed_by.method}; {proof}"
        values = [value_text(value, e.scale) for value in (best.objective, best.bound)]
        lines.append([e.name, proof, *values])
    return _table(["closed or claimed", "certificate", "best known", "proven bound"], lines, 2)


def _table(heading: Sequence[str], lines: Sequence[Sequence[str]], words: int) -> str:
    return TextTable("", heading, lines, words=words).markdown().strip() + "\n"
