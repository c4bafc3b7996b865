"""Appendix D.4: the bit sets of reachable sums by cardinality, and what they cost."""

from collections.abc import Sequence
from itertools import combinations

from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.search import Domain
from proofs_checks.step_enumeration import multisets

CLAIMS = Claims()


#: Bits of a machine word.
_WORD = 64


def masks(sizes: Sequence[int], slots: int, *, upwards: bool = False) -> tuple[list[int], int]:
    """Return bit sets of the sums by cardinality 0..slots, and the shift-ORs they took."""
    reached, operations = [1] + [0] * slots, 0
    counts = range(1, slots + 1)
    for size in sizes:
        for c in counts if upwards else reversed(counts):
            reached[c] |= reached[c - 1] << size
            operations += 1
    return reached, operations


def enumerated(sizes: Sequence[int], slots: int) -> list[int]:
    """Return the same from all subsets."""
    return [sum({1 << sum(chosen) for chosen in combinations(sizes, c)}) for c in range(slots + 1)]


def word_operations(candidates: int, slots: int, largest: int) -> int:
    """Return ``K·cap·⌈(cap·s_max + 1)/w⌉``."""
    return candidates * slots * -(-(slots * largest + 1) // _WORD)


@CLAIMS.remark(
    "route.subset-cost",
    Mutation("scanned upwards, so that a candidate counts twice", upwards=True),
    Mutation("one cardinality fewer in the cost", fewer=1),
)
def _check(context: Context, *, upwards: bool = False, fewer: int = 0) -> Outcome:
    """Reachable sums by bit sets.

    Source: BalanceRoute paper, appendix D.4, recurrence and cost
    Statement: One shift-OR per candidate and cardinality, scanned downwards, gives all reachable
        sums; in word operations this is exponentially less than enumeration in K, and exact.
    Formula: mask[c] |= mask[c − 1] << s, c = cap..1;  K·cap·⌈(cap·s_max + 1)/w⌉ words
    Assumes: sizes are positive integers up to s_max
    Summary: Exact, each candidate used once. The cost does not grow exponentially in K, but with
        s_max: for 8 slots and prompts up to 4,096 tokens 2^K subsets are fewer up to K of about
        16, where the paper enumerates indeed.
    Reading: the printed formula of the cost is lost in the text at hand; this is the one of its
        words.
    """
    count, largest = context.choose((5, 4), (6, 5), (8, 6))
    cases = [
        (sizes, slots)
        for n in range(1, count + 1)
        for sizes in multisets(n, largest)
        for slots in range(1, n + 1)
    ]
    domain = Domain(
        f"all pools of up to {count} sizes in 1..{largest}, all numbers of slots", cases
    )
    exact = domain.examine(
        "the bit sets hold the sums of all subsets, by cardinality",
        lambda case: masks(*case, upwards=upwards)[0] == enumerated(*case)
    )  # fmt: skip
    cost = domain.examine(
        "K·cap shift-ORs, none on more than cap·s_max + 1 bits",
        lambda case: masks(*case)[1] == len(case[0]) * (case[1] - fewer)
        and max(mask.bit_length() for mask in masks(*case)[0]) <= case[1] * largest + 1
    )  # fmt: skip
    numbers = {
        f"word operations over 2^K, K = {K}, cap = 8, s_max = 4096": word_operations(K, 8, 4096)
        / 2.0**K
        for K in (8, 16, 32, 64)
    }
    return Findings(exact, cost, numbers=numbers)
