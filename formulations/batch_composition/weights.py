"""Weights that make the batch program one of the paper's policies, or a proxy of latency."""

import numpy as np

from formulations.arrays import IntArray, integer_vector


def phase_weights(prefill: IntArray, *, prompt_token: int, decode_token: int) -> IntArray:
    """Return one weight per phase, shape (n,): (1, 2) is Sarathi-Serve, (2, 1) Orca (section 3).

    Parameters
    ----------
    prefill : IntArray
        Shape (n,): prompt tokens left.
    prompt_token, decode_token : int
        Worth of a token in either phase.
    """
    return np.where(np.asarray(prefill) > 0, prompt_token, decode_token).astype(np.int64)


def aging_weights(waited: object) -> IntArray:
    """Return ``1 + waited``, shape (n,): those who waited longest first, and nobody starves.

    Parameters
    ----------
    waited : sequence of int
        Slots since each request arrived, or since its last token for the time between tokens.
    """
    return integer_vector(waited, "waited") + 1


def shortest_first_weights(remaining: object) -> IntArray:
    """Return weights that put requests with fewest tokens left first (SRPT), shape (n,).

    Parameters
    ----------
    remaining : sequence of int
        Tokens left of each request, known or predicted.
    """
    left = integer_vector(remaining, "remaining")
    longest = int(left.max(initial=0))
    return (longest + 1 - left).astype(np.int64)
