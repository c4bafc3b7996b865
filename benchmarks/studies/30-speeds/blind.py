"""BR-0 to which all workers look equally fast."""

from dataclasses import replace

from bfio.decode.policies.balance_route import BalanceRoute, BR0Options
from bfio.decode.state import DecodeState


class BlindBR0:
    """BR-0 that compares tokens where the speeds of workers differ."""

    def __init__(self) -> None:
        self._policy = BalanceRoute(BR0Options())

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign as if every worker had the same speed."""
        return self._policy(replace(state, token_time=None, overhead_tokens=None))
