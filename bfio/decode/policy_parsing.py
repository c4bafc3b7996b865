"""Policy names with options of their own: ``bf-io:horizon=20:backend=cp-sat``."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from bfio.common.options import flag, from_texts, split_options
from bfio.decode.options import Dispatch
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_registry import built_in, find
from formulations.errors import InputError
from formulations.second.problem import Second

_NAMES = tuple(entry.name for entry in fields(PolicyOptions))
_PLAIN = PolicyOptions()
#: Options that are read beside another one alone, and that one.
_BESIDE = {
    "slack": "second",
    "second_proof": "second",
    "second_horizon": f"second={Second.WINDOW}",
}


def parse_policy(
    text: str, defaults: PolicyOptions, dispatch: Dispatch = Dispatch.POOLED
) -> tuple[str, PolicyOptions]:
    """Split a policy's name from the options written after it.

    ``name:option=value:...`` overrides ``defaults`` for this policy only; ``module:function`` may
    be followed by options in the same way.

    Raises
    ------
    InputError
        If the policy or an option is unknown, a value is unreadable, or the policy does not read
        an option that is written after its name.
    """
    name, texts = split_options(text)
    where = f"policy {text}"
    options = from_texts(defaults, texts, where)
    find(name)
    own = options_read(name, options, dispatch)
    for option in (key.replace("-", "_") for key in texts):
        if own is not None and option not in own:
            raise _changes_nothing(where, option, [name], options, dispatch) or InputError(
                where,
                f"{name} reads no {option}",
                f"it reads {', '.join(sorted(own))}" if own else "it has none",
            )
    return name, options


def options_read(
    name: str, options: PolicyOptions, dispatch: Dispatch = Dispatch.POOLED
) -> frozenset[str] | None:
    """Return the options that a policy reads if it is made from these; None if nobody knows.

    What a policy that is not built in reads, and when, only its authors know.
    """
    spec = built_in().get(name)
    if spec is None:
        return None
    unread = spec.pooled_reads if dispatch == Dispatch.IMMEDIATE else ()
    return frozenset(spec.reads(options)).difference(unread)


def own_options(
    text: str, given: PolicyOptions, dispatch: Dispatch = Dispatch.POOLED
) -> PolicyOptions:
    """Return those options given to several policies that one of them reads."""
    read = options_read(*parse_policy(text, given, dispatch), dispatch)
    return given if read is None else PolicyOptions(**{n: getattr(given, n) for n in read})


def usual(name: str, option: str) -> object:
    """Return the value that an option of a policy has if none is given; None if it varies."""
    spec = built_in().get(name)
    if spec is not None and spec.uses_horizon and option == "horizon":
        return spec.default_horizon
    return (spec.defaults if spec else {}).get(option, getattr(_PLAIN, option))


def in_force(
    name: str, options: PolicyOptions, dispatch: Dispatch = Dispatch.POOLED
) -> dict[str, object]:
    """Return the options that a policy reads with their values, in the order of the table.

    Of a policy that is not built in: those that are given.
    """
    read = options_read(name, options, dispatch)
    if read is None:
        read = frozenset(_given(options))
    values = {n: getattr(options, n) for n in _NAMES if n in read}
    return {n: usual(name, n) if value is None else value for n, value in values.items()}


def spelt_out(
    text: str, defaults: PolicyOptions, dispatch: Dispatch = Dispatch.POOLED
) -> Hashable:
    """Return a policy's name and `in_force`: texts of which this is equal are one policy.

    Raises
    ------
    InputError
        As `parse_policy`.
    """
    name, options = parse_policy(text, defaults, dispatch)
    return name, tuple(in_force(name, options, dispatch).items())


def check_options_are_read(
    policies: Sequence[str],
    given: PolicyOptions,
    others: Iterable[str] = (),
    *,
    dispatch: Dispatch = Dispatch.POOLED,
    place: Callable[[str], str] = flag,
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
    dispatch : Dispatch
        When they decide.
    place : callable
        Where users write an option.

    Raises
    ------
    InputError
        Naming the option, and policies that read it.
    """
    for error in unread_options(policies, given, others, dispatch, place).values():
        raise error


def unread_options(
    policies: Sequence[str],
    given: PolicyOptions,
    others: Iterable[str],
    dispatch: Dispatch,
    place: Callable[[str], str],
) -> Mapping[str, InputError]:
    """Return the error of each option that none of some policies reads; see above."""
    read = set(others)
    for text in policies:
        own = options_read(*parse_policy(text, given, dispatch), dispatch)
        if own is None:
            return {}
        read |= own
    names = [name for name in _given(given) if name not in read]
    return dict(_errors(names, policies, given, dispatch, place))


def _errors(
    names: Iterable[str],
    policies: Sequence[str],
    given: PolicyOptions,
    dispatch: Dispatch,
    place: Callable[[str], str],
) -> Iterator[tuple[str, InputError]]:
    for name in names:
        own = [split_options(text)[0] for text in policies]
        error = _changes_nothing(place(name), name, own, given, dispatch)
        if error is None:
            verb = "reads" if len(policies) == 1 else "read"
            asked = replace(given, second=Second.WINDOW) if name in _BESIDE else given
            able = [each for each in built_in() if name in (options_read(each, asked) or ())]
            error = InputError(
                place(name),
                f"{', '.join(policies) or 'no policy here'} {verb} no such option",
                f"leave it out, or run one that does: {', '.join(able)}",
            )
        yield name, error


def _changes_nothing(
    where: str, option: str, names: Iterable[str], given: PolicyOptions, dispatch: Dispatch
) -> InputError | None:
    """Return why an option is not read by policies that may read it, or None if none may."""
    asked = replace(given, second=Second.WINDOW) if option in _BESIDE else given
    if not any(option in (options_read(name, asked) or ()) for name in names):
        return None
    if option in _BESIDE:
        what = f"{option} changes nothing without {_BESIDE[option]}"
        remedy = "leave it out, or say which second objective (docs/second.md)"
    else:
        what = f"{option} changes nothing with {dispatch} dispatch"
        remedy = "leave it out, or use pooled dispatch"
    return InputError(where, what, remedy)


def _given(options: PolicyOptions) -> Iterator[str]:
    return (name for name in _NAMES if getattr(options, name) != getattr(_PLAIN, name))
