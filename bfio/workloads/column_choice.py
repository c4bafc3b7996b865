"""Choose the columns of a trace: by format, by their names, or as the user states.

Files in no published format can be read if the user names the columns, or if the column names are
unambiguous.
"""

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from bfio.workloads.tables import Table
from bfio.workloads.trace_format import (
    Layout,
    RequestColumns,
    RequestRow,
    Row,
    TimeColumn,
    TimeText,
    TraceFormat,
    has_offset,
    is_number,
    is_timestamp,
    role_of_number,
    shown,
)
from bfio.workloads.trace_formats import formats
from formulations.errors import InputError, kind_of, use_one_of

#: Roles of arrival time columns, with units per second.
ARRIVALS = {"arrival": 1, "arrival_ms": 10**3, "arrival_us": 10**6, "arrival_ns": 10**9}
#: All roles that a column can have.
ROLES = (*ARRIVALS, "prefix", "prompt", "output")
_EXAMPLE = "write arrival=NAME,prompt=NAME,output=NAME"

# Common column names, in lower case and reduced to letters and digits.
_PROMPTS = frozenset((
    "prompt", "prompttokens", "promptlength", "promptlen", "promptsize", "numprompttokens",
    "nprompttokens", "input", "inputtokens", "inputlength", "inputlen", "inputsize",
    "numinputtokens", "isl", "prefilltokens", "numprefilltokens", "contexttokens",
    "contextlength", "requesttokens", "tokensin", "tokenizedpromptlength",
))  # fmt: skip
_OUTPUTS = frozenset((
    "output", "outputtokens", "outputlength", "outputlen", "outputsize", "numoutputtokens",
    "osl", "completiontokens", "completionlength", "numcompletiontokens", "generatedtokens",
    "generationtokens", "generationlength", "responsetokens", "responselength",
    "decodetokens", "numdecodetokens", "decodelength", "tokensout",
))  # fmt: skip
_ARRIVALS = frozenset((
    "arrival", "arrivaltime", "arrivaltimestamp", "arrived", "arrivedat", "timestamp",
    "time", "ts", "requesttime", "requesttimestamp", "starttime", "startedat", "submittime",
    "submittedat", "createdat", "datetime", "date",
))  # fmt: skip
# Words in column names that indicate a time, a duration, a part of a prompt or a session.
_WORDS_OF_MOMENTS = frozenset((
    "at", "clock", "date", "datetime", "epoch", "launch", "sent", "started", "submitted", "ts",
))  # fmt: skip
_WORDS_OF_DURATIONS = frozenset((
    "delay", "duration", "elapsed", "itl", "latency", "response", "service", "tpot", "ttft",
    "wait",
))  # fmt: skip
_WORDS_OF_PARTS = frozenset((
    "audio", "cached", "hash", "hashes", "image", "images", "prefix", "prefixes", "video",
    "videos",
))  # fmt: skip
_WORDS_OF_SESSIONS = frozenset((
    "chat", "conversation", "dialog", "dialogue", "parent", "round", "session", "thread", "turn",
))  # fmt: skip
# Words in column names that indicate aggregates over many requests per row.
_WORDS_OF_MANY = frozenset((
    "average", "avg", "mean", "median", "metric", "percentile", "qps", "rps", "samples", "std",
))  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PERCENTILE = re.compile(r"(.*[^a-z])?p[0-9]{2,3}([^a-z0-9].*)?")
_UNIT = re.compile(r"[ _([\[]+(s|sec|secs|seconds?|ms|millis|milliseconds?|us|micros|ns)[)\]]*$")
_ROLE_OF_UNIT = {"s": "arrival", "m": "arrival_ms", "u": "arrival_us", "n": "arrival_ns"}


def _refused(what: str, remedy: str = _EXAMPLE) -> InputError:
    return InputError("columns", what, remedy)


def parse_columns(text: str) -> dict[str, str]:
    """Parse columns given as ``role=name,role=name``, in the syntax of a CSV row.

    A name with a comma must be quoted: ``"arrival=time, s",prompt=in``.

    Raises
    ------
    InputError
        If the text does not follow this syntax.
    """
    found: dict[str, str] = {}
    for part in _parts(text):
        role, equals, name = part.partition("=")
        if not equals or not name.strip():
            raise _refused(f"{part!r} is not of the form role=NAME")
        if role.strip() in found:
            raise _refused(f"role {role.strip()} is given twice", "remove one of them")
        found[role.strip()] = name.strip()
    return found


def _parts(text: str) -> list[str]:
    try:
        return next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise _refused(f"unreadable ({error})") from None


def named_format(
    columns: Mapping[str, str], layout: Layout, header: Sequence[str], first_row: Row
) -> TraceFormat:
    """Return the format of a table whose columns the user names.

    Parameters
    ----------
    columns : mapping
        Name of the column of each role in `ROLES`; ``arrival`` is in seconds if it holds numbers.
    layout, header, first_row
        Layout, header and first row of the table; the first row determines the format of dates.

    Raises
    ------
    InputError
        If a role is unknown, missing or given twice, or a column does not exist.
    """
    for role, name in columns.items():
        if not isinstance(name, str):
            raise _refused(f"{name!r} is not a column name")
        if role not in ROLES:
            raise _refused(f"unknown role {role!r}", use_one_of(role, ROLES))
        if name not in header:
            raise _refused(f"column {name!r} does not exist", use_one_of(name, header))
    for role in ("prompt", "output"):
        if role not in columns:
            raise _refused(f"role {role} has no column")
    repeated = [name for name, count in Counter(columns.values()).items() if count > 1]
    if repeated:
        raise _refused(f"column {repeated[0]!r} has two roles")
    arrivals = [role for role in ARRIVALS if role in columns]
    if len(arrivals) > 1:
        raise _refused(f"{arrivals[0]} and {arrivals[1]} are both given", "give one of them")
    arrival = _time_column(arrivals[0], columns[arrivals[0]], first_row) if arrivals else None
    prefix = columns.get("prefix")
    parse = RequestColumns(columns["prompt"], columns["output"], arrival, prefix=prefix)
    return TraceFormat(
        name=f"columns {_written(columns)}",
        description="columns that the user names",
        source="the user",
        columns=parse.names,
        parse=parse,
        layout=layout,
    )


def guessed_columns(header: Sequence[str], first_row: Row) -> dict[str, str]:
    """Return the columns whose names uniquely indicate a role.

    Arrival times and prefixes are included even if uncertain; see `doubt`.
    """
    guessed: dict[str, str] = {}
    for role, names in (("arrival", _ARRIVALS), ("prompt", _PROMPTS), ("output", _OUTPUTS)):
        found = [name for name in header if _is_one_of(name, names)]
        if role == "arrival" and not found:
            found = [name for name in header if is_moment(name)]
        if len(found) == 1:
            unit = _UNIT.search(found[0].lower())
            numbers = role == "arrival" and unit and not is_timestamp(first_row, found[0])
            if role == "arrival" and not unit and is_number(first_row, found[0]):
                role = role_of_number(Fraction(str(first_row[found[0]]).strip()))
            guessed[_ROLE_OF_UNIT[unit[1][0]] if unit and numbers else role] = found[0]
    prefixes = [name for name in header if _is_a_length_of_prefixes(name)]
    if len(prefixes) == 1:
        guessed["prefix"] = prefixes[0]
    return {role: guessed[role] for role in ROLES if role in guessed}


def doubt(guessed: Mapping[str, str], header: Sequence[str], first_row: Row) -> str | None:
    """Return the reason why guessed columns may be wrong; None if the names are unambiguous."""
    if "prompt" not in guessed or "output" not in guessed:
        return "no column is clearly a prompt or output length"
    for name in header:
        if _words(name) & _WORDS_OF_MANY or _PERCENTILE.fullmatch(name.lower()):
            return f"{shown(name)} looks like a measurement of many requests in one row"
    prefixes = [name for name in header if _is_a_length_of_prefixes(name)]
    if prefixes:
        return f"{shown(prefixes[0])} may be a part of the prompt or come before it"
    timed = [name for name in header if _is_one_of(name, _ARRIVALS)]
    if len(timed) > 1:
        return f"{shown(timed[0])} and {shown(timed[1])} look like arrival times"
    if timed and not (_UNIT.search(timed[0].lower()) or is_timestamp(first_row, timed[0])):
        return f"{shown(timed[0])} has no unit"
    if not timed and (times := [name for name in header if is_moment(name)]):
        return f"{shown(times[0])} looks like a time"
    return None


def unused_columns(header: Sequence[str], used: Sequence[str]) -> list[str]:
    """Return unread columns that look like a time, a part of a prompt or a session."""
    words = _WORDS_OF_DURATIONS | _WORDS_OF_PARTS | _WORDS_OF_SESSIONS
    return [
        name
        for name in header
        if name not in used
        and (is_moment(name) or _UNIT.search(name.lower()) or _words(name) & words)
    ]


@lru_cache(maxsize=1024)
def is_moment(name: str) -> bool:
    """Return whether a name looks like the time of an event."""
    words = _words(name)
    if words & _WORDS_OF_DURATIONS:
        return False
    return (
        _is_one_of(name, _ARRIVALS)
        or bool(words & _WORDS_OF_MOMENTS)
        or any(word.endswith(("time", "times", "stamp", "stamps")) for word in words)
    )


def _is_one_of(name: str, names: frozenset[str]) -> bool:
    """Return whether a name without its unit is one of the given common names."""
    return _plain(_UNIT.sub("", name.lower())) in names


def _is_a_length_of_prefixes(name: str) -> bool:
    words = _words(name)
    return "prefix" in words and bool(words & {"len", "length", "size", "tokens", "toks", "num"})


def _words(name: str) -> set[str]:
    """Return the words of a column name in lower case; NumImages gives num and images."""
    return {word.lower() for word in _WORD.findall(name)}


def suggested_columns(guessed: Mapping[str, str]) -> str:
    """Return a text for the option ``columns``, with NAME for roles without a guess."""
    named = {"prompt": "NAME", "output": "NAME"} | dict(guessed)
    return _written({role: named[role] for role in ROLES if role in named})


def _time_column(role: str, name: str, first_row: Row) -> TimeColumn:
    if not is_timestamp(first_row, name):
        return TimeColumn(name, per_second=ARRIVALS[role])
    text = TimeText.OFFSET if has_offset(first_row, name) else TimeText.LOCAL
    return TimeColumn(name, text)


def _written(columns: Mapping[str, str]) -> str:
    written = io.StringIO()
    parts = [f"{role}={name}" for role, name in columns.items()]
    csv.writer(written, lineterminator="").writerow(parts)
    return written.getvalue()


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name)


def detected_format(
    table: Table,
    source: str,
    columns: Mapping[str, str] | str | None = None,
    *,
    is_file: bool = True,
) -> TraceFormat:
    """Return the format of a table.

    Parameters
    ----------
    table : Table
        Table with its layout, header and first row.
    source : str
        Name of the file or frame in error messages.
    columns : mapping or str, optional
        Columns given by the user; see `bfio.workloads.column_choice`.
    is_file : bool
        Whether the table is a file, so that the remedy can be a command.

    Raises
    ------
    InputError
        If no known format matches and the column names are ambiguous; the message gives a remedy.
    """
    if isinstance(columns, str):
        columns = parse_columns(columns)
    if columns is not None and not isinstance(columns, Mapping):
        what = f"{kind_of(columns)} is not a mapping of roles to columns"
        raise _refused(what, 'write {"prompt": "in", "output": "out"}')
    if columns is not None:
        _refuse_comment(table, source, columns)
        return named_format(columns, table.layout, table.header, table.first_row)
    matching = [f for f in formats() if f.matches(table.layout, table.header, table.first_row)]
    if matching:
        # Prefer the format with most columns: BurstGPT 3 has all those of BurstGPT 1.
        return max(matching, key=lambda f: len(f.columns))
    guessed = guessed_columns(table.header, table.first_row)
    why = doubt(guessed, table.header, table.first_row)
    if why is None:
        found = named_format(guessed, table.layout, table.header, table.first_row)
        if guessed.keys() & ARRIVALS.keys() or table.layout is Layout.CSV:
            return found

        def parse(row: Row) -> RequestRow:
            # Keys of JSON Lines differ by row; the reader refuses times of only some rows.
            is_timed = any(is_moment(name) for name in row)
            return found.parse(row)._replace(arrival=Fraction(0) if is_timed else None)

        return replace(found, parse=parse)
    _refuse_comment(table, source, {})
    raise _unknown(table, source, guessed, why, is_file)


def _refuse_comment(table: Table, source: str, columns: Mapping[str, str]) -> None:
    """Raise an error if the first line is a comment, unless it contains the columns named."""
    is_comment = (
        table.layout is Layout.CSV and table.header[:1] and table.header[0].startswith("#")
    )
    if is_comment and (not columns or not set(columns.values()) <= set(table.header)):
        first = ", ".join(table.header)[:40]
        remedy = f"leave such lines out (zgrep -v '^#' {shlex.quote(source)} > NEW.csv)"
        if not columns:
            remedy += ", or name its columns if the comment is the header"
        raise InputError(source, f"begins with a comment, {first!r}, not with a header", remedy)


def _unknown(
    table: Table, source: str, guessed: Mapping[str, str], why: str, is_file: bool
) -> InputError:
    unread = [
        (role, name)
        for role, name in guessed.items()
        if role not in ("prefix", "prompt", "output")
        and not (is_timestamp(table.first_row, name) or is_number(table.first_row, name))
    ]
    if unread and table.first_row:
        (role, name) = unread[0]
        guessed = {other: column for other, column in guessed.items() if other != role}
    if not table.header:
        raise InputError(source, "has no columns", "give columns of prompt and output lengths")
    found = ", ".join(name[:30] for name in table.header[:8])
    columns = suggested_columns(guessed)
    remedy = f'name them: columns="{columns}"'
    if is_file:
        command = shlex.join(("bfio", "traces", "inspect", source, "--columns", columns))
        remedy = f"name them: {command}"
    if unread and table.first_row:
        cell = shown(table.first_row.get(name))
        remedy += f"; {name!r} is omitted: {cell} in it is no time (dates: 2024-01-31 12:00:00)"
    if "prefix" in guessed:
        remedy += "; prefix is added to prompt: omit it if the prompt includes the prefix"
    if "arrival" in guessed:
        remedy += (
            "; arrival is in seconds; use arrival_ms, arrival_us or arrival_ns for other units"
        )
    return InputError(
        f"{source} line 1" if is_file else source,
        f"no known trace format has the columns {found!r}, and {why}",
        remedy,
    )
