"""Which code computes a row: a digest of the sources of its kind, the user's own included."""

from bfio.common.import_closure import closure_digest
from bfio.common.users_digest import users_digest
from bfio.studies.kinds import module_of
from formulations.named_objects import is_users


def code_version(name: str) -> str:
    """Return the version of the code that computes rows of a kind.

    It is a digest of the module of the kind and of all that it imports in turn: those of the
    project, and of a user's own those beside it. Installed packages count by version only, in the
    environment of each row.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    return users_digest(name) if is_users(name) else closure_digest(module_of(name))
