"""The entries of the library as files: problems never change, best known values do.

``index.json`` names every entry, one line each; ``problems/NAME.json.xz`` holds its problem;
``best-known.json`` one line of solution and values; ``certificates/NAME.json.xz`` what proves the
bound, where it is more than a word; ``sources.json`` whose data the problems were made from.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from bfio.library.files import canonical, digest_of, lines_text, packed, read_plain
from bfio.library.record import BestKnown, Entry
from bfio.workloads.files import atomic_file
from formulations.documents import check_keys, check_list
from formulations.errors import InputError, did_you_mean

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
