"""Names to algorithms: the built-in ones and a user's own ``module:function``."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from bfio.kvcache.look_ahead import LookAhead, Order, Scan
from bfio.kvcache.policy import CachePolicy, Clearing
from bfio.kvcache.protection import Admission, Protection
from bfio.loading import load_callable
from bfio.option_text import read_options, whole_option
from formulations.errors import InputError, use_one_of
from formulations.rationals import exact_rational

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
    name, *rest = text.split(":")
    if name in _SPECS:
        spec = _SPECS[name]
        return spec.factory(read_options(text, name, rest, spec.defaults))
    if not rest or not rest[0] or "=" in rest[0]:
        raise InputError(
            name, "unknown algorithm", use_one_of(name, names(), "or module:function")
        )
    return load_callable(text, "algorithm")


def _clearing(options: Options) -> Clearing:
    probability = exact_rational(options["beta"], "beta") if "beta" in options else Fraction(1)
    pause = whole_option(options, "pause") if "pause" in options else 0
    return Clearing(probability, pause)


def _look_ahead(order: Order, all_at_once: bool = False) -> Callable[[Options], CachePolicy]:
    def factory(options: Options) -> CachePolicy:
        try:
            scan = Scan(options["scan"])
        except ValueError:
            raise InputError(
                "scan", f"{options['scan']!r} is unknown", "use break or continue"
            ) from None
        return LookAhead(
            order, scan, whole_option(options, "delta"), _clearing(options), all_at_once
        )

    return factory


def _protection(options: Options) -> CachePolicy:
    try:
        admission = Admission(options["admission"])
    except ValueError:
        raise InputError(
            "admission", f"{options['admission']!r} is unknown", "use prompt or batch"
        ) from None
    alpha = exact_rational(options["alpha"], "alpha")
    return Protection(alpha, _clearing(options), admission, whole_option(options, "cap"))


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
