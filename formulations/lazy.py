"""Names that a package offers without loading their modules until they are used."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module-level ``__getattr__`` that loads each name from its home.

    Parameters
    ----------
    package : str
        Name of the package, for the error.
    homes : mapping of str to str
        Module of each name.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load
