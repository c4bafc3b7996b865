"""Package attributes whose defining modules are imported at first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

#: Attributes that tools expect in every package.
_OF_ALL = ("__all__", "__doc__", "__file__", "__name__", "__path__", "__spec__")


def lazy_attributes(
    package: str, names_of: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package with lazy imports.

    Parameters
    ----------
    package : str
        Name of the package, for the error.
    names_of : mapping of str to str
        Names, separated by spaces, that each module defines.
    """
    homes = {name: home for home, names in names_of.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in homes:
            what = f"module {package!r} has no attribute {name!r}"
            # With name and obj set, Python itself suggests a similar name.
            raise AttributeError(what, name=name, obj=sys.modules[package])
        return getattr(import_module(homes[name]), name)

    def listed() -> list[str]:
        return sorted({*homes, *vars(sys.modules[package])["__all__"], *_OF_ALL})

    return load, listed
