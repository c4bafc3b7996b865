"""Laws of lengths written as text: ``lognormal:median=800:sigma=1.1:maximum=32768``."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from bfio.workloads.lengths import Geometric, Homogeneous, LengthDistribution, Lognormal, Uniform
from formulations.errors import InputError, use_one_of


@dataclass(frozen=True)
class _Law:
    """A class of laws, and how to read its parameters."""

    make: type[Any]
    parse: Callable[[str], float]

    @property
    def parameters(self) -> list[str]:
        return [field.name for field in fields(self.make)]


_LAWS = MappingProxyType(
    {
        "geometric": _Law(Geometric, float),
        "homogeneous": _Law(Homogeneous, int),
        "lognormal": _Law(Lognormal, float),
        "uniform": _Law(Uniform, int),
    }
)
#: Counts among parameters that are numbers otherwise.
_WHOLE = ("maximum",)


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
    name, *options = text.split(":")
    if name not in _LAWS:
        raise InputError(where, f"unknown law {name!r}", use_one_of(name, _LAWS))
    law = _LAWS[name]
    given: dict[str, float] = {}
    for option in options:
        parameter, value = _parameter(law, option, where)
        if parameter in given:
            raise InputError(where, f"{parameter} is given twice", "give it once")
        given[parameter] = value
    try:
        made: LengthDistribution = law.make(**given)
    except TypeError:
        missing = [parameter for parameter in law.parameters if parameter not in given]
        raise InputError(
            where, f"{text!r} lacks a parameter", f"give {', '.join(missing)}"
        ) from None
    return made


def _parameter(law: _Law, option: str, where: str) -> tuple[str, float]:
    name, _, value = option.partition("=")
    if name not in law.parameters:
        raise InputError(where, f"unknown parameter {name!r}", f"use {', '.join(law.parameters)}")
    try:
        return name, int(value) if name in _WHOLE else law.parse(value)
    except ValueError:
        raise InputError(where, f"{value!r} is no value of {name}", "write a number") from None
