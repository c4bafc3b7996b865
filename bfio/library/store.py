"""The library on disk: entries, each a frozen problem with its best known solution and bound.

Problems never change; best known values do. ``index.json`` lists every entry, one per line.
``problems/NAME.json.xz`` is its problem. ``best-known.json`` has a line of solution and values per
entry. ``certificates/NAME.json.xz`` is the proof of the bound, if it has more than its kind.
``sources.json`` lists the data from which problems were made.

Verification uses no solver: the digest of the problem is recomputed, the checker of the problem
recomputes the objective of the solution, and the verifier of certificates recomputes the bound.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from bfio.common.files import write_file
from bfio.library.kind import (
    Value,
    canonical,
    digest_of,
    lines_text,
    packed,
    read_packed,
    read_plain,
    read_value,
    written_value,
)
from bfio.library.kinds import KINDS, Kind
from formulations.errors import InputError, check_known, did_you_mean
from formulations.problem_data import check_keys, check_list, parse_json


class Status(StrEnum):
    """Solution status of a problem."""

    #: A certificate proves that the best known solution is optimal.
    CLOSED = "closed"
    #: A method claims optimality, but without a certificate.
    CLAIMED = "claimed"
    #: Optimality is neither certified nor claimed.
    OPEN = "open"


@dataclass(frozen=True)
class Origin:
    """The origin of a solution or bound.

    Parameters
    ----------
    method : str
        A method of `bfio`, or a person with a solver.
    version : str
        Version of the method, with the commit.
    """

    method: str
    version: str

    @classmethod
    def from_mapping(cls, document: object, where: str) -> "Origin":
        """Read an origin from a JSON object."""
        fields = check_keys(document, where, ("method", "version"))
        return cls(str(fields["method"]), str(fields["version"]))

    def to_mapping(self) -> dict[str, str]:
        """Return what `from_mapping` reads."""
        return {"method": self.method, "version": self.version}


@dataclass(frozen=True)
class BestKnown:
    """The best known solution and bounds of a problem.

    Parameters
    ----------
    objective : int or Fraction
        Objective of the solution, in the scale of the problem.
    solution : mapping
        Fields of the solution, as in the answer of the command.
    found_by : Origin
        Origin of the solution.
    bound : int or Fraction
        Bound that the certificate proves.
    certificate : str
        Kind of the certificate.
    proven_by : Origin
        Origin of the certificate.
    claim : int or Fraction, optional
        A tighter bound that a method derived in integers without a certificate.
    claimed_by : Origin, optional
        Origin of the claim; present iff there is a claim.
    """

    objective: Value
    solution: Mapping[str, Any] = field(repr=False)
    found_by: Origin
    bound: Value
    certificate: str
    proven_by: Origin
    claim: Value | None = None
    claimed_by: Origin | None = None

    @property
    def status(self) -> Status:
        """Status by comparing the objective with bound and claim."""
        if self.objective == self.bound:
            return Status.CLOSED
        return Status.CLAIMED if self.objective == self.claim else Status.OPEN

    @property
    def gap(self) -> float:
        """Difference of objective and certified bound, relative to the larger one."""
        larger = Fraction(max(self.objective, self.bound))
        distance = abs(Fraction(self.objective) - Fraction(self.bound))
        return float(distance / larger) if larger else 0.0

    @classmethod
    def from_mapping(cls, document: object, where: str) -> "BestKnown":
        """Read the output of `to_mapping`.

        Raises
        ------
        InputError
            If a field is invalid; the message names it.
        """
        required = ("objective", "solution", "found_by", "bound", "certificate", "proven_by")
        fields = check_keys(document, where, required, ("claim", "claimed_by"))
        if ("claim" in fields) != ("claimed_by" in fields):
            what = "lacks claimed_by"
            raise InputError(f"{where}.claim", what, "give claim and claimed_by, or neither")
        read: dict[str, Any] = {**fields, "certificate": str(fields["certificate"])}
        origins = {"objective": "found_by", "bound": "proven_by", "claim": "claimed_by"}
        for value, by in origins.items():
            if value in fields:
                read[value] = read_value(fields[value], f"{where}.{value}")
                read[by] = Origin.from_mapping(fields[by], f"{where}.{by}")
        return cls(**read)

    def to_mapping(self) -> dict[str, Any]:
        """Return the object as JSON."""
        document = {
            "objective": written_value(self.objective),
            "bound": written_value(self.bound),
            "certificate": self.certificate,
            "found_by": self.found_by.to_mapping(),
            "proven_by": self.proven_by.to_mapping(),
            "solution": dict(self.solution),
        }
        if self.claim is not None and self.claimed_by is not None:
            document["claim"] = written_value(self.claim)
            document["claimed_by"] = self.claimed_by.to_mapping()
        return document


@dataclass(frozen=True)
class Entry:
    """One problem of the library.

    Parameters
    ----------
    name : str
        Name of the entry; it never changes.
    kind_name : str
        A name of `bfio.library.kinds.KINDS`.
    family : str
        Family of problems in tables.
    about : str
        Origin of the problem, in one line.
    source : str
        Name of the source data, see `sources`.
    digest : str
        First 16 hexadecimal digits of the hash of the problem document.
    folder : Path
        Folder of its files.
    best : BestKnown, optional
        Best known solution and bound; None only before the first computation.
    """

    name: str
    kind_name: str
    family: str
    about: str
    source: str
    digest: str
    folder: Path = field(repr=False)
    best: BestKnown | None = None

    @property
    def kind(self) -> Kind:
        """The kind of problem, which reads, checks and verifies it."""
        check_known(f"{self.name}.kind", self.kind_name, KINDS)
        return KINDS[self.kind_name]

    @property
    def status(self) -> Status:
        """Solution status."""
        return Status.OPEN if self.best is None else self.best.status

    @cached_property
    def document(self) -> Any:
        """The problem as JSON, in the input format of the commands."""
        return read_packed(self.folder / "problems" / f"{self.name}.json.xz")

    @cached_property
    def problem(self) -> Any:
        """The problem data, validated."""
        return self.kind.read(self.document)

    @property
    def scale(self) -> int:
        """Number of units of objective and bound per unit of the problem."""
        return self.kind.scale(self.problem)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The document that proves the bound; None before the first computation."""
        if self.best is None:
            return None
        path = self.folder / "certificates" / f"{self.name}.json.xz"
        # A certificate with only its kind has no file.
        if not path.exists():
            return {"kind": self.best.certificate}
        document: Mapping[str, Any] = read_packed(path)
        return document


#: Version of the set of problems: it grows in whole versions; existing problems never change.
VERSION = 2
#: Folder of the library in the package.
DATA = Path(__file__).parent / "data"
_FIELDS = ("name", "kind", "family", "about", "source", "digest")


@dataclass(frozen=True)
class Source:
    """Source data of problems.

    Parameters
    ----------
    title, licence, attribution, changes : str
        Title of the data, licence, required attribution, and changes made.
    """

    title: str
    licence: str
    attribution: str
    changes: str


def entries(folder: Path = DATA) -> tuple[Entry, ...]:
    """Return all entries in their order.

    Raises
    ------
    InputError
        If a file is missing or damaged; the message names it.
    """
    return tuple(_read(folder).values())


def entry(name: str, folder: Path = DATA) -> Entry:
    """Return one entry.

    Raises
    ------
    InputError
        If there is no entry with this name.
    """
    known = _read(folder)
    if name not in known:
        remedy = f"{did_you_mean(name, known)}see bfio library list"
        raise InputError(name, "the library has no such entry", remedy)
    return known[name]


def sources(folder: Path = DATA) -> dict[str, Source]:
    """Return the source data of the problems, by name."""
    document = read_plain(folder / "sources.json")
    return {name: Source(**fields) for name, fields in document.items()}


def write_problem(folder: Path, made: Entry, document: Any) -> None:
    """Write the problem of a new entry.

    Raises
    ------
    InputError
        If the entry exists with another problem, since problems are frozen.
    """
    if digest_of(document) != made.digest:
        raise InputError(made.name, "the problem of this entry has changed", "use another name")
    _write(folder / "problems" / f"{made.name}.json.xz", packed(document))


def write_index(folder: Path, all_entries: Iterable[Entry]) -> None:
    """Write the names, digests and descriptions of all entries."""
    values = [(e.name, e.kind_name, e.family, e.about, e.source, e.digest) for e in all_entries]
    lines = [json.dumps(dict(zip(_FIELDS, each, strict=True))) for each in values]
    text = lines_text({"version": VERSION}, "entries", lines)
    _write(folder / "index.json", text.encode())


def write_best(
    folder: Path, best: Mapping[str, BestKnown], certificates: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the best known values of all entries, and the changed certificates."""
    for name, certificate in certificates.items():
        path = folder / "certificates" / f"{name}.json.xz"
        if set(certificate) == {"kind"}:
            path.unlink(missing_ok=True)
        else:
            _write(path, packed(certificate))
    lines = [
        f"{json.dumps(name)}: {canonical(known.to_mapping())}" for name, known in best.items()
    ]
    text = lines_text({"version": VERSION}, "best", lines)
    _write(folder / "best-known.json", text.encode())
    _read.cache_clear()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)


@lru_cache(maxsize=4)
def _read(folder: Path) -> dict[str, Entry]:
    lines = check_list(_versioned(folder / "index.json", "entries"), "entries")
    path = folder / "best-known.json"
    best = _versioned(path, "best") if path.exists() else {}
    found = {}
    for k, line in enumerate(lines):
        fields = check_keys(line, f"entries[{k}]", _FIELDS)
        name, kind, family, about, source, digest = (fields[each] for each in _FIELDS)
        known = None if name not in best else BestKnown.from_mapping(best[name], name)
        found[name] = Entry(name, kind, family, about, source, digest, folder, known)
    return found


def _versioned(path: Path, name: str) -> Any:
    document = check_keys(read_plain(path), str(path), ("version", name))
    if document["version"] != VERSION:
        what = f"version {document['version']}, not {VERSION}"
        raise InputError(str(path), what, "use the version of bfio that contains these files")
    return document[name]


@dataclass(frozen=True)
class Verdict:
    """Result of verifying an entry.

    Parameters
    ----------
    name : str
        Name of the entry.
    status : Status
        Status according to the entry; valid only without faults.
    faults : tuple of str
        Faults found; empty if there are none.
    is_certified : bool
        Whether the bound was recomputed.
    seconds : float
        Wall-clock time.
    """

    name: str
    status: Status
    faults: tuple[str, ...]
    is_certified: bool
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether all values of the entry were confirmed."""
        return not self.faults


@dataclass(frozen=True)
class SolutionVerdict:
    """Evaluation of an external solution.

    Parameters
    ----------
    name : str
        Name of the entry.
    objective : int or Fraction, optional
        Recomputed objective; None if the solution is infeasible.
    violations : mapping
        Violated constraints and the amounts.
    best_known : int or Fraction, optional
        Best known objective.
    is_better : bool
        Whether the solution is better than the best known one.
    closes : bool
        Whether it equals the certified bound, so that it is optimal.
    """

    name: str
    objective: Value | None
    violations: Mapping[str, Value]
    best_known: Value | None
    is_better: bool
    closes: bool


def verify(entry: Entry, *, bounds: bool = True) -> Verdict:
    """Check the digest, the solution and the bound of an entry.

    Parameters
    ----------
    entry : Entry
        Entry to check.
    bounds : bool
        Whether the bound is recomputed, which takes most of the time.
    """
    began = time.perf_counter()
    faults: list[str] = []
    is_certified = False
    try:
        if digest_of(entry.document) != entry.digest:
            faults.append("digest: the problem differs from the frozen problem")
        elif entry.best is None:
            faults.append("best known: no solution and bound are stored")
        else:
            faults += _faults_of_solution(entry, entry.best)
            faults += _contradictions(entry, entry.best)
            if bounds:
                faults += _faults_of_bound(entry, entry.best)
                is_certified = True
    except InputError as error:
        faults.append(str(error))
    seconds = time.perf_counter() - began
    return Verdict(entry.name, entry.status, tuple(faults), is_certified and not faults, seconds)


def check_solution(entry: Entry, document: Mapping[str, Any]) -> SolutionVerdict:
    """Check whether a solution of an entry is feasible and better than the best known one.

    Parameters
    ----------
    entry : Entry
        The problem.
    document : mapping
        JSON answer of the command with ``--json``, or the fields of a solution.

    Raises
    ------
    InputError
        If the document has no solution of the right shape.
    """
    judged = entry.kind.judge(entry.problem, entry.kind.solution(entry.problem, document))
    best = entry.best
    feasible = not judged.violations
    return SolutionVerdict(
        name=entry.name,
        objective=judged.objective if feasible else None,
        violations=judged.violations,
        best_known=None if best is None else best.objective,
        is_better=feasible
        and entry.kind.is_better(judged.objective, None if best is None else best.objective),
        closes=feasible and best is not None and judged.objective == best.bound,
    )


def check_solution_text(entry: Entry, text: str) -> SolutionVerdict:
    """Check a file: a JSON answer, or another solver's solution of the MPS or LP file.

    Raises
    ------
    InputError
        If the file has no solution of the right shape.
    """
    from formulations.exchange import judge, parse_solution

    if text.lstrip()[:1] in ("{", "["):
        return check_solution(entry, parse_json(text))
    program = entry.kind.program(entry.problem)
    if program is None:
        what, remedy = "has no MPS or LP file", "give the JSON answer of a command"
        if entry.kind.fluid_program:
            what = "is checked here by JSON answers only"
            remedy = f"use {entry.kind.command} {entry.name}.json --read-solution FILE"
        raise InputError("solution", f"kind {entry.kind_name} {what}", remedy)
    result = judge(program, parse_solution(text)).result
    if result.violations or result.solution is None:
        known = None if entry.best is None else entry.best.objective
        return SolutionVerdict(entry.name, None, result.violations, known, False, False)
    fields = {name: list(getattr(result, name)) for name in result.solution_fields}
    return check_solution(entry, fields)


def _faults_of_solution(entry: Entry, best: BestKnown) -> list[str]:
    judged = entry.kind.judge(entry.problem, entry.kind.solution(entry.problem, best.solution))
    faults = [f"solution: violates {name} by {by}" for name, by in judged.violations.items()]
    if judged.objective != best.objective:
        faults.append(f"solution: its objective is {judged.objective}, not {best.objective}")
    return faults


def _contradictions(entry: Entry, best: BestKnown) -> list[str]:
    """Return the bounds that the best known solution contradicts."""
    bounds = {"bound": best.bound, "claim": best.claim}
    return [
        f"{name}: {value} is refuted by the solution of {best.objective}"
        for name, value in bounds.items()
        if value is not None and entry.kind.is_better(best.objective, value)
    ]


def _faults_of_bound(entry: Entry, best: BestKnown) -> list[str]:
    certificate = entry.certificate
    assert certificate is not None
    if certificate.get("kind") != best.certificate:
        return [f"certificate: its kind is {certificate.get('kind')}, not {best.certificate}"]
    derived = entry.kind.certified_bound(entry.problem, certificate)
    if entry.kind.is_tighter(best.bound, derived):
        return [f"bound: the certificate proves {derived}, not {best.bound}"]
    return []
