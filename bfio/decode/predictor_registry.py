"""Predictors by name."""

from collections.abc import Callable
from functools import partial

from bfio.decode.predictor import Predictor
from bfio.decode.predictors.noisy_oracle import DEFAULT_ERROR, NoisyOraclePredictor, check_error
from bfio.decode.predictors.none import NoPredictor
from bfio.decode.predictors.oracle import OraclePredictor
from bfio.workloads.workload import Workload
from formulations.errors import InputError, use_one_of
from formulations.rationals import exact_rational

#: Makes a fresh predictor for one run over the given requests, with the seed of the run.
_Builder = Callable[[Workload, int], Predictor]


def names() -> list[str]:
    """Return the registered names, in the order they are listed to users."""
    return list(_PARSERS)


def check(name: str) -> None:
    """Refuse a name that `build` does not know.

    Raises
    ------
    InputError
        If no predictor has that name, or what follows the name is wrong.
    """
    _builder(name)


def build(name: str, workload: Workload, seed: int = 0) -> Predictor:
    """Return a fresh predictor for a run over ``workload``.

    Parameters
    ----------
    name : str
        One of `names`; ``noisy-oracle`` may be followed by its error, ``noisy-oracle:0.25``.
    workload : Workload
        The requests.
    seed : int
        Seed of the run, for predictors that draw.

    Raises
    ------
    InputError
        If no predictor has that name, or what follows the name is wrong.
    """
    return _builder(name)(workload, seed)


def _builder(name: str) -> _Builder:
    base, _, option = name.partition(":")
    if base not in _PARSERS:
        raise InputError("predictor", f"{name!r} is unknown", use_one_of(base, names()))
    return _PARSERS[base](option)


def _plain(name: str, build_plain: _Builder, option: str) -> _Builder:
    if option:
        raise InputError("predictor", f"{name} takes no option", f"write {name}")
    return build_plain


def _noisy_oracle(option: str) -> _Builder:
    error = exact_rational(option, "predictor noisy-oracle") if option else DEFAULT_ERROR
    check_error(error)
    return lambda workload, seed: NoisyOraclePredictor(workload, error, seed)


#: From what follows a predictor's name to its builder.
_PARSERS: dict[str, Callable[[str], _Builder]] = {
    "none": partial(_plain, "none", lambda workload, seed: NoPredictor()),
    "oracle": partial(_plain, "oracle", lambda workload, seed: OraclePredictor(workload)),
    "noisy-oracle": _noisy_oracle,
}
