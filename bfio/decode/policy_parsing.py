"""Policy names with options of their own: ``bf-io:horizon=20:backend=cp-sat``."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from bfio.common.options import from_texts, split_options
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_registry import built_in, find
from bfio.decode.policy_spec import PolicySpec
from formulations.errors import InputError
from formulations.second.problem import Second

_NAMES = tuple(entry.name for entry in fields(PolicyOptions))
#: Options that are read beside another one alone, and that one.
_BESIDE = {
    "slack": "second",
    "second_proof": "second",
    "second_horizon": f"second={Second.WINDOW}",
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
    name, options = split_options(text)
    return name, from_texts(defaults, options, f"policy {text}")


def spelt_out(text: str, defaults: PolicyOptions) -> tuple[str, PolicyOptions]:
    """Return name and options as `parse_policy` does, with what the policy takes by default.

    Texts of which this is equal are one policy.

    Raises
    ------
    InputError
        As `parse_policy`, or if the policy does not exist.
    """
    name, options = parse_policy(text, defaults)
    spec = find(name)
    own: dict[str, Any] = dict(spec.defaults)
    if spec.uses_horizon and name in built_in():
        own["horizon"] = spec.default_horizon
    missing = {key: value for key, value in own.items() if getattr(options, key) is None}
    return name, replace(options, **missing) if missing else options


def check_options_are_read(
    policies: Sequence[str], given: PolicyOptions, others: Iterable[str] = ()
) -> None:
    """Refuse options that change nothing: those of all policies that none of them reads.

    Parameters
    ----------
    policies : sequence of str
        Policies, perhaps with options of their own.
    given : PolicyOptions
        Options of all of them.
    others : iterable of str
        Options that something else reads.

    Raises
    ------
    InputError
        Naming the option, and policies that read it.
    """
    read = set(others)
    for text in policies:
        name, options = split_options(text)
        spec = find(name)
        if name not in built_in() and ":" not in name:
            # What an installed policy reads, and when, only its authors know.
            return
        own = options_read(spec, parse_policy(text, given)[1])
        for option in (key.replace("-", "_") for key in options):
            if option not in own and option in _BESIDE and "second" in own:
                raise _without_effect(f"policy {text}", option)
            if option not in own:
                readers = f"it reads {', '.join(sorted(own))}" if own else "it has none"
                raise InputError(f"policy {text}", f"{name} reads no {option}", readers)
        read |= own
    plain = PolicyOptions()
    for name in _NAMES:
        if getattr(given, name) != getattr(plain, name) and name not in read:
            specs = built_in().values()
            if "second" in read and name in _BESIDE:
                raise _without_effect(f"--{name.replace('_', '-')}", name)
            verb = "reads" if len(policies) == 1 else "read"
            asked = replace(given, second=Second.WINDOW) if name in _BESIDE else given
            able = [spec.name for spec in specs if name in options_read(spec, asked)]
            raise InputError(
                f"--{name.replace('_', '-')}",
                f"{', '.join(policies)} {verb} no such option",
                f"leave it out, or run one that does: {', '.join(able)}",
            )


def _without_effect(where: str, option: str) -> InputError:
    """Return the error of an option that nothing reads but beside another one."""
    what = f"{option} changes nothing without {_BESIDE[option]}"
    return InputError(where, what, "leave it out, or say which second objective (docs/second.md)")


def options_read(spec: PolicySpec, options: PolicyOptions) -> frozenset[str]:
    """Return the options that a built-in policy reads when it is made from these."""
    seen = {"horizon"} if spec.uses_horizon else set()

    class Watched(PolicyOptions):
        def __getattribute__(self, name: str) -> object:
            if name in _NAMES:
                seen.add(name)
            return super().__getattribute__(name)

    watched = object.__new__(Watched)
    for name in _NAMES:
        object.__setattr__(watched, name, getattr(options, name))
    spec.factory(watched)
    return frozenset(seen)
