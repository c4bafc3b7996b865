"""Improve and close library entries with all methods; only verified results are kept."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.library.methods import METHODS, Found, Limits, tried
from bfio.common.provenance import version_and_commit
from bfio.library.kind import Value
from bfio.library.store import BestKnown, Entry, Origin, Status, entries, write_best
from formulations.errors import InputError

#: Limit on the processor time to verify a certificate, because `bfio library verify` checks all
#: [s].
MOST_SECONDS = 60.0
#: Packages named with their version in the origin of results, by method.
_PACKAGES = {"cp-sat": "ortools", "highs": "highspy"}


@dataclass(frozen=True)
class Hand:
    """Verified solution, bound and claim of an entry, each with its origin.

    Parameters
    ----------
    entry : Entry
        The entry.
    solution : tuple, optional
        Objective, fields and origin.
    proof : tuple, optional
        Certified bound, certificate and origin.
    claim : tuple, optional
        Claimed bound and origin.
    told : tuple of str
        Messages on results that were not taken: claims or certified bounds that a known solution
        refutes (a bug), and certificates that take too long to verify.
    """

    entry: Entry
    solution: tuple[Value, Mapping[str, Any], Origin] | None = None
    proof: tuple[Value, Mapping[str, Any], Origin] | None = None
    claim: tuple[Value, Origin] | None = None
    told: tuple[str, ...] = ()

    @classmethod
    def of(cls, entry: Entry) -> "Hand":
        """Return the results stored in the library."""
        best, certificate = entry.best, entry.certificate
        if best is None or certificate is None:
            return cls(entry)
        has_claim = best.claim is not None and best.claimed_by is not None
        return cls(
            entry,
            (best.objective, best.solution, best.found_by),
            (best.bound, certificate, best.proven_by),
            (best.claim, best.claimed_by) if has_claim else None,  # type: ignore[arg-type]
        )

    def best(self) -> BestKnown | None:
        """Return the best known result for the entry; None without a solution or a bound."""
        if self.solution is None or self.proof is None:
            return None
        objective, fields, found_by = self.solution
        bound, certificate, proven_by = self.proof
        kind = self.entry.kind
        claim, claimed_by = self.claim or (None, None)
        if claim is None or not kind.is_tighter(claim, bound):
            claim = claimed_by = None
        return BestKnown(
            objective, fields, found_by, bound, str(certificate["kind"]), proven_by,
            claim, claimed_by,
        )  # fmt: skip

    def with_found(self, found: Found, by: Origin) -> "Hand":
        """Return the results, updated by those of a method that are verified and better."""
        hand = self.with_solution(found.solution, by)
        for certificate in found.certificates:
            hand = hand.with_certificate(certificate, by)
        return hand.with_claim(found.claim, by)

    def with_solution(self, fields: Mapping[str, Any] | None, by: Origin) -> "Hand":
        """Return the results with a solution, if the checker finds it feasible and better."""
        if fields is None:
            return self
        kind, problem = self.entry.kind, self.entry.problem
        judged = kind.judge(problem, kind.solution(problem, fields))
        known = None if self.solution is None else self.solution[0]
        if judged.violations or not kind.is_better(judged.objective, known):
            return self
        return replace(self, solution=(judged.objective, fields, by)).without_refuted()

    def with_certificate(self, certificate: Mapping[str, Any], by: Origin) -> "Hand":
        """Return the results with a certificate, if the verifier derives a tighter bound."""
        kind = self.entry.kind
        began = time.process_time()
        try:
            bound = kind.certified_bound(self.entry.problem, certificate)
        except InputError:
            return self
        seconds = time.process_time() - began
        known = None if self.proof is None else self.proof[0]
        if not kind.is_tighter(bound, known):
            return self
        if self.solution is not None and kind.is_better(self.solution[0], bound):
            return self.telling(
                f"REFUTED: the verifier derives {bound} from the certificate of {by.method}"
            )
        if seconds > MOST_SECONDS:
            return self.telling(
                f"bound {bound} of {by.method} takes {seconds:.0f} s to verify: not stored"
            )
        return replace(self, proof=(bound, certificate, by))

    def with_claim(self, claim: Value | None, by: Origin) -> "Hand":
        """Return the results with a claimed bound, if it is tighter than the known one."""
        known = None if self.claim is None else self.claim[0]
        if claim is None or not self.entry.kind.is_tighter(claim, known):
            return self
        return replace(self, claim=(claim, by)).without_refuted()

    def without_refuted(self) -> "Hand":
        """Return the results without a claim that the known solution refutes, with a message."""
        if self.claim is None or self.solution is None:
            return self
        if not self.entry.kind.is_better(self.solution[0], self.claim[0]):
            return self
        claim, by = self.claim
        told = f"REFUTED: {by.method} claims the bound {claim}, but a known solution is better"
        return replace(self, claim=None).telling(told)

    def telling(self, line: str) -> "Hand":
        """Return the results with another message."""
        return replace(self, told=(*self.told, f"{self.entry.name}: {line}"))


def improve(
    folder: Path,
    patterns: Sequence[str],
    limits: Limits,
    methods: Sequence[str] = (),
    statuses: Sequence[Status] = (Status.OPEN, Status.CLAIMED),
    say: Callable[[str], None] = print,
) -> int:
    """Improve all selected library entries; return the number of improved ones.

    Files are written after each entry, so that an interrupt loses the work on one entry only.

    Parameters
    ----------
    folder : Path
        Folder of the library.
    patterns : sequence of str
        Names of entries; ``*`` matches any characters.
    limits : Limits
        Limits of each solve.
    methods : sequence of str
        Methods to try; by default all.
    statuses : sequence of Status
        Statuses of the selected entries.
    say : callable
        Takes a line about each entry.
    """
    known = {e.name: e.best for e in entries(folder) if e.best is not None}
    chosen = [
        e
        for e in entries(folder)
        if e.status in statuses and any(fnmatchcase(e.name, p) for p in patterns)
    ]
    changed = 0
    for k, entry in enumerate(chosen):
        hand = _worked_on(entry, limits, methods)
        best = hand.best()
        say(f"{k + 1}/{len(chosen)} {entry.name}: {_told(best)}{' better' * (best != entry.best)}")
        for line in hand.told:
            say(line)
        if best is not None and hand.proof is not None and best != entry.best:
            changed += 1
            known[entry.name] = best
            write_best(folder, known, {entry.name: hand.proof[1]})
    return changed


def merge(folder: Path, other: Path) -> int:
    """Store better results of another library copy; return the number of changed entries."""
    known = {e.name: e.best for e in entries(folder) if e.best is not None}
    elsewhere = {(e.name, e.digest): e for e in entries(other)}
    certificates: dict[str, Mapping[str, Any]] = {}
    for entry in entries(folder):
        theirs = elsewhere.get((entry.name, entry.digest))
        hand = Hand.of(entry) if theirs is None else _merged(Hand.of(entry), Hand.of(theirs))
        best = hand.best()
        if best is not None and hand.proof is not None and best != entry.best:
            known[entry.name] = best
            certificates[entry.name] = hand.proof[1]
    write_best(folder, known, certificates)
    return len(certificates)


def _merged(ours: Hand, theirs: Hand) -> Hand:
    if theirs.solution is not None:
        ours = ours.with_solution(theirs.solution[1], theirs.solution[2])
    if theirs.proof is not None:
        ours = ours.with_certificate(theirs.proof[1], theirs.proof[2])
    return ours if theirs.claim is None else ours.with_claim(*theirs.claim)


def _worked_on(entry: Entry, limits: Limits, methods: Sequence[str]) -> Hand:
    hand = Hand.of(entry)
    kind, problem = entry.kind, entry.problem
    for name, method in METHODS[entry.kind_name].items():
        best = hand.best()
        if best is not None and best.status is Status.CLOSED:
            break
        if methods and name not in methods:
            continue
        hint = None if hand.solution is None else kind.solution(problem, hand.solution[1])
        found = tried(method, problem, limits, hint)
        hand = hand.with_found(found, _origin(name, found))
    return hand


def _origin(name: str, found: Found) -> Origin:
    method = f"{name} ({found.within})" if found.within not in ("", name) else name
    package = next((p for part, p in _PACKAGES.items() if part in method), None)
    rests_on = "" if package is None else f", {package} {version(package)}"
    return Origin(method, version_and_commit() + rests_on)


def _told(best: BestKnown | None) -> str:
    if best is None:
        return "nothing"
    claim = "" if best.claim is None else f", claimed {best.claim}"
    return f"{best.status} {best.objective}, bound {best.bound} ({best.certificate}){claim}"


def take(folder: Path, entry: Entry, fields: Mapping[str, Any], by: str) -> bool:
    """Store a better solution from any source; return whether it was better.

    Parameters
    ----------
    folder : Path
        Folder of the library.
    entry : Entry
        Its entry.
    fields : mapping
        The solution as JSON.
    by : str
        Name of the finder and the method.
    """
    names = ("assignment", "starts", "workers", "routing", "thresholds")
    fields = {name: fields[name] for name in names if name in fields}
    hand = Hand.of(entry).with_solution(fields, Origin(by, version_and_commit()))
    best = hand.best()
    if best is None or best == entry.best:
        return False
    known = {e.name: e.best for e in entries(folder) if e.best is not None}
    write_best(folder, known | {entry.name: best}, {})
    return True
