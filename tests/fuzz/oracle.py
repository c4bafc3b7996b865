"""Promises for any input; every violation is a finding."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fuzz.case import Case
from tests.fuzz.process import GRACE_SECONDS, POSIX, Outcome
from tests.fuzz.surface import surface_of

#: Statuses that every command may end with, and one more of two of them.
_STATUSES = frozenset({0, 2, 3, 130})
_NOT_REPRODUCED = frozenset({"check", "doctor"})
#: Seconds that a time limit may be overrun by, besides a tenth of it; for reading and starting.
_SLACK_S, _START_S = 0.2, 0.4
#: Most memory of a case beyond what it begins with [bytes].
_MOST_BYTES = 3 << 29
#: Lines on standard error that are not errors: progress, remarks, output of users' code.
_REMARK = re.compile(
    r"^(.*: \d+/\d+( rows.*)?|compiling kernels: .*|note: .*|hello|"
    r".*: \d+ of [\d,]+ rows? already stored|\d+ of [\d,]+ rows? not computed; .*|"
    r"computed rows are stored in .*|interrupted|finishing the rows in flight; .*)$"
)
_ERROR = re.compile(r"^error: .+: .+; .+$", re.DOTALL)


@dataclass(frozen=True)
class Finding:
    """A promise violated by an input, with the evidence."""

    promise: str
    detail: str

    @property
    def cause(self) -> str:
        """The promise and the detail without numbers and quoted parts: one for each cause."""
        return f"{self.promise}: {re.sub(r'[0-9]+', '#', self.detail)[:160]}"


def findings(case: Case, outcome: Outcome) -> list[Finding]:
    """Return all promises that an outcome breaks."""
    return [
        *_traces(outcome),
        *_statuses(case, outcome),
        *_streams(case, outcome),
        *_limits(case, outcome),
        *_files(case, outcome),
    ]


def _traces(outcome: Outcome) -> Iterator[Finding]:
    """No traceback, whether it ends the command or not."""
    text = outcome.err.decode(errors="replace") + outcome.out.decode(errors="replace")
    if "Traceback (most recent call last)" in text:
        frames = re.findall(
            r'File "[^"]*?((?:bfio|formulations|proofs_checks)/[^"]*)", line', text
        )
        last = next((line for line in reversed(text.splitlines()) if re.match(r"\w", line)), "")
        kind = re.split(r"[:\s]", last, maxsplit=1)[0]
        yield Finding("traceback", f"{kind} in {frames[-1] if frames else '?'}: {last[:200]}")


def _statuses(case: Case, outcome: Outcome) -> Iterator[Finding]:
    allowed = _STATUSES | ({1} if case.argv[0] in _NOT_REPRODUCED else set())
    if outcome.status == 130 and outcome.interrupt_s is None:
        yield Finding("status", "130 without an interrupt")
    ended = outcome.interrupt_s is None and b"Traceback" not in outcome.err
    if ended and outcome.status not in allowed:
        yield Finding("status", f"{outcome.status}")


def _streams(case: Case, outcome: Outcome) -> Iterator[Finding]:
    """One line on standard error for a refusal; one document and nothing else under --json."""
    if outcome.interrupt_s is not None or b"Traceback" in outcome.err:
        return
    said = outcome.err.decode(errors="replace").split("\n")[:-1]
    if not outcome.err.endswith(b"\n") and outcome.err:
        yield Finding("stderr", "its last line does not end")
    lines = [line for line in said if not _REMARK.match(line)]
    errors = [line for line in lines if line.startswith("error: ")]
    for line in lines:
        if line not in errors:
            yield Finding("second line on stderr", line[:200])
    by_line = any(word.endswith(".jsonl") for word in case.argv)
    if outcome.status == 2 and not (len(errors) == 1 or by_line):
        yield Finding("stderr", f"status 2 with {len(errors)} lines of error")
    if outcome.status != 2 and errors:
        yield Finding("stderr", f"status {outcome.status} with an error")
    for line in errors:
        if not _ERROR.match(line):
            yield Finding("stderr", f"no where, what and remedy: {line[:160]}")
        if line.startswith("error: process: "):
            yield Finding("crash", line[:160])
        if re.search(r"\bMemoryError\b|error: memory:", line):
            yield Finding("memory", f"refused by the system only: {line[:160]}")
    if _wants_json(case):
        yield from _document(outcome, by_line)


def _wants_json(case: Case) -> bool:
    return "--json" in case.argv and "--" not in case.argv


def _document(outcome: Outcome, by_line: bool) -> Iterator[Finding]:
    text = outcome.out.decode(errors="replace")
    if not text.isascii():
        yield Finding("json", "not ASCII: an encoding may lose some of it")
    if outcome.status == 2 and not text:
        return
    parts = text.splitlines() if by_line and not text.startswith("{\n") else [text]
    for part in parts:
        try:
            json.loads(part, parse_constant=_refused)
        except ValueError as error:
            if outcome.status != 130:
                yield Finding("json", f"no document at status {outcome.status}: {error}")
                return


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _limits(case: Case, outcome: Outcome) -> Iterator[Finding]:
    """Time, memory, and the end after an interrupt.

    Both processor time and wall time count, because other processes may be running.
    """
    name = " ".join(surface.words) if (surface := surface_of(case.argv)) else case.argv[0]
    if outcome.interrupt_s is not None and outcome.interrupt_s > GRACE_SECONDS:
        yield Finding("interrupt", f"{name} ran on")
    if outcome.interrupt_s is not None and case.counterexamples:
        yield Finding("hang", f"{name} over a damaged counterexample")
    if outcome.peak_bytes > _MOST_BYTES:
        yield Finding("memory", f"{name} took more than {_MOST_BYTES >> 20} MiB")
    limit = None if case.encoding == POSIX else _time_limit(case)
    if limit is not None and limit > 0:
        most = 1.1 * limit + _SLACK_S + _START_S
        if min(outcome.wall_s, outcome.cpu_s) > most:
            yield Finding("time limit", f"{name} with {_method(case)} took longer")
    for left in outcome.left:
        yield Finding("left behind", left)


def _method(case: Case) -> str:
    given = [after for word, after in zip(case.argv, case.argv[1:], strict=False)
             if word == "--method"]  # fmt: skip
    return given[-1] if given else "no method"


def _time_limit(case: Case) -> float | None:
    """Return the limit of a command that solves one problem; None if it has none."""
    surface = surface_of(case.argv)
    if surface is None or not (surface.option("--time-limit") and surface.positionals):
        return None
    if any(word.endswith(".jsonl") for word in case.argv):
        return None
    given = [after for word, after in zip(case.argv, case.argv[1:], strict=False)
             if word == "--time-limit"]  # fmt: skip
    try:
        return float(given[-1]) if given and len(given[-1]) < 20 else None
    except ValueError:
        return None


def _files(case: Case, outcome: Outcome) -> Iterator[Finding]:
    """Files are written only to the paths on the command line, or to the default."""
    named = [part for word in case.argv for part in (word, word.partition("=")[2]) if part]
    # The report of a store lies beside it.
    named += [name.removesuffix(".sqlite") for name in named if name.endswith(".sqlite")]
    for path in outcome.written:
        if path.startswith("out/") or path == "out" or "__pycache__" in path:
            continue
        if not any(
            path == name or path.startswith((f"{name}/", f"{name}-", f"{name}.")) for name in named
        ):
            yield Finding("files", f"{case.argv[0]} wrote {path.rsplit('.', 1)[-1]}: {path}")
