"""Laws written as text: ``lognormal:median=800:sigma=1.1:maximum=32768``, ``poisson:rate=300``."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from bfio.common.options import NUMBER, WHOLE, OptionKind, read_texts, split_options
from bfio.workloads.arrivals import (
    ArrivalProcess,
    Diurnal,
    GammaRenewal,
    MarkovModulated,
    OnOff,
    Poisson,
    Surges,
)
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

_PROCESSES: MappingProxyType[str, type[Any]] = MappingProxyType(
    {
        "diurnal": Diurnal,
        "gamma": GammaRenewal,
        "mmpp": MarkovModulated,
        "on-off": OnOff,
        "poisson": Poisson,
        "surges": Surges,
    }
)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split("/"))


_NUMBERS = OptionKind("list a/b/c of numbers", _numbers, (str,), str)
#: Kinds of values by the types of parameters.
_KINDS: MappingProxyType[Any, OptionKind] = MappingProxyType(
    {int: WHOLE, float: NUMBER, tuple[float, ...]: _NUMBERS}
)


def parse_law(text: str, where: str) -> LengthDistribution:
    """Return the length law given as ``name:parameter=value:...``.

    Parameters
    ----------
    text : str
        ``geometric:mean=200``, ``homogeneous:value=200``, ``uniform:lowest=1:highest=1000`` or
        ``lognormal:median=800:sigma=1.1:maximum=32768`` (the maximum is optional).
    where : str
        Place named in errors.

    Raises
    ------
    InputError
        If the law, a parameter or a value is unknown, or a parameter is missing.
    """
    made: LengthDistribution = _parsed(text, where, _LAWS)
    return made


def parse_arrivals(text: str, where: str) -> ArrivalProcess:
    """Return the arrival process given as ``name:parameter=value:...``.

    Parameters
    ----------
    text : str
        ``poisson:rate=300``, ``gamma:rate=300:cv=5``,
        ``on-off:rate_on=1000:rate_off=20:mean_on_s=2:mean_off_s=5``,
        ``mmpp:rates=1000/300/20:mean_stays_s=2/5/5``,
        ``diurnal:rate=300:amplitude=0.8:period_s=86400`` or
        ``surges:rate_base=100:rate_surge=900:every_s=60:length_s=5``.
    where : str
        Place named in errors.

    Raises
    ------
    InputError
        If the process, a parameter or a value is unknown, or a parameter is missing.
    """
    made: ArrivalProcess = _parsed(text, where, _PROCESSES)
    return made


def _parsed(text: str, where: str, laws: Mapping[str, type[Any]]) -> Any:
    try:
        name, texts = split_options(text, laws)
    except InputError as error:
        raise InputError(where, error.what, error.remedy) from None
    if name not in laws:
        raise InputError(where, f"unknown law {name!r}", use_one_of(name, laws))
    law = laws[name]
    kinds = {entry.name: _KINDS[entry.type] for entry in fields(law)}
    given = read_texts(kinds, texts, where)
    try:
        return law(**given)
    except TypeError:
        missing = ", ".join(name for name in kinds if name not in given)
        raise InputError(where, f"{text!r} lacks a parameter", f"give {missing}") from None
