"""Registry of policies: names, options after a name, and options given to all policies.

A name stands for a built-in policy, an installed policy, or a user's own (``module:function``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import bfio.decode.policies
from bfio.common.options import (
    LOOK_AHEAD,
    MAX_SHOWN,
    RATIONAL,
    CheckedOptions,
    Option,
    flag,
    is_read,
    options_of,
    read_texts,
    split_options,
    unread,
    with_values,
)
from bfio.common.plugins import installed, loading, members
from bfio.decode.cluster import Cluster
from bfio.decode.option_kinds import look_ahead_option
from bfio.decode.options import RunOptions
from bfio.decode.policy import Policy, look_ahead_of, policy_name
from bfio.decode.policy_spec import PolicySpec
from formulations.errors import InputError, kind_of, use_one_of
from formulations.named_objects import OR_YOUR_OWN, check_call, is_users, load_object, make_object

#: Entry-point group through which other packages add policies (a `PolicySpec` or a callable).
GROUP = "bfio.policies"


@dataclass(frozen=True)
class OwnOptions(CheckedOptions):
    """Option of policies that declare no options: the number of look-ahead steps that they see."""

    look_ahead: int | None = look_ahead_option(
        None, "look-ahead steps (by default the policy's horizon)", MAX_SHOWN
    )


def names() -> list[str]:
    """Return the names of all built-in and installed policies, sorted."""
    return sorted({*built_in(), *installed(GROUP)})


def specs() -> list[PolicySpec]:
    """Return the specification of every built-in and installed policy, sorted by name."""
    return [find(name) for name in names()]


def find(name: str) -> PolicySpec:
    """Return the specification of the policy with a name, or of the policy ``module:function``.

    An installed package cannot replace a built-in name. A class named as ``module:Class`` is
    called without arguments, once per run. Raises InputError if the name is unknown, or if the
    module or function cannot be used.
    """
    if name in built_in():
        return built_in()[name]
    if (point := installed(GROUP).get(name)) is not None:
        with loading(point.name, f"the installed policy {point.value}"):
            return _as_spec(point.name, point.load())
    if name.partition(":")[0] in built_in():
        raise InputError(name, "an option has no value", f"write e.g. br-h:{LOOK_AHEAD}=20")
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
    """Return the options of all policies of this project, by option name and then by policy."""
    found: dict[str, dict[str, Option]] = {}
    for spec in built_in().values():
        for entry in options_of(type(spec.options)):
            found.setdefault(entry.name, {})[spec.name] = entry
    return found


def own(name: str, factory: Callable[[object], Policy], owner: object, source: str) -> PolicySpec:
    """Return a specification for a user's policy; its summary is the docstring of ``owner``."""
    lines = (owner.__doc__ or "").strip().splitlines()
    return PolicySpec(
        name=name,
        factory=factory,
        summary=lines[0] if lines else "user's policy",
        source=source,
        options=OwnOptions(),
        draws=True,
    )


def _as_spec(name: str, loaded: object) -> PolicySpec:
    if isinstance(loaded, PolicySpec):
        return loaded
    if not isinstance(loaded, type):
        check_call(loaded, name, "state")

    def factory(options: object) -> Policy:
        policy = make_object(name, loaded) if isinstance(loaded, type) else loaded
        if not callable(policy):
            raise InputError(
                name, "objects of this class are not callable", "define __call__(self, state)"
            )
        check_call(policy, name, "state")
        return policy

    return own(name, factory, loaded, name)


@dataclass(frozen=True)
class ChosenPolicy:
    """A policy with the options chosen for it."""

    text: str  #: Name and options as the user wrote them.
    name: str  #: Name without options.
    spec: PolicySpec  #: Specification of the policy.
    options: Any  #: Its options.
    written: tuple[str, ...] = ()  #: Names of the options written after its name.

    @property
    def is_own(self) -> bool:
        """Whether the policy declares no options, such as a user's function."""
        return isinstance(self.options, OwnOptions)

    @property
    def parts(self) -> tuple[ChosenPolicy, ...]:
        """The policy itself, preceded by the policy that routes for it, if any."""
        router = getattr(self.options, "router", None)
        return (self,) if router is None else (router, self)

    @property
    def table(self) -> dict[str, Option]:
        """Options of the policy by name, including those of the policy that routes for it."""
        return {e.name: e for part in self.parts for e in options_of(type(part.options))}

    @property
    def draws(self) -> bool:
        """Whether decisions of the policy may depend on the seed."""
        return any(part.spec.draws for part in self.parts)

    def look_ahead(self, made: Policy | None = None) -> int:
        """Return the look-ahead steps that the policy needs.

        The attribute of the policy object ``made`` is read only if no option sets the look-ahead.
        """
        if LOOK_AHEAD in self.table and not self.is_own:
            return look_ahead(self.in_force())
        policy = self.make() if made is None else made
        return max(look_ahead_of(policy), getattr(self.options, "look_ahead", None) or 0)

    def spelt_out(self, run: RunOptions, cluster: Cluster) -> Hashable:
        """Return the name and options in force; equal results mean equal policies."""
        return self.name, tuple(self.in_force(run, cluster).items())

    def make(self) -> Policy:
        """Return a new policy object for one run."""
        return self.spec.factory(self.options)

    def in_force(
        self, run: RunOptions | None = None, cluster: Cluster | None = None
    ) -> dict[str, object]:
        """Return the policy options that a run with these settings reads; both have defaults."""
        run, cluster = run or RunOptions(), cluster or Cluster()
        return {
            entry.name: getattr(part.options, entry.field)
            for part in self.parts
            for entry in options_of(type(part.options))
            if is_read(entry, part.options, run, cluster)
        }


def look_ahead(in_force: Mapping[str, object]) -> int:
    """Return the look-ahead steps of a policy from its options in force."""
    return max(int(str(in_force.get(name) or 0)) for name in (LOOK_AHEAD, "second_horizon"))


def check_policy(policy: object, *, may_be_class: bool = True) -> None:
    """Raise InputError for an object that is not a policy."""
    remedy = "give a name, a function of the state, or a callable object"
    if isinstance(policy, type) and not may_be_class:
        raise InputError("policy", f"{policy.__name__} is a class", remedy)
    if not isinstance(policy, str) and not callable(policy):
        raise InputError("policy", f"{kind_of(policy)} is not a policy", remedy)


def choose(
    policy: str | Policy,
    given: Mapping[str, object] | None = None,
    place: Callable[[str], str] = str,
) -> ChosenPolicy:
    """Return a policy with its options.

    Parameters
    ----------
    policy : str or callable
        A name, optionally followed by options (``br-0:threshold=3``), which take precedence over
        ``given``; a ``module:function`` in the same form; or a policy object.
    given : mapping, optional
        Options given to several policies; each policy uses those that it declares. None counts as
        not given.
    place : callable
        Returns the text by which error messages refer to a given option.

    Raises
    ------
    InputError
        If the policy or an option after its name is unknown, or a value is unreadable or invalid.
    """
    values = {name: value for name, value in (given or {}).items() if value is not None}
    if not isinstance(policy, str):
        check_policy(policy)
        spec = own(policy_name(policy), lambda _: policy, policy, "an object")
        return _chosen(spec.name, spec.name, spec, {}, values, place)
    name, texts = split_options(policy)
    chosen = _chosen(policy, name, find(name), texts, values, place)
    for word in map(_name, texts):
        if word in chosen.table:
            continue
        where = f"policy {policy}: {word}"
        if word in all_options():
            raise _no_such_option(where, word, [name])
        remedy = use_one_of(word, chosen.table) if chosen.table else f"{name} has none"
        raise InputError(where, "unknown option", remedy)
    return replace(chosen, written=tuple(map(_name, texts)))


def _chosen(
    text: str,
    name: str,
    spec: PolicySpec,
    texts: Mapping[str, str],
    given: Mapping[str, object],
    place: Callable[[str], str],
) -> ChosenPolicy:
    """Set the options of a policy, and of the policy that routes for it, from texts and values."""
    where = f"policy {text}"
    table = {entry.name: entry for entry in options_of(type(spec.options))}
    kinds = {name: entry.kind for name, entry in table.items()}
    mine = {word: value for word, value in texts.items() if _name(word) in table}
    read = read_texts(kinds, mine, where)
    values = {n: _exact(table[n], given[n]) for n in table if n in given} | read
    places = {n: f"{where}: {n}" if n in read else place(n) for n in values}
    options: Any = with_values(spec.options, values, places)
    router = built_in().get(getattr(options, "base", ""))
    if router is not None and router is not spec:
        options = replace(options, router=_chosen(text, router.name, router, texts, given, place))
    return ChosenPolicy(text, name, spec, options)


def _name(word: str) -> str:
    return word.replace("-", "_")


def _exact(entry: Option, value: object) -> object:
    """Return a value; for rational options a float becomes the decimal text that it prints as."""
    return str(value) if isinstance(value, float) and entry.kind.types == RATIONAL.types else value


def given_to(
    policy: str | Policy, given: Mapping[str, object], run: RunOptions, cluster: Cluster
) -> dict[str, object]:
    """Return the options given to several policies that this policy reads."""
    read = choose(policy, given).in_force(run, cluster)
    return {name: value for name, value in given.items() if name in read}


def check_options_are_read(
    policies: Sequence[ChosenPolicy],
    given: Mapping[str, object],
    run: RunOptions,
    cluster: Cluster,
    others: Iterable[str] = (),
    place: Callable[[str], str] = str,
) -> None:
    """Raise InputError for an option that no policy reads, and name policies that read it.

    Each policy must read the options after its name. At least one policy must read each option
    ``given`` to all, unless it is in ``others``, which are read elsewhere. ``place`` returns the
    text by which messages refer to an option.
    """
    for chosen in policies:
        for name in chosen.written:
            if name not in chosen.in_force(run, cluster):
                raise unread(chosen.table[name], f"policy {chosen.text}: {name}")
    # A value after the name of a policy takes precedence over one given to all.
    others = {*others, *(name for chosen in policies for name in chosen.written)}
    for error in unread_options(policies, given, run, cluster, others, place).values():
        raise error


def unread_options(
    policies: Sequence[ChosenPolicy],
    given: Mapping[str, object],
    run: RunOptions,
    cluster: Cluster,
    others: Iterable[str] = (),
    place: Callable[[str], str] = flag,
) -> dict[str, InputError]:
    """Return an error for each option given to all policies that no policy reads, by name.

    Raises InputError if a value is invalid for the option itself. See `check_options_are_read`.
    """
    read = set(others).union(
        *(chosen.in_force(run, cluster).keys() - set(chosen.written) for chosen in policies)
    )
    tables = [chosen.table for chosen in policies]
    errors = {}
    for name, value in given.items():
        if value is None or name in read:
            continue
        if any(name in chosen.written for chosen in policies):
            what = "each policy that reads it has its own value after its name"
            errors[name] = InputError(place(name), what, "give one of the two")
        elif able := [table[name] for table in tables if name in table]:
            errors[name] = unread(able[0], place(name))
        else:
            next(iter(all_options()[name].values())).kind.checked(value, place(name))
            texts = [chosen.text for chosen in policies]
            errors[name] = _no_such_option(place(name), name, texts)
    return errors


def _no_such_option(where: str, name: str, policies: Sequence[str]) -> InputError:
    verb = "reads" if len(policies) == 1 else "read"
    what = f"{', '.join(policies) or 'no policy here'} {verb} no such option"
    remedy = f"leave it out, or add a policy with this option: {', '.join(all_options()[name])}"
    return InputError(where, what, remedy)
