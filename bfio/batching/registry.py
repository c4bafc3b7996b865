"""Build batching policies by name: built-in ones, or a user's ``module:function``."""

from dataclasses import dataclass, replace

from bfio.batching.policy import BatchPolicy, Mixing, Order, TokenBudgetPolicy
from bfio.common.options import TEXT, WHOLE, Named, by_name, option, read_named
from bfio.common.plugins import load_callable
from formulations.arrays import integer
from formulations.problem_data import member

_LIMIT = "maximum requests in a batch; 0: no limit"
_DECODE_LIMIT = "maximum decode tokens in a batch; 0: no limit"
_ORDERS = "`arrival`, `entry`, `shortest`"


@dataclass(frozen=True)
class FasterTransformer:
    """FasterTransformer: decode before prefill, never both in a batch.

    Parameters
    ----------
    group : int
        0: strict, token by token; M: in groups of up to M requests.
    limit : int
        Maximum decode tokens in a batch.
    """

    group: int = option(
        0, WHOLE, "M", "group size M: prefill up to M requests, then decode them all; 0: no groups"
    )
    limit: int = option(0, WHOLE, "M", _DECODE_LIMIT)

    def policy(self) -> TokenBudgetPolicy:
        """Return the policy with these options."""
        integer(self.group, "group")
        mixing = Mixing.GROUPS if self.group else Mixing.DECODE_FIRST
        return TokenBudgetPolicy(mixing=mixing, group=self.group, limit=self.limit)


@dataclass(frozen=True)
class Limited:
    """A policy whose only option is a limit; see `TokenBudgetPolicy`.

    Parameters
    ----------
    rule : TokenBudgetPolicy
        The policy without a limit.
    limit : int
        Maximum requests in a batch.
    """

    rule: TokenBudgetPolicy
    limit: int = option(0, WHOLE, "M", _LIMIT)

    def policy(self) -> TokenBudgetPolicy:
        """Return the policy with these options."""
        return replace(self.rule, limit=self.limit)


@dataclass(frozen=True)
class LimitedDecode(Limited):
    """A policy that does not mix phases; its only option limits the decode tokens of a batch."""

    limit: int = option(0, WHOLE, "M", _DECODE_LIMIT)


@dataclass(frozen=True)
class Mixed:
    """A policy that mixes phases, with all options; see `TokenBudgetPolicy`.

    Parameters
    ----------
    rule : TokenBudgetPolicy
        The policy without options.
    kp, kd, limit : int
        ``K_p``, ``K_d`` and ``M``.
    prefill, decode : Order
        Orders within the phases.
    """

    rule: TokenBudgetPolicy
    kp: int = option(0, WHOLE, "K", "only the K_p oldest requests may prefill; 0: no limit")
    kd: int = option(0, WHOLE, "K", "only the K_d oldest requests may decode; 0: no limit")
    limit: int = option(0, WHOLE, "M", _LIMIT)
    prefill: str = option("arrival", TEXT, "ORDER", f"order of prompts: {_ORDERS} or `longest`")
    decode: str = option("arrival", TEXT, "ORDER", f"order of decode tokens: {_ORDERS}")

    def policy(self) -> TokenBudgetPolicy:
        """Return the policy with these options."""
        return replace(
            self.rule,
            kp=self.kp,
            kd=self.kd,
            limit=self.limit,
            prefill_order=member(Order, self.prefill, "prefill"),
            decode_order=member(Order, self.decode, "decode"),
        )


Recipe = FasterTransformer | Limited | Mixed

#: The built-in policies.
BUILT_IN: dict[str, Named[Recipe]] = by_name(
    Named[Recipe](
        "faster-transformer",
        "decode tokens if any request can decode, else prompts; never both",
        "throughput paper, section 3, FasterTransformer",
        FasterTransformer(),
    ),
    Named[Recipe](
        "vllm",
        "prompts if any are waiting, else decode tokens; never both",
        "throughput paper, section 3, vanilla vLLM",
        LimitedDecode(TokenBudgetPolicy(mixing=Mixing.PREFILL_FIRST)),
    ),
    Named[Recipe](
        "orca",
        "prompts, then decode tokens in the same batch: work-conserving",
        "throughput paper, section 3, Orca with chunks",
        Mixed(TokenBudgetPolicy(decode_first=False)),
    ),
    Named[Recipe](
        "sarathi",
        "decode tokens, then chunks of prompts in the same batch: work-conserving",
        "throughput paper, section 3, Sarathi-Serve",
        Mixed(TokenBudgetPolicy()),
    ),
    Named[Recipe](
        "vllm-chunked",
        "as sarathi, decoding requests in order of their entry into the decode phase",
        "throughput paper, section 3, vLLM with chunked prefill",
        Limited(TokenBudgetPolicy(decode_order=Order.ENTRY)),
    ),
    Named[Recipe](
        "sjf",
        "as sarathi, fewest tokens left in its phase first; output lengths known",
        "throughput paper, section 2.3: any work-conserving rule",
        Limited(TokenBudgetPolicy(prefill_order=Order.SHORTEST, decode_order=Order.SHORTEST)),
    ),
)


def is_own(text: str) -> bool:
    """Return whether a text names a user's policy, ``module:function``.

    Raises
    ------
    InputError
        If the text names no policy, or an option of a built-in policy is unknown or invalid.
    """
    return read_named(text, BUILT_IN, "policy") is None


def build(text: str) -> BatchPolicy:
    """Return the policy given as ``name:option=value:...`` or ``module:function``.

    Raises
    ------
    InputError
        If the name or an option is unknown, a value is invalid, or a module cannot be loaded.
    """
    recipe = read_named(text, BUILT_IN, "policy")
    if recipe is not None:
        return recipe.policy()
    policy: BatchPolicy = load_callable(text, "policy")
    return policy
