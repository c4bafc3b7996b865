"""The interface between the engine and length predictors.

A predictor is described by a `PredictorSpec`, or it is a function or class that makes one from a
`PredictionTask`: the information about the requests that is available before any has finished. The
length of a request is revealed to the predictor when the request finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from bfio.common.options import whole
from bfio.common.plugins import patience
from formulations.arrays import IntArray
from formulations.errors import InputError, kind_of
from formulations.named_objects import users_code
from formulations.scalars import integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bfio.prediction.length_history import Prediction
    from bfio.workloads.workload import Workload
    from formulations.arrays import FloatArray

#: Least ``p̂`` at which an estimate is used (the gate of appendix C.2.3).
GATE = 0.5
#: An estimated length that exceeds an integer by at most this is rounded down to it, so that a
#: floating-point error does not add a step.
_ROUNDING = 1e-9


class Estimates(NamedTuple):
    """Both stages of an estimate for some requests.

    Parameters
    ----------
    probability : FloatArray
        Shape (n,): ``p̂``, the probability that the request ends within the window, in [0, 1].
    mean : FloatArray
        Shape (n,): ``μ̂``, mean remaining steps of the request if it ends within the window,
        including the next step; ignored where ``p̂`` is 0.
    """

    probability: FloatArray
    mean: FloatArray


class Estimator(Protocol):
    """A predictor that returns both stages; the engine applies gate, composite and refresh.

    One instance serves one run, as for any `bfio.prediction.predictor.Predictor`. An optional
    attribute ``refresh``, ``q``, is the number of tokens after which a request is predicted again.
    """

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return the probability to end in the window and the mean remaining steps of requests.

        Parameters
        ----------
        requests : IntArray
            Shape (n,): indices in the workload.
        ages : IntArray
            Shape (n,): tokens that each request has emitted.
        look_ahead : int
            ``H >= 1``.
        """

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Learn from requests that have just finished: their output lengths [tokens].

        Optional: a predictor that learns nothing needs no such method.
        """


def composite(estimates: Estimates, look_ahead: int) -> IntArray:
    """Return predicted remaining steps, shape (n,), each in ``1..H+1`` (BalanceRoute, eq. 6).

    ``ŷ = p̂·μ̂ + (1 - p̂)·H``, clipped to [1, H] and rounded up, since a request is kept while ``h
    < ŷ``. Where ``p̂ < 1/2`` the gate is closed: the request is kept for the whole window, ``H +
    1``. (The paper resets ``ŷ`` to H in this case. The last column of the window would then
    contain no running request.)
    """
    steps = np.ceil(expected_steps(estimates, look_ahead) - _ROUNDING).astype(np.int64)
    return np.where(estimates.probability >= GATE, steps, np.int64(look_ahead + 1))


def expected_steps(estimates: Estimates, look_ahead: int) -> FloatArray:
    """Return ``ŷ = p̂·μ̂ + (1 - p̂)·H``, clipped to [1, H] (BalanceRoute, equation 6).

    p̂ is the estimated probability that a request ends within H steps, μ̂ the mean number of steps
    until then. The rounding, and the gate for p̂ < 1/2, come after this function.
    """
    probability, mean = estimates
    within = np.where(probability > 0, mean, 0.0)
    return np.clip(probability * within + (1 - probability) * look_ahead, 1, look_ahead)


def checked_estimates(answer: object, count: int, look_ahead: int, where: str) -> Estimates:
    """Return both stages of an estimator's answer, after checks.

    Raises InputError if the answer is not two arrays of ``count`` numbers, if a probability is not
    in [0, 1], or if a mean with probability > 0 is not in [1, H].
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
        raise InputError(where, f"estimate returned a probability of {float(worst)!r}", remedy)
    wrong = (probability > 0) & ~((mean >= 1) & (mean <= look_ahead * (1 + _ROUNDING)))
    if wrong.any():
        raise InputError(where, f"estimate returned a mean of {mean[wrong][0]:g} steps", remedy)
    return Estimates(probability, mean)


#: ``q``, number of tokens after which a request is predicted again.
REFRESH = whole(1, 10**7)
#: Longest call of a predictor [s]; a run makes thousands of calls.
PATIENCE_S = 60.0


class Predictor(Protocol):
    """A predictor of remaining decode steps within a window (BalanceRoute, section 4).

    One instance serves one run. Requests are identified by their index in the workload, so an
    implementation may look up the data of its task. An optional attribute ``refresh``, ``q`` (1 by
    default), sets when a running request is predicted: at its start, after every q tokens, and
    when it outlives the prediction. In between, each token reduces the predicted steps by one.
    """

    @property
    def name(self) -> str:
        """Name in the record of a run; by default the name of the class."""

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return the predicted remaining steps, including the next one.

        Parameters
        ----------
        requests : IntArray
            Shape (n,): indices in the workload, in any order. Waiting requests are included only
            in runs with ``window_knows="all"``.
        ages : IntArray
            Shape (n,): tokens that each request has emitted; 0 for a waiting request.
        look_ahead : int
            ``H >= 1``.

        Returns
        -------
        IntArray
            Shape (n,), each in ``1..H+1``: ``y <= H`` means "active for h < y", and ``H+1``
            means "beyond the window", active for every h = 0..H. BalanceRoute keeps a request
            while ``h < ŷ`` (eq. 7), so an expected length ``ŷ`` is rounded up. Integers outside
            ``1..H+1`` are clipped to this range; negative ones are rejected.
        """

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Learn from requests that have just finished: their output lengths [tokens].

        Optional: a predictor that learns nothing needs no such method.
        """


@dataclass(frozen=True)
class PredictionTask:
    """The data from which a predictor is made.

    Parameters
    ----------
    prompt_tokens : IntArray
        Shape (n,): prompts of the requests of the run [tokens].
    seed : int
        Seed of the run, for predictors that draw.
    history : Workload, optional
        Past requests with their output lengths, to learn from; None if there are none.
    options : object
        Options given after the predictor's name: an instance of the dataclass of
        `PredictorSpec.options`, if it has one.
    output_tokens : IntArray, optional
        Shape (n,): the true output lengths, given to oracles only; else None.
    prompt_keys : IntArray, optional
        Shape (n,): keys of the prompts, equal for equal prompts, also across the history; None if
        the trace has no keys or the history is from another trace.
    """

    prompt_tokens: IntArray
    seed: int = 0
    history: Workload | None = None
    options: Any = None
    output_tokens: IntArray | None = None
    prompt_keys: IntArray | None = None


class LengthSource(StrEnum):
    """Source of the output lengths used in projections."""

    #: No length is known: no request ends within the window.
    UNKNOWN = "unknown"
    #: The true lengths.
    KNOWN = "known"
    #: The predictor, called in Python or in its compiled form. Its method ``compiled`` takes the
    #: look-ahead and returns a `bfio.prediction.length_history.Prediction`, or None if this
    #: look-ahead has no compiled form.
    COMPILED = "compiled"
    #: The predictor, called in Python only.
    ASKED = "asked"


@dataclass(frozen=True)
class PredictorSpec:
    """Registry entry of a predictor.

    Parameters
    ----------
    name : str
        Name on the command line.
    build : callable
        Makes a new `Predictor` or `bfio.prediction.predictor.Estimator` for one run.
    knows_future : bool
        Whether the predictor gets the true lengths in advance, as an oracle does.
    lengths : LengthSource
        How the engine gets the lengths for its projections.
    draws : bool
        Whether the predictor may draw random numbers with the seed of the run.
    options : object
        An instance of a dataclass: the options that may follow the name as ``key=value``, with
        their default values (`bfio.common.options.option`).
    needs : str
        Optional module that the predictor needs, from an extra of this package; "" for none.
    shorthand : str
        Option that a value without ``key=`` sets; "" for none.
    """

    name: str
    build: Callable[[PredictionTask], object]
    knows_future: bool = False
    lengths: LengthSource = LengthSource.ASKED
    draws: bool = True
    options: object = None
    needs: str = ""
    shorthand: str = ""


class CheckedPredictor:
    """A predictor with checked answers and with defaults for optional attributes.

    A run calls ``remaining`` and an evaluation calls ``estimate`` if the predictor has both.

    Parameters
    ----------
    predictor : Predictor or Estimator
        Any predictor; ``name``, ``refresh`` and ``finished`` are optional.
    name : str
        Name if the predictor has none; by default that of its class.

    Raises
    ------
    InputError
        If the object is not a predictor.
    """

    def __init__(self, predictor: object, name: str = "") -> None:
        self.name = str(getattr(predictor, "name", name or type(predictor).__name__))
        self.where = f"predictor {self.name}"
        for method in _FORMS:
            found = getattr(predictor, method, None)
            if not callable(found) and found is not None:
                raise InputError(
                    self.where, f"{method} is not a method", f"write {_FORMS[method]}"
                )
        if not hasattr(predictor, "remaining") and not hasattr(predictor, "estimate"):
            what = f"{kind_of(predictor)} has no method remaining or estimate"
            raise InputError(self.where, what, f"write {_FORMS['remaining']}")
        #: ``q``: number of tokens after which a request is predicted again.
        self.refresh = integer(
            getattr(predictor, "refresh", 1), f"{self.where}: refresh", minimum=1
        )
        #: Whether a prediction "beyond the window" also decreases with each token, see `Refresh`.
        self.counts_down = bool(getattr(predictor, "counts_down", False))
        self._predictor: Any = predictor

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return the predicted steps, clipped to ``1..H+1``; shape (n,).

        Raises InputError if the predictor raises any error, or does not return integers >= 0 of
        that shape or valid estimates.
        """
        if len(requests) == 0:
            return requests
        if not hasattr(self._predictor, "remaining"):
            return composite(self.estimate(requests, ages, look_ahead), look_ahead)
        with self._asked(len(requests)):
            answer = self._predictor.remaining(requests, ages, look_ahead)
            predicted = np.asarray(answer)
        if predicted.shape != requests.shape or not np.issubdtype(predicted.dtype, np.integer):
            what = f"returned {_described(answer, predicted)}"
            remedy = f"return {len(requests)} integers (round an expected length up)"
            raise InputError(self.where, what, remedy)
        if (least := predicted.min()) < 0:
            what = f"returned {least} remaining steps"
            raise InputError(
                self.where, what, "return 1 or more: a running request has at least one step left"
            )
        # A running request has at least one step left, also if the predictor returns 0.
        clipped: IntArray = np.maximum(np.minimum(predicted, look_ahead + 1), 1).astype(np.int64)
        return clipped

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return both stages; without a method ``estimate``, p̂ is 0 or 1 by ``remaining``."""
        if not hasattr(self._predictor, "estimate"):
            steps = self.remaining(requests, ages, look_ahead).astype(np.float64)
            return Estimates((steps <= look_ahead).astype(np.float64), steps)
        with self._asked(len(requests)):
            answer = self._predictor.estimate(requests, ages, look_ahead)
        return checked_estimates(answer, len(requests), look_ahead, self.where)

    def compiled(self, look_ahead: int) -> Prediction | None:
        """Return the compiled form of the predictor; None if this look-ahead has none."""
        prediction: Prediction | None = self._predictor.compiled(look_ahead)
        return prediction

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Pass finished requests to the predictor if it has a method ``finished``."""
        if (learn := getattr(self._predictor, "finished", None)) is not None:
            with self._asked(len(requests)):
                learn(requests, outputs)

    @contextmanager
    def _asked(self, count: int) -> Iterator[None]:
        remedy, what = "correct the predictor", f"a call for {count} requests"
        with users_code(self.where, remedy=remedy), patience(PATIENCE_S, self.where, what, remedy):
            yield


def _described(answer: object, array: NDArray[Any]) -> str:
    if not isinstance(answer, Sequence | np.ndarray):
        return f"{answer!r:.40}"
    return f"an array of shape {array.shape} and type {array.dtype}"


_FORMS = {
    "estimate": "estimate(self, requests, ages, look_ahead) -> probabilities, means",
    "remaining": "remaining(self, requests, ages, look_ahead) -> steps left",
    "finished": "finished(self, requests, outputs), or leave it out",
}
