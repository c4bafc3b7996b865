"""Users' policies: loading, checking and statistics."""

from collections.abc import Callable
from typing import Any

from formulations.errors import InputError
from formulations.named_objects import check_call, load_object, make_object, users_code


def load_callable(text: str, kind: str) -> Callable[..., Any]:
    """Load a function of the state; a class is instantiated.

    Raises
    ------
    InputError
        As for `load_object` and `make_object`, if it cannot be called with a state, or if options
        follow the name.
    """
    if text.count(":") > 1:
        raise InputError(text, "options after module:NAME", "set its attributes instead")
    found = load_object(text, kind)
    if isinstance(found, type):
        found = make_object(text, found)
    check_call(found, text, "state")
    return found  # type: ignore[return-value]


def call_check(policy: object, name: str, instance: object) -> None:
    """Call a policy's ``check`` of an instance, if it has one.

    Raises
    ------
    InputError
        If the check rejects the instance, cannot be called, or raises another exception.
    """
    if (check := getattr(policy, "check", None)) is not None:
        with users_code(f"policy {name}", "its check ", remedy="mend the policy"):
            check(instance)


def policy_statistics(policy: object, name: str) -> dict[str, object]:
    """Return a policy's own statistics of a run, if it has ``statistics``.

    An error does not lose the run: ``error`` then holds the reason, in one line.
    """
    method = getattr(policy, "statistics", None)
    try:
        with users_code(f"policy {name}", "its statistics ", remedy="return a mapping"):
            return dict(method()) if callable(method) else {}
    except InputError as error:
        return {"error": str(error)}
