"""Policy names with options of their own: ``bf-io:horizon=20:backend=cp-sat``."""

from bfio.common.options import from_texts, split_options
from bfio.decode.policy_options import PolicyOptions


def parse_policy(text: str, defaults: PolicyOptions) -> tuple[str, PolicyOptions]:
    """Split a policy's name from the options written after it.

    ``name:option=value:...`` overrides ``defaults`` for this policy only; ``module:function`` may
    be followed by options in the same way.

    Raises
    ------
    InputError
        If an option is unknown or its value unreadable.
    """
    name, options = split_options(text)
    return name, from_texts(defaults, options, f"policy {text}")
