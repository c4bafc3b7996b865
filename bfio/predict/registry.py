"""Predictors by name."""

from collections.abc import Callable
from difflib import get_close_matches

from bfio.predict.none import NoPredictor
from bfio.predict.oracle import OraclePredictor
from bfio.predict.predictor import Predictor
from bfio.workloads.workload import Workload
from formulations.errors import InputError

#: Each builder makes a fresh predictor for one run over the given requests.
_BUILDERS: dict[str, Callable[[Workload], Predictor]] = {
    "none": lambda workload: NoPredictor(),
    "oracle": OraclePredictor,
}


def names() -> list[str]:
    """Return the registered names, in the order they are listed to users."""
    return list(_BUILDERS)


def build(name: str, workload: Workload) -> Predictor:
    """Return a fresh predictor for a run over ``workload``.

    Raises
    ------
    InputError
        If no predictor has that name.
    """
    if name not in _BUILDERS:
        close = get_close_matches(name, _BUILDERS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            "predictor", f"{name!r} is unknown", f"{hint}use one of {', '.join(names())}"
        )
    return _BUILDERS[name](workload)
