"""Options of an evaluation: requests for training and evaluation, and ages of the points."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bfio.common.options import MAX_SEED, RATIONAL, CheckedOptions, checked, option, whole
from formulations.errors import InputError, known_fields
from formulations.scalars import MAX_TOKENS, exact_rational, integer


def _share(value: object, name: str) -> Fraction:
    share = exact_rational(str(value) if isinstance(value, float) else value, name)
    if not 0 <= share < 1:
        remedy = "use 0 <= share < 1, as something must be left to evaluate"
        raise InputError(name, f"{share} is out of range", remedy)
    return share


_SHARE = checked(RATIONAL, _share)
#: Numbers of tokens from 1 on.
_TOKENS = whole(1, MAX_TOKENS)


@known_fields
@dataclass(frozen=True)
class EvaluationOptions(CheckedOptions):
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
        Fraction(1, 2), _SHARE, "SHARE", "first share of the requests, to learn from (1/2)"
    )
    every: int = option(10, _TOKENS, "K", "predict at ages 0, K, 2K, ... of each request (10)")
    max_age: int | None = option(
        None,
        whole(0, MAX_TOKENS),
        "TOKENS",
        "no prediction beyond this age (default: until the request ends)",
    )
    online: int = option(
        0,
        whole(0, MAX_TOKENS),
        "N",
        "after each N evaluated requests, give their lengths to the predictor (0: never)",
    )
    min_output: int | None = option(
        None, _TOKENS, "TOKENS", "evaluate only requests of at least this output"
    )
    max_output: int | None = option(
        None, _TOKENS, "TOKENS", "evaluate only requests of at most this output"
    )
    seed: int = 0

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        object.__setattr__(self, "seed", integer(self.seed, "seed", maximum=MAX_SEED))
        if self.max_output is not None and self.max_output < (self.min_output or 1):
            what = f"{self.max_output} is less than min_output, {self.min_output}"
            raise InputError("max_output", what, "exchange the two values")
