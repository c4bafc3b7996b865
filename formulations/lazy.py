"""Names that a package offers without loading their modules until they are used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

#: What tools look for in any package.
_OF_ALL = ("__all__", "__doc__", "__file__", "__name__", "__path__", "__spec__")


def lazy_attributes(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that loads each name from its home.

    Parameters
    ----------
    package : str
        Name of the package, for the error.
    homes : mapping of str to str
        Module of each name.
    """

    def load(name: str) -> object:
        if name not in homes:
            what = f"module {package!r} has no attribute {name!r}"
            # With these Python itself asks whether another name was meant.
            raise AttributeError(what, name=name, obj=sys.modules[package])
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted({*homes, *vars(sys.modules[package])["__all__"], *_OF_ALL})

    return load, names
