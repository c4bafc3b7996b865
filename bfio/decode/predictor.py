"""What the engine asks of a length predictor, and what it tells one.

A predictor is described by one object, `PredictorSpec`, or is a function or class that makes one
from a `PredictionTask`: what may be known of the requests before any has finished. Lengths are
told as requests finish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from bfio.common.patience import patience
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.named_objects import users_code
from formulations.scalars import integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bfio.decode.machine.endings import Prediction
    from bfio.workloads.workload import Workload
    from formulations.arrays import FloatArray

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

    Refused is what is not two arrays of ``count`` numbers, a probability not in [0, 1], and a mean
    that is read and not in [1, H].
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


#: Longest call of a predictor [s]; a run makes thousands.
PATIENCE_S = 60.0


class Predictor(Protocol):
    """Predicts remaining decode steps within a look-ahead window (BalanceRoute, section 4).

    One instance serves one run. Requests are named by their index in the workload, so an
    implementation may look up what its task tells of them. It may have an attribute ``refresh``,
    ``q`` (1 by default): each running request is asked about when it starts, after every q tokens
    and when it outlives what was predicted, and in between each token takes one step off.
    """

    @property
    def name(self) -> str:
        """Name under which runs record it; without one, that of its class."""
        ...

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return the predicted remaining steps, counting the coming one.

        Parameters
        ----------
        requests : IntArray
            Shape (n,): indices in the workload, running or waiting requests, in any order; the
            latter in runs with ``window_knows="all"`` only.
        ages : IntArray
            Shape (n,): tokens each has emitted; 0 for a waiting one.
        look_ahead : int
            ``H >= 1``.

        Returns
        -------
        IntArray
            Shape (n,), each in ``1..H+1``: ``y <= H`` means "active for h < y", and ``H+1``
            means "beyond the window", active for every h = 0..H. BalanceRoute keeps a request
            while ``h < ŷ`` (eq. 7), so an expected length ``ŷ`` is rounded up. Integers outside
            are cut to this range, 0 to 1 and more than ``H+1`` to it; less than 0 is refused.
        """
        ...

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Learn from requests that have just finished: their output lengths [tokens].

        A predictor that learns nothing may leave it out.
        """
        ...


@dataclass(frozen=True)
class PredictionTask:
    """What a predictor is made from.

    Parameters
    ----------
    prompt_tokens : IntArray
        Shape (n,): prompts of the requests of the run [tokens].
    seed : int
        Seed of the run, for predictors that draw.
    history : Workload, optional
        Requests of the past with their outputs, to learn from; None if there are none.
    options : object
        What follows the predictor's name: a dataclass as `PredictorSpec.options`, if it has one.
    output_tokens : IntArray, optional
        Shape (n,): the true lengths; None for all but the oracles.
    prompt_keys : IntArray, optional
        Shape (n,): equal prompts have equal keys, those of the history's included; None if the
        trace does not tell, or the history is of another.
    """

    prompt_tokens: IntArray
    seed: int = 0
    history: Workload | None = None
    options: Any = None
    output_tokens: IntArray | None = None
    prompt_keys: IntArray | None = None


class LengthSource(StrEnum):
    """Where the lengths of projections come from."""

    #: Nothing ends within the window.
    UNKNOWN = "unknown"
    #: The true ones.
    KNOWN = "known"
    #: The predictor is asked, in Python or as machine code: it has a method ``compiled`` from the
    #: look-ahead to a `bfio.decode.machine.endings.Prediction`, or to None if there is none.
    COMPILED = "compiled"
    #: The predictor is asked, in Python.
    ASKED = "asked"


@dataclass(frozen=True)
class PredictorSpec:
    """What the registry knows about one predictor.

    Parameters
    ----------
    name : str
        Name on the command line.
    build : callable
        Makes a fresh `Predictor` or `bfio.decode.predictor.Estimator`, for one run.
    knows_future : bool
        Whether it is told the true lengths beforehand, as an oracle is.
    lengths : LengthSource
        How the engine may project without asking it.
    draws : bool
        Whether it may draw from the seed of the run.
    options : object
        A dataclass of what may follow the name as ``key=value``, with the values that hold if
        nothing does (`bfio.common.options.option`).
    needs : str
        A module without which it cannot be built, of a package that is an extra.
    shorthand : str
        The option that a value without ``key=`` is for, if there is one.
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
    """A predictor whose answers are checked; what it need not have is added.

    Of one that has both methods, runs ask for steps and evaluations for estimates.

    Parameters
    ----------
    predictor : Predictor or Estimator
        Any; ``name``, ``refresh`` and ``finished`` may be missing.
    name : str
        What it is called if it has no name of its own; by default as its class.

    Raises
    ------
    InputError
        If it is no predictor.
    """

    def __init__(self, predictor: object, name: str = "") -> None:
        self.name = str(getattr(predictor, "name", name or type(predictor).__name__))
        self.where = f"predictor {self.name}"
        for method in _FORMS:
            found = getattr(predictor, method, None)
            if not callable(found) and found is not None:
                raise InputError(self.where, f"{method} is no method", f"write {_FORMS[method]}")
        if not hasattr(predictor, "remaining") and not hasattr(predictor, "estimate"):
            what = f"a {type(predictor).__name__} has no method remaining or estimate"
            raise InputError(self.where, what, f"write {_FORMS['remaining']}")
        #: ``q``: tokens after which it is asked about a request again.
        self.refresh = integer(
            getattr(predictor, "refresh", 1), f"{self.where}: refresh", minimum=1
        )
        #: Whether "beyond the window" comes closer with each token as well, see `Refresh`.
        self.counts_down = bool(getattr(predictor, "counts_down", False))
        self._predictor: Any = predictor

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return what it says, cut to ``1..H+1``; shape (n,).

        Refused is what raises anything, returns no integers >= 0 of that shape, or no estimates.
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
            what = f"{least} remaining steps"
            raise InputError(self.where, what, "return 1 or more: a running request has a step")
        # The coming step is certain (remaining >= 1), whatever a learned predictor says.
        clipped: IntArray = np.maximum(np.minimum(predicted, look_ahead + 1), 1).astype(np.int64)
        return clipped

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return both stages; of a predictor that states steps alone, those are certain."""
        if not hasattr(self._predictor, "estimate"):
            steps = self.remaining(requests, ages, look_ahead).astype(np.float64)
            return Estimates((steps <= look_ahead).astype(np.float64), steps)
        with self._asked(len(requests)):
            answer = self._predictor.estimate(requests, ages, look_ahead)
        return checked_estimates(answer, len(requests), look_ahead, self.where)

    def compiled(self, look_ahead: int) -> Prediction | None:
        """Return the same predictor for compiled runs, if there is one for this look-ahead."""
        prediction: Prediction | None = self._predictor.compiled(look_ahead)
        return prediction

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Let it learn, if it does."""
        if (learn := getattr(self._predictor, "finished", None)) is not None:
            with self._asked(len(requests)):
                learn(requests, outputs)

    @contextmanager
    def _asked(self, count: int) -> Iterator[None]:
        remedy, what = "mend the predictor", f"a call for {count} requests"
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
