"""Requests of the past at several ages: what predictors are trained on and judged by."""

from typing import NamedTuple

import numpy as np

from formulations.arrays import IntArray


class Walk(NamedTuple):
    """Points of requests, those of one request together and by age.

    Parameters
    ----------
    requests : IntArray
        Shape (m,): index of the request.
    ages : IntArray
        Shape (m,): tokens it has emitted.
    remaining : IntArray
        Shape (m,), each >= 1: tokens it is still to emit.
    """

    requests: IntArray
    ages: IntArray
    remaining: IntArray


def walk(outputs: IntArray, every: int, max_age: int | None = None) -> Walk:
    """Return requests at ages 0, K, 2K, ... below their output length (BalanceRoute, C.2.2).

    A request has a point for each K tokens, as a cluster that asks every K tokens meets it: long
    ones weigh more.

    Parameters
    ----------
    outputs : IntArray
        Shape (n,), output lengths ``o_i >= 1`` [tokens].
    every : int
        ``K >= 1`` [tokens].
    max_age : int, optional
        No point beyond this age.
    """
    last = outputs - 1 if max_age is None else np.minimum(outputs - 1, max_age)
    counts = last // every + 1
    requests = np.repeat(np.arange(len(outputs)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    ages = (np.arange(len(requests)) - first) * every
    return Walk(requests, ages, outputs[requests] - ages)
