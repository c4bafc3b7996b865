"""The true lengths with an error: what look-ahead is worth when predictions are off."""

from fractions import Fraction

import numpy as np

from bfio.decode.predictor import PredictionTask, PredictorSpec
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.rationals import exact_rational

#: Largest relative error unless another is asked for.
DEFAULT_ERROR = Fraction(1, 2)
#: Sets this stream apart from those that draw the requests and the policy's choices.
_STREAM = 0x6E6F697365


class NoisyOraclePredictor:
    """Knows every output length up to a factor drawn once per request.

    Request i is predicted ``ceil(o_i·f_i)`` tokens, with independent f_i uniform on
    ``[1 - e, 1 + e)``. A request that outlives its prediction is predicted to end with the coming
    step, again and again until it does. Equal seeds give equal factors, whatever the policy.

    ``e`` follows the name, ``noisy-oracle:0.25``, and lies in [0, 1]; 0 is the oracle.

    Raises
    ------
    InputError
        If the error is out of range.
    """

    def __init__(self, task: PredictionTask) -> None:
        assert task.output_tokens is not None
        error = read_error(task.option)
        self.name = f"noisy-oracle:{float(error):g}"
        rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(_STREAM,)))
        half_width = float(error)
        factors = 1.0 - half_width + 2.0 * half_width * rng.random(len(task.output_tokens))
        predicted = np.ceil(task.output_tokens * factors).astype(np.int64)
        self._predicted: IntArray = np.maximum(predicted, 1)

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return the predicted length less the age, in ``1..H+1``; shape (n,)."""
        left: IntArray = np.minimum(np.maximum(self._predicted[requests] - ages, 1), horizon + 1)
        return left

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Learn nothing: the errors of different requests are independent."""


def read_error(text: str) -> Fraction:
    """Return the relative error that a text states, `DEFAULT_ERROR` if it is empty.

    Raises
    ------
    InputError
        If it is no number in [0, 1].
    """
    error = exact_rational(text, "predictor noisy-oracle") if text else DEFAULT_ERROR
    if not 0 <= error <= 1:
        raise InputError("predictor noisy-oracle", f"error {error}", "use 0 to 1, e.g. 0.5")
    return error


PREDICTOR = PredictorSpec(
    "noisy-oracle", NoisyOraclePredictor, knows_future=True, check=read_error
)
