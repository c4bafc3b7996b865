"""Digest of the sources of users' own code."""

import hashlib

from bfio.common.import_closure import closure_digest
from formulations.named_objects import source_of


def users_digest(name: str) -> str:
    """Return a digest of the sources of a user's own ``module:NAME`` or ``FILE.py:NAME``.

    For a compiled module, the digest covers only its file. Built-in modules have no digest.
    """
    module_name, path = source_of(name)
    if path is None:
        return ""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    # The folder of the module's top-level package is the root for resolving imports.
    depth = module_name.count(".") + (path.name == "__init__.py")
    return closure_digest(module_name, root=path.parents[depth])
