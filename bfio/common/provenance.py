"""Provenance of results: package versions, machine, commit, and a digest of the sources.

A module depends on the sources that it imports. Their digest is part of the keys of stored rows.
Rows stay valid as long as no source that computed them has changed.
"""

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

#: Folder that contains ``bfio`` and ``formulations``.
ROOT = Path(__file__).resolve().parents[2]
_OURS = ("bfio", "formulations", "benchmarks", "proofs_checks")
#: Folders of installed packages. Their sources are not followed.
_INSTALLED = ("site-packages", "dist-packages")
# Sources are scanned by regular expressions, because parsing takes ten times as long. A false
# match has no effect unless a module of that name exists.
_STATEMENT = re.compile(
    r"(?:^|[;:])[ \t]*"
    r"(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
_CHECKED_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t].*)?\n)*", re.MULTILINE)
_NAME = re.compile(r"\w+(?:\.\w+)*")
_MODULE_NAME = re.compile(rf"""["']((?:{"|".join(_OURS)})(?:\.\w+)+)["']""")


def closure_digest(*modules: str, root: Path = ROOT) -> str:
    """Return a digest (16 hexadecimal digits) over the sources in an `import_closure`.

    Parameters
    ----------
    modules : str
        Names of modules. Their sources are read, not imported.
    root : Path
        Folder to search for modules, in addition to the project.
    """
    digest = hashlib.sha256()
    for name, file in import_closure(*modules, root=root).items():
        digest.update(name.encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def import_closure(*modules: str, root: Path = ROOT) -> dict[str, Path]:
    """Return modules and all their direct and indirect imports, with their files, sorted by name.

    Import statements count everywhere, except those for type checkers only. Module names in string
    constants count too, because modules are loaded lazily by name. If a source uses ``__path__``,
    all modules of the package count. A package does not count merely because one of its modules
    does, and packages installed outside the project never count.

    Parameters
    ----------
    modules : str
        Names of modules.
    root : Path
        Folder to search for modules, in addition to the project.
    """
    tops = {*_OURS, *(name.partition(".")[0] for name in modules)}
    folders = dict.fromkeys((root, ROOT))
    places = {
        # In a folder of installed packages, follow only the packages of the given modules.
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
    """Return the file of a module; None if the name is no module of this project."""
    # Strings instead of paths for speed: thousands of names are looked up before the first kernel
    # runs.
    inner = name.replace(".", os.sep)
    for folder in folders:
        for file in (f"{folder}{os.sep}{inner}.py", f"{folder}{os.sep}{inner}{os.sep}__init__.py"):
            if os.path.isfile(file):  # noqa: PTH113
                return Path(file)
    return None


@lru_cache(maxsize=4096)
def _imported(name: str, file: Path, changed: int, size: int) -> tuple[str, ...]:
    """Return the names in import statements of a module; not all of them are modules."""
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
    """Yield the names of all modules in a package with the same root as its importer."""
    depth = importer.count(".") + (file.name == "__init__.py")
    folder = file.parents[depth].joinpath(*package.split("."))
    for inner in sorted(folder.rglob("*.py")):
        parts = inner.relative_to(folder).with_suffix("").parts
        yield ".".join([package, *(part for part in parts if part != "__init__")])


#: Environment variables that numerical libraries read once, when first imported.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_PACKAGES = ("bfio", "numpy", "scipy", "numba", "ortools", "highspy", "pyomo", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


def citable_versions() -> dict[str, Any]:
    """Return the versions that results depend on, and the commit to cite.

    ``commit`` is None outside a checkout; ``dirty`` is True if the sources differ from the commit.
    """
    return {**versions(), **_sources()}


@cache
def version_and_commit() -> str:
    """Return the version of this package, with the commit in a checkout; computed once."""
    sources = _sources()
    if sources["commit"] is None:
        return f"bfio {_version('bfio')}"
    changed = ", changed" if sources["dirty"] else ""
    return f"bfio {_version('bfio')} (commit {sources['commit'][:9]}{changed})"


@cache
def _sources() -> dict[str, Any]:
    """Return the commit and whether the sources differ from it."""
    # Leave out the library's data: they are results of the sources.
    places = ("formulations", "bfio", ":(exclude)bfio/library/data")
    return {"commit": commit(), "dirty": is_dirty(*places)}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def use_one_thread() -> None:
    """Set one thread for every numerical library; call it before numpy is imported."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


@cache
def environment() -> dict[str, Any]:
    """Return machine, versions, commit and whether the sources differ from it; computed once.

    The answer describes the code that this process runs. Later changes on disk have no effect on
    it.
    """
    return {"machine": machine(), "versions": versions(), **_sources()}


def machine() -> dict[str, Any]:
    """Return system, processor, cores and memory of this machine."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
    }


def commit() -> str | None:
    """Return the commit of the checkout, or None outside one."""
    return _git("rev-parse", "HEAD")


def has_commit(name: str) -> bool | None:
    """Return whether the checkout contains a commit; None in a shallow clone or no checkout."""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        return None
    return _git("cat-file", "-e", f"{name}^{{commit}}") is not None


def is_dirty(*folders: str) -> bool | None:
    """Return whether the checkout differs from its commit in these folders (git pathspecs)."""
    changed = _git("status", "--porcelain", "--", *folders)
    return None if changed is None else bool(changed)


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else None


def _memory_gib() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError):
        return None


def _git(*arguments: str) -> str | None:
    """Return the output of a git command in this package's checkout; None outside one."""
    if not (ROOT / ".git").exists():
        return None
    try:
        # Without optional locks, because git may be in use by another process.
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(ROOT), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
