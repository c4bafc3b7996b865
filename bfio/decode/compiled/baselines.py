"""The baseline policies as kernels: an order of the waiting requests and a choice of worker.

Each baseline of `bfio.decode.policies` serves the waiting requests one after the other and gives
each to one worker, so it is stated by two small functions. The numbers of orders and rules are
internal.
"""

from bfio.common.kernels import in_place, kernel
from bfio.decode.compiled.phases import admit, close_gaps, tally_free_slots
from bfio.decode.compiled.state import (
    ACTIVE,
    ADMITTED,
    CAP,
    CHOICES,
    CYCLE,
    FREE,
    LOADS,
    ORDER,
    PROMPT,
    QUEUED,
    REQUESTS,
    REVEALED,
    RULE,
    SHARE,
    TOKENS,
    WAITING,
    State,
)
from bfio.decode.policies.router import WAITING_WEIGHT

# Orders: by age, by size among all that wait, by size among the oldest that can be admitted.
(OLDEST, SMALLEST, LARGEST, LARGEST_OF_OLDEST) = range(4)

# Rules: how the worker of the next request is chosen.
(
    MOST_FREE,
    LOWEST_INDEX,
    FEWEST_REQUESTS,
    FEWEST_TOKENS,
    IN_TURN,
    RANDOM,
    SAMPLED,
    ROUTER,
    THROTTLED,
) = range(9)

#: Order and rule of each compiled baseline, by its name in the registry.
ORDER_AND_RULE = {
    "fcfs": (OLDEST, MOST_FREE),
    "fcfs-by-index": (OLDEST, LOWEST_INDEX),
    "jsq": (OLDEST, FEWEST_REQUESTS),
    "jsq-tokens": (OLDEST, FEWEST_TOKENS),
    "round-robin": (OLDEST, IN_TURN),
    "random": (OLDEST, RANDOM),
    "power-of-2": (OLDEST, SAMPLED),
    "router": (OLDEST, ROUTER),
    "throttled": (OLDEST, THROTTLED),
    "min-min": (SMALLEST, FEWEST_TOKENS),
    "max-min": (LARGEST, FEWEST_TOKENS),
    "longest-first": (LARGEST_OF_OLDEST, FEWEST_TOKENS),
}

#: Above as many workers numpy may sample in another way than `least_of_sample` does.
MAX_SAMPLED_WORKERS = 10_000


@kernel
def decide(state: State) -> None:
    """Let a baseline admit waiting requests, as many as it wants of those that fit."""
    counters = state.counters
    num_admissible = min(counters[WAITING], tally_free_slots(state))
    if num_admissible == 0:
        return
    if state.settings[RULE] == THROTTLED:
        counters[SHARE] = fair_share(state, num_admissible)
    num_keys = order_by_size(state, num_admissible)
    first = counters[REVEALED] - counters[WAITING]
    for served in range(num_admissible):
        position = first + served
        if state.settings[ORDER] != OLDEST:
            position = pop_key(state, num_keys)
            num_keys -= 1
        worker = choose(state)
        if worker < 0:
            break
        admit(state, position, worker)
    if counters[ADMITTED] > 0:
        close_gaps(state)


@kernel
def choose(state: State) -> int:
    """Return the worker of the next request, or -1 to leave the rest waiting."""
    rule = state.settings[RULE]
    if rule == MOST_FREE:
        return most_free(state)
    if rule == LOWEST_INDEX:
        return first_open(state)
    if rule == FEWEST_REQUESTS:
        return least_of(state, REQUESTS)
    if rule == FEWEST_TOKENS:
        return least_of(state, TOKENS)
    if rule == IN_TURN:
        return next_in_turn(state)
    if rule == RANDOM:
        return any_open(state)
    if rule == SAMPLED:
        return least_of_sample(state)
    if rule == ROUTER:
        return least_routed(state)
    return under_threshold(state)


@in_place
def most_free(state: State) -> int:
    """Return the worker with most free slots (`fcfs`)."""
    best = 0
    for g in range(1, state.workers.shape[1]):
        if state.workers[FREE, g] > state.workers[FREE, best]:
            best = g
    return best


@in_place
def first_open(state: State) -> int:
    """Return the first worker with a free slot (`fcfs-by-index`); -1 if there is none."""
    for g in range(state.workers.shape[1]):
        if state.workers[FREE, g] > 0:
            return g
    return -1


@in_place
def least_of(state: State, row: int) -> int:
    """Return the open worker with the least entry of a row of the tally (`jsq`, `min-min`...)."""
    best = -1
    for g in range(state.workers.shape[1]):
        if state.workers[FREE, g] > 0 and (
            best < 0 or state.workers[row, g] < state.workers[row, best]
        ):
            best = g
    return best


@in_place
def next_in_turn(state: State) -> int:
    """Return the next open worker in the cycle (`round-robin`)."""
    num_workers = state.workers.shape[1]
    worker = int(state.counters[CYCLE])
    while state.workers[FREE, worker] == 0:
        worker = (worker + 1) % num_workers
    state.counters[CYCLE] = (worker + 1) % num_workers
    return worker


@in_place
def list_open(state: State) -> int:
    """List the open workers in ``sampled[0]`` and return how many there are."""
    num_open = 0
    for g in range(state.workers.shape[1]):
        if state.workers[FREE, g] > 0:
            state.sampled[0, num_open] = g
            num_open += 1
    return num_open


@kernel
def any_open(state: State) -> int:
    """Draw an open worker uniformly (`random`)."""
    return int(state.sampled[0, state.rng.integers(0, list_open(state))])


@kernel
def least_of_sample(state: State) -> int:
    """Return the worker with fewest requests among ``d`` sampled open ones (`power-of-2`)."""
    num_open = list_open(state)
    sampled, num_choices = state.sampled, state.settings[CHOICES]
    draw_sample(state, num_open, min(num_choices, num_open))
    best = -1
    for k in range(num_open):
        if not sampled[1, k]:
            continue
        g = sampled[0, k]
        if best < 0 or state.workers[REQUESTS, g] < state.workers[REQUESTS, best]:
            best = g
    return best


@kernel
def draw_sample(state: State, num_open: int, num_choices: int) -> None:
    """Mark the open workers that ``Generator.choice`` without replacement would draw.

    Floyd's algorithm and the draws of the shuffle after it, so that the generator goes on as in
    the reference; the order that the shuffle gives does not matter. Nothing is drawn if all open
    workers are in the sample.
    """
    taken = state.sampled[1]
    taken[:num_open] = num_choices == num_open
    if num_choices == num_open:
        return
    for newest in range(num_open - num_choices, num_open):
        drawn = state.rng.integers(0, newest + 1)
        taken[newest if taken[drawn] else drawn] = 1
    for k in range(num_choices - 1, 0, -1):
        state.rng.integers(0, k + 1)


@in_place
def least_routed(state: State) -> int:
    """Return the open worker with least ``4·waiting + running`` (`router`)."""
    workers = state.workers
    best, best_score = -1, 0
    for g in range(workers.shape[1]):
        score = (WAITING_WEIGHT - 1) * workers[QUEUED, g] + workers[REQUESTS, g]
        if workers[FREE, g] > 0 and (best < 0 or score < best_score):
            best, best_score = g, score
    return best


@in_place
def under_threshold(state: State) -> int:
    """Return the first open worker under the threshold (`throttled`); any if nothing runs."""
    for g in range(state.workers.shape[1]):
        if state.workers[FREE, g] > 0 and state.workers[TOKENS, g] < state.counters[SHARE]:
            return g
    return first_open(state) if state.counters[ACTIVE] == 0 else -1


@in_place
def fair_share(state: State, num_admissible: int) -> int:
    """Return the threshold of `throttled`: the one given, or the mean load after admission."""
    if state.settings[CAP] > 0:
        return int(state.settings[CAP])
    first = state.counters[REVEALED] - state.counters[WAITING]
    total = 0
    for position in range(first, first + num_admissible):
        total += state.requests[PROMPT, state.pool[position]]
    num_workers = state.workers.shape[1]
    for g in range(num_workers):
        total += state.workers[LOADS, g]
    return int((total + num_workers - 1) // num_workers)


@in_place
def order_by_size(state: State, num_admissible: int) -> int:
    """Make a heap of the requests that compete, by size, then age; return how many there are."""
    order = state.settings[ORDER]
    if order == OLDEST:
        return 0
    num_keys = num_admissible if order == LARGEST_OF_OLDEST else int(state.counters[WAITING])
    first = state.counters[REVEALED] - state.counters[WAITING]
    sign = 1 if order == SMALLEST else -1
    for k in range(num_keys):
        state.keys[k] = sign * state.requests[PROMPT, state.pool[first + k]]
        state.places[k] = first + k
    for k in range(num_keys // 2 - 1, -1, -1):
        sift_down(state, k, num_keys)
    return num_keys


@in_place
def pop_key(state: State, num_keys: int) -> int:
    """Return the position of the request at the top of the heap, and close the heap over it."""
    position = int(state.places[0])
    state.keys[0], state.places[0] = state.keys[num_keys - 1], state.places[num_keys - 1]
    sift_down(state, 0, num_keys - 1)
    return position


@in_place
def sift_down(state: State, top: int, num_keys: int) -> None:
    """Let an entry of the heap sink to its place."""
    keys, places = state.keys, state.places
    key, place = keys[top], places[top]
    while 2 * top + 1 < num_keys:
        child = 2 * top + 1
        if child + 1 < num_keys and comes_first(
            keys[child + 1], places[child + 1], keys[child], places[child]
        ):
            child += 1
        if not comes_first(keys[child], places[child], key, place):
            break
        keys[top], places[top] = keys[child], places[child]
        top = child
    keys[top], places[top] = key, place


@in_place
def comes_first(key: int, place: int, other_key: int, other_place: int) -> bool:
    """Whether the first entry is before the other: smaller key, then older."""
    return key < other_key or (key == other_key and place < other_place)
