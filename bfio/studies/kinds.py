"""Kinds of rows by name, the built-in ones and a user's own ``module:function``; their code."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, cast

import bfio.studies.row_kinds
from bfio.common.import_closure import closure_digest
from bfio.common.options import options_table
from bfio.common.users_digest import users_digest
from bfio.studies.row_kind import STEADY, Described, RowKind, described_table
from formulations.errors import InputError, use_one_of
from formulations.named_objects import OR_YOUR_OWN, check_call, is_users, load_object


def names() -> list[str]:
    """Return the names of the built-in kinds, which are those of their modules, sorted."""
    found = pkgutil.iter_modules(bfio.studies.row_kinds.__path__)
    return sorted(module.name.replace("_", "-") for module in found)


def find(name: str) -> RowKind:
    """Return the kind called ``name``, or the one that ``module:function`` names.

    A function ``function(arguments, context)`` computes a row; an object of `RowKind` says more.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    if not is_users(name):
        return _built_in(name)
    loaded = load_object(name, "row function")
    if isinstance(loaded, RowKind):
        return loaded
    check_call(loaded, name, "arguments", "context")
    summary = (inspect.getdoc(loaded) or "a user's own").splitlines()[0]
    values = getattr(loaded, "row_values", ())
    return RowKind(name, summary, cast("Callable[..., Any]", loaded), values=values)


@cache
def _built_in(name: str) -> RowKind:
    kind: RowKind = importlib.import_module(module_of(name)).KIND
    return kind


def module_of(name: str) -> str:
    """Return the module that holds a kind.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    if is_users(name):
        return name.rpartition(":")[0]
    if name not in names():
        raise InputError(
            f"computes = {name!r}",
            "unknown kind of row",
            use_one_of(name, names(), OR_YOUR_OWN),
        )
    return f"{bfio.studies.row_kinds.__name__}.{name.replace('-', '_')}"


_FORMER = "saturated."


def present_name(computes: str, name: str) -> str:
    # Values of built-in kinds once had another prefix.
    """Return what a value is called now, by its present or former name."""
    if name.startswith(_FORMER) and ":" not in computes:
        return STEADY + name.removeprefix(_FORMER)
    return name


def describe(computes: str, name: str) -> Described:
    """Return unit and text of a value of a kind; empty if the kind or the value is unknown."""
    with suppress(InputError):
        return find(computes).describe(name)
    return Described(name)


def heading(computes: str, name: str) -> str:
    """Return what tables call a value of a kind, see `RowKind.heading`."""
    with suppress(InputError):
        return find(computes).heading(name)
    return name


def tables() -> dict[str, str]:
    """Return tables in Markdown by name: values of each built-in kind, and some of arguments.

    ``requests`` are those that choose the requests of a row; ``evaluation`` those of predictors;
    ``classes``, ``stages`` and ``stage-trace`` those of rows about one engine in stages;
    ``batching-arguments`` those of rows about engines with a token budget. ``metrics`` are those
    of decode runs.
    """
    from bfio.batching.options import BatchOptions
    from bfio.prediction.options import EvaluationOptions
    from bfio.studies.row_kinds.batching import BatchingOffer
    from bfio.studies.row_kinds.wait import StagePolicyOptions
    from bfio.studies.row_parts.runs import RUN_VALUES
    from bfio.studies.row_parts.wait_offer import (
        ClassOptions,
        OfferOptions,
        TraceSplit,
        WantedRate,
    )
    from bfio.studies.row_parts.workload_arguments import RequestOptions
    from bfio.wait.options import ServeOptions

    return {
        **{name: find(name).table() for name in names()},
        "metrics": described_table(RUN_VALUES),
        "requests": options_table(RequestOptions),
        "evaluation": options_table(EvaluationOptions),
        "classes": options_table(ClassOptions, WantedRate),
        "stages": options_table(StagePolicyOptions, OfferOptions, ServeOptions),
        "stage-trace": options_table(TraceSplit),
        "batching-arguments": options_table(BatchingOffer, BatchOptions),
    }


def with_unit(computes: str, name: str) -> str:
    """Return the name of a value with its unit in brackets, as an axis shows it."""
    unit, shown = describe(computes, name).unit, heading(computes, name)
    return f"{shown} [{unit}]" if unit not in ("", "1") else shown


def code_version(name: str) -> str:
    """Return the version of the code that computes rows of a kind.

    It is a digest of the module of the kind and of all that it imports in turn: those of the
    project, and of a user's own those beside it. Installed packages count by version only, in the
    environment of each row.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    return users_digest(name) if is_users(name) else closure_digest(module_of(name))
