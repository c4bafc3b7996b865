"""Texts of users and data files, made fit for a page or a file."""

import re

from bfio.studies.row import Value

#: What stands for a character that cannot be shown.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Halves of surrogate pairs: no encoding of text takes them.
_SURROGATES = re.compile("[\ud800-\udfff]")
#: Characters that HTML forbids: control characters but for tabs and ends of lines.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_MAX_ERROR = 300


def encodable(text: str) -> str:
    """Return text without lone surrogates, which no file can hold."""
    return _SURROGATES.sub(REPLACEMENT, text)


def printable(text: str) -> str:
    """Return text without anything that must not stand in HTML."""
    return _FORBIDDEN.sub(REPLACEMENT, text)


def encodable_value(value: Value) -> Value:
    """Return a value; if it is text, without lone surrogates."""
    return encodable(value) if isinstance(value, str) else value


def shortened(error: str) -> str:
    """Return the beginning of a long error, saying that it goes on and where."""
    if len(error) <= _MAX_ERROR:
        return error
    return f"{error[:_MAX_ERROR]} … (cut: {len(error):,} characters; the store has them all)"
