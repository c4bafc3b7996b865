"""BR-0 for workers of different speeds, without information on the speeds."""

from dataclasses import replace

from bfio.decode.policies.balance_route import BalanceRoute, BR0Options
from bfio.decode.state import DecodeState


class BlindBR0:
    """BR-0 that compares loads in tokens although workers differ in speed."""

    def __init__(self) -> None:
        self._policy = BalanceRoute(BR0Options())

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign as if all workers had the same speed."""
        return self._policy(replace(state, token_time=None, overhead_tokens=None))
