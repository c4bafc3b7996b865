"""Which code computes a row: a digest of the sources, the user's own included."""

import ast
import hashlib
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bfio.common.provenance import computing_sources, source_digest

#: Packages whose sources the toolkit's own digest covers.
_OURS = ("bfio", "formulations")


def code_version(name: str) -> str:
    """Return the version of the code that computes rows of a kind.

    It is a digest of the sources that compute; for a user's own ``module:function`` also of its
    module and of every module beside it that these import, as far as import statements tell.
    Installed packages count by version only, in the environment of each row.
    """
    own = "" if ":" not in name else _module_digest(name.partition(":")[0])
    return f"{_toolkit_digest()}{own}"


@cache
def _toolkit_digest() -> str:
    return source_digest(computing_sources())


def _module_digest(module_name: str) -> str:
    file = importlib.import_module(module_name).__file__
    if file is None:
        return ""
    # From the folder that holds the top of the module's package, names lead to files.
    path = Path(file).resolve()
    depth = module_name.count(".") + (path.name == "__init__.py")
    found: dict[str, bytes] = {}
    _collect(path, path.parents[depth], found)
    digest = hashlib.sha256()
    for place in sorted(found):
        digest.update(place.encode())
        digest.update(hashlib.sha256(found[place]).digest())
    return "-" + digest.hexdigest()[:16]


def _collect(path: Path, root: Path, found: dict[str, bytes]) -> None:
    """Read a module and, in turn, those it imports from the same folder."""
    place = path.relative_to(root).as_posix()
    if place in found:
        return
    found[place] = path.read_bytes()
    if path.suffix != ".py":
        return
    for name in _imported(found[place]):
        if name.partition(".")[0] not in _OURS:
            stem = root.joinpath(*name.split("."))
            for file in (stem.with_suffix(".py"), stem / "__init__.py"):
                if file.is_file():
                    _collect(file, root, found)


def _imported(source: bytes) -> Iterator[str]:
    """Yield the names of modules that a source may import, wherever the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
