"""Kinds of options that several policies have: what their values are, and which."""

from fractions import Fraction

from bfio.common.options import NUMBER, RATIONAL, WHOLE, checked, one_of, whole
from formulations.errors import InputError
from formulations.rationals import exact_rational
from formulations.work import checked_work_limit

#: Longest look-ahead of a policy of this toolkit.
MAX_HORIZON = 5000
#: Largest numerator and denominator of factors that loads are multiplied by.
_MAX_PART = 10**6


def _small_ratio(value: object, name: str) -> Fraction:
    ratio = exact_rational(value, name)
    if max(ratio.as_integer_ratio()) > _MAX_PART:
        remedy = f"use a/b >= 0 of whole numbers up to {_MAX_PART}"
        raise InputError(name, f"{ratio} is out of range", remedy)
    return ratio


def _discount(value: object, name: str) -> Fraction:
    gamma = exact_rational(value, name)
    if not 0 < gamma <= 1:
        raise InputError(name, f"{gamma} is out of range", "use 0 < gamma <= 1")
    return gamma


def _time_limit(value: object, name: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise InputError(name, f"{value!r} s", "give a finite number of seconds > 0")
    return value


#: ``H``, steps.
HORIZON = whole(0, MAX_HORIZON)
#: Any rational number >= 0, one by which loads are multiplied, and a discount per step.
EXACT = checked(RATIONAL, exact_rational)
SMALL_RATIO = checked(RATIONAL, _small_ratio)
DISCOUNT = checked(RATIONAL, _discount)
#: Limits of solves, in ticks (`formulations.work`) and in seconds.
WORK_LIMIT, TIME_LIMIT = checked(WHOLE, checked_work_limit), checked(NUMBER, _time_limit)
#: How stage 2 of the two-stage heuristic orders workers.
STAGE_2_KEY = one_of("lexicographic", "product")
#: What options of arriving requests are read beside: a pool does not know when they arrive.
TIMED = "arrivals=timed"
