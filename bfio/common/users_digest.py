"""Which sources are behind something of a user's own, as a digest."""

import hashlib

from bfio.common.import_closure import closure_digest
from formulations.named_objects import source_of


def users_digest(name: str) -> str:
    """Return a digest of the sources behind a user's own ``module:NAME`` or ``FILE.py:NAME``.

    A compiled module counts by itself; one that is part of Python does not.
    """
    module_name, path = source_of(name)
    if path is None:
        return ""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    # From the folder that holds the top of the module's package, names lead to files.
    depth = module_name.count(".") + (path.name == "__init__.py")
    return closure_digest(module_name, root=path.parents[depth])
