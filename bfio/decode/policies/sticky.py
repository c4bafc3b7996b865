"""Sticky routers: a prompt goes to the worker that is likely to cache its prefix.

Overload guard (sglang pull request 31170): a worker receives no further sticky requests if its
load exceeds ``max_load_skew`` times the mean load of all workers, with a mean of at least one
token. The load is in tokens, and includes bound requests and those assigned in this step.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.common.words import mixed_bits
from bfio.decode.features.prefixes import matched_blocks, routing_keys
from bfio.decode.machine.greedy import Greedy, greedy_kernel
from bfio.decode.machine.kernel import KernelTask
from bfio.decode.machine.state import State
from bfio.decode.option_kinds import SMALL_RATIO
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, assign_each, takes, worker_tally
from formulations.arrays import IntArray


def positions(keys: IntArray) -> IntArray:
    """Return the position of each key on the hash ring: 63 pseudo-random bits."""
    return (mixed_bits(keys.astype(np.uint64)) >> np.uint64(1)).astype(np.int64)


def ring(num_workers: int, virtual_nodes: int) -> tuple[IntArray, IntArray]:
    """Return ascending positions of the ring's nodes, and each node's worker, both (G·V,)."""
    nodes = np.arange(num_workers * virtual_nodes)
    # Hash keys once and nodes twice, so that small keys do not collide with nodes.
    places = positions(positions(nodes))
    order = np.argsort(places, kind="stable")
    return places[order], nodes[order] // virtual_nodes


def first_nodes(places: IntArray, keys: IntArray) -> IntArray:
    """Return, for each key, the index of the first node at or after the key's ring position."""
    return np.searchsorted(places, positions(keys)) % max(1, len(places))


#: Largest total of loads, `bfio.decode.engine.MAX_STEP_TOKENS`.
MAX_TOTAL = 2**62


@compilable
def is_overloaded(tokens: int, total: int, num_workers: int, over: int, under: int) -> bool:
    """Return whether a load exceeds ``over/under`` times the mean load, in integer arithmetic."""
    parts = num_workers * under
    whole, rest = max(total, num_workers) // parts, max(total, num_workers) % parts
    # Two steps avoid overflow of 64 bits; no load exceeds the total.
    if over == 0 or whole > MAX_TOTAL // over:
        return False
    return tokens > whole * over + rest * over // parts


def overloaded(tally: StepTally, over: int, under: int) -> list[bool]:
    """Return which workers are overloaded at this point of a step."""
    loads = [worker.tokens for worker in tally.workers]
    total, num_workers = sum(loads), len(loads)
    return [is_overloaded(load, total, num_workers, over, under) for load in loads]


@compilable
def total_of(state: State) -> int:
    """Return the tokens of all workers at this point of a step."""
    total = 0
    for g in range(len(state.workers.load)):
        total += worker_tally(state, g).tokens
    return int(total)


# Entries of `Greedy.numbers`: the guard ``max_load_skew`` as a fraction.
(OVER, UNDER) = range(2)


@dataclass(frozen=True)
class ConsistentHashOptions(CheckedOptions):
    """Options of `consistent-hash`."""

    max_load_skew: Fraction = option(
        Fraction(0), SMALL_RATIO, "R", "skip workers above R times the mean load (0: none)"
    )
    key_blocks: int = option(2, whole(1), "N", "number of leading blocks that form the key (2)")
    virtual_nodes: int = option(
        160, whole(1, 10**4), "N", "positions of a worker on the ring (160)"
    )


class ConsistentHash:
    """The policy `consistent-hash`: oldest request to the next worker on a hash ring.

    Each worker has ``virtual_nodes`` positions on the ring (160 as in vLLM's router, policy
    ``consistent_hash``). The position of a request is the hash of its key. The key is the first
    ``key_blocks`` blocks of the prompt (2, because all of Mooncake's conversations share the
    first), or the prompt key; a request with neither has a unique key. If the worker after this
    position does not accept the request, the next worker on the ring is tried (Karger et al.
    1997). With ``max_load_skew``, workers above this multiple of the mean load are skipped while
    another one accepts the request: bounded loads (Mirrokni et al. 2018), with the guard of
    sglang's ``bounded_consistent_hashing`` (pull request 33791).
    """

    def __init__(self, options: ConsistentHashOptions) -> None:
        self._nodes, self._blocks = options.virtual_nodes, options.key_blocks
        self._over, self._under = options.max_load_skew.as_integer_ratio()
        self._ring: tuple[IntArray, list[int]] | None = None

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest waiting requests, where ``U`` is the number that can start."""
        G = state.num_workers
        if self._ring is None:
            places, workers = ring(G, self._nodes)
            self._ring = places, workers.tolist()
        places, around = self._ring
        firsts = first_nodes(places, state.routing_keys(self._blocks)).tolist()

        def choose(tally: StepTally, request: int, workers: list[int]) -> int:
            over = overloaded(tally, self._over, self._under)
            wanted, node = {g for g in workers if not over[g]} or set(workers), firsts[request]
            while around[node] not in wanted:
                node = (node + 1) % len(around)
            return int(around[node])

        return assign_each(state, choose)


@compilable
def choose_on_ring(state: State, greedy: Greedy, request: int) -> int:
    """Return the first worker on the ring that accepts a request, overloaded ones last."""
    G, total = len(state.workers.load), total_of(state)
    over, under = greedy.numbers[OVER], greedy.numbers[UNDER]
    around = greedy.table[len(state.pool) :]
    first, taker = greedy.table[request], -1
    for turn in range(len(around)):
        g = around[(first + turn) % len(around)]
        worker = worker_tally(state, g)
        if takes(worker, state.requests.need[request]):
            if not is_overloaded(worker.tokens, total, G, over, under):
                return int(g)
            if taker < 0:
                taker = int(g)
    return taker


def table(task: KernelTask) -> IntArray:
    """Return the first node of each request, followed by the workers in ring order."""
    options = task.policy_options
    places, workers = ring(task.cluster.workers, options.virtual_nodes)
    firsts = first_nodes(places, routing_keys(task.workload, options.key_blocks))
    return np.concatenate((firsts, workers))


CONSISTENT_HASH = PolicySpec(
    name="consistent-hash",
    factory=ConsistentHash,
    options=ConsistentHashOptions(),
    summary="oldest request to the worker behind its prompt's key on a ring of hashes",
    source="vLLM's router; Karger et al. 1997",
    kernel=greedy_kernel(
        choose_on_ring,
        numbers=lambda options: options.max_load_skew.as_integer_ratio(),
        table=table,
    ),
    unled=lambda tells_prompts, caches: (
        ""
        if tells_prompts
        else "treats every prompt as unique: the requests have no prefix information."
    ),
    breaks_ties=False,
)


@dataclass(frozen=True)
class PrefixAffinityOptions(CheckedOptions):
    """Options of `prefix-affinity`."""

    max_load_skew: Fraction = option(
        Fraction(3, 2), SMALL_RATIO, "R", "skip workers above R times the mean load (3/2)"
    )


class PrefixAffinity:
    """The policy `prefix-affinity`: oldest request to the worker with the longest cached prefix.

    Ties go to the worker with fewest tokens, then to the lowest index. Workers above
    ``max_load_skew`` times the mean load are skipped while another one accepts the request. This
    is the overload guard of sglang's ``prefix_affinity`` (pull request 31170), where it is
    combined with stickiness by a key; the default is 3/2 as there, and 0 means no guard. Without
    prefix caches, the rule equals `jsq-tokens`.
    """

    def __init__(self, options: PrefixAffinityOptions) -> None:
        self._over, self._under = options.max_load_skew.as_integer_ratio()

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest waiting requests, where ``U`` is the number that can start."""
        cached = state.cached_tokens.tolist()

        def choose(tally: StepTally, request: int, workers: list[int]) -> int:
            over = overloaded(tally, self._over, self._under)
            keys = [(over[g], -cached[request][g], tally.workers[g].tokens, g) for g in workers]
            return min(keys)[-1]

        return assign_each(state, choose)


@compilable
def choose_cached(state: State, greedy: Greedy, request: int) -> int:
    """Return the open worker with the longest cached prefix that is not overloaded."""
    G, total = len(state.workers.load), total_of(state)
    over, under = greedy.numbers[OVER], greedy.numbers[UNDER]
    best, least = -1, (0, 0, 0)
    for g in range(G):
        worker, blocks = worker_tally(state, g), 0
        if takes(worker, state.requests.need[request]):
            if state.settings.caches:
                blocks = matched_blocks(state.prefixes, request, g)
            is_over = is_overloaded(worker.tokens, total, G, over, under)
            key = (int(is_over), -blocks, worker.tokens)
            if best < 0 or key < least:
                best, least = g, key
    return best


PREFIX_AFFINITY = PolicySpec(
    name="prefix-affinity",
    factory=PrefixAffinity,
    options=PrefixAffinityOptions(),
    summary=(
        "oldest request to the worker with the longest cached prefix of its prompt, then fewest "
        "tokens, unless overloaded"
    ),
    source="sglang pull request 31170",
    kernel=greedy_kernel(
        choose_cached, numbers=lambda options: options.max_load_skew.as_integer_ratio()
    ),
    unled=lambda tells_prompts, caches: (
        "" if caches else "decides by tokens only: workers have no prefix cache (--prefix-cache)."
    ),
)

SPECS = (CONSISTENT_HASH, PREFIX_AFFINITY)
