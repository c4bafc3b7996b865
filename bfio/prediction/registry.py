"""Registry of predictors: built-in ones, installed ones, and users' own ``module:object``."""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import bfio.prediction.predictors
from bfio.common.options import from_texts, options_of, split_options
from bfio.common.plugins import installed, members, patience
from bfio.prediction.predictor import (
    PATIENCE_S,
    CheckedPredictor,
    LengthSource,
    PredictionTask,
    Predictor,
    PredictorSpec,
)
from bfio.workloads.workload import Workload
from formulations.errors import InputError, use_one_of
from formulations.named_objects import OR_YOUR_OWN, check_call, is_users, load_object, users_code

#: Entry-point group through which other packages add predictors (a `PredictorSpec`, or a callable
#: that makes a predictor from a `PredictionTask`).
GROUP = "bfio.predictors"


def names() -> list[str]:
    """Return the names of all built-in and installed predictors, in the order of listings."""
    return [*_built_in(), *(name for name in installed(GROUP) if name not in _built_in())]


def find(name: str) -> PredictorSpec:
    """Return the specification of a predictor, one of `names` or ``module:object``.

    Options may follow the name (``noisy-oracle:0.25``). Raises InputError for unknown names and
    invalid options.
    """
    base, _, option = name.partition(":")
    if base in _built_in():
        spec = _built_in()[base]
    elif (point := installed(GROUP).get(base)) is not None:
        spec = _as_spec(base, load_object(point.value, "predictor"))
    elif is_users(name):
        return _as_spec(name, load_object(name, "predictor"))
    else:
        remedy = use_one_of(base, names(), OR_YOUR_OWN)
        raise InputError("predictor", f"{name!r} is unknown", remedy)
    if option and spec.options is None:
        raise InputError("predictor", f"{base} takes no option", f"write {base}")
    read_options(spec, name)
    return spec


def read_options(spec: PredictorSpec, name: str) -> Any:
    """Parse the options that follow the name of a predictor; None if it has no options.

    Raises InputError for unknown options, and for unreadable or invalid values.
    """
    if spec.options is None:
        return None
    text, value = name, name.partition(":")[2]
    if spec.shorthand and value and "=" not in value:
        text = f"{spec.name}:{spec.shorthand}={value}"
    where = f"predictor {spec.name}"
    try:
        return from_texts(spec.options, split_options(text, (spec.name,))[1], where)
    except InputError as error:
        if error.where in (text, where):
            raise
        raise InputError(f"{where}: {error.where}", error.what, error.remedy) from None


def spelt_out(name: str) -> tuple[str, object]:
    """Return name and option values; two names with equal results are the same predictor."""
    spec = find(name)
    return spec.name, read_options(spec, name)


def in_force(predictor: str | Predictor) -> dict[str, object]:
    """Return the options of a predictor with their values; empty for a predictor object."""
    options = spelt_out(predictor)[1] if isinstance(predictor, str) else None
    if options is None:
        return {}
    return {entry.name: getattr(options, entry.field) for entry in options_of(type(options))}


def is_own(name: str) -> bool:
    """Whether a name is that of a user's own predictor, neither built in nor installed."""
    base = name.partition(":")[0]
    return is_users(name) and base not in _built_in() and base not in installed(GROUP)


def build(
    name: str, workload: Workload, seed: int = 0, history: Workload | None = None
) -> CheckedPredictor:
    """Return a new predictor for a run over ``workload``, by a name as in `find`.

    Only oracles get the output lengths; learning predictors get a ``history`` of past requests.
    Errors raised by the predictor's constructor become an InputError.
    """
    spec = find(name)
    outputs = workload.output_tokens if spec.knows_future else None
    task = PredictionTask(
        workload.prompt_tokens,
        seed,
        history,
        read_options(spec, name),
        outputs,
        # Prompt keys of a history from another file are not comparable.
        workload.prompt_keys if history is None or history is workload.history else None,
    )
    where, remedy = f"predictor {name}", "correct the predictor"
    with (
        users_code(where, "making it ", remedy=remedy),
        patience(PATIENCE_S, where, "making it", remedy),
    ):
        built = spec.build(task)
    return CheckedPredictor(built, name)


def made(
    predictor: str | Predictor, workload: Workload, seed: int, history: Workload | None
) -> CheckedPredictor:
    """Return a predictor given as an object, or `build` the one with this name."""
    if isinstance(predictor, str):
        return build(predictor, workload, seed, history)
    if isinstance(predictor, type):
        what = f"{predictor.__name__} is a class"
        raise InputError("predictor", what, "give an instance of the class")
    return CheckedPredictor(predictor)


def lengths_of(predictor: str | Predictor) -> LengthSource:
    """Return the source of lengths in projections with this predictor."""
    return find(predictor).lengths if isinstance(predictor, str) else LengthSource.ASKED


def draws(predictor: str | Predictor) -> bool:
    """Return whether a predictor may draw random numbers with the seed of a run."""
    return find(predictor).draws if isinstance(predictor, str) else True


@cache
def _built_in() -> dict[str, PredictorSpec]:
    package = bfio.prediction.predictors
    found = members(package.__name__, package.__path__, "PREDICTOR")
    return dict(sorted((spec.name, spec) for _, spec in found))


def _as_spec(name: str, loaded: object) -> PredictorSpec:
    if isinstance(loaded, PredictorSpec):
        return loaded
    if hasattr(loaded, "remaining") and not isinstance(loaded, type):
        what = f"an object of class {type(loaded).__name__} would keep its state between runs"
        raise InputError(
            name, what, "name its class, which is called with a PredictionTask for each run"
        )
    check_call(loaded, name, "task")
    return PredictorSpec(name, cast("Callable[[PredictionTask], Predictor]", loaded))
