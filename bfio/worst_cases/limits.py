"""Bounds of spaces, checked."""

from collections.abc import Sequence

from formulations.arrays import integer

#: Largest number that a field of a space may be.
MAX_FIELD = 10**6
#: Most requests of an instance that is built, not searched for.
MAX_REQUESTS = 100_000


def check_counts(space: object, positive: Sequence[str], others: Sequence[str] = ()) -> None:
    """Check that fields are integers within bounds.

    Parameters
    ----------
    space : object
        A frozen dataclass.
    positive, others : sequence of str
        Fields that are at least 1, and at least 0.

    Raises
    ------
    InputError
        If one is not.
    """
    for name in (*positive, *others):
        least = 1 if name in positive else 0
        found = integer(getattr(space, name), name, minimum=least, maximum=MAX_FIELD)
        object.__setattr__(space, name, found)
