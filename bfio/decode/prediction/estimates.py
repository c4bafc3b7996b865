"""The two-stage contract of predictors (BalanceRoute, section 4.2 and appendix C).

Stage 1 estimates whether a request ends within the window, stage 2 how soon if it does. Together
they estimate how many of the coming steps it runs.
"""

from typing import NamedTuple, Protocol

import numpy as np

from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError

#: Least ``p̂`` at which an estimate is taken (the gate of appendix C.2.3).
GATE = 0.5
#: Estimated lengths this close above an integer are that integer: rounding up must not turn an
#: error in the last place into a step.
_ROUNDING = 1e-9


class Estimates(NamedTuple):
    """Both stages for some requests.

    Parameters
    ----------
    probability : FloatArray
        Shape (n,): ``p̂``, the probability that the request ends within the window, in [0, 1].
    mean : FloatArray
        Shape (n,): ``μ̂``, its mean remaining steps if it does, counting the coming one; not read
        where ``p̂`` is 0.
    """

    probability: FloatArray
    mean: FloatArray


class Estimator(Protocol):
    """A predictor that states both stages; gate, composite and refresh are the engine's.

    One instance serves one run, as of any `bfio.decode.predictor.Predictor`. It may have an
    attribute ``refresh``, ``q``: the tokens after which each request is asked about again.
    """

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return both stages.

        Parameters
        ----------
        requests : IntArray
            Shape (n,): indices in the workload.
        ages : IntArray
            Shape (n,): tokens each has emitted.
        look_ahead : int
            ``H >= 1``.
        """
        ...

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Learn from requests that have just finished: their output lengths [tokens].

        A predictor that learns nothing may leave it out.
        """
        ...


def composite(estimates: Estimates, look_ahead: int) -> IntArray:
    """Return predicted remaining steps, shape (n,), each in ``1..H+1`` (BalanceRoute, eq. 6).

    ``ŷ = p̂·μ̂ + (1 - p̂)·H``, clipped to [1, H] and rounded up, as a request is kept while
    ``h < ŷ``. Where ``p̂ < 1/2`` the gate is closed: the request is kept for the whole window,
    ``H + 1``. (The paper resets ``ŷ`` to H there, which would leave the last column of the window
    without any running request.)
    """
    steps = np.ceil(expected_steps(estimates, look_ahead) - _ROUNDING).astype(np.int64)
    return np.where(estimates.probability >= GATE, steps, np.int64(look_ahead + 1))


def expected_steps(estimates: Estimates, look_ahead: int) -> FloatArray:
    """Return ``ŷ = p̂·μ̂ + (1 - p̂)·H``, clipped to [1, H] and neither gated nor rounded (eq. 6)."""
    probability, mean = estimates
    within = np.where(probability > 0, mean, 0.0)
    expected: FloatArray = np.clip(
        probability * within + (1 - probability) * look_ahead, 1, look_ahead
    )
    return expected


def checked_estimates(answer: object, count: int, look_ahead: int, where: str) -> Estimates:
    """Return both stages as an estimator has stated them.

    Raises
    ------
    InputError
        If they are not two arrays of ``count`` numbers, a probability is not in [0, 1], or a mean
        that is read is not in [1, H].
    """
    remedy = f"return two arrays of {count} numbers: p in [0, 1], mean steps in [1, {look_ahead}]"
    try:
        probability, mean = (np.asarray(part, dtype=np.float64) for part in answer)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InputError(where, "estimate returned no pair of arrays", remedy) from None
    for part in (probability, mean):
        if part.shape != (count,):
            raise InputError(where, f"estimate returned shape {part.shape}", remedy)
    if not np.all((probability >= 0) & (probability <= 1)):
        worst = probability[~((probability >= 0) & (probability <= 1))][0]
        raise InputError(where, f"a probability of {float(worst)!r}", remedy)
    wrong = (probability > 0) & ~((mean >= 1) & (mean <= look_ahead * (1 + _ROUNDING)))
    if wrong.any():
        raise InputError(where, f"a mean of {mean[wrong][0]:g} steps", remedy)
    return Estimates(probability, mean)
