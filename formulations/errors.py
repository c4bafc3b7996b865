"""The one exception type for bad input, and its special case for solver capabilities."""


class InputError(ValueError):
    """Bad input, told as where it is, what is wrong, and what to do.

    Parameters
    ----------
    where : str
        The file, line, field and index at fault, e.g. ``"capacity[2]"``.
    what : str
        The value found and the rule it breaks.
    remedy : str
        What the user should do, as an imperative.
    """

    def __init__(self, where: str, what: str, remedy: str) -> None:
        super().__init__(f"{where}: {what}; {remedy}")
        self.where = where
        self.what = what
        self.remedy = remedy


class CapabilityError(InputError):
    """A valid problem that the chosen solver cannot take (remedy: one that can)."""
