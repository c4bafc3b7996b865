"""Read arguments of rows on one worker with a KV cache: algorithm, convention, instance."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bfio.common.options import names_of
from bfio.common.users_code import users_digest
from bfio.kvcache.lower_bounds import ArrivalModel
from bfio.kvcache.policy import BetaClearing, LookAhead, build
from bfio.studies.row_parts.arguments import Arguments
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.named_objects import is_users

#: Name of the online algorithm, and options that may be given as separate arguments.
ALGORITHM_ARGUMENTS = ("algorithm", *names_of(BetaClearing, LookAhead))
#: Arguments of a drawn instance of the hindsight program.
DRAWN_ARGUMENTS = (
    "arrival_model", "count", "memory", "prompt", "rate", "common_prompt", "convention", "seed",
)  # fmt: skip
DEFAULT_ALGORITHM = "mc-sf"
#: Time limit of one solve [s].
DEFAULT_TIME_LIMIT = 60.0
#: Separates the random stream of instances from that of an algorithm.
_STREAM = 0x696E7374616E6365


def algorithm_of(arguments: Arguments) -> str:
    """Return the algorithm name with its options, as input of `bfio.kvcache.simulation.serve`.

    Raises
    ------
    InputError
        If it does not exist, or an option is unknown, out of range or given twice.
    """
    text = arguments.text("algorithm", DEFAULT_ALGORITHM)
    name = arguments.with_options(text, *ALGORITHM_ARGUMENTS[1:])
    build(name)
    return name


def algorithm_digest(name: str) -> str:
    """Return a digest of the source of a user's own algorithm; empty for a built-in one."""
    loaded = ":".join(part for part in name.split(":") if "=" not in part)
    return users_digest(loaded) if is_users(loaded) else ""


def convention_of(arguments: Arguments) -> Convention:
    """Return the convention for the rounds in which a request occupies memory."""
    known = tuple(convention.value for convention in Convention)
    return Convention(arguments.choice("convention", known, Convention.HALF_OPEN.value))


def time_limit_of(arguments: Arguments) -> float:
    """Return the time limit of one solve [s]."""
    return arguments.seconds("time_limit", DEFAULT_TIME_LIMIT)


def drawn_problem(arguments: Arguments) -> LatencyProblem:
    """Draw an instance. Equal arguments give equal instances.

    Raises
    ------
    InputError
        If a range is empty or cannot be read.
    """
    usual = ArrivalModel()
    rate = arguments.given.get("rate")
    model = ArrivalModel(
        number=arguments.whole("arrival_model", usual.number, minimum=1, maximum=2),
        count=_whole_range(arguments.given, "count", usual.count),
        memory=_whole_range(arguments.given, "memory", usual.memory),
        prompt=_whole_range(arguments.given, "prompt", usual.prompt),
        rate=usual.rate if rate is None else _range(rate, "rate", float),
        common_prompt=arguments.flag("common_prompt"),
    )
    seed = np.random.SeedSequence(arguments.whole("seed", 0), spawn_key=(_STREAM,))
    return model.draw(np.random.default_rng(seed), convention_of(arguments))


def _whole_range(given: Mapping[str, Any], name: str, default: tuple[int, int]) -> tuple[int, int]:
    value = given.get(name)
    return default if value is None else _range(value, name, int)


def _range(value: Any, name: str, kind: type[Any]) -> tuple[Any, Any]:
    """Read a range, given as one number or as two numbers joined by a dash."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value == kind(value):
        return kind(value), kind(value)
    ends = value.split("-") if isinstance(value, str) else []
    try:
        lowest, highest = (kind(end) for end in ends)
    except ValueError:
        raise InputError(
            f"argument {name}", f"{value!r} is no range", 'write a number, or "40-60"'
        ) from None
    return lowest, highest
