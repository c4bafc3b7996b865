"""One text per value: what keys and digests of studies are made of."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical(value: Any) -> str:
    """Return the JSON text of a value with sorted names and no spare space.

    Raises
    ------
    ValueError, TypeError
        If the value is not plain JSON (NaN and infinities included).
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def row_key(computes: str, arguments: Mapping[str, Any], instance: str, code: str) -> str:
    """Return the key of a row: 24 hexadecimal digits.

    Parameters
    ----------
    computes : str
        What is computed.
    arguments : mapping
        Its arguments; their order does not count.
    instance : str
        Digest of the data the arguments stand for.
    code : str
        Version of the code that computes.
    """
    text = canonical(
        {"computes": computes, "arguments": arguments, "instance": instance, "code": code}
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]
