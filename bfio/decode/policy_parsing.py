"""Policy names with options of their own: ``bf-io:horizon=20:backend=cp-sat``."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from bfio.decode.policy_options import PolicyOptions
from formulations.errors import InputError

_PARSERS: dict[str, Callable[[str], Any]] = {
    "threshold": int,
    "candidates": int,
    "horizon": int,
    "choices": int,
    "cap_threshold": int,
    "time_limit": float,
}


def parse_policy(text: str, defaults: PolicyOptions) -> tuple[str, PolicyOptions]:
    """Split a policy's name from the options written after it.

    ``name:option=value:...`` overrides ``defaults`` for this policy only; ``module:function`` may
    be followed by options in the same way.

    Raises
    ------
    InputError
        If an option is unknown or its value unreadable.
    """
    parts = text.split(":")
    name = ":".join(part for part in parts if "=" not in part)
    overrides: dict[str, Any] = dict(_option(text, part) for part in parts if "=" in part)
    return name, replace(defaults, **overrides) if overrides else defaults


def _option(text: str, part: str) -> tuple[str, object]:
    key, _, value = part.partition("=")
    key = key.strip().replace("-", "_")
    known = [field.name for field in fields(PolicyOptions)]
    if key not in known:
        raise InputError(f"policy {text}", f"unknown option {key!r}", f"use {', '.join(known)}")
    try:
        return key, _PARSERS.get(key, str)(value.strip())
    except ValueError:
        raise InputError(
            f"policy {text}", f"{value!r} is no value of {key}", "write a number"
        ) from None
