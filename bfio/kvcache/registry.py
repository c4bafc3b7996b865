"""Names to algorithms: the built-in ones and a user's own ``module:function``."""

from fractions import Fraction

from bfio.common.named_options import Named, by_name, read_named
from bfio.common.users_code import load_callable
from bfio.kvcache.policy import BetaClearing, CachePolicy, LookAhead, Order, Protection

#: The built-in algorithms: each is made of its options, and of nothing else.
BUILT_IN: dict[str, Named[LookAhead | Protection]] = by_name(
    Named(
        "semi-online",
        "shortest output first with look-ahead, all requests known at 0",
        "KV-cache paper, Algorithm 1",
        LookAhead(Order.SHORTEST, all_at_once=True),
    ),
    Named(
        "mc-sf",
        "shortest output first with look-ahead",
        "KV-cache paper, Algorithm 2, later called MC-SF",
        LookAhead(Order.SHORTEST),
    ),
    Named(
        "mc-benchmark",
        "order of arrival with look-ahead",
        "KV-cache paper, MC-Benchmark of the later version",
        LookAhead(Order.ARRIVAL),
    ),
    Named(
        "alpha-greedy",
        "order of arrival up to (1-alpha)M; an overflow clears everything",
        "KV-cache paper, section 7, alpha-protection greedy",
        Protection(Fraction(3, 10)),
    ),
    Named(
        "beta-clearing",
        "order of arrival up to (1-alpha)M; an overflow clears each with probability beta",
        "KV-cache paper, section 7, alpha-protection beta-clearing",
        BetaClearing(Fraction(1, 5), beta=Fraction(1, 5)),
    ),
)


def build(text: str) -> CachePolicy:
    """Return the policy that a text names for one run, with the options written behind it.

    Raises
    ------
    InputError
        If name or option are unknown, a value is unreadable, or a module cannot be used.
    """
    policy: CachePolicy | None = read_named(text, BUILT_IN, "algorithm")
    return load_callable(text, "algorithm") if policy is None else policy
