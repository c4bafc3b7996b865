"""Which source files a module runs: its own, those it imports in turn, and a digest of them.

Stored rows are told apart by it: they stay valid as long as nothing that made them has changed,
whatever else did.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

#: The folder that holds ``bfio`` and ``formulations``.
ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("bfio", "formulations", "benchmarks", "proofs_checks")
#: Folders of installed packages, which count by their versions only.
_INSTALLED = ("site-packages", "dist-packages")
# Sources are scanned, not parsed, which takes ten times as long. What is taken for an import by
# mistake changes nothing unless such a module exists.
_STATEMENT = re.compile(
    r"(?:^|[;:])[ \t]*"
    r"(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
_CHECKED_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t].*)?\n)*", re.MULTILINE)
_NAME = re.compile(r"\w+(?:\.\w+)*")
_MODULE_NAME = re.compile(rf"""["']((?:{"|".join(_PACKAGES)})(?:\.\w+)+)["']""")


def closure_digest(*modules: str, root: Path = ROOT) -> str:
    """Return 16 hexadecimal digits that change with any source in the `import_closure`.

    Parameters
    ----------
    modules : str
        Names of modules; they are read, not imported.
    root : Path
        Folder from which names lead to files, besides that of the project.
    """
    digest = hashlib.sha256()
    for name, file in import_closure(*modules, root=root).items():
        digest.update(name.encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def import_closure(*modules: str, root: Path = ROOT) -> dict[str, Path]:
    """Return modules and all that they import in turn, with their files, sorted by name.

    Import statements count wherever they stand, unless only type checkers read them. So do names
    of modules in texts, as lazy loading needs them, and all modules of an imported package if
    ``__path__`` is searched. A package around a module does not count by that alone, and what is
    installed beside the project never does.

    Parameters
    ----------
    modules : str
        Names of modules.
    root : Path
        Folder from which names lead to files, besides that of the project.
    """
    tops = {*_PACKAGES, *(name.partition(".")[0] for name in modules)}
    folders = dict.fromkeys((root, ROOT))
    places = {
        # Of a folder of installed packages, only those that are asked for.
        True: [str(folder) for folder in folders],
        False: [str(folder) for folder in folders if folder.name not in _INSTALLED],
    }
    files: dict[str, Path] = {}
    waiting, seen = list(modules), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        file = _file_of(name, places[name.partition(".")[0] in tops])
        if file is not None:
            files[name] = file
            status = file.stat()
            waiting += _imported(name, file, status.st_mtime_ns, status.st_size)
    return dict(sorted(files.items()))


def _file_of(name: str, folders: Sequence[str]) -> Path | None:
    """Return the file of a module, None if it is none of ours or no module at all."""
    # Texts, not paths: thousands of names are asked about before the first kernel runs.
    inner = name.replace(".", os.sep)
    for folder in folders:
        for file in (f"{folder}{os.sep}{inner}.py", f"{folder}{os.sep}{inner}{os.sep}__init__.py"):
            if os.path.isfile(file):  # noqa: PTH113
                return Path(file)
    return None


@lru_cache(maxsize=4096)
def _imported(name: str, file: Path, changed: int, size: int) -> tuple[str, ...]:
    """Return names that may be modules that a module imports; some are none."""
    del changed, size
    is_package = file.name == "__init__.py"
    around = name.split(".") if is_package else name.split(".")[:-1]
    source = _CHECKED_ONLY.sub("", file.read_text("utf-8", "replace")).replace("\\\n", " ")
    found, whole = _MODULE_NAME.findall(source), [name] if is_package else []
    for dots, home, names, plain in _STATEMENT.findall(source):
        base = around[: len(around) + 1 - len(dots)] if dots else []
        start = ".".join([*base, *([home] if home else [])])
        whole += _NAME.findall(plain)
        found += [start, *(f"{start}.{inner}" for inner in _NAME.findall(names))]
    if "__path__" in source:
        found += [inner for package in whole for inner in _modules_in(package, name, file)]
    return tuple(dict.fromkeys([*found, *whole]))


def _modules_in(package: str, importer: str, file: Path) -> Iterator[str]:
    """Yield the names of all modules below a package of the same root as its importer."""
    depth = importer.count(".") + (file.name == "__init__.py")
    folder = file.parents[depth].joinpath(*package.split("."))
    for inner in sorted(folder.rglob("*.py")):
        parts = inner.relative_to(folder).with_suffix("").parts
        yield ".".join([package, *(part for part in parts if part != "__init__")])
