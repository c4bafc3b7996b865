"""Policy options: exact rationals in, everything else refused by name."""

from fractions import Fraction

import pytest

from bfio.decode.policy_registry import all_options, choose
from formulations.errors import InputError
from formulations.step.problem import Objective


def test_rationals_are_exact() -> None:
    """Strings, ints and fractions become the same exact numbers."""
    made = choose("br-h", {"alpha": 0.5, "beta": 43, "gamma": "43/50"}).options
    assert (made.alpha, made.beta, made.gamma) == (Fraction(1, 2), 43, Fraction(43, 50))
    assert choose("bf-io", {"objective": "gap"}).options.objective is Objective.GAP


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("threshold", -1, "threshold: -1 is out of range"),
        ("threshold", 7.0, "threshold: expected an integer"),
        ("candidates", 0, "candidates: 0 is out of range"),
        ("horizon", 5001, "horizon: 5001 is out of range"),
        ("horizon", True, "horizon: expected an integer"),
        ("choices", 0, "choices: 0 is out of range"),
        ("cap_threshold", 0, "cap_threshold: 0 is out of range"),
        ("alpha", "-1", "alpha: -1 is out of range; use a number >= 0"),
        ("beta", True, "beta: true is not an exact rational"),
        ("beta", "1/0", "beta: '1/0' is not a rational number"),
        ("gamma", "1e-400", "gamma: '1e-400' is not a plain rational"),
        ("gamma", "9" * 61, "is not a plain rational"),
        ("gamma", "0", "gamma: 0 is out of range; use 0 < gamma <= 1"),
        ("gamma", "1.01", "gamma: 101/100 is out of range"),
        ("key", "margin", "key: 'margin' is unknown; use one of lexicographic, product"),
        ("backend", "cplex", "backend: 'cplex' is unknown; use one of exact, cp-sat"),
        ("objective", "mean", "objective: 'mean' is unknown"),
        ("time_limit", 0, "time_limit: 0 s is out of range; give a finite number of seconds > 0"),
        ("time_limit", float("nan"), "time_limit: nan s"),
        ("time_limit", "3", "time_limit: '3' s"),
    ],
)
def test_bad_values_name_the_flag(field: str, value: object, message: str) -> None:
    """One error type, which says the flag, the value and the rule."""
    for policy in all_options()[field]:
        with pytest.raises(InputError, match=message):
            choose(policy, {field: value})
