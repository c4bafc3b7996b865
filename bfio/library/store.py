"""The library on disk: entries, each a frozen problem and the best that is known of it.

The entries of the library as files: problems never change, best known values do.

``index.json`` names every entry, one line each; ``problems/NAME.json.xz`` holds its problem;
``best-known.json`` one line of solution and values; ``certificates/NAME.json.xz`` what proves the
bound, where it is more than a word; ``sources.json`` whose data the problems were made from.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from bfio.library.files import (
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
from bfio.workloads.tables import atomic_file
from formulations.documents import check_keys, check_list
from formulations.errors import InputError, did_you_mean, use_one_of


class Status(StrEnum):
    """How far a problem is solved."""

    #: A certificate proves that nothing is better than the best known solution.
    CLOSED = "closed"
    #: A method says so, but no certificate: it is believed at most.
    CLAIMED = "claimed"
    #: Neither.
    OPEN = "open"


@dataclass(frozen=True)
class Origin:
    """Who found something.

    Parameters
    ----------
    method : str
        A method of `bfio`, or a person and a solver.
    version : str
        Its version, with the commit.
    """

    method: str
    version: str

    @classmethod
    def from_mapping(cls, document: object, where: str) -> "Origin":
        """Read one."""
        fields = check_keys(document, where, ("method", "version"))
        return cls(str(fields["method"]), str(fields["version"]))

    def to_mapping(self) -> dict[str, str]:
        """Return what `from_mapping` reads."""
        return {"method": self.method, "version": self.version}


@dataclass(frozen=True)
class BestKnown:
    """The best that is known of a problem.

    Parameters
    ----------
    objective : int or Fraction
        Of the solution, scaled as the problem is.
    solution : mapping
        Its fields, as the answer of the command has them.
    found_by : Origin
        Who found it.
    bound : int or Fraction
        What the certificate proves.
    certificate : str
        Its kind.
    proven_by : Origin
        Who found the certificate.
    claim : int or Fraction, optional
        A tighter bound that a method derived in integers but left no certificate of.
    claimed_by : Origin, optional
        That method; present iff there is a claim.
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
        """Whether objective and bound, or claim, meet."""
        if self.objective == self.bound:
            return Status.CLOSED
        return Status.CLAIMED if self.objective == self.claim else Status.OPEN

    @property
    def gap(self) -> float:
        """Distance of objective and certified bound, as a part of the larger one."""
        larger = Fraction(max(self.objective, self.bound))
        distance = abs(Fraction(self.objective) - Fraction(self.bound))
        return float(distance / larger) if larger else 0.0

    @classmethod
    def from_mapping(cls, document: object, where: str) -> "BestKnown":
        """Read what `to_mapping` wrote.

        Raises
        ------
        InputError
            Naming the field.
        """
        required = ("objective", "solution", "found_by", "bound", "certificate", "proven_by")
        fields = check_keys(document, where, required, ("claim", "claimed_by"))
        claimed = "claim" in fields
        if claimed != ("claimed_by" in fields):
            raise InputError(f"{where}.claim", "without its other half", "give both or neither")
        return cls(
            objective=read_value(fields["objective"], f"{where}.objective"),
            solution=fields["solution"],
            found_by=Origin.from_mapping(fields["found_by"], f"{where}.found_by"),
            bound=read_value(fields["bound"], f"{where}.bound"),
            certificate=str(fields["certificate"]),
            proven_by=Origin.from_mapping(fields["proven_by"], f"{where}.proven_by"),
            claim=read_value(fields["claim"], f"{where}.claim") if claimed else None,
            claimed_by=(
                Origin.from_mapping(fields["claimed_by"], f"{where}.claimed_by")
                if claimed
                else None
            ),
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return a JSON document."""
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
        Its name, for ever.
    kind_name : str
        A name of `bfio.library.kinds.KINDS`.
    family : str
        Under what tables count it.
    about : str
        Where it comes from, in a line.
    source : str
        Name of the data it was made from, in `bfio.library.sources`.
    digest : str
        16 hexadecimal digits of the problem document.
    folder : Path
        Where its files are.
    best : BestKnown, optional
        What is known; None only until something was looked for.
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
        """What reads, judges and verifies it."""
        if self.kind_name not in KINDS:
            raise InputError(
                f"{self.name}.kind",
                f"{self.kind_name!r} is unknown",
                use_one_of(self.kind_name, KINDS),
            )
        return KINDS[self.kind_name]

    @property
    def status(self) -> Status:
        """How far it is solved."""
        return Status.OPEN if self.best is None else self.best.status

    @cached_property
    def document(self) -> Any:
        """The problem as JSON: what the commands read."""
        return read_packed(self.folder / "problems" / f"{self.name}.json.xz")

    @cached_property
    def problem(self) -> Any:
        """The problem data, validated."""
        return self.kind.read(self.document)

    @property
    def scale(self) -> int:
        """How many units of objective and bound make one unit of the problem's own."""
        return self.kind.scale(self.problem)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The document that proves the bound; None before anything was looked for."""
        if self.best is None:
            return None
        path = self.folder / "certificates" / f"{self.name}.json.xz"
        # One that holds nothing but its kind has no file.
        if not path.exists():
            return {"kind": self.best.certificate}
        document: Mapping[str, Any] = read_packed(path)
        return document


#: Version of the set of problems: it grows by whole versions, and no problem ever changes.
VERSION = 2
#: The library that comes with the package.
DATA = Path(__file__).parent / "data"
_FIELDS = ("name", "kind", "family", "about", "source", "digest")


@dataclass(frozen=True)
class Source:
    """Whose data problems were made from.

    Parameters
    ----------
    title, licence, attribution, changes : str
        What it is, under which licence it is given on, whom to name, and what was changed.
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
        If a file is missing or damaged, naming it.
    """
    return tuple(_read(folder).values())


def entry(name: str, folder: Path = DATA) -> Entry:
    """Return one entry.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    known = _read(folder)
    if name not in known:
        remedy = f"{did_you_mean(name, known)}see bfio library list"
        raise InputError(name, "no such entry of the library", remedy)
    return known[name]


def sources(folder: Path = DATA) -> dict[str, Source]:
    """Return whose data the problems were made from, by name."""
    document = read_plain(folder / "sources.json")
    return {name: Source(**fields) for name, fields in document.items()}


def write_problem(folder: Path, made: Entry, document: Any) -> None:
    """Write the problem of a new entry.

    Raises
    ------
    InputError
        If the entry exists with another problem: problems are frozen.
    """
    if digest_of(document) != made.digest:
        raise InputError(made.name, "its problem has changed", "give it another name")
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
    """Write the best known of all entries, and the certificates of those that changed."""
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
    with atomic_file(path, overwrite=True) as (stream, _):
        stream.write(content)


@lru_cache(maxsize=4)
def _read(folder: Path) -> dict[str, Entry]:
    lines = check_list(_versioned(folder / "index.json", "entries"), "entries")
    path = folder / "best-known.json"
    best = _versioned(path, "best") if path.exists() else {}
    found = {}
    for k, line in enumerate(lines):
        fields = check_keys(line, f"entries[{k}]", _FIELDS)
        name = fields["name"]
        known = None if name not in best else BestKnown.from_mapping(best[name], name)
        found[name] = Entry(
            name=name,
            kind_name=fields["kind"],
            family=fields["family"],
            about=fields["about"],
            source=fields["source"],
            digest=fields["digest"],
            folder=folder,
            best=known,
        )
    return found


def _versioned(path: Path, name: str) -> Any:
    document = check_keys(read_plain(path), str(path), ("version", name))
    if document["version"] != VERSION:
        what = f"version {document['version']}, not {VERSION}"
        raise InputError(str(path), what, "use the bfio that it came with")
    return document[name]
