"""Verifiers of counterexamples: they accept what is wrong, and nothing else."""

from typing import Any

import pytest

from proofs_checks.claim import Verifier
from proofs_checks.papers.fluid.algorithms import verify_algorithm1, verify_algorithm2
from proofs_checks.papers.fluid.experiment_thresholds import verify_section61, verify_section62
from proofs_checks.papers.fluid.exponents import verify_bound
from proofs_checks.papers.fluid.full_batch import verify_eq11
from proofs_checks.papers.fluid.largest_sums import verify_constant
from proofs_checks.papers.fluid.lemma6 import verify as verify_lemma6
from proofs_checks.papers.fluid.lemmas import verify_display
from proofs_checks.papers.fluid.nested_bounds import verify_equality
from proofs_checks.papers.fluid.nested_memory import verify_memory, verify_overflow
from proofs_checks.papers.fluid.nested_queues import verify_lemma9, verify_maximum
from proofs_checks.papers.fluid.segments import verify_eq14
from proofs_checks.papers.fluid.stability import verify_a1, verify_printed
from proofs_checks.papers.fluid.theorem1_bounds import verify_critical

#: Verifier, data that are a counterexample, data that look like one and are none.
PAIRS: list[tuple[Verifier, dict[str, Any], dict[str, Any]]] = [
    # λ·d0·w = 3 with d1 = 0; and an engine too slow for threshold 1.
    (
        verify_printed,
        {"interval": 1, "prompt": 1, "output": 1, "fixed": 1, "per_token": 0},
        {"interval": 1, "prompt": 1, "output": 1, "fixed": 1, "per_token": 1},
    ),
    # d1·λ·l'(l + l'/2) = 1 with 2/3 < 1 of a batch; and a condition that is not met.
    (
        verify_a1,
        {"interval": 3, "prompt": 1, "output": 1, "per_token": 2},
        {"interval": 4, "prompt": 1, "output": 1, "per_token": 2},
    ),
    (verify_display, {"arrivals": [0, 2], "rate": 1}, {"arrivals": [2, 0], "rate": 1}),
    (verify_constant, {"steps": 16}, {"steps": 15}),
    (
        verify_bound,
        {"before": 2, "threshold": 1, "share": [1, 3]},
        {"before": 2, "threshold": 1, "share": [1, 2]},
    ),
    # A bunch while class 1 is served; and the same with class 1 out of the way.
    (
        verify_lemma6,
        {
            "classes": [[1, 0, 1], [1, 1, 2]],
            "arrivals": [[9], [0, 10, 10, 10, 10]],
            "fixed": 2,
            "per_token": 0,
        },
        {
            "classes": [[1, 0, 1], [1, 1, 2]],
            "arrivals": [[30], [0, 10, 10, 10, 10]],
            "fixed": 2,
            "per_token": 0,
        },
    ),
    (verify_equality, {"threshold": 1, "batches": 2}, {"threshold": 1, "batches": 1}),
    (
        verify_eq11,
        {"prompt": 1, "outputs": [1], "thresholds": [1]},
        {"prompt": 1, "outputs": [2, 1], "thresholds": [1, 1]},
    ),
    # Three prompts fill one segment of three stages: 6 tokens, (11) says 4; two do not.
    (
        verify_memory,
        {"prompt": 1, "ends": [2], "thresholds": [1], "requests": [[0, 2]] * 3, "fixed": 1},
        {"prompt": 1, "ends": [2], "thresholds": [1], "requests": [[0, 2]], "fixed": 1},
    ),
    (
        verify_overflow,
        {
            "prompt": 1, "output": 1, "thresholds": [4, 3], "rates": [1, 1],
            "batches": 4, "inverse": 3,
        },
        {
            "prompt": 1, "output": 1, "thresholds": [4, 2], "rates": [1, 1],
            "batches": 4, "inverse": 3,
        },
    ),
    (verify_maximum, {"before": 2, "threshold": 1, "s": 0}, {"before": 1, "threshold": 1, "s": 0}),
    (
        verify_lemma9,
        {"moved": [2, 2], "first": 2, "threshold": 1},
        {"moved": [2, 2], "first": 1, "threshold": 1},
    ),
    (
        verify_eq14,
        {"prompt": 1, "width": 1, "thresholds": [1]},
        {"prompt": 1, "width": 1, "thresholds": []},
    ),
    (verify_algorithm1, {"counts": [1], "threshold": 1}, {"counts": [0], "threshold": 1}),
    (verify_algorithm2, {"outputs": [1]}, {"outputs": [2, 1]}),
    (
        verify_critical,
        {"threshold": 1, "duration": 3, "batches": 1},
        {"threshold": 1, "duration": 2, "batches": 1},
    ),
    # The load is 9/10, and the longest class needs 9·3/2·... of it; at a tenth all is well.
    (
        verify_section61,
        {"rows": [[1, 1, 1], [1, 1, 2]], "fixed": 1, "inverse": 10},
        {"rows": [[1, 1, 1], [1, 1, 2]], "fixed": 1, "inverse": 90},
    ),
    (verify_section62, {"rates": [1, 1]}, {"rates": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(("verify", "wrong", "right"), PAIRS, ids=[p[0].__name__ for p in PAIRS])
def test_verifiers_tell_counterexamples(
    verify: Verifier, wrong: dict[str, Any], right: dict[str, Any]
) -> None:
    """Each data beside an instance where the statement holds or does not apply."""
    assert verify(wrong)
    assert verify(right) is None
