"""What the engine asks of a length predictor."""

from typing import Protocol

from formulations.arrays import IntArray


class Predictor(Protocol):
    """Predicts remaining decode steps within a look-ahead window (BalanceRoute, section 4).

    One instance serves one run. Requests are named by their index in the workload, so an
    implementation may look up whatever it is allowed to know of them (prompt length, past
    predictions); only the oracle looks at the output length of an unfinished request.
    """

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return the predicted remaining steps, counting the coming one.

        Parameters
        ----------
        requests : IntArray
            Shape (n,): indices in the workload, running or waiting requests.
        ages : IntArray
            Shape (n,): tokens each has emitted; 0 for a waiting one.
        horizon : int
            ``H >= 1``.

        Returns
        -------
        IntArray
            Shape (n,), each in ``1..H+1``: ``y <= H`` means "active for h < y", and ``H+1``
            means "beyond the window", active for every h = 0..H. BalanceRoute keeps a request
            while ``h < ŷ`` (eq. 7), so an expected length ``ŷ`` is rounded up.
        """
        ...

    def finished(self, requests: IntArray) -> None:
        """Learn from requests that have just finished: their output length is now known."""
        ...
