"""Minimise a case by removing words, files and parts of files while its finding remains."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.case import Case, Content

#: Limits for one finding: runs, and seconds.
_MOST_RUNS, _MOST_SECONDS = 150, 60.0


def minimised(case: Case, shows: Callable[[Case], bool]) -> Case:
    """Return a smaller case that still shows a finding."""
    runs, end = 0, time.monotonic() + _MOST_SECONDS
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(case):
            runs += 1
            if runs > _MOST_RUNS or time.monotonic() > end:
                return case
            if shows(smaller):
                case, progress = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases with one part removed, the largest parts first."""
    for name in case.files:
        yield replace(case, files={n: c for n, c in case.files.items() if n != name})
    if case.encoding != "utf-8":
        yield replace(case, encoding="utf-8")
    if case.stdin:
        yield replace(case, stdin=b"")
    # A damaged counterexample needs its claim.
    for width in () if case.counterexamples else (2, 1):
        for k in range(1, len(case.argv) - width + 1):
            yield replace(case, argv=case.argv[:k] + case.argv[k + width :])
    for name, content in case.files.items():
        for less in _less(content):
            yield replace(case, files={**case.files, name: less})
    for name, content in case.counterexamples.items():
        for less in _less(content):
            yield replace(case, counterexamples={**case.counterexamples, name: less})


def _less(content: Content) -> Iterator[Content]:
    """Yield smaller contents: parts of a document left out, or halves, or lines."""
    if not isinstance(content, bytes):
        return
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        yield from _fewer_lines(content)
        return
    for smaller in _simpler(document):
        text = json.dumps(smaller).encode()
        if len(text) < len(content):
            yield text


def _fewer_lines(content: bytes) -> Iterator[bytes]:
    lines = content.splitlines(keepends=True)
    for size in (len(lines) // 2, len(lines) // 8, 1):
        for k in range(0, len(lines), max(1, size)):
            if 0 < size < len(lines):
                yield b"".join(lines[:k] + lines[k + size :])
    if len(lines) == 1 and len(content) > 1:
        half = len(content) // 2
        yield content[:half]
        yield content[half:]


def _simpler(document: Any) -> Iterator[Any]:
    if isinstance(document, dict):
        for key in document:
            yield {k: v for k, v in document.items() if k != key}
        for key, value in document.items():
            for less in _simpler(value):
                yield {**document, key: less}
    elif isinstance(document, list):
        for k in range(len(document)):
            yield document[:k] + document[k + 1 :]
        for k, value in enumerate(document):
            for less in _simpler(value):
                yield [*document[:k], less, *document[k + 1 :]]
