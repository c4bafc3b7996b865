"""Options of an evaluation: requests for training and evaluation, and ages of the points."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bfio.common.options import MAX_SEED, RATIONAL, WHOLE, option
from formulations.errors import InputError, known_fields
from formulations.scalars import MAX_TOKENS, exact_rational, integer


@known_fields
@dataclass(frozen=True)
class EvaluationOptions:
    """The options of an evaluation, validated.

    Parameters
    ----------
    train_share : Fraction
        Share of the trace, from its start, that forms the history for training; the rest is
        evaluated. Requests are in order of arrival, so every evaluated request arrived after the
        training ones. (If the workload has a history, all its requests are evaluated.)
    every : int
        ``K``: each evaluated request gives points at ages 0, K, 2K, ... until it ends.
    max_age : int, optional
        Maximum age of a point [tokens].
    online : int
        If positive, requests are evaluated in groups of this size, and after each group the
        predictor receives their output lengths, so that it can continue to learn. With 0, lengths
        are never revealed.
    min_output, max_output : int, optional
        Range of output lengths of requests, in history and evaluation [tokens].
    seed : int
        Seed of random predictors.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    train_share: Fraction = option(
        Fraction(1, 2), RATIONAL, "SHARE", "first share of the requests, to learn from (1/2)"
    )
    every: int = option(10, WHOLE, "K", "predict at ages 0, K, 2K, ... of each request (10)")
    max_age: int | None = option(
        None, WHOLE, "TOKENS", "no prediction beyond this age (default: until the request ends)"
    )
    online: int = option(
        0,
        WHOLE,
        "N",
        "after each N evaluated requests, give their lengths to the predictor (0: never)",
    )
    min_output: int | None = option(
        None, WHOLE, "TOKENS", "evaluate only requests of at least this output"
    )
    max_output: int | None = option(
        None, WHOLE, "TOKENS", "evaluate only requests of at most this output"
    )
    seed: int = 0

    def __post_init__(self) -> None:
        """Validate, and convert the share to a fraction."""
        object.__setattr__(self, "train_share", _share(self.train_share))
        for name, least, most in (
            ("every", 1, MAX_TOKENS), ("max_age", 0, MAX_TOKENS), ("online", 0, MAX_TOKENS),
            ("min_output", 1, MAX_TOKENS), ("max_output", 1, MAX_TOKENS), ("seed", 0, MAX_SEED),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None or name in ("every", "online", "seed"):
                value = integer(value, name, minimum=least, maximum=most)
                object.__setattr__(self, name, value)
        if self.max_output is not None and self.max_output < (self.min_output or 1):
            what = f"{self.max_output} is less than min_output, {self.min_output}"
            raise InputError("max_output", what, "exchange the two values")


def _share(value: object) -> Fraction:
    share = exact_rational(str(value) if isinstance(value, float) else value, "train_share")
    if not 0 <= share < 1:
        remedy = "use 0 <= share < 1, as something must be left to evaluate"
        raise InputError("train_share", f"{share} is out of range", remedy)
    return share
