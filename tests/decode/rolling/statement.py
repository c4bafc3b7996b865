"""Plans of `rolling-horizon`, stated plainly: every exchange computes all loads anew."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bfio.decode.rolling import (
    CHOICE_BITS,
    LOAD_SHARE,
    NEAR,
    SEED,
    SPARSITY,
    THRESHOLD_PERCENT,
    TURNOVER,
)
from formulations.arrays import IntArray


@dataclass(frozen=True)
class Slot:
    """A slot of the window: its worker and the step at which it becomes free."""

    worker: int  #: Worker of the slot.
    step: int  #: Look-ahead step at which it becomes free.


@dataclass(frozen=True)
class Objective:
    """The objective of a plan, multiplied by `LOAD_SHARE`."""

    #: Projected loads of each worker at each look-ahead step, with empty slots [tokens].
    base: list[list[int]]
    growth: list[int]  #: Growth of a request after each number of steps [tokens].
    weights: dict[int, int]  #: Weight of each sampled step.
    #: All slots of the window; the first ones take the requests of the plan, the others a request
    #: of mean size.
    slots: list[Slot]
    mean_size: int  #: Mean size of the waiting requests [tokens].

    def loads(self, sizes: Sequence[int]) -> list[list[int]]:
        """Return the loads at the sampled steps if the first slots get requests of these sizes."""
        return [self._loads_at(step, sizes) for step in self.weights]

    def cost(self, loads: list[list[int]]) -> int:
        """Return the objective of given loads at the sampled steps."""
        return sum(
            weight * (LOAD_SHARE * len(row) * max(row) - sum(row))
            for weight, row in zip(self.weights.values(), loads, strict=True)
        )

    def _loads_at(self, step: int, sizes: Sequence[int]) -> list[int]:
        filled = [*sizes, *[self.mean_size] * (len(self.slots) - len(sizes))]
        loads = [row[step] for row in self.base]
        for slot, size in zip(self.slots, filled, strict=True):
            if slot.step <= step:
                loads[slot.worker] += size + self.growth[step - slot.step]
        return loads


def stated(
    free: IntArray, base: IntArray, running: IntArray, contribution: IntArray, moves: int
) -> list[int | None]:
    """Decide as `planned` does, with the same arguments."""
    sizes = [int(row[0]) for row in contribution]
    weights = sampled(step_weights(running))
    slots = list(open_slots(free, running, max(weights), len(sizes)))
    gained = contribution - contribution[:, :1]
    objective = Objective(
        base=[[int(load) for load in row] for row in base],
        growth=[max(0, int(gain)) for gain in gained.max(axis=0)],
        weights=weights,
        slots=slots,
        mean_size=sum(sizes) // len(sizes),
    )
    plan = improved(objective, sizes, min(len(slots), len(sizes)), moves)
    answer: list[int | None] = [None] * len(sizes)
    for slot, request in zip(slots, plan, strict=False):
        if slot.step == 0:
            answer[request] = slot.worker
    return answer


def step_weights(running: IntArray) -> list[int]:
    """Return the weight of each look-ahead step with positive weight."""
    workers = len(running)
    opened = [int(total) for total in (running[:, :1] - running).sum(axis=0)]
    if opened[-1] == 0 or opened[0] == TURNOVER * workers:
        return [TURNOVER * workers]
    return [TURNOVER * workers - slots for slots in opened if slots < TURNOVER * workers]


def sampled(weights: list[int]) -> dict[int, int]:
    """Return sampled steps, each with the total weight of the steps nearest to it."""
    last, step, steps = len(weights) - 1, 0, []
    while step < last:
        steps.append(step)
        step += max(1, step // SPARSITY)
    together = dict.fromkeys([*steps, last], 0)
    for h, weight in enumerate(weights):
        nearest = min(together, key=lambda step: (abs(step - h), step))
        together[nearest] += weight
    return together


def open_slots(free: IntArray, running: IntArray, last: int, most_now: int) -> Iterator[Slot]:
    """Yield the slots of the window in the order in which they become free.

    At most ``most_now`` slots are free at step 0.
    """
    left = free.tolist()
    for _ in range(min(sum(left), most_now)):
        worker = max(range(len(left)), key=lambda g: left[g])
        left[worker] -= 1
        yield Slot(worker, 0)
    for step in range(1, last + 1):
        for worker, row in enumerate(running.tolist()):
            yield from [Slot(worker, step)] * (row[step - 1] - row[step])


def random_words() -> Iterator[int]:
    """Yield the pseudo-random 64-bit words of a plan (xorshift64)."""
    word, mask = SEED, (1 << 64) - 1
    while True:
        word ^= (word << 13) & mask
        word ^= word >> 7
        word ^= (word << 17) & mask
        yield word


def improved(objective: Objective, sizes: list[int], num_slots: int, moves: int) -> list[int]:
    """Return the requests of the best plan found, by position, those with a slot first."""
    by_size = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    rank = {request: place for place, request in enumerate(by_size)}

    def loads_of(plan: list[int]) -> list[list[int]]:
        return objective.loads([sizes[request] for request in plan[:num_slots]])

    best = plan = list(range(len(sizes)))
    loads = loads_of(plan)
    value = best_value = objective.cost(loads)
    weight = sum(objective.weights.values())
    threshold = LOAD_SHARE * THRESHOLD_PERCENT * objective.mean_size * weight // 100
    for move, word in zip(range(moves), random_words(), strict=False):
        p, q = drawn(word, plan, by_size, rank, num_slots)
        if q is None:
            continue
        other = list(plan)
        other[p], other[q] = plan[q], plan[p]
        new_loads = loads_of(other)
        new_value = objective.cost(new_loads)
        if new_loads != loads and new_value - value <= threshold * (moves - move) // moves:
            plan, loads, value = other, new_loads, new_value
        if value < best_value:
            best, best_value = plan, value
    return best


def drawn(
    word: int, plan: list[int], by_size: list[int], rank: dict[int, int], num_slots: int
) -> tuple[int, int | None]:
    """Return the two positions that a random word selects; the second is None if invalid."""
    first, second = (word >> shift & ((1 << CHOICE_BITS) - 1) for shift in (0, CHOICE_BITS))
    p = first * num_slots >> CHOICE_BITS
    if word >> 63:
        return p, second * len(plan) >> CHOICE_BITS
    near = rank[plan[p]] + (second * (2 * NEAR + 1) >> CHOICE_BITS) - NEAR
    if not 0 <= near < len(plan):
        return p, None
    return p, plan.index(by_size[near])
