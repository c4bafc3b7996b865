"""Prefix affinity: where most of the prompt is cached, unless that worker is overloaded."""

from dataclasses import dataclass
from fractions import Fraction

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option
from bfio.decode.features.prefixes.phases import matched_blocks
from bfio.decode.load_skew import (
    is_overloaded,
    total_of,
    total_tokens,
)
from bfio.decode.machine.greedy import Greedy, greedy_kernel
from bfio.decode.machine.state import State
from bfio.decode.option_kinds import SMALL_RATIO
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, oldest, takes, worker_tally

# Entries of `Greedy.numbers`: the guard as a fraction.
(OVER, UNDER) = range(2)


@dataclass(frozen=True)
class PrefixAffinityOptions(CheckedOptions):
    """Options of `prefix-affinity`."""

    max_load_skew: Fraction = option(
        Fraction(3, 2),
        SMALL_RATIO,
        "R",
        "pass over workers above R times the mean load (3/2)",
    )


class PrefixAffinity:
    """Oldest request to the worker with the longest cached prefix of its prompt.

    Ties go to the worker with fewest tokens, then to the lowest index. Workers with more than
    ``max_load_skew`` times the mean load are passed over while another one takes the request: the
    overload guard of sglang's ``prefix_affinity`` (pull request 31170), which there stands beside
    stickiness by a key; 3/2 by default as there, 0 for no guard. Where workers keep no prefixes
    the rule is `jsq-tokens`.
    """

    def __init__(self, options: PrefixAffinityOptions) -> None:
        self._over, self._under = options.max_load_skew.as_integer_ratio()

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest requests."""
        tally, G = StepTally(state), state.num_workers
        cached = state.cached_tokens.tolist()
        for request in oldest(state):
            total, guard = total_tokens(tally), (G, self._over, self._under)
            keys = [
                (is_overloaded(tokens, total, *guard), -cached[request][g], tokens, g)
                for g in tally.open_workers(request)
                for tokens in (tally.workers[g].tokens,)
            ]
            if not keys:
                break
            tally.assign(request, min(keys)[-1])
        return tally.assignment


@compilable
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the open worker with the longest cached prefix that is not overloaded."""
    G, total = len(state.workers.load), total_of(state)
    over, under = greedy.numbers[OVER], greedy.numbers[UNDER]
    best, best_over, longest, least = -1, False, 0, 0
    for g in range(G):
        worker = worker_tally(state, g)
        if not takes(worker, state.requests.need[request]):
            continue
        overloaded = is_overloaded(worker.tokens, total, G, over, under)
        blocks = 0
        if state.settings.caches:
            blocks = matched_blocks(state.prefixes, request, g)
        if (
            best < 0
            or (best_over and not overloaded)
            or (
                overloaded == best_over
                and (blocks > longest or (blocks == longest and worker.tokens < least))
            )
        ):
            best, best_over, longest, least = g, overloaded, blocks, worker.tokens
    return best


SPEC = PolicySpec(
    name="prefix-affinity",
    factory=PrefixAffinity,
    options=PrefixAffinityOptions(),
    summary="longest cached prefix, then fewest tokens, unless overloaded (--max-load-skew)",
    source="sglang pull request 31170",
    dispatch=BOTH_DISPATCHES,
    kernel=greedy_kernel(choose, numbers=lambda options: options.max_load_skew.as_integer_ratio()),
    unled=lambda tells_prompts, caches: (
        ""
        if caches
        else "decides by tokens alone: workers keep no prefixes. --prefix-cache lets them."
    ),
)
