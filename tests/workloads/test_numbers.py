"""Numbers and time stamps of trace cells, against the decimal and datetime modules."""

import datetime
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.workloads import request_data
from bfio.workloads.request_data import ArrivalTimes
from bfio.workloads.trace_format import (
    MAX_CHARACTERS,
    format_decimal,
    has_offset,
    is_blank,
    parse_decimal,
    seconds,
    shown,
    timestamp,
    token_count,
)
from formulations.arrays import MAX_TOKENS
from formulations.errors import InputError

NOT_NUMBERS = [
    "", " ", ".", "-", "e5", "1e", "1_000", "1,5", "0x10", "nan", "NaN", "inf", "-inf", "Infinity",
    "1e99999999", "1e-99999999", "1e101", "1e-101", "1 2", "+1", "--1", "1.2.3", "½", "²",
    "\u0661\u0662", "\uff11", "1\n", "1" * (MAX_CHARACTERS + 1), "true", "1/3",
]  # fmt: skip
HALF_DAY_OFFSETS = st.integers(-12 * 60, 12 * 60)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12))
def test_decimal_agrees_with_decimal_module(value: Decimal) -> None:
    """Any finite decimal of sensible size is read at its exact value, exponents included."""
    text = str(value)
    assume(len(text) <= MAX_CHARACTERS and abs(value.adjusted()) <= 90)
    assert parse_decimal(text, "here") == Fraction(value)


@given(st.floats(min_value=0, max_value=1e12))
def test_float_repr_is_read_exactly(value: float) -> None:
    """The shortest repr of a float, which is how Python writes CSV files, comes back as itself."""
    assume(value == 0 or value >= 1e-90)
    assert parse_decimal(repr(value), "here") == Fraction(repr(value))
    assert float(parse_decimal(repr(value), "here")) == value


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_not_a_number(text: str) -> None:
    """Whatever is not a plain decimal is refused, at once and by name."""
    with pytest.raises(InputError, match=r"^here: .*finite decimal number|extreme exponent"):
        parse_decimal(text, "here")


@given(st.integers(0, 10**30), st.integers(0, 40))
def test_decimal_round_trip(numerator: int, digits: int) -> None:
    """Writing and reading a decimal fraction is the identity, and the text is the shortest."""
    value = Fraction(numerator, 10**digits)
    text = format_decimal(value, "here")
    assert parse_decimal(text, "here") == value
    assert "e" not in text
    assert "." not in text or not text.endswith("0")


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_endless_expansion_is_refused(numerator: int, denominator: int) -> None:
    """A fraction is written iff its reduced denominator has no prime factor but 2 and 5."""
    value = Fraction(numerator, denominator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest == 1:
        assert Fraction(format_decimal(value, "here")) == value
    else:
        with pytest.raises(InputError, match="no decimal expansion"):
            format_decimal(value, "here")


def test_expansion_too_long_is_refused() -> None:
    """2^-99 ends, after 99 digits: longer than any reader accepts."""
    with pytest.raises(InputError, match="no decimal expansion"):
        format_decimal(Fraction(1, 2**99), "here")


@given(st.one_of(st.text(), st.integers(), st.lists(st.integers())))
def test_shown_is_short(value: object) -> None:
    """What an error message quotes fits on a line."""
    text = shown(value)
    assert len(text) <= 40
    assert "\n" not in text


@given(st.integers(0, MAX_TOKENS))
def test_token_count(value: int) -> None:
    """Every count in range is read, as text (with blanks and zeros in front) and as JSON."""
    assert token_count({"n": str(value)}, "n") == value
    assert token_count({"n": f" 0{value} "}, "n") == value
    assert token_count({"n": value}, "n") == value


@pytest.mark.parametrize("cell", ["721.0", "721.", " 0721.000 ", 721, 721.0])
def test_whole_floats_are_token_counts(cell: object) -> None:
    """Tables of floats write 721 as 721.0."""
    assert token_count({"n": cell}, "n") == 721


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        *[(text, "not a whole number") for text in NOT_NUMBERS if text.strip("1\n")],
        ("3.5", "'3.5' is not a whole number"),
        ("3.0.0", "'3.0.0' is not a whole number"),
        (".0", "'.0' is not a whole number"),
        ("-3.0", "'-3.0' is negative"),
        ("1e3", "not a whole number"),
        ("-1", "'-1' is negative"),
        (-1, "-1 is negative"),
        (str(MAX_TOKENS + 1), f"is more than {MAX_TOKENS} tokens"),
        ("9" * 50, f"is more than {MAX_TOKENS} tokens"),
        ("9" * 5000, f"is more than {MAX_TOKENS} tokens"),
        (MAX_TOKENS + 1, f"is more than {MAX_TOKENS} tokens"),
        (3.5, "3.5 is not a whole number"),
        (float("inf"), "inf is not a whole number"),
        (float("nan"), "nan is not a whole number"),
        (True, "True is not a whole number"),
        (None, "None is not a whole number"),
        ([3], "not a whole number"),
    ],
)
def test_bad_token_count(cell: object, message: str) -> None:
    """Fractions, signs, other scripts and huge numbers are refused with the value."""
    with pytest.raises(InputError) as caught:
        token_count({"n": cell}, "n")
    assert caught.value.where == "column 'n'"
    assert message in caught.value.what
    assert "skip_bad_rows=True" in caught.value.remedy


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("-0.5", "'-0.5' is negative"),
        ("1e13", "is more than"),
        ("nan", "not a finite decimal"),
        (float("nan"), "not a finite decimal"),
        (float("inf"), "not a finite decimal"),
        (False, "expected a number"),
        (None, "expected a number"),
        ({}, "expected a number"),
    ],
)
def test_bad_seconds(cell: object, message: str) -> None:
    """Times are finite, at least 0 and at most 32,000 years."""
    with pytest.raises(InputError) as caught:
        seconds({"t": cell}, "t")
    assert message in caught.value.what
    assert caught.value.where == "column 't'"


def test_seconds_in_milliseconds() -> None:
    """The unit is divided out exactly: 7 ms is 7/1000 s; the limit applies to seconds."""
    assert seconds({"t": 7}, "t", per_second=1000) == Fraction(7, 1000)
    assert seconds({"t": 10**15}, "t", per_second=1000) == 10**12
    with pytest.raises(InputError, match="is more than"):
        seconds({"t": 10**15 + 1}, "t", per_second=1000)


def test_missing_cell() -> None:
    """A key that a JSON object lacks is named."""
    with pytest.raises(InputError, match="column 't': missing"):
        seconds({}, "t")


@given(
    st.datetimes(min_value=datetime.datetime(1000, 1, 1)),
    st.integers(0, 9),
    st.sampled_from(" T"),
)
def test_naive_timestamp_agrees_with_datetime(
    moment: datetime.datetime, extra: int, separator: str
) -> None:
    """Seven fractional digits are the microseconds of datetime plus one digit more."""
    text = moment.isoformat(separator, timespec="microseconds") + str(extra)
    elapsed = moment - datetime.datetime(1, 1, 1)
    # Day 1 is the ordinal of 1 January of year 1, hence one day more than the difference.
    micros = (elapsed.days + 1) * 86_400_000_000 + elapsed.seconds * 10**6 + elapsed.microseconds
    expected = Fraction(micros * 10 + extra, 10**7)
    assert timestamp({"t": text}, "t", offset=False) == expected
    assert not has_offset({"t": text}, "t")


@given(st.datetimes(min_value=datetime.datetime(1900, 1, 1)), HALF_DAY_OFFSETS)
def test_offsets_cancel(moment: datetime.datetime, minutes: int) -> None:
    """The same moment in two zones is the same time."""
    zone = datetime.timezone(datetime.timedelta(minutes=minutes))
    try:
        local = moment.replace(tzinfo=datetime.UTC).astimezone(zone)
    except OverflowError:
        return
    universal = timestamp({"t": f"{moment.isoformat(' ')}Z"}, "t", offset=True)
    assert timestamp({"t": local.isoformat(" ")}, "t", offset=True) == universal
    assert has_offset({"t": local.isoformat(" ")}, "t")


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("2023-11-16 18:17:03", True, "has no UTC offset, unlike the first row"),
        ("2023-11-16 18:17:03+00:00", False, "has a UTC offset, unlike the first row"),
        ("2023-02-29 00:00:00", False, "'2023-02-29' is not a calendar date"),
        ("2023-13-01 00:00:00", False, "is not a calendar date"),
        ("2023-11-16 24:00:00", False, "is not a time of day"),
        ("2023-11-16 23:60:00", False, "is not a time of day"),
        ("2023-11-16 23:59:60", False, "is not a time of day"),
        ("2023-11-16 00:00:00+24:00", True, "is not a valid UTC offset"),
        ("2023-11-16", False, "is not a date and time"),
        ("16/11/2023 18:17:03", False, "is not a date and time"),
        ("2023-11-16 18:17:03.", False, "is not a date and time"),
        ("\u0662\u0660\u0662\u0663-11-16 18:17:03", False, "is not a date and time"),
        ("", False, "is not a date and time"),
    ],
)
def test_bad_timestamp(text: str, offset: bool, message: str) -> None:
    """Impossible dates and times, and a change of convention, are refused."""
    with pytest.raises(InputError) as caught:
        timestamp({"t": text}, "t", offset=offset)
    assert message in caught.value.what


def test_blank() -> None:
    """Blank is an empty cell, not a missing one and not 0."""
    assert is_blank({"t": " "}, "t")
    assert not is_blank({"t": "0"}, "t")
    assert not is_blank({"t": 0}, "t")
    assert not is_blank({}, "t")


@given(
    st.lists(st.integers(0, 10**15), max_size=9),
    st.fractions(min_value=Fraction(1, 10**9), max_value=10**9),
)
def test_scaled_times_are_the_nearest_floats(ticks: list[int], factor: Fraction) -> None:
    """However many times are scaled at once, and whether or not the products fit 64 bits."""
    times = ArrivalTimes(np.array(ticks, dtype=np.int64), 10**6)
    with patch.object(request_data, "_PIECE", 2):
        found = times.scaled_seconds(factor)
    assert found.tolist() == [float(Fraction(tick, 10**6) * factor) for tick in ticks]
