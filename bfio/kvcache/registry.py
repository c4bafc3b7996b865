"""Names to algorithms: the built-in ones and a user's own ``module:function``."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from bfio.kvcache.look_ahead import LookAhead, Order, Scan
from bfio.kvcache.policy import CachePolicy, Clearing
from bfio.kvcache.protection import Admission, Protection
from bfio.loading import load_object
from bfio.policies.options import exact_rational
from formulations.arrays import integer
from formulations.errors import InputError

#: Options and the values of one algorithm, as written.
Options = dict[str, str]


@dataclass(frozen=True)
class AlgorithmSpec:
    """What the registry knows about one algorithm.

    Parameters
    ----------
    name : str
        Name on the command line.
    summary : str
        One line for listings.
    source : str
        Where the rule comes from.
    defaults : mapping
        Its options, each with the value used if none is written.
    factory : callable
        Makes the policy from all its options.
    """

    name: str
    summary: str
    source: str
    defaults: Options
    factory: Callable[[Options], CachePolicy]


def names() -> list[str]:
    """Names of the built-in algorithms, sorted."""
    return sorted(_SPECS)


def specs() -> list[AlgorithmSpec]:
    """Describe every built-in algorithm, sorted by name."""
    return [_SPECS[name] for name in names()]


def build(text: str) -> CachePolicy:
    """Make a fresh policy for one run from ``name:option=value:...`` or ``module:name``.

    What ``module:name`` stands for is a function of the state, an object that is callable with
    it, or a class whose objects are, made without arguments.

    Raises
    ------
    InputError
        If the name or an option is unknown, a value unreadable, or a module cannot be used.
    """
    parts = text.split(":")
    name = ":".join(part for part in parts if "=" not in part)
    options = [_option(text, part) for part in parts if "=" in part]
    given = dict(options)
    if len(given) < len(options):
        raise InputError(text, "an option occurs twice", "keep one of them")
    if ":" in name:
        if given:
            raise InputError(text, "options after module:function", "set its attributes instead")
        return _loaded(name)
    if name not in _SPECS:
        raise InputError(name, "unknown algorithm", _suggestion(name))
    spec = _SPECS[name]
    if strangers := sorted(set(given) - set(spec.defaults)):
        known = ", ".join(spec.defaults) or "none"
        raise InputError(text, f"{name} has no option {strangers[0]}", f"its options: {known}")
    return spec.factory(spec.defaults | given)


def _loaded(name: str) -> CachePolicy:
    found = load_object(name, "algorithm")
    if isinstance(found, type):
        try:
            found = found()
        # A user's class may raise anything.
        except Exception as error:
            raise InputError(
                name,
                f"making it raised {type(error).__name__}: {error}",
                "give a class that needs no arguments",
            ) from error
    if not callable(found):
        raise InputError(name, "it is not callable", "name a function of the state")
    policy: CachePolicy = found
    return policy


def _option(text: str, part: str) -> tuple[str, str]:
    key, _, value = part.partition("=")
    if not value.strip():
        raise InputError(text, f"option {key!r} without a value", "write option=value")
    return key.strip(), value.strip()


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}use one of {', '.join(names())}, or module:function"


def _whole(options: Options, key: str) -> int:
    try:
        return integer(int(options[key]), key)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(key, f"{options[key]!r} is no integer", "write e.g. 3") from None


def _clearing(options: Options) -> Clearing:
    probability = exact_rational(options["beta"], "beta") if "beta" in options else Fraction(1)
    pause = _whole(options, "pause") if "pause" in options else 0
    return Clearing(probability, pause)


def _look_ahead(order: Order, all_at_once: bool = False) -> Callable[[Options], CachePolicy]:
    def factory(options: Options) -> CachePolicy:
        try:
            scan = Scan(options["scan"])
        except ValueError:
            raise InputError(
                "scan", f"{options['scan']!r} is unknown", "use break or continue"
            ) from None
        return LookAhead(order, scan, _whole(options, "delta"), _clearing(options), all_at_once)

    return factory


def _protection(options: Options) -> CachePolicy:
    try:
        admission = Admission(options["admission"])
    except ValueError:
        raise InputError(
            "admission", f"{options['admission']!r} is unknown", "use prompt or batch"
        ) from None
    alpha = exact_rational(options["alpha"], "alpha")
    return Protection(alpha, _clearing(options), admission, _whole(options, "cap"))


_LOOK_AHEAD_OPTIONS: Options = {"scan": "break", "delta": "0", "beta": "1", "pause": "0"}
_SPECS: dict[str, AlgorithmSpec] = {
    spec.name: spec
    for spec in (
        AlgorithmSpec(
            "semi-online",
            "shortest output first with look-ahead, all requests known at 0",
            "Algorithm 1",
            _LOOK_AHEAD_OPTIONS,
            _look_ahead(Order.SHORTEST, all_at_once=True),
        ),
        AlgorithmSpec(
            "mc-sf",
            "shortest output first with look-ahead",
            "Algorithm 2, later called MC-SF",
            _LOOK_AHEAD_OPTIONS,
            _look_ahead(Order.SHORTEST),
        ),
        AlgorithmSpec(
            "mc-benchmark",
            "order of arrival with look-ahead",
            "MC-Benchmark of the later version",
            _LOOK_AHEAD_OPTIONS,
            _look_ahead(Order.ARRIVAL),
        ),
        AlgorithmSpec(
            "alpha-greedy",
            "order of arrival up to (1-alpha)M; an overflow clears everything",
            "section 7, alpha-protection greedy",
            {"alpha": "0.3", "admission": "prompt", "cap": "0"},
            _protection,
        ),
        AlgorithmSpec(
            "beta-clearing",
            "order of arrival up to (1-alpha)M; an overflow clears each with probability beta",
            "section 7, alpha-protection beta-clearing",
            {"alpha": "0.2", "beta": "0.2", "pause": "0", "admission": "prompt", "cap": "0"},
            _protection,
        ),
    )
}
