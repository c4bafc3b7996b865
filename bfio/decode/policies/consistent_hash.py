"""Consistent hashing: each prompt has its worker, whatever the loads."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.features.prefixes.asked import routing_keys
from bfio.decode.hash_ring import first_nodes, ring
from bfio.decode.load_skew import is_overloaded, total_of, total_tokens
from bfio.decode.machine.greedy import Greedy, greedy_kernel
from bfio.decode.machine.kernel import KernelTask
from bfio.decode.machine.state import State
from bfio.decode.option_kinds import SMALL_RATIO
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, oldest, takes, worker_tally
from formulations.arrays import IntArray

#: Of each worker, in vLLM's router.
VIRTUAL_NODES = 160
#: Strictly sticky unless a guard is asked for.
# Entries of `Greedy.numbers`: the guard as a fraction.
(OVER, UNDER) = range(2)


@dataclass(frozen=True)
class ConsistentHashOptions(CheckedOptions):
    """Options of `consistent-hash`."""

    max_load_skew: Fraction = option(
        Fraction(0),
        SMALL_RATIO,
        "R",
        "pass over workers above R times the mean load (0: none)",
    )
    key_blocks: int = option(2, whole(1), "N", "first blocks that are the key (2)")
    virtual_nodes: int = option(160, whole(1, 10**4), "N", "places of a worker on the ring (160)")


class ConsistentHash:
    """Oldest request to the first worker behind its key on a ring of hashes.

    Each worker stands on the ring at ``virtual_nodes`` places (160 as in vLLM's router, policy
    ``consistent_hash``), a request at the hash of its key: its first ``key_blocks`` blocks (2,
    since all of Mooncake's conversations share the first), or its prompt key; one that has neither
    is a prompt of its own. If the worker behind it does not take it, the next one on the ring does
    (Karger et al. 1997). With ``max_load_skew`` those with more than so many times the mean load
    are passed over as well, while another one takes the request: bounded loads (Mirrokni et al.
    2018), by the guard of sglang's ``bounded_consistent_hashing`` (pull request 33791).
    """

    def __init__(self, options: ConsistentHashOptions) -> None:
        self._nodes, self._blocks = options.virtual_nodes, options.key_blocks
        self._over, self._under = options.max_load_skew.as_integer_ratio()
        self._ring: tuple[IntArray, list[int]] | None = None

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest requests."""
        tally, G = StepTally(state), state.num_workers
        if self._ring is None:
            places, workers = ring(G, self._nodes)
            self._ring = places, workers.tolist()
        places, around = self._ring
        firsts = first_nodes(places, state.routing_keys(self._blocks)).tolist()
        for request in oldest(state):
            takers = tally.open_workers(request)
            if not takers:
                break
            total = total_tokens(tally)
            calm = {
                g
                for g in takers
                if not is_overloaded(tally.workers[g].tokens, total, G, self._over, self._under)
            }
            wanted, node = calm or set(takers), firsts[request]
            while around[node] not in wanted:
                node = (node + 1) % len(around)
            tally.assign(request, around[node])
        return tally.assignment


@compilable
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the first worker on the ring that takes a request, one that is calm if there is."""
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
    """Return the first node of each request, and the workers around the ring behind those."""
    options = task.policy_options
    places, workers = ring(task.cluster.workers, options.virtual_nodes)
    firsts = first_nodes(places, routing_keys(task.workload, options.key_blocks))
    return np.concatenate((firsts, workers))


SPEC = PolicySpec(
    name="consistent-hash",
    factory=ConsistentHash,
    options=ConsistentHashOptions(),
    summary="the worker behind the prompt's key on a ring (--key-blocks, --virtual-nodes)",
    source="vLLM router, consistent_hash; Karger et al. 1997",
    dispatch=BOTH_DISPATCHES,
    kernel=greedy_kernel(
        choose, numbers=lambda options: options.max_load_skew.as_integer_ratio(), table=table
    ),
    unled=lambda tells_prompts, caches: (
        ""
        if tells_prompts
        else "takes each request for a prompt of its own: nothing tells which prompts begin alike."
    ),
    breaks_ties=False,
)
