"""Names to algorithms: the built-in ones and a user's own ``module:function``."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from bfio.common.option_text import NamedSpec, SpecTable, whole_option
from bfio.kvcache.look_ahead import LookAhead, Order, Scan
from bfio.kvcache.policy import CachePolicy, Clearing
from bfio.kvcache.protection import Admission, Protection
from formulations.problem_data import member
from formulations.rationals import exact_rational

#: Options and the values of one algorithm, as written.
Options: TypeAlias = Mapping[str, str]
Factory: TypeAlias = Callable[[Options], CachePolicy]


def names() -> list[str]:
    """Names of the built-in algorithms, sorted."""
    return _TABLE.names()


def specs() -> list[NamedSpec[Factory]]:
    """Describe every built-in algorithm, sorted by name."""
    return _TABLE.specs()


def build(text: str) -> CachePolicy:
    """Make a fresh policy for one run, see `SpecTable.build`."""
    policy: CachePolicy = _TABLE.build(text, lambda factory, options: factory(options))
    return policy


def _clearing(options: Options) -> Clearing:
    probability = exact_rational(options["beta"], "beta") if "beta" in options else Fraction(1)
    pause = whole_option(options, "pause") if "pause" in options else 0
    return Clearing(probability, pause)


def _look_ahead(order: Order, all_at_once: bool = False) -> Callable[[Options], CachePolicy]:
    def factory(options: Options) -> CachePolicy:
        scan = member(Scan, options["scan"], "scan")
        return LookAhead(
            order, scan, whole_option(options, "delta"), _clearing(options), all_at_once
        )

    return factory


def _protection(options: Options) -> CachePolicy:
    admission = member(Admission, options["admission"], "admission")
    alpha = exact_rational(options["alpha"], "alpha")
    return Protection(alpha, _clearing(options), admission, whole_option(options, "cap"))


_LOOK_AHEAD_OPTIONS: Options = {"scan": "break", "delta": "0", "beta": "1", "pause": "0"}
_TABLE: SpecTable[Factory] = SpecTable(
    "algorithm",
    (
        NamedSpec(
            "semi-online",
            "shortest output first with look-ahead, all requests known at 0",
            "KV-cache paper, Algorithm 1",
            _LOOK_AHEAD_OPTIONS,
            _look_ahead(Order.SHORTEST, all_at_once=True),
        ),
        NamedSpec(
            "mc-sf",
            "shortest output first with look-ahead",
            "KV-cache paper, Algorithm 2, later called MC-SF",
            _LOOK_AHEAD_OPTIONS,
            _look_ahead(Order.SHORTEST),
        ),
        NamedSpec(
            "mc-benchmark",
            "order of arrival with look-ahead",
            "KV-cache paper, MC-Benchmark of the later version",
            _LOOK_AHEAD_OPTIONS,
            _look_ahead(Order.ARRIVAL),
        ),
        NamedSpec(
            "alpha-greedy",
            "order of arrival up to (1-alpha)M; an overflow clears everything",
            "KV-cache paper, section 7, alpha-protection greedy",
            {"alpha": "0.3", "admission": "prompt", "cap": "0"},
            _protection,
        ),
        NamedSpec(
            "beta-clearing",
            "order of arrival up to (1-alpha)M; an overflow clears each with probability beta",
            "KV-cache paper, section 7, alpha-protection beta-clearing",
            {"alpha": "0.2", "beta": "0.2", "pause": "0", "admission": "prompt", "cap": "0"},
            _protection,
        ),
    ),
)
