"""One input: a command line, the files around it, and how its streams are encoded."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Content of a file, None for a folder, or the target of a symbolic link.
Content = bytes | str | None


@dataclass(frozen=True)
class Case:
    """Input of a command.

    Parameters
    ----------
    argv : tuple of str
        Words after ``bfio``.
    files : mapping
        Content of the files in the working directory, by name.
    stdin : bytes
        Content of standard input.
    encoding : str
        Of standard output and error; ``posix`` for a program of its own in that locale, whose
        file names and files have no other encoding either.
    counterexamples : mapping
        Files that stand in the place of the stored ones; if there are any, only these are
        verified, and claims are not checked besides.
    """

    argv: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    stdin: bytes = b""
    encoding: str = "utf-8"
    counterexamples: Mapping[str, Content] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """Return the case as a JSON document."""
        return {
            "argv": list(self.argv),
            "files": {name: _written(content) for name, content in self.files.items()},
            "stdin": _written(self.stdin),
            "encoding": self.encoding,
            "counterexamples": {n: _written(c) for n, c in self.counterexamples.items()},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Case":
        """Read a case from a document of `to_document`."""
        stdin = _read(document.get("stdin", ""))
        assert isinstance(stdin, bytes)
        return cls(
            argv=tuple(document["argv"]),
            files={name: _read(item) for name, item in document.get("files", {}).items()},
            stdin=stdin,
            encoding=document.get("encoding", "utf-8"),
            counterexamples={n: _read(i) for n, i in document.get("counterexamples", {}).items()},
        )

    def write_files(self, folder: Path) -> None:
        """Write the files into a folder."""
        for name, content in self.files.items():
            _write(folder / name, content)

    def write_counterexamples(self, folder: Path) -> None:
        """Write the claims' files into a folder."""
        for name, content in self.counterexamples.items():
            _write(folder / name, content)


def load(path: Path) -> Case:
    """Read a case that was kept."""
    return Case.from_document(json.loads(path.read_text(encoding="utf-8")))


def _write(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir()
    elif isinstance(content, str):
        path.symlink_to(content)
    else:
        path.write_bytes(content)


def _written(content: Content) -> Any:
    if content is None:
        return {"folder": True}
    if isinstance(content, str):
        return {"link": content}
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _read(item: Any) -> Content:
    if isinstance(item, str):
        return item.encode()
    if "link" in item:
        return str(item["link"])
    return base64.b64decode(item["base64"]) if "base64" in item else None
