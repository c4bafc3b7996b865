"""Which kernels this machine has compiled already: a mark beside Numba's own cache.

Compiling takes up to half a minute, which a run of a second should not wait for; loading from the
cache takes half a second. The mark tells the two apart without loading Numba. It names sources,
Numba and Python, so machine code of other ones is not taken for it.
"""

import os
import platform
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_HERE = Path(__file__).parent


@cache
def fingerprint(folders: tuple[Path, ...]) -> int:
    """Return 62 bits that change with any source file in the folders."""
    digest = sha256()
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 2


def is_on_disk(name: str, folders: Sequence[Path] = (_HERE,)) -> bool:
    """Whether kernels called ``name``, with sources in the folders, are compiled and cached."""
    return _mark(name, folders).exists()


def note_on_disk(name: str, folders: Sequence[Path] = (_HERE,)) -> None:
    """Note that they are; where no mark can be written, none is."""
    mark = _mark(name, folders)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:
        return


def _mark(name: str, folders: Sequence[Path]) -> Path:
    place = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(place) if place else folders[0] / "__pycache__"
    made_of = f"{fingerprint(tuple(folders)):x}-{version('numba')}-{platform.python_version()}"
    return folder / f"{name}-{made_of}.compiled"
