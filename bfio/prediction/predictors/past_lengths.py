"""Predictors from past outputs, of all requests or by class (BalanceRoute, appendix C.2.1)."""

from bisect import bisect_right, insort
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfio.common.options import CheckedOptions, one_of, option, rational, whole
from bfio.prediction.length_history import (
    FRESH,
    LONGEST,
    Prediction,
    fit,
    gated_steps,
    keep,
    new_history,
    new_table,
    predicted_by_tables,
    stages,
)
from bfio.prediction.predictor import (
    REFRESH,
    Estimates,
    LengthSource,
    PredictionTask,
    PredictorSpec,
)
from formulations.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class SurvivalOptions(CheckedOptions):
    """Options of predictors that learn from the lengths of finished requests.

    An estimate is accepted if the probability of ending within the window is at least ``gate``.
    ``anchor`` defines the prediction if the estimate is not accepted: with ``hold``, the request
    outlives the window until the next prediction; with ``decrement``, it ends after H more tokens,
    as in BalanceRoute (appendix C.2.3).
    """

    refresh: int = option(10, REFRESH, "Q", "tokens between two predictions of a request (10)")
    window: int = option(
        10_000, whole(1, 10**7), "N", "number of latest past outputs used (10000)"
    )
    refit: int = option(100, whole(1, 10**7), "N", "requests that finish between two fits (100)")
    gate: Fraction = option(
        Fraction(1, 2),
        rational(0, 1, 10**7),
        "P",
        "least probability of ending within the window for which an estimate is used (1/2)",
    )
    anchor: str = option(
        "hold", one_of("hold", "decrement"), "A", "below the gate: hold (default), decrement"
    )


class SurvivalPredictor:
    """A predictor from the outputs of finished requests, equal for all requests of a class.

    The past outputs are those of the history, then those of the run as requests finish. Without
    past outputs, a request is predicted to outlive the window. A prediction depends on class and
    age only. A request older than every past output is also predicted to outlive the window.

    Parameters
    ----------
    task : PredictionTask
        Data for the predictor, including ``options``.
    classes : tuple of IntArray, optional
        Classes of the requests of the run, shape (n,), and of the history. Each class is predicted
        from its own past outputs, if it has at least ``least`` of them.
    least : int
        Number of past outputs that a class needs.
    """

    def __init__(
        self,
        task: PredictionTask,
        classes: tuple[IntArray, IntArray] | None = None,
        least: int = 1,
    ) -> None:
        options: SurvivalOptions = task.options
        self.refresh, self.counts_down = options.refresh, options.anchor == "decrement"
        none = np.zeros(0, dtype=np.int64)
        past = none if task.history is None else task.history.output_tokens
        #: Shape (n,): the class of each request.
        self.kinds = np.zeros_like(task.prompt_tokens)
        past_kinds = np.zeros_like(past)
        if classes is not None:
            self.kinds, past_kinds = classes
        count = 1 + int(max(self.kinds.max(initial=0), past_kinds.max(initial=0)))
        gate = options.gate.numerator, options.gate.denominator
        self.history = new_history(count, options.window, options.refit, least, gate)
        self._tables: dict[int, IntArray] = {}
        #: Lengths and classes of requests finished since the last fit.
        self._fresh: list[tuple[int, int]] = []
        for length, kind in zip(past, past_kinds, strict=True):
            keep(self.history, length, kind)
        self.history.counters[FRESH] = 0

    def table(self, look_ahead: int) -> IntArray:
        """Return predicted remaining steps, shape (classes, ages).

        The table is fitted to the kept outputs at the first call, and updated with later fits.
        """
        if look_ahead not in self._tables:
            self._tables[look_ahead] = new_table(self.history, look_ahead)
        return self._tables[look_ahead]

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return the composite estimate, rounded up, in ``1..H+1``; shape (n,)."""
        table = self.table(look_ahead)
        return table[self.kinds[requests], np.minimum(ages, LONGEST - 1)]

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return both stages, from all past outputs; ``p̂`` is 0 beyond the longest output."""
        self._keep_fresh()
        probability, mean = np.zeros(len(requests)), np.zeros(len(requests))
        kinds = self.kinds[requests]
        for kind in np.unique(kinds):
            counts = self.history.counts[kind]
            enough = counts.sum() >= self.history.least
            longer, ended, left = stages(counts if enough else self.history.counts[-1], look_ahead)
            of_kind = (kinds == kind) & (ages < LONGEST)
            n, c, s = (part[ages[of_kind]] for part in (longer, ended, left))
            probability[of_kind] = c / np.maximum(n, 1)
            mean[of_kind] = s / np.maximum(c, 1)
        return Estimates(probability, mean)

    def compiled(self, look_ahead: int) -> Prediction:
        """Return the predictions for compiled runs, which continue to learn during the run."""
        table = self.table(look_ahead)
        return predicted_by_tables(
            self.history, table, self.kinds, self.refresh, self.counts_down, look_ahead
        )

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Record the outputs, in the order of the requests, and fit again if enough are new."""
        for length, kind in zip(outputs.tolist(), self.kinds[requests].tolist(), strict=True):
            self._fresh.append((length, kind))
            if len(self._fresh) >= self.history.refit:
                self._keep_fresh()
                for look_ahead, table in self._tables.items():
                    fit(self.history, table, look_ahead)

    def _keep_fresh(self) -> None:
        for length, kind in self._fresh:
            keep(self.history, length, kind)
        self._fresh.clear()


SURVIVAL = PredictorSpec(
    "survival",
    SurvivalPredictor,
    lengths=LengthSource.COMPILED,
    draws=False,
    options=SurvivalOptions(),
)


#: Minimum number of past outputs of a class by prompt length.
_ENOUGH = 20


@dataclass(frozen=True)
class ExactMatchOptions(SurvivalOptions):
    """Options of `exact-match`.

    If a trace has no prompt keys, prompts are classed by length. For a class with fewer than
    ``least`` past outputs, the prediction is that of `survival`.
    """

    buckets: int = option(8, whole(1, 64), "N", "classes of prompts by length (8)")
    least: int | None = option(
        None, whole(1), "N", "minimum past outputs of a class (20; 1 for equal prompts)"
    )


def exact_match(task: PredictionTask) -> "SurvivalPredictor | PromptMemory":
    """Return a predictor that uses only past requests of the same class.

    With prompt keys, a class has equal prompts. Without keys, classes are ranges of the prompt
    length, between quantiles of the history, or between powers of two without a history.
    """
    options: ExactMatchOptions = task.options
    if task.prompt_keys is not None:
        return PromptMemory(task, task.prompt_keys, options.least or 1)
    return SurvivalPredictor(task, _classes(task, options.buckets), options.least or _ENOUGH)


class PromptMemory:
    """A predictor from past outputs of the same prompt; that of `survival` if there are too few.

    Parameters
    ----------
    task : PredictionTask
        Data for the predictor.
    keys : IntArray
        Shape (n,): keys of the prompts of the run, comparable to those of the history.
    least : int
        Number of past outputs that a prompt needs.
    """

    def __init__(self, task: PredictionTask, keys: IntArray, least: int) -> None:
        self._everyone = SurvivalPredictor(task)
        self.refresh = self._everyone.refresh
        self.counts_down = self._everyone.counts_down
        self._keys, self._least = keys, least
        #: Sorted past outputs of each key.
        self._past: dict[int, list[int]] = {}
        if task.history is not None and task.history.prompt_keys is not None:
            self._keep(task.history.prompt_keys, task.history.output_tokens)

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return the composite estimate, rounded up, in ``1..H+1``; shape (n,)."""
        known, sums = self._sums(requests, ages, look_ahead)
        own = gated_steps(*sums, look_ahead, self._everyone.history.gate)
        return np.where(known, own, self._everyone.remaining(requests, ages, look_ahead))

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return both stages."""
        known, (longer, ended, left) = self._sums(requests, ages, look_ahead)
        everyone = self._everyone.estimate(requests, ages, look_ahead)
        return Estimates(
            np.where(known, ended / np.maximum(longer, 1), everyone.probability),
            np.where(known, left / np.maximum(ended, 1), everyone.mean),
        )

    def compiled(self, look_ahead: int) -> None:
        """Return None: compiled runs do not support this predictor."""

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Record the outputs of each prompt at once; those of all requests as `survival` does."""
        self._keep(self._keys[requests], outputs)
        self._everyone.finished(requests, outputs)

    def _keep(self, keys: IntArray, outputs: IntArray) -> None:
        for key, length in zip(keys.tolist(), outputs.tolist(), strict=True):
            insort(self._past.setdefault(key, []), length)

    def _sums(
        self, requests: IntArray, ages: IntArray, look_ahead: int
    ) -> tuple[BoolArray, tuple[IntArray, IntArray, IntArray]]:
        """Return which prompts have enough outputs; and n, c and s (see `length_history`)."""
        known = np.zeros(len(requests), dtype=np.bool_)
        sums = np.zeros((3, len(requests)), dtype=np.int64)
        for k, (request, age) in enumerate(zip(requests.tolist(), ages.tolist(), strict=True)):
            past = self._past.get(int(self._keys[request]), [])
            longer = past[bisect_right(past, age) :]
            # A request older than all past outputs of its prompt is predicted from all requests.
            if len(past) >= self._least and longer:
                within = longer[: bisect_right(longer, age + look_ahead)]
                known[k] = True
                sums[:, k] = len(longer), len(within), sum(within) - age * len(within)
        return known, (sums[0], sums[1], sums[2])


def _classes(task: PredictionTask, buckets: int) -> tuple[IntArray, IntArray]:
    """Return the classes of the requests of the run and of the history."""
    past = task.history
    prompts = task.prompt_tokens
    if past is None or len(past) == 0:
        return np.log2(prompts).astype(np.int64), np.zeros(0, dtype=np.int64)
    shares = np.arange(1, buckets) / buckets
    edges = np.quantile(past.prompt_tokens, shares, method="lower")
    return np.searchsorted(edges, prompts), np.searchsorted(edges, past.prompt_tokens)


EXACT_MATCH = PredictorSpec(
    "exact-match",
    exact_match,
    lengths=LengthSource.COMPILED,
    draws=False,
    options=ExactMatchOptions(),
)

PREDICTORS = (SURVIVAL, EXACT_MATCH)
