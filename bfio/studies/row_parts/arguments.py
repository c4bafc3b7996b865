"""Read the arguments of a row with types: text, numbers and flags of a study file."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bfio.common.options import names_of
from bfio.common.plugins import users_digest
from bfio.kvcache.lower_bounds import ArrivalModel
from bfio.kvcache.policy import BetaClearing, LookAhead, build
from formulations.arrays import integer
from formulations.errors import InputError, check_known, use_one_of
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.named_objects import is_users
from formulations.scalars import exact_number

#: Largest integer allowed as an argument.
MAX_WHOLE = 2**63 - 1


def refused(name: str, what: str, remedy: str) -> InputError:
    """Return the error for an argument of a row."""
    return InputError(f"argument {name}", what, remedy)


@dataclass(frozen=True)
class Arguments:
    """Arguments of one row, with readers per type. None counts as not given.

    Parameters
    ----------
    given : mapping
        Names and values.
    known : collection of str
        Known argument names.

    Raises
    ------
    InputError
        If a name is unknown.
    """

    given: Mapping[str, Any]
    known: Collection[str]

    def __post_init__(self) -> None:
        for name in self.given:
            if name not in self.known:
                raise refused(name, "unknown", use_one_of(name, sorted(self.known)))

    def has(self, name: str) -> bool:
        """Return whether an argument has a value."""
        return self.given.get(name) is not None

    def text(self, name: str, default: str) -> str:
        """Return a text argument."""
        return self.optional_text(name) or default

    def optional_text(self, name: str) -> str | None:
        """Return a text argument; None if not given."""
        text: str | None = self._typed(name, str, "is not a string", "write it in quotes")
        return text

    def _typed(self, name: str, kind: Any, what: str, remedy: str) -> Any:
        """Return an argument of a type, or None; a flag is no number."""
        value = self.given.get(name)
        is_typed = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
        if value is not None and not is_typed:
            raise refused(name, f"{value!r} {what}", remedy)
        return value

    def choice(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        """Return an argument that is one of the known words; by default the first one."""
        value = self.text(name, known[0] if default is None else default)
        check_known(f"argument {name}", value, known)
        return value

    def whole(self, name: str, default: int, *, minimum: int = 0, maximum: int = MAX_WHOLE) -> int:
        """Return an integer argument within bounds."""
        found = self.optional_whole(name, minimum=minimum, maximum=maximum)
        return default if found is None else found

    def optional_whole(
        self, name: str, *, minimum: int = 0, maximum: int = MAX_WHOLE
    ) -> int | None:
        """Return an integer argument within bounds; None if not given."""
        if not self.has(name):
            return None
        return integer(self.given[name], f"argument {name}", minimum=minimum, maximum=maximum)

    def optional_number(self, name: str) -> float | None:
        """Return a number argument; None if not given."""
        value = self._typed(name, int | float, "is not a number", "write a number")
        return None if value is None else float(value)

    def seconds(self, name: str, default: float) -> float:
        """Return a time argument >= 0 [s]."""
        value = self.optional_number(name)
        if value is not None and not value >= 0:
            raise refused(name, f"{value} is negative", "use seconds >= 0")
        return default if value is None else value

    def rational(self, name: str, default: str) -> str | int:
        """Return a number argument as text for exact reading; a float as its shortest decimal."""
        value = self.given.get(name)
        return default if value is None else str(value) if isinstance(value, float) else value

    def exact(self, name: str, *, positive: bool = False) -> Fraction | None:
        """Return an exact number argument >= 0, or > 0 if ``positive``; None if not given."""
        if not self.has(name):
            return None
        return exact_number(self.rational(name, ""), f"argument {name}", positive=positive)

    def flag(self, name: str) -> bool:
        """Return a true or false argument; False if not given."""
        what, remedy = "is neither true nor false", "write true or false"
        return bool(self._typed(name, bool, what, remedy))

    def with_options(self, text: str, *names: str) -> str:
        """Append options given as arguments to a text ``name:option=value:...``.

        Raises
        ------
        InputError
            If an option is given twice.
        """
        written = {part.partition("=")[0] for part in text.split(":") if "=" in part}
        for name in filter(self.has, names):
            if name in written:
                what = f"{text!r} sets it as well"
                raise refused(name, what, "remove one of the two")
            text += f":{name}={self.rational(name, '')}"
        return text

    def exclude(self, *names: str) -> None:
        """Reject arguments that exclude each other.

        Raises
        ------
        InputError
            If more than one is given.
        """
        given = [name for name in names if self.has(name)]
        if len(given) > 1:
            raise refused(given[1], f"{given[0]} is given as well", "remove one of the two")


def digest_of(*parts: str) -> str:
    """Return a digest, 16 hexadecimal digits, of the data that the arguments of a row select."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """Return a ratio; None if a part is None or the denominator is 0."""
    return None if numerator is None or not denominator else numerator / denominator


def gap_to(bound: int, best: int) -> float:
    """Return (best - bound) / best: the relative gap of a lower bound to the best known value."""
    return (best - bound) / best if best else 0.0


def excess(ratio: float | None) -> list[float]:
    """Return a ratio minus 1 as a series of one entry, for histograms over rows."""
    return [] if ratio is None else [ratio - 1]


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
    kinds: dict[str, type[Any]] = {"count": int, "memory": int, "prompt": int, "rate": float}
    model = ArrivalModel(
        number=arguments.whole("arrival_model", usual.number, minimum=1, maximum=2),
        **{n: _range(arguments.given[n], n, k) for n, k in kinds.items() if arguments.has(n)},
        common_prompt=arguments.flag("common_prompt"),
    )
    rng = generator(arguments.whole("seed", 0), _STREAM)
    return model.draw(rng, convention_of(arguments))


def generator(seed: int, stream: int) -> np.random.Generator:
    """Return a generator for one of the independent random streams of a seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))


def _range(value: Any, name: str, kind: type[Any]) -> tuple[Any, Any]:
    """Read a range, given as one number or as two numbers joined by a dash."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value == kind(value):
        return kind(value), kind(value)
    ends = value.split("-") if isinstance(value, str) else []
    try:
        lowest, highest = (kind(end) for end in ends)
    except ValueError:
        raise refused(name, f"{value!r} is not a range", 'write a number, or "40-60"') from None
    return lowest, highest
