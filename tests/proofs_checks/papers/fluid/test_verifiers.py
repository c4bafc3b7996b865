"""Verifiers of counterexamples: they accept exactly the valid counterexamples."""

from functools import partial
from typing import Any

import pytest

from proofs_checks.evidence import Verifier
from proofs_checks.papers.fluid import nested_runs, nested_theorems, theorem1, theorem1_proof
from proofs_checks.papers.fluid.memory import verify_eq11, verify_eq14, verify_overflow
from proofs_checks.papers.fluid.nested_runs import verify_memory
from proofs_checks.papers.fluid.nested_theorems import verify_equality, verify_merged
from proofs_checks.papers.fluid.propositions import verify_overflow as verify_a3
from proofs_checks.papers.fluid.queues import verify_constant, verify_display
from proofs_checks.papers.fluid.segments import (
    verify_bound,
    verify_domination,
    verify_lemma9,
    verify_maximum,
)
from proofs_checks.papers.fluid.stability import verify_a1, verify_printed
from proofs_checks.papers.fluid.theorem1 import verify_lemma6
from proofs_checks.papers.fluid.theorem1_proof import verify_critical, verify_scaled
from proofs_checks.papers.fluid.thresholds import (
    verify_algorithm1,
    verify_algorithm2,
    verify_figure6,
    verify_section61,
    verify_section62,
)

#: One class with l = 1, d0 = d1 = 1; ΔT = 1 + n·w.
UNIT = {"prompt": 1, "threshold": 1, "fixed": 1, "per_token": 1}
#: Two segments, l = 1, n = (3, 2), d0 = d1 = 1.
PAIR = {"prompt": 1, "first": 3, "second": 2, "fixed": 1, "per_token": 1}
CHAIN = {"prompt": 1, "ends": [2, 4], "thresholds": [1, 1], "fixed": 1, "per_token": 1}
NESTED = {"prompt": 1, "output": 1, "thresholds": [4, 3], "inverse": 10}
BUNCH = {"classes": [[1, 1, 1], [1, 2, 2]], "fixed": 16, "per_token": 1}
_GAPS = {claim.id: claim.verify for claim in nested_runs.CLAIMS + theorem1_proof.CLAIMS}
_TYPES = [1, 1, 2, 1, 2, 2, 2, 2, 1, 1]


def _gap(name: str) -> Verifier:
    verify = _GAPS[f"fluid.{name}"]
    assert verify is not None
    return verify


#: Name, verifier, data that are a counterexample, changes to it after which they are none.
PAIRS: list[tuple[str, Verifier, dict[str, Any], dict[str, Any]]] = [
    # λ·d0·w = 6/5 and d0 + 3·d1 = 5 = 1/λ; and an engine too slow for threshold 1.
    ("proposition1", verify_printed,
     {"interval": 5, "prompt": 1, "output": 1, "fixed": 2, "per_token": 1}, {"interval": 4}),
    # Without d1 there is no load at all, but no engine is like that.
    ("proposition1 with d1 = 0", verify_printed,
     {"interval": 5, "prompt": 1, "output": 1, "fixed": 2, "per_token": 1}, {"per_token": 0}),
    # d1·λ·l'(l + l'/2) = 1 with 2/3 < 1 of a batch; and a condition that is not met.
    ("a1", verify_a1, {"interval": 3, "prompt": 1, "output": 1, "per_token": 2}, {"interval": 4}),
    ("lemma3-display", verify_display, {"arrivals": [0, 2], "rate": 1}, {"arrivals": [2, 0]}),
    ("lemma5-constant", verify_constant, {"steps": 16}, {"steps": 15}),
    ("theorem2-exponent", verify_bound,
     {"before": 2, "threshold": 1, "share": [1, 3]}, {"share": [1, 2]}),
    # A bunch while class 1 is served; and the same with class 1 out of the way.
    ("lemma6", verify_lemma6,
     {**BUNCH, "arrivals": [[59], [1, 60, 60, 60, 60]]},
     {"arrivals": [[80], [1, 60, 60, 60, 60]]}),
    # ΔT = 31: at 62 the walk takes a step, so that an arrival then counts before or after.
    ("lemma6 with a tie", verify_lemma6,
     {**BUNCH, "arrivals": [[59], [1, 60, 60, 60, 60]]},
     {"arrivals": [[59], [1, 62, 62, 62, 62]]}),
    ("theorem4-equality", verify_equality, {**UNIT, "output": 1, "batches": 3}, {"batches": 2}),
    ("eq11", verify_eq11,
     {"prompt": 1, "outputs": [1, 2], "thresholds": [1, 1]}, {"outputs": [2, 1]}),
    ("nested-memory", verify_memory,
     {**CHAIN, "requests": [[0, 4], [0, 4], [1, 2], [1, 2], [1, 2]]}, {"requests": [[0, 4]]}),
    ("theorem2-memory", partial(verify_overflow, varying=False),
     {**NESTED, "rates": [[1, 1]], "batches": 5}, {"batches": 3}),
    # Seven batches at the first rates must be over, else they are constant.
    ("theorem3-memory", partial(verify_overflow, varying=True),
     {**NESTED, "rates": [[2, 1], [1, 1]], "batches": 10}, {"batches": 9}),
    ("theorem4-memory", verify_merged,
     {"prompt": 1, "width": 2, "thresholds": [3, 2], "batches": 5, "often": 200}, {"often": 2}),
    # P(W̃^1 = 2) = P(Y = 2) = 1/9; with P = 1/2 there is no drift.
    ("lemma7-maximum", verify_maximum,
     {"before": 2, "threshold": 1, "share": [1, 3], "s": 0}, {"share": [1, 2]}),
    ("lemma9", verify_lemma9, {"moved": [2, 2], "first": 2, "threshold": 1}, {"first": 1}),
    # One of two waits, two of two are served; fewer must not be more.
    ("theorem2-domination", verify_domination,
     {"arrivals": [[1], [2]], "threshold": 2}, {"arrivals": [[2], [1]]}),
    ("eq14", verify_eq14, {"prompt": 1, "width": 1, "thresholds": [1, 1]}, {"thresholds": [1]}),
    # A prompt that leaves stage 0 and arrives nowhere; a type that is not in the batch.
    ("algorithm1", verify_algorithm1, {"counts": [1, 0], "threshold": 1}, {"threshold": 2}),
    ("algorithm2", verify_algorithm2, {"outputs": [1, 2]}, {"outputs": [1]}),
    ("figure6", verify_figure6, {"types": _TYPES}, {"types": [*_TYPES[:7], 1, 1, 1]}),
    ("theorem1-critical", verify_critical, {**UNIT, "output": 1, "batches": 2}, {"batches": 1}),
    ("appendix-b-scaling", verify_scaled, {"rate": 1, "duration": 3, "scale": 4}, {"scale": 1}),
    # C = M* = 12 and n = 5 > ΔT = 19/4; a token more of memory may be enough.
    ("theorem1", theorem1.verify_theorem1,
     {"rows": [[1, 1, 1]], "fixed": 1, "inverse": 4, "thresholds": [5], "memory": 12},
     {"memory": 13}),
    # With n = 4 = ΔT (9) holds with equality.
    ("theorem1 with equality", theorem1.verify_theorem1,
     {"rows": [[1, 1, 1]], "fixed": 1, "inverse": 4, "thresholds": [5], "memory": 12},
     {"thresholds": [4]}),
    # A = 3 + 6 = 9 > 8; (14) asks n_1 > 2·(1 + (3·7/2 + 2·4)/8) = 6.6.
    ("theorem4", nested_theorems.verify,
     {"prompt": 1, "width": 1, "thresholds": [7, 4], "fixed": 1, "inverse": 8},
     {"thresholds": [6, 4]}),
    # ΔT = 1 + 21 = 22 < 45: 5 are under way, 2 + (22/45)/(2·23/45) < 5/2 wait.
    ("theorem1-gap", _gap("theorem1-gap"),
     {**UNIT, "output": 5, "interval": 45, "steps": 21}, {"interval": 22}),
    ("theorem1-gap-critical", _gap("theorem1-gap-critical"),
     {**UNIT, "output": 13, "interval": 0, "steps": 28}, {"interval": 107}),
    ("theorem1-latency", _gap("theorem1-latency"),
     {**UNIT, "output": 1, "interval": 5, "steps": 5}, {"steps": 4}),
    ("theorem1-latency-critical", _gap("theorem1-latency-critical"),
     {**UNIT, "output": 1, "interval": 0, "steps": 4}, {"steps": 3}),
    ("theorem2-gap", _gap("theorem2-gap"), {**PAIR, "output": 6, "interval": 102}, {"output": 2}),
    ("theorem2-latency", _gap("theorem2-latency"),
     {**PAIR, "output": 1, "interval": 94}, {"interval": 10}),
    # n_1 = 3 wait for one another: 1/Λ on average; ΔT = 16.
    ("theorem2-ttft", _gap("theorem2-ttft"),
     {**PAIR, "output": 1, "interval": 200}, {"interval": 97}),
    ("proposition4-overflow", verify_a3, {"first": 0, "second": 2}, {"first": 1, "second": 1}),
    # The load is 9/10, and the longest class needs 9·3/2·... of it; at a tenth all is well.
    ("section61", verify_section61,
     {"rows": [[1, 1, 1], [1, 1, 2]], "fixed": 1, "inverse": 10}, {"inverse": 90}),
    ("section62", verify_section62,
     {"rates": [23, 11, 8, 7, 6, 4, 3, 2, 1, 1],
      "thresholds": [66, 43, 32, 24, 17, 11, 7, 4, 2, 1]},
     {"rates": [1, 1], "thresholds": [2, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("verify", "wrong", "changes"), [p[1:] for p in PAIRS], ids=[p[0] for p in PAIRS]
)
def test_verifiers_tell_counterexamples(
    verify: Verifier, wrong: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Each data beside an instance where the statement holds or does not apply."""
    assert verify(wrong)
    assert verify(wrong | changes) is None
