"""Equation (3): the cluster snapshot from which BR-H decides."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product

import numpy as np

from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage_reference
from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.route.br0 import f_score
from proofs_checks.papers.route.estimators import profile
from proofs_checks.search import examine
from proofs_checks.step_enumeration import imbalance

CLAIMS = Claims()


#: Size now, ``s + a`` [tokens], and remaining steps of an active request.
Active = tuple[int, int]


@dataclass(frozen=True)
class Snapshot:
    """Information about a cluster at one step.

    Parameters
    ----------
    active : tuple of tuples
        Shape (G, requests): the active set of each worker.
    slots : tuple of int
        Slots of each worker.
    waiting : tuple of int
        Sizes of the waiting requests [tokens].
    """

    active: tuple[tuple[Active, ...], ...]
    slots: tuple[int, ...]
    waiting: tuple[int, ...]

    @property
    def free(self) -> list[int]:
        """Free slots of each worker."""
        return [slots - len(held) for slots, held in zip(self.slots, self.active, strict=True)]

    def loads(self, steps: int, *, late: bool = False) -> list[list[int]]:
        """Return the projected loads, shape (G, steps): the sums of (7) [tokens]."""
        return [
            [sum(at) for at in zip([0] * steps, *self._profiles(held, steps, late), strict=True)]
            for held in self.active
        ]

    @staticmethod
    def _profiles(held: Sequence[Active], steps: int, late: bool) -> list[list[int]]:
        return [profile(size, Fraction(left), steps, late=late) for size, left in held]


def decoded(held: Sequence[Active], steps: int) -> Iterator[int]:
    """Yield a worker's load at each step, with its requests decoded one token at a time."""
    for _ in range(steps):
        yield sum(size for size, _ in held)
        held = [(size + 1, left - 1) for size, left in held if left > 1]


def admitted(snapshot: Snapshot, steps: int) -> frozenset[int]:
    """Return the positions of the waiting requests that BR-H sends to worker 0."""
    assignment = two_stage_reference(
        np.array(snapshot.free, dtype=np.int64),
        np.array(snapshot.loads(steps), dtype=np.int64),
        np.array([[size] * steps for size in snapshot.waiting], dtype=np.int64),
        tuple(range(steps, 0, -1)),
        TwoStageParameters(),
    )
    return frozenset(i for i, worker in enumerate(assignment) if worker == 0)


def random_snapshots(context: Context) -> Iterator[Snapshot]:
    """Yield random clusters of 2 or 3 workers."""
    rng = context.rng
    for _ in range(context.choose(60, 400, 10_000)):
        G, slots = int(rng.integers(2, 4)), int(rng.integers(1, 5))
        active = tuple(
            tuple(
                (int(rng.integers(1, 9)), int(rng.integers(1, 7)))
                for _ in range(int(rng.integers(0, slots + 1)))
            )
            for _ in range(G)
        )
        yield Snapshot(active, (slots,) * G, tuple(rng.integers(1, 12, 3).tolist()))


def small_snapshots() -> list[Snapshot]:
    """Return all small clusters of two workers with few requests."""
    held = [
        tuple(requests)
        for count in range(2)
        for requests in combinations_with_replacement(product((2, 5), (1, 3)), count)
    ]
    slots, waiting = list(product((1, 2), repeat=2)), [(1,), (1, 4), (4, 1)]
    cases = product(product(held, repeat=2), slots, waiting)
    return [Snapshot(active, most, sizes) for active, most, sizes in cases]


def _score_is_drop(snapshot: Snapshot, *, steps: int, late: bool) -> bool:
    """Compare F_H from the snapshot with the drop in imbalance of the decoded cluster."""
    projected = list(zip(*snapshot.loads(steps, late=late), strict=True))
    actual = list(zip(*(decoded(held, steps) for held in snapshot.active), strict=True))
    G = len(snapshot.slots)
    for g, added in product(range(G), snapshot.waiting):
        score = drop = 0
        for h, (shown, loads) in enumerate(zip(projected, actual, strict=True)):
            after = [load + added * (g == other) for other, load in enumerate(loads)]
            score += (steps - h) * f_score(added, max(shown) - shown[g], G)
            drop += (steps - h) * (imbalance(loads) - imbalance(after))
        if score != drop:
            return False
    return True


#: Omitted information, and the snapshot without it.
_PARTS: dict[str, Callable[[Snapshot], Snapshot]] = {
    "the other workers": lambda s: replace(s, active=s.active[:1], slots=s.slots[:1]),
    "the free slots": lambda s: replace(s, slots=()),
    "the sizes of active requests": lambda s: replace(s, active=_with(s, lambda r: (0, r[1]))),
    "their remaining steps": lambda s: replace(s, active=_with(s, lambda r: (r[0], 0))),
    "the sizes of waiting requests": lambda s: replace(s, waiting=(0,) * len(s.waiting)),
}


def _with(
    snapshot: Snapshot, change: Callable[[Active], Active]
) -> tuple[tuple[Active, ...], ...]:
    return tuple(tuple(map(change, held)) for held in snapshot.active)


def _is_needed(part: str, sent: dict[Snapshot, frozenset[int]]) -> bool:
    """Whether two snapshots that differ only in this part send different requests to worker 0."""
    without: dict[Snapshot, set[frozenset[int]]] = defaultdict(set)
    for snapshot, requests in sent.items():
        without[_PARTS[part](snapshot)].add(requests)
    return any(len(different) > 1 for different in without.values())


@CLAIMS.formula(
    "route.eq3",
    Mutation("requests kept in their active set for a step after they end", late=True),
    Mutation("a window of one step, which no prediction can change", steps=1),
)
def _snapshot_check(context: Context, *, late: bool = False, steps: int = 3) -> Outcome:
    """The snapshot of the cluster.

    Source: BalanceRoute paper, eq. (3) (section 5) and what section 5.1 says of it
    Statement: The rule of BR-H runs once the snapshot is there: active sets, capacities and the
        waiting set. A router without state cannot serve it, since the score needs a view across
        workers.
    Formula: ({A_g, cap_g}_{g = 1..G}, R_wait) determines L_g(h), m_g(h) and F_H
    Assumes: remaining steps in the window known
    Summary: The snapshot suffices, and none of its parts can be spared: a worker gets other
        requests if another worker alone changes.
    Reading: the text at hand has lost the formula: the parts are those that sections 2.2, 5 and
        5.1 name. What is added counts as constant over the window, as in (2).
    """
    sent = {snapshot: admitted(snapshot, steps) for snapshot in small_snapshots()}
    return (
        examine(
            "F_H with α = 1, β = G, from what the snapshot projects, is the drop in the "
            "discounted imbalance of the decoded cluster",
            "random clusters of 2 or 3 workers, three sizes that wait, windows of three steps",
            random_snapshots(context),
            partial(_score_is_drop, steps=3, late=late),
        ),
        examine(
            "without this part it is not determined which requests BR-H sends to a worker",
            f"{', '.join(_PARTS)}; all of {len(sent):,} clusters of two workers that differ "
            "in this part alone",
            _PARTS,
            lambda part: _is_needed(part, sent),
        ),
    )
