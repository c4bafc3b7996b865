"""Kinds of options that several policies or predictors have: what their values are."""

from fractions import Fraction

from bfio.common.options import NUMBER, RATIONAL, WHOLE, OptionKind, checked, one_of, whole
from formulations.errors import InputError
from formulations.rationals import exact_rational
from formulations.work import checked_work_limit

#: Longest look-ahead of a policy of this toolkit.
MAX_HORIZON = 5000


def rational(
    least: Fraction | int, most: Fraction | int, largest_part: int | None = None
) -> OptionKind:
    """Return the kind of rational numbers from ``least`` to ``most``.

    With ``largest_part`` neither numerator nor denominator is larger than that.
    """

    def check(value: object, name: str) -> Fraction:
        ratio = exact_rational(value, name)
        if not least <= ratio <= most:
            raise InputError(name, f"{ratio} is out of range", f"use {least} to {most}")
        if largest_part is not None and max(ratio.as_integer_ratio()) > largest_part:
            remedy = f"use a/b of whole numbers up to {largest_part}"
            raise InputError(name, f"{ratio} is out of range", remedy)
        return ratio

    return checked(RATIONAL, check)


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
#: ``q``, tokens after which a predictor is asked about a request again.
REFRESH = whole(1, 10**7)
#: Any rational number >= 0, one by which loads are multiplied, and a discount per step.
EXACT = checked(RATIONAL, exact_rational)
SMALL_RATIO = rational(0, 10**6, 10**6)
DISCOUNT = checked(RATIONAL, _discount)
#: Limits of solves, in ticks (`formulations.work`) and in seconds.
WORK_LIMIT, TIME_LIMIT = (checked(WHOLE, checked_work_limit), checked(NUMBER, _time_limit))
#: How stage 2 of the two-stage heuristic orders workers.
STAGE_2_KEY = one_of("lexicographic", "product")
#: What options of arriving requests are read beside: a pool does not know when they arrive.
TIMED = "arrivals=timed"
