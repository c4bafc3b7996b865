"""Names to policies: the built-in ones, installed ones, and users' own (``module:function``)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint

import bfio.decode.policies
from bfio.common.options import CheckedOptions, Option, option, options_of, whole
from bfio.common.plugins import installed, loading, members
from bfio.decode.policy import MAX_SHOWN, Policy, policy_name
from bfio.decode.policy_spec import PolicySpec
from formulations.errors import InputError, use_one_of
from formulations.named_objects import OR_YOUR_OWN, check_call, is_users, load_object, make_object
from formulations.scalars import integer

#: Entry-point group through which other packages add policies (a `PolicySpec` or a callable).
GROUP = "bfio.policies"


@dataclass(frozen=True)
class OwnOptions(CheckedOptions):
    """Options of policies that say nothing of theirs: what they are shown."""

    horizon: int | None = option(
        None, whole(0, MAX_SHOWN), "H", "look-ahead steps (what it asks for)"
    )


def names() -> list[str]:
    """Names of all built-in and installed policies, sorted."""
    return sorted({*built_in(), *installed(GROUP)})


def specs() -> list[PolicySpec]:
    """Describe every built-in and installed policy, sorted by name."""
    return [find(name) for name in names()]


def find(name: str) -> PolicySpec:
    """Return the policy called ``name``, or the one that ``module:function`` names.

    A built-in name cannot be taken over by an installed package. A class named as
    ``module:Class`` is called without arguments, once per run.

    Raises
    ------
    InputError
        If the name is unknown (listing those known), or the module or function cannot be used.
    """
    if name in built_in():
        return built_in()[name]
    if (point := installed(GROUP).get(name)) is not None:
        return _from_entry_point(point)
    if name.partition(":")[0] in built_in():
        raise InputError(name, "an option without a value", "write e.g. br-h:horizon=20")
    if is_users(name):
        return _as_spec(name, load_object(name, "policy"))
    raise InputError(name, "unknown policy", use_one_of(name, names(), OR_YOUR_OWN))


@cache
def built_in() -> dict[str, PolicySpec]:
    """Return the policies of this project by name, sorted."""
    package = bfio.decode.policies
    found = {spec.name: spec for _, spec in members(package.__name__, package.__path__, "SPEC")}
    return dict(sorted(found.items()))


@cache
def all_options() -> dict[str, dict[str, Option]]:
    """Return the options of all policies of this project: by name, then by policy."""
    found: dict[str, dict[str, Option]] = {}
    for spec in built_in().values():
        for entry in options_of(type(spec.options)):
            found.setdefault(entry.name, {})[spec.name] = entry
    return found


def own(name: str, factory: Callable[[object], Policy], owner: object, source: str) -> PolicySpec:
    """Describe a policy that says nothing of itself but its docstring, that of ``owner``."""
    return PolicySpec(
        name=name,
        factory=factory,
        summary=_first_line(owner.__doc__),
        source=source,
        options=OwnOptions(),
        draws=True,
    )


def as_object(policy: Policy) -> PolicySpec:
    """Describe a policy that is given as an object."""
    return own(policy_name(policy), lambda _: policy, policy, "an object")


def shown(policy: Policy, options: OwnOptions) -> int:
    """Return the look-ahead steps that a policy of one's own is shown: the more of two wishes."""
    own = integer(getattr(policy, "horizon", 0), "horizon", maximum=MAX_SHOWN)
    return max(own, options.horizon or 0)


def _from_entry_point(point: EntryPoint) -> PolicySpec:
    with loading(point.name, f"the installed policy {point.value}"):
        return _as_spec(point.name, point.load())


def _as_spec(name: str, loaded: object) -> PolicySpec:
    if isinstance(loaded, PolicySpec):
        return loaded
    if not isinstance(loaded, type):
        check_call(loaded, name, "state")

    def factory(options: object) -> Policy:
        policy = make_object(name, loaded) if isinstance(loaded, type) else loaded
        if not callable(policy):
            raise InputError(name, "its objects are not callable", "define __call__(self, state)")
        check_call(policy, name, "state")
        return policy

    return own(name, factory, loaded, name)


def _first_line(docstring: str | None) -> str:
    lines = (docstring or "").strip().splitlines()
    return lines[0] if lines else "user's policy"
