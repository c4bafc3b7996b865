"""Find kinds of rows by name, and determine the version of their code."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, cast

import bfio.studies.row_kinds
from bfio.common.options import options_table
from bfio.common.plugins import users_digest
from bfio.common.provenance import closure_digest
from bfio.common.text import TextTable
from bfio.studies.row_kind import STEADY, Described, RowKind, described_table
from formulations.errors import InputError, use_one_of
from formulations.named_objects import OR_YOUR_OWN, check_call, is_users, load_object


def names() -> list[str]:
    """Return the sorted names of the built-in kinds, derived from their modules."""
    found = pkgutil.iter_modules(bfio.studies.row_kinds.__path__)
    return sorted(module.name.replace("_", "-") for module in found)


def find(name: str) -> RowKind:
    """Return the row kind of a built-in name or of ``module:function``.

    ``module:function`` names a function ``function(arguments, context)`` that computes a row, or a
    `RowKind`.

    Raises
    ------
    InputError
        If the kind does not exist.
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
    """Return the name of the module that defines a row kind.

    Raises
    ------
    InputError
        If the kind does not exist.
    """
    if is_users(name):
        return name.rpartition(":")[0]
    if name not in names():
        what = "unknown row kind"
        raise InputError(f"computes = {name!r}", what, use_one_of(name, names(), OR_YOUR_OWN))
    return f"{bfio.studies.row_kinds.__name__}.{name.replace('-', '_')}"


_FORMER = "saturated."


def present_name(computes: str, name: str) -> str:
    # Earlier versions named the steady part of a run "saturated".
    """Return the current name of a value, given its current or former name."""
    if name.startswith(_FORMER) and ":" not in computes:
        return STEADY + name.removeprefix(_FORMER)
    return name


def describe(computes: str, name: str) -> Described:
    """Return the description of a value of a row kind; empty if kind or value is unknown."""
    with suppress(InputError):
        return find(computes).describe(name)
    return Described(name)


def heading(computes: str, name: str) -> str:
    """Return the table heading of a value of a row kind, see `RowKind.heading`."""
    with suppress(InputError):
        return find(computes).heading(name)
    return name


def tables() -> dict[str, str]:
    """Return Markdown tables by name: values of each built-in kind, and groups of arguments.

    ``requests``: arguments that choose the requests of a row. ``evaluation``: arguments of
    predictor rows. ``classes``, ``stages`` and ``stage-trace``: arguments of rows on one engine
    whose requests pass stages (WAIT). ``batching-arguments``: arguments of rows on engines with a
    token budget. ``metrics``: metrics of decode runs. ``policies``: policies of decode runs.
    ``rules``: rules that the replay of decode runs checks.
    """
    from bfio.batching.options import BatchOptions
    from bfio.decode.policy_registry import built_in
    from bfio.decode.replay import rules
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
    from bfio.wait.simulation import ServeOptions

    policies = [
        (f"`{p.name}`", p.summary, p.source, ", ".join(p.dispatch), "yes" if p.kernel else "no")
        for p in built_in().values()
    ]
    checked = [(f"`{name}`", text) for name, text in rules().items()]
    return {
        **{name: find(name).table() for name in names()},
        "metrics": described_table(RUN_VALUES),
        "policies": TextTable(
            "", ("name", "rule", "source", "dispatch", "compiled"), policies, words=5
        ).markdown(),
        "rules": TextTable("", ("rule", "what is checked"), checked, words=2).markdown(),
        "requests": options_table(RequestOptions),
        "evaluation": options_table(EvaluationOptions),
        "classes": options_table(ClassOptions, WantedRate),
        "stages": options_table(StagePolicyOptions, OfferOptions, ServeOptions),
        "stage-trace": options_table(TraceSplit),
        "batching-arguments": options_table(BatchingOffer, BatchOptions),
    }


def with_unit(computes: str, name: str) -> str:
    """Return the name of a value with its unit in brackets, as an axis label."""
    unit, shown = describe(computes, name).unit, heading(computes, name)
    return f"{shown} [{unit}]" if unit not in ("", "1") else shown


def code_version(name: str) -> str:
    """Return the version of the code that computes the rows of a kind.

    It is a digest of the kind's module and of all modules that it imports, directly or not, within
    the project, or next to a user's own module. Installed packages are covered by their versions
    in the environment of each row.

    Raises
    ------
    InputError
        If the kind does not exist.
    """
    return users_digest(name) if is_users(name) else closure_digest(module_of(name))
