"""Which columns of a table hold a request: by its format, by its names, or as the user says."""

import shlex
from collections.abc import Mapping

from bfio.workloads.cells import is_number, is_timestamp
from bfio.workloads.column_choice import (
    doubt,
    guessed_columns,
    named_format,
    parse_columns,
    suggested_columns,
)
from bfio.workloads.decimals import shown
from bfio.workloads.tables import Table
from bfio.workloads.trace_format import Layout, TraceFormat
from bfio.workloads.trace_formats import formats
from formulations.errors import InputError


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
        Its layout, header and first row.
    source : str
        Name of the file or frame, for errors.
    columns : mapping or str, optional
        Columns that the user names; see `bfio.workloads.column_choice`.
    is_file : bool
        Whether a command can read it.

    Raises
    ------
    InputError
        If no known format has its columns and their names leave doubts, with what to write.
    """
    if isinstance(columns, str):
        columns = parse_columns(columns)
    if columns is not None and not isinstance(columns, Mapping):
        what = f"a {type(columns).__name__} is no mapping of roles to columns"
        raise InputError("columns", what, 'write {"prompt": "in", "output": "out"}')
    if columns is not None:
        _refuse_comment(table, source, columns)
        return named_format(columns, table.layout, table.header, table.first_row)
    matching = [f for f in formats() if f.matches(table.layout, table.header, table.first_row)]
    if matching:
        # The format that accounts for most columns: BurstGPT 3 has all those of BurstGPT 1.
        return max(matching, key=lambda f: len(f.columns))
    guessed = guessed_columns(table.header, table.first_row)
    why = doubt(guessed, table.header, table.first_row)
    if why is None:
        return named_format(guessed, table.layout, table.header, table.first_row)
    _refuse_comment(table, source, {})
    raise _unknown(table, source, guessed, why, is_file)


def _refuse_comment(table: Table, source: str, columns: Mapping[str, str]) -> None:
    """Refuse a first line that is a comment; one that names the columns asked for is a header."""
    is_comment = (
        table.layout is Layout.CSV and table.header[:1] and table.header[0].startswith("#")
    )
    if is_comment and (not columns or not set(columns.values()) <= set(table.header)):
        first = ", ".join(table.header)[:40]
        remedy = f"leave such lines out (zgrep -v '^#' {shlex.quote(source)} > NEW.csv)"
        if not columns:
            remedy += ", or name its columns if it is the header"
        raise InputError(source, f"begins with a comment, {first!r}, and no header", remedy)


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
    found = ", ".join(name[:30] for name in table.header[:8])
    columns = suggested_columns(guessed)
    remedy = f'name them: columns="{columns}"'
    if is_file:
        command = shlex.join(("bfio", "traces", "inspect", source, "--columns", columns))
        remedy = f"name them: {command}"
    if unread and table.first_row:
        cell = shown(table.first_row.get(name))
        remedy += f"; without times, as {cell} in {name!r} is none (dates: 2024-01-31 12:00:00)"
    if "prefix" in guessed:
        remedy += "; prefix is added to prompt, leave it out where the prompt includes it"
    if "arrival" in guessed:
        remedy += "; arrival counts seconds, arrival_ms, arrival_us and arrival_ns what they say"
    return InputError(
        f"{source} line 1" if is_file else source,
        f"no known trace format has the columns {found!r}, and {why}",
        remedy,
    )
