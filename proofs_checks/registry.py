"""Find claims in ``proofs_checks.papers``, installed packages, and user files."""

import fnmatch
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import proofs_checks.papers
from bfio.common.plugins import installed, loading
from formulations.errors import InputError, did_you_mean
from formulations.named_objects import is_users, load_object
from proofs_checks.claim import Claim

#: Entry-point group for claims of other packages; an entry names a `Claim` or a sequence.
GROUP = "bfio.claims"
_REMEDY = "correct the module, or remove it"


def claims() -> tuple[Claim, ...]:
    """Return all claims, sorted by id, with numbers in ids compared as numbers.

    Raises
    ------
    InputError
        If two claims have the same id.
    """
    return tuple(claim for _, claim in _all())


def modules() -> dict[str, str]:
    """Return the module or entry point of each claim, by id."""
    return {claim.id: module for module, claim in _all()}


def users_claims(name: str) -> tuple[Claim, ...]:
    """Load the claims of ``module:NAME`` or ``FILE.py:NAME``; NAME is optional.

    Parameters
    ----------
    name : str
        NAME, by default ``CLAIMS``, refers to a `Claim` or a sequence of claims.

    Raises
    ------
    InputError
        If the object cannot be loaded, is not a claim, or has the id of another one.
    """
    whole = f"{name}:CLAIMS" if name.endswith(".py") else name
    found = tuple(_flat(load_object(whole, "claim"), whole))
    taken = {claim.id: "is the id of a built-in claim" for _, claim in _built_in()}
    for claim in found:
        if claim.id in taken:
            raise InputError(whole, f"{claim.id} {taken[claim.id]}", "give yours another id")
        taken[claim.id] = "occurs twice"
    return tuple(replace(claim, named_as=whole) for claim in found)


def named(names: Sequence[str]) -> tuple[Claim, ...]:
    """Return the claims of these ids, patterns (``*theorem*``) or papers; all if none is named.

    Names of user-defined claims (`users_claims`) are allowed too.

    Raises
    ------
    InputError
        If a name is unknown; the error suggests the most similar id.
    """
    own = [claim for name in names if is_users(name) for claim in users_claims(name)]
    others = [name for name in names if not is_users(name)]
    if names and not others:
        return tuple(own)
    return (*_of_project(others), *own)


def _of_project(names: Sequence[str]) -> tuple[Claim, ...]:
    known = claims()
    if not names:
        return known
    ids = {claim.id for claim in known}
    papers = {claim_id.split(".")[0] for claim_id in ids}
    for name in names:
        if name not in ids | papers and not fnmatch.filter(ids, name):
            hint = did_you_mean(name, sorted(ids | papers))
            raise InputError(f"claim {name}", "unknown", f"{hint}bfio check --list shows all ids")
    return tuple(claim for claim in known if any(_is_named(claim.id, name) for name in names))


def _is_named(claim_id: str, name: str) -> bool:
    return claim_id.split(".")[0] == name or fnmatch.fnmatchcase(claim_id, name)


def _all() -> list[tuple[str, Claim]]:
    """Return all claims with their modules, sorted by id."""
    by_id: dict[str, tuple[str, Claim]] = {}
    for module, claim in (*_built_in(), *_installed()):
        if claim.id in by_id:
            raise InputError(f"claim {claim.id}", "occurs twice", "give each its own id")
        by_id[claim.id] = module, claim
    return sorted(by_id.values(), key=lambda pair: _natural(pair[1].id))


def _built_in() -> Iterator[tuple[str, Claim]]:
    package = proofs_checks.papers
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.ispkg:
            with loading(f"claims of {module.name}", remedy=_REMEDY):
                loaded = importlib.import_module(module.name)
            yield from (
                (module.name, claim) for claim in _flat(getattr(loaded, "CLAIMS", ()), module.name)
            )


def _installed() -> Iterator[tuple[str, Claim]]:
    for point in installed(GROUP).values():
        with loading(f"claims of {point.value}", remedy=_REMEDY):
            loaded = point.load()
        for claim in _flat(loaded, point.value):
            yield point.value, replace(claim, named_as=point.value)


def _flat(loaded: object, where: str) -> Iterator[Claim]:
    if isinstance(loaded, Claim):
        yield loaded
    elif isinstance(loaded, Iterable) and not isinstance(loaded, str | bytes):
        for part in loaded:
            yield from _flat(part, where)
    else:
        what = f"{type(loaded).__name__} is not a claim"
        raise InputError(f"claims of {where}", what, "give a Claim or a sequence of Claims")


def _natural(text: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", text)
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts]
