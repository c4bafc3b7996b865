"""Ways to spoil a value, a document or a file, each a function of a random generator."""

import contextlib
import gzip
import json
import math
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

#: Difficult numbers, and texts that look like numbers.
NUMBERS = (
    *("0", "-1", "1", "2", "3", "7", "40", "1.5", "1/3", "2/0", "-0", "0.0", "1e-9", "0.001"),
    *("nan", "inf", "-inf", "1e300", "-1e300", "1e-300", "1e400", "9" * 400, f"{10**12}"),
    *("2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "1" + "0" * 19),
    *("0x10", "1_000", "１２", "٣", " 5", "5 ", "+5", "1,5", "1e5", "007", "5%", "5s"),
)
#: Difficult texts.
TEXTS = (
    *("", " ", "-", "--", "--no-such", "=", ":", "::", ",", ",,", "a,b", "a=b", ".", "..", "*"),
    *("%s", "{}", "{0.x}", "\n", "a\nb", "\x1b[31m", "\u2028", "é", "😀", "\udcff", "[/]"),
    *("[bold]x", "x" * 5000, "None", "null", "True", "auto", "all", "none", "module:", ":f"),
    *("json:loads", "os:sep", "builtins:object", "math:nan", "no_such_module:f", "mine:missing"),
    *("mine:Raiser", "mine:Junk", "mine:Mute", "mine:Late", "mine:raises", "mine:leaves"),
    *("mine:nothing", "mine:nan", "mine:text", "mine:huge", "mine:itself", "mine:chatty"),
    *("mine:number", "mine:empty", "mine:raiser", "mine:junk", "mine:Raiser:a=1"),
)
#: Paths that are not regular files.
PLACES = (
    *("missing.json", "missing/file.json", ".", "", "loop", "x" * 300, "mine.py/x", "a\nb.json"),
    *("/proc/self/mem", "/dev/null", "\udcff.json", "~/x", "folder", "-", "/proc/nowhere", "é"),
    *("empty.csv", "/dev/full"),
)
#: Most items of a list that is made longer.
_MOST_ITEMS = 20_000
#: Wrong values for a cell of a store.
_CELLS = (
    *(None, "", "text", "{}", "[]", -1, 1.5, 2**62, "NaN", b"\xff", '{"a": 1e400}', '{"a": NaN}'),
    *("é", "\x00", "[" * 9999),
)
#: Wrong values for a part of a JSON document.
_JSON: tuple[Any, ...] = (
    *(None, True, False, "", "text", "1/3", "1e400", "9" * 400, " 5", "\ud800", "é\n\x1b", [], {}),
    *(0, 1, 2, -1, 3, 0.5, -0.0, 1e308, 1e-320, math.nan, math.inf, -math.inf, 10**12, 10**19),
    *(2**31, 2**53 + 1, 2**63, 10**400, [[]], [None], {"": {}}, [0] * 300, "mine:raises", "nan"),
)


def spoil_value(rng: Random, value: str, pool: tuple[str, ...] = ()) -> str:
    """Return another value of an option: one that is known, a nasty one, or parts of each."""
    way = rng.random()
    if pool and way < 0.3:
        return rng.choice(pool)
    if way < 0.55:
        return rng.choice(NUMBERS)
    if way < 0.8 or not value:
        return rng.choice(TEXTS)
    return _spoil_text(rng, value)


def _spoil_text(rng: Random, text: str) -> str:
    """Replace, double, drop or misspell one part of a text of parts."""
    breaks = sorted({i for i, c in enumerate(text) if c in ",:=/.;|-@"})
    place = rng.choice(breaks) if breaks and rng.random() < 0.8 else rng.randrange(len(text))
    head, tail = text[:place], text[place + 1 :]
    joints = text[place] if place in breaks else ""
    ways: list[Callable[[], str]] = [
        lambda: head,
        lambda: tail,
        lambda: head + joints + rng.choice(NUMBERS),
        lambda: rng.choice(NUMBERS) + joints + tail,
        lambda: head + joints + rng.choice(TEXTS),
        lambda: text + (joints or ",") + text,
        lambda: head + joints + joints + tail,
        lambda: head[:-1] + joints + tail,
        lambda: text.upper(),
        lambda: head + (joints or ":") + "x=1" + joints + tail,
    ]
    return rng.choice(ways)()


def spoil_json(rng: Random, document: Any) -> Any:
    """Return a copy of a document with one part dropped, doubled, renamed or replaced."""
    document = json.loads(json.dumps(document))
    holders = [h for h in _holders(document) if h]
    if not holders or rng.random() < 0.03:
        return rng.choice(_JSON)
    holder = rng.choice(holders)
    if isinstance(holder, list):
        _spoil_list(rng, holder)
    else:
        _spoil_object(rng, holder)
    return document


def _holders(document: Any) -> list[Any]:
    """Return all lists and objects of a document, itself included."""
    found, open_parts = [], [document]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, dict | list):
            found.append(part)
            open_parts += part.values() if isinstance(part, dict) else part
    return found


def _spoil_list(rng: Random, items: list[Any]) -> None:
    place = rng.randrange(len(items))
    way = rng.randrange(7)
    if way == 0:
        del items[place]
    elif way == 1:
        items.insert(place, items[rng.randrange(len(items))])
    elif way == 2:
        items[:] = items * min(
            rng.choice((2, 3, 10, 10, 300, 3000)), _MOST_ITEMS // len(items) + 1
        )
    elif way == 3:
        items.append(rng.choice(_JSON))
    elif way == 4:
        items.clear()
    else:
        items[place] = _other(rng, items[place])


def _spoil_object(rng: Random, entries: dict[str, Any]) -> None:
    key = rng.choice(sorted(entries))
    way = rng.randrange(8)
    if way == 0:
        del entries[key]
    elif way == 1:
        entries[rng.choice((key[:-1], key.upper(), key + "x", "", "é", "__class__"))] = (
            entries.pop(key)
        )
    elif way == 2:
        entries[rng.choice(("surprise", "seed", "name", "limits", "output"))] = rng.choice(_JSON)
    elif way == 3:
        entries[key] = entries[rng.choice(sorted(entries))]
    else:
        entries[key] = _other(rng, entries[key])


def _other(rng: Random, value: Any) -> Any:
    """Return something in the place of a value: near it, or anything."""
    if isinstance(value, bool) or rng.random() < 0.5:
        return rng.choice(_JSON)
    if isinstance(value, int | float) and math.isfinite(value):
        scale = rng.choice((-1, 0, 2, 10, 1000, 10**6, 10**12))
        near = (value * scale, value + 1, value - 1, str(value), float(value), [value])
        return rng.choice(near)
    if isinstance(value, str):
        return spoil_value(rng, value)
    return [value] if isinstance(value, list) else {"x": value}


def spoil_file(rng: Random, name: str, data: bytes) -> bytes:
    """Return damaged content of a file, in its structure or in its bytes."""
    if name.endswith(".sqlite"):
        return spoil_store(rng, data)
    if rng.random() < 0.25:
        return spoil_bytes(rng, data)
    try:
        if name.endswith(".json"):
            return _dumped(rng, json.loads(data))
        if name.endswith(".jsonl"):
            return _spoil_lines(rng, data)
        if name.endswith(".toml"):
            return _toml(spoil_json(rng, tomllib.loads(data.decode())))
        if name.endswith(".csv"):
            return _spoil_table(rng, data)
    except (ValueError, TypeError, RecursionError):
        pass
    return spoil_bytes(rng, data)


def spoil_store(rng: Random, data: bytes) -> bytes:
    """Return a store (SQLite) with other values in a column, without a table, or other bytes."""
    if rng.random() < 0.3:
        return spoil_bytes(rng, data)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "store"
        path.write_bytes(data)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master"
                      " WHERE type = 'table' ORDER BY name")]  # fmt: skip
            table = rng.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            way, column = rng.random(), rng.choice(columns)
            with contextlib.suppress(sqlite3.Error):
                if way < 0.75:
                    value = rng.choice(_CELLS)
                    connection.execute(f'UPDATE {table} SET "{column}" = ?', (value,))
                elif way < 0.85:
                    connection.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
                elif way < 0.95:
                    connection.execute(f"DELETE FROM {table}")
                else:
                    connection.execute(f"DROP TABLE {table}")
        return path.read_bytes()


def _dumped(rng: Random, document: Any) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = spoil_json(rng, document)
    return json.dumps(document, ensure_ascii=rng.random() < 0.8).encode("utf-8", "surrogatepass")


def _spoil_lines(rng: Random, data: bytes) -> bytes:
    lines = data.splitlines() or [b"{}"]
    place = rng.randrange(len(lines))
    try:
        lines[place] = _dumped(rng, json.loads(lines[place]))
    except ValueError:
        lines[place] = spoil_bytes(rng, lines[place])
    return b"\n".join(lines) + b"\n"


def _toml(document: Any) -> bytes:
    """Write a document as TOML: a line for each key, all below it in line."""
    if not isinstance(document, dict):
        return _toml_value(document).encode("utf-8", "surrogatepass")
    lines = (f"{_toml_key(key)} = {_toml_value(value)}\n" for key, value in document.items())
    return "".join(lines).encode("utf-8", "surrogatepass")


def _toml_key(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        inner = (f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value) if value is not None else "null"


def _spoil_table(rng: Random, data: bytes) -> bytes:
    """Spoil a cell, a column, a row, the header or the delimiter of a CSV file."""
    rows = [line.split(",") for line in data.decode("utf-8", "replace").splitlines()]
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(len(rows)) if rng.random() < 0.8 else 0
        column = rng.randrange(max(1, len(rows[place])))
        way = rng.randrange(8)
        if way < 3 and column < len(rows[place]):
            rows[place][column] = spoil_value(rng, rows[place][column])
        elif way == 3:
            rows = [row[:column] + row[column + 1 :] for row in rows]
        elif way == 4:
            rows = [row[: column + 1] + row[column:] for row in rows]
        elif way == 5:
            rows[place] = rows[place][: rng.randrange(3)]
        elif way == 6:
            rows.insert(place, rows[rng.randrange(len(rows))])
        else:
            rows = [list(reversed(row)) for row in rows]
    comma = rng.choice((",", ",", ",", ",", ";", "\t", "|", ", ", " "))
    end = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    return "".join(comma.join(row) + end for row in rows).encode("utf-8", "surrogateescape")


def spoil_bytes(rng: Random, data: bytes) -> bytes:
    """Return other bytes: cut, changed, in another encoding, packed or padded."""
    place = rng.randrange(len(data) + 1)
    text = data.decode("utf-8", "replace")
    ways: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: data[:place],
        lambda: data[place:],
        lambda: data[:place] + rng.randbytes(1) + data[place + 1 :],
        lambda: data[:place] + b"\0" + data[place:],
        lambda: (
            data[:place]
            + rng.choice((b"\xff", b"\xc3", b"\xe2\x80\xa8", b"\r", b'"', b"\x1a"))
            + data[place:]
        ),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: text.encode("utf-16"),
        lambda: text.encode("utf-16-le"),
        lambda: b"[" * 100_000,
        lambda: b'{"a":' * 50_000,
        lambda: data + data,
        lambda: gzip.compress(data, mtime=0),
        lambda: gzip.compress(data, mtime=0)[:-9],
        lambda: gzip.compress(gzip.compress(data, mtime=0), mtime=0),
        lambda: b"\x1f\x8b" + data,
        lambda: b"\n" * 5 + data,
        lambda: data + b"x" * 200_000,
        lambda: rng.randbytes(300),
    ]
    return rng.choice(ways)()
