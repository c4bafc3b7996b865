"""Kinds of rows by name: the built-in ones, and a user's own ``module:function``."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import bfio.studies.row_kinds
from bfio.common.users_code import load_object
from bfio.studies.row import Compute, Context, Instance
from formulations.errors import InputError, use_one_of


def _no_instance(arguments: Mapping[str, Any], context: Context) -> str:
    """Return the digest of arguments that stand for no data but themselves."""
    del arguments, context
    return ""


@dataclass(frozen=True)
class RowKind:
    """What a row computes.

    Parameters
    ----------
    name : str
        What a study file calls it.
    summary : str
        One line for users.
    compute : callable
        Computes a row from its arguments; must not depend on anything else.
    instance : callable
        Checks the arguments, and returns the digest of the data they stand for. It is called once
        per row before any row is computed, so that a slip stops a study at once; slow parts are
        to be cached.
    """

    name: str
    summary: str
    compute: Compute
    instance: Instance = _no_instance


def names() -> list[str]:
    """Return the names of the built-in kinds, sorted."""
    return sorted(_built_in())


def find(name: str) -> RowKind:
    """Return the kind called ``name``, or the one that ``module:function`` names.

    A function ``function(arguments, context)`` computes a row; an object of `RowKind` says more.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    if ":" not in name:
        if name in _built_in():
            return _built_in()[name]
        raise InputError(
            f"computes = {name!r}",
            "unknown kind of row",
            use_one_of(name, names(), "or module:function"),
        )
    loaded = load_object(name, "row function")
    if isinstance(loaded, RowKind):
        return loaded
    if not callable(loaded):
        raise InputError(name, f"a {type(loaded).__name__} is not callable", "name a function")
    summary = (inspect.getdoc(loaded) or "a user's own").splitlines()[0]
    return RowKind(name, summary, cast("Callable[..., Any]", loaded))


@cache
def _built_in() -> dict[str, RowKind]:
    found = {}
    package = bfio.studies.row_kinds
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        kind = getattr(importlib.import_module(module.name), "KIND", None)
        if isinstance(kind, RowKind):
            found[kind.name] = kind
    return found
