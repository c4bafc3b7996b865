"""Laws of lengths written as text: ``lognormal:median=800:sigma=1.1:maximum=32768``."""

from dataclasses import fields
from types import MappingProxyType
from typing import Any

from bfio.common.options import NUMBER, WHOLE, read_texts, split_options
from bfio.workloads.lengths import Geometric, Homogeneous, LengthDistribution, Lognormal, Uniform
from formulations.errors import InputError, use_one_of

_LAWS: MappingProxyType[str, type[Any]] = MappingProxyType(
    {
        "geometric": Geometric,
        "homogeneous": Homogeneous,
        "lognormal": Lognormal,
        "uniform": Uniform,
    }
)


def parse_law(text: str, where: str) -> LengthDistribution:
    """Return the law that ``name:parameter=value:...`` names.

    Parameters
    ----------
    text : str
        ``geometric:mean=200``, ``homogeneous:value=200``, ``uniform:lowest=1:highest=1000`` or
        ``lognormal:median=800:sigma=1.1:maximum=32768`` (the maximum may be left out).
    where : str
        What an error names.

    Raises
    ------
    InputError
        If the law, a parameter or a value is unknown, or a parameter is missing.
    """
    try:
        name, texts = split_options(text, _LAWS)
    except InputError as error:
        raise InputError(where, error.what, error.remedy) from None
    if name not in _LAWS:
        raise InputError(where, f"unknown law {name!r}", use_one_of(name, _LAWS))
    law = _LAWS[name]
    kinds = {entry.name: WHOLE if entry.type is int else NUMBER for entry in fields(law)}
    given = read_texts(kinds, texts, where)
    try:
        made: LengthDistribution = law(**given)
    except TypeError:
        missing = ", ".join(kinds.keys() - given.keys())
        raise InputError(where, f"{text!r} lacks a parameter", f"give {missing}") from None
    return made
