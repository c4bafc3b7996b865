"""Options written behind a name, ``name:option=value:...``."""

from collections.abc import Mapping, Sequence

from formulations.arrays import integer
from formulations.errors import InputError


def read_options(
    text: str, name: str, written: Sequence[str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """Return all options of a name, those written in the place of their defaults.

    Parameters
    ----------
    text : str
        The whole text, for errors.
    name : str
        What the options belong to.
    written : sequence of str
        What stands between the colons behind the name.
    defaults : mapping
        Options and their values if not written.

    Raises
    ------
    InputError
        If one is unknown, occurs twice or has no value.
    """
    known = ", ".join(defaults) or "none"
    pairs = [_pair(text, part, known) for part in written]
    given = dict(pairs)
    if len(given) < len(pairs):
        raise InputError(text, "an option occurs twice", "keep one of them")
    if strangers := sorted(set(given) - set(defaults)):
        raise InputError(text, f"{name} has no option {strangers[0]}", f"its options: {known}")
    return {**defaults, **given}


def whole_option(options: Mapping[str, str], key: str, *, minimum: int = 0) -> int:
    """Return an option as an integer.

    Raises
    ------
    InputError
        If it is none, or out of range.
    """
    text = options[key]
    if not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise InputError(key, f"{text!r} is no integer", "write e.g. 3")
    return integer(int(text), key, minimum=minimum)


def _pair(text: str, part: str, known: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        what = f"{part!r} is no option" if part else "no option after a colon"
        raise InputError(text, what, f"write option=value, or no colon; options: {known}")
    if not value.strip():
        raise InputError(text, f"option {key!r} without a value", "write option=value")
    return key.strip(), value.strip()
