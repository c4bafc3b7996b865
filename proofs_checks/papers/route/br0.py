"""BR-0 by hand, from sections 3.1 and 3.2 alone: all the decisions that it may take.

Where the paper leaves a choice among requests (equal scores), every choice is followed; requests
of one size are not told apart. A decision is therefore the sorted sizes that each worker admits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

T = TypeVar("T")

#: Sizes admitted by each worker, sorted.
Decision = tuple[tuple[int, ...], ...]
#: Orders workers with a free slot: free slots, margin; the largest key is next.
Key = Callable[[int, int], tuple[int, ...]]


def free_then_margin(free: int, margin: int) -> tuple[int, ...]:
    """Most free slots first, larger margin on ties."""
    return free, margin


def free_then_small_margin(free: int, margin: int) -> tuple[int, ...]:
    """Most free slots first, smaller margin on ties: what BR-0 must not do."""
    return free, -margin


@dataclass(frozen=True)
class Rules:
    """What BR-0 is given, and parts of it that a mutation may break.

    Parameters
    ----------
    threshold : int
        ``θ``.
    candidates : int
        Stage 2 looks at this many of the largest waiting requests.
    key : callable
        Order of workers.
    """

    threshold: int
    candidates: int
    key: Key = free_then_margin


@dataclass(frozen=True)
class Step:
    """What is known while one step is decided.

    Parameters
    ----------
    free, loads : tuple of int
        Free slots and load of each worker [tokens].
    waiting : tuple of int
        Sizes that wait, sorted [tokens].
    admitted : tuple of tuples of int
        The decision so far.
    """

    free: tuple[int, ...]
    loads: tuple[int, ...]
    waiting: tuple[int, ...]
    admitted: Decision

    def margin(self, worker: int) -> int:
        """``m_g = max_h L_h − L_g``."""
        return max(self.loads) - self.loads[worker]

    def after(self, worker: int, sizes: tuple[int, ...]) -> "Step":
        """Admit requests to a worker."""
        left = list(self.waiting)
        for size in sizes:
            left.remove(size)
        return Step(
            _changed(self.free, worker, self.free[worker] - len(sizes)),
            _changed(self.loads, worker, self.loads[worker] + sum(sizes)),
            tuple(left),
            _changed(self.admitted, worker, tuple(sorted((*self.admitted[worker], *sizes)))),
        )


def f_score(added: int, margin: int, workers: int) -> int:
    """``F = Δ − G·max(0, Δ − m)`` (eq. 1)."""
    return added - workers * max(0, added - margin)


def best_sets(
    step: Step, worker: int, candidates: Sequence[int], most: int
) -> tuple[int, set[tuple[int, ...]]]:
    """Return the highest score of 1 to ``most`` candidates for a worker, and what has it."""
    margin, G = step.margin(worker), len(step.free)
    sets = {s for n in range(1, most + 1) for s in combinations(sorted(candidates), n)}
    best = max(f_score(sum(s), margin, G) for s in sets)
    return best, {s for s in sets if f_score(sum(s), margin, G) == best}


def choices(step: Step, rules: Rules) -> Iterator[Step]:
    """Yield what BR-0 may do next; of workers with equal keys the first is taken."""
    workers = [g for g, free in enumerate(step.free) if free]
    worker = max(workers, key=lambda g: (*rules.key(step.free[g], step.margin(g)), -g))
    _, singles = best_sets(step, worker, step.waiting, 1)
    sent = singles
    if sum(step.free) <= rules.threshold:
        candidates = sorted(step.waiting)[-rules.candidates :]
        best, subsets = best_sets(step, worker, candidates, step.free[worker])
        # With no subset worth it, one request goes all the same: nobody starves.
        sent = subsets if best > 0 else singles
    for sizes in sent:
        yield step.after(worker, sizes)


def decisions(
    free: Sequence[int], loads: Sequence[int], waiting: Sequence[int], rules: Rules
) -> set[Decision]:
    """Return all decisions that BR-0 may take at a step."""
    none: Decision = ((),) * len(free)
    steps = {Step(tuple(free), tuple(loads), tuple(sorted(waiting)), none)}
    found: set[Decision] = set()
    while steps:
        ended = {s for s in steps if not s.waiting or not any(s.free)}
        found |= {s.admitted for s in ended}
        steps = {after for s in steps - ended for after in choices(s, rules)}
    return found


def decision(assignment: Sequence[int | None], waiting: Sequence[int], workers: int) -> Decision:
    """Turn an assignment, a worker or None per waiting request, into the sizes of each worker."""
    return tuple(
        tuple(sorted(s for s, g in zip(waiting, assignment, strict=True) if g == worker))
        for worker in range(workers)
    )


def _changed(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])
