"""Policies of users: made of what they name, and asked what they say of themselves."""

from collections.abc import Callable
from typing import Any

from formulations.errors import InputError
from formulations.named_objects import check_call, load_object, make_object, users_code


def load_callable(text: str, kind: str) -> Callable[..., Any]:
    """Return a function of the state that a text names; of a class, an object.

    Raises
    ------
    InputError
        As `load_object` and `make_object`, or if it is no such function or options follow the
        name.
    """
    if text.count(":") > 1:
        raise InputError(text, "options after module:NAME", "set its attributes instead")
    found = load_object(text, kind)
    if isinstance(found, type):
        found = make_object(text, found)
    check_call(found, text, "state")
    return found  # type: ignore[return-value]


def call_check(policy: object, name: str, instance: object) -> None:
    """Let a policy refuse an instance, if it has a ``check``.

    Raises
    ------
    InputError
        If it does, or its check cannot be called or raises anything else.
    """
    if (check := getattr(policy, "check", None)) is not None:
        with users_code(f"policy {name}", "its check ", remedy="mend the policy"):
            check(instance)


def policy_statistics(policy: object, name: str) -> dict[str, object]:
    """Return a policy's own figures of a run, if it has ``statistics``.

    A run is not lost because they cannot be had: then ``error`` says why, in one line.
    """
    method = getattr(policy, "statistics", None)
    try:
        with users_code(f"policy {name}", "its statistics ", remedy="return a mapping"):
            return dict(method()) if callable(method) else {}
    except InputError as error:
        return {"error": str(error)}
