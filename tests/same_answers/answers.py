"""Run a list of commands in an empty folder, and compare their answers but for times."""

import csv
import json
import os
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("commands.toml")
#: Fields that differ from run to run, or name the machine or the code.
UNSTEADY = frozenset(
    {
        "seconds", "compile_seconds", "wall_s", "decide_s", "solve_s", "max_solve_s",
        "solve_seconds", "timing.wall_s", "timing.decide_s", "timing.solve_s", "finished_at",
        "peak_memory_bytes", "cpu_s", "versions", "commit", "environment", "code", "key",
        "machine", "store",
    }
)  # fmt: skip


@dataclass(frozen=True)
class CommandList:
    """What is run.

    Parameters
    ----------
    files : mapping
        Text of the files that the commands read, by name.
    commands : sequence of mapping
        ``words`` of a command, perhaps ``now`` more of them, which older versions do not know and
        do without; perhaps ``then`` another one, and ``reads`` the folder it writes.
    renamed : mapping
        New names of fields, by their old ones, or of prefixes that end in a point; an empty name
        for what is gone, and an empty old one for a list of fields that are new.
    """

    files: Mapping[str, str]
    commands: Sequence[Mapping[str, str]]
    renamed: Mapping[str, Any]


def load_list() -> CommandList:
    """Read the list beside this file."""
    document = tomllib.loads(LIST.read_text("utf-8"))
    return CommandList(document["files"], document["command"], document.get("renamed", {}))


def record(
    commands: CommandList, bfio: Sequence[str], report: Callable[[str], None]
) -> dict[str, Any]:
    """Return status and answer of each command, by its words."""
    answers = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in commands.files.items():
            (folder / file).write_text(text, encoding="utf-8")
        for command in commands.commands:
            report(command["words"])
            answers[command["words"]] = _answer(command, bfio, folder)
    return answers


def _answer(command: Mapping[str, str], bfio: Sequence[str], folder: Path) -> dict[str, Any]:
    words = [*bfio, *command["words"].split(), "--json"]
    answer = _run([*words, *command.get("now", "").split()], folder)
    if "now" in command and "unknown option" in answer["error"]:
        answer = _run(words, folder)
    if "then" in command:
        answer["then"] = _run([*bfio, *command["then"].split(), "--json"], folder)["status"]
        answer["rows"] = sorted(_rows(folder / command["reads"]), key=_arguments)
    return answer


def _run(words: Sequence[str], folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return {"status": done.returncode, "answer": _documents(done.stdout), "error": _error(done)}


def _error(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the line of an error, without what progress bars print."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    return "\n".join(lines)


def _documents(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _rows(folder: Path) -> Iterator[dict[str, str]]:
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def _arguments(row: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(item for item in row.items() if item[0].startswith("argument."))


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], renamed: Mapping[str, Any]
) -> list[str]:
    """Return one line for each value that differs and is not a time."""
    lines = [f"{words}: not run" for words in before if words not in after]
    for words in before:
        if words in after:
            lines += [
                f"{words}: {place}"
                for place in _compare(_renamed(before[words], renamed), after[words], "", renamed)
            ]
    return lines


def _renamed(value: Any, renamed: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_renamed(item, renamed) for item in value]
    if not isinstance(value, dict):
        return value
    names = {key: _new_name(key, renamed) for key in value}
    return {name: _renamed(value[key], renamed) for key, name in names.items() if name}


def _new_name(key: str, renamed: Mapping[str, Any]) -> str:
    for old, new in renamed.items():
        if old.endswith(".") and key.startswith(old):
            return f"{new}{key.removeprefix(old)}" if new else ""
    return str(renamed.get(key, key))


def _compare(before: Any, after: Any, place: str, renamed: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        # A name that is new here may be an old one elsewhere: there it is compared.
        ignored = UNSTEADY | (set(renamed.get("", ())) - before.keys())
        for key in sorted((before.keys() | after.keys()) - ignored):
            if key not in before or key not in after:
                yield f"{place}/{key} is {'new' if key in after else 'gone'}"
            else:
                yield from _compare(before[key], after[key], f"{place}/{key}", renamed)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _compare(old, new, f"{place}/{index}", renamed)
    elif before != after:
        yield f"{place}: {before!r} became {after!r}"[:300]
