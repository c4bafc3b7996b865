"""Policies that compare few workers or none: random, round-robin, power of d choices."""

from dataclasses import dataclass

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.cluster import Cluster
from bfio.decode.machine.greedy import Greedy, greedy_kernel, list_open
from bfio.decode.machine.state import State
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, assign_each, takes, worker_tally

#: Entry of `Greedy.numbers`: ``d``, or the next worker of the cycle.
CHOICES = NEXT = 0
#: Above this number of workers, numpy may sample by another algorithm than `draw_sample`.
MAX_SAMPLED_WORKERS = 10_000


def assign_at_random(state: DecodeState) -> list[int | None]:
    """Assign the oldest request to a worker drawn uniformly from those that accept it.

    Source: BalanceRoute, section 6.1 (baseline Random).
    """
    return assign_each(
        state, lambda tally, request, workers: workers[int(state.rng.integers(len(workers)))]
    )


@compilable(allocates=True)
def choose_at_random(state: State, greedy: Greedy, request: int) -> int:
    """Return an open worker drawn uniformly."""
    num_open = list_open(state, greedy, request)
    return int(greedy.sampled[0, greedy.rng.integers(0, num_open)]) if num_open > 0 else -1


class RoundRobin:
    """The policy `round-robin`: oldest request to the next worker in the cycle that accepts it.

    The cycle starts at worker 0 and continues across steps. BF-IO, appendix A.1.1.
    """

    def __init__(self, options: CheckedOptions) -> None:
        self._next = 0

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest waiting requests, where ``U`` is the number that can start."""

        def choose(tally: StepTally, request: int, workers: list[int]) -> int:
            worker = min(workers, key=lambda g: (g - self._next) % state.num_workers)
            self._next = (worker + 1) % state.num_workers
            return worker

        return assign_each(state, choose)


@compilable
def choose_next(state: State, greedy: Greedy, request: int) -> int:
    """Return the next open worker in the cycle."""
    num_workers = len(state.workers.load)
    for turn in range(num_workers):
        worker = (greedy.numbers[NEXT] + turn) % num_workers
        if takes(worker_tally(state, worker), state.requests.need[request]):
            greedy.numbers[NEXT] = (worker + 1) % num_workers
            return int(worker)
    return -1


@dataclass(frozen=True)
class PowerOfChoicesOptions(CheckedOptions):
    """Options of `power-of-2`."""

    choices: int = option(2, whole(1), "D", "workers sampled (2)")


class PowerOfChoices:
    """The policy `power-of-2`: oldest request to the least busy of ``d`` sampled workers.

    The least busy worker has fewest requests. The sample is drawn without replacement from the
    workers that accept the request (all of them if fewer than ``d``); ties go to the lowest index.
    BF-IO, appendix A.1.1; d = 2 by default.
    """

    def __init__(self, options: PowerOfChoicesOptions) -> None:
        self._choices = options.choices

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest waiting requests, where ``U`` is the number that can start."""

        def choose(tally: StepTally, request: int, workers: list[int]) -> int:
            if len(workers) > self._choices:
                sample = state.rng.choice(len(workers), size=self._choices, replace=False)
                workers = [workers[int(k)] for k in sample]
            return min(workers, key=lambda g: (tally.workers[g].requests, g))

        return assign_each(state, choose)


@compilable(allocates=True)
def choose_of_sample(state: State, greedy: Greedy, request: int) -> int:
    """Return the worker with fewest requests among ``d`` sampled open ones."""
    num_open = list_open(state, greedy, request)
    draw_sample(greedy, num_open, min(greedy.numbers[CHOICES], num_open))
    best, fewest = -1, 0
    for k in range(num_open):
        if greedy.sampled[1, k]:
            g = int(greedy.sampled[0, k])
            requests = worker_tally(state, g).requests
            if best < 0 or requests < fewest:
                best, fewest = g, requests
    return best


@compilable(allocates=True)
def draw_sample(greedy: Greedy, num_open: int, num_choices: int) -> None:
    """Mark the open workers that ``Generator.choice`` without replacement would draw.

    This is Floyd's algorithm, followed by the draws of the shuffle, so that the generator stays in
    the same state as in the Python policy. The order given by the shuffle is not used. Nothing is
    drawn if all open workers are in the sample.
    """
    taken = greedy.sampled[1]
    taken[:num_open] = num_choices == num_open
    if num_choices == num_open:
        return
    for newest in range(num_open - num_choices, num_open):
        drawn = greedy.rng.integers(0, newest + 1)
        taken[newest if taken[drawn] else drawn] = 1
    for k in range(num_choices - 1, 0, -1):
        greedy.rng.integers(0, k + 1)


def is_sampled_alike(cluster: Cluster) -> bool:
    """Return whether the kernel draws the same sample from the run's generator as NumPy."""
    return cluster.workers <= MAX_SAMPLED_WORKERS


SPECS = (
    PolicySpec(
        name="random",
        factory=lambda _: assign_at_random,
        summary="oldest request to a uniformly drawn worker with a free slot",
        source="BalanceRoute, section 6.1",
        kernel=greedy_kernel(choose_at_random),
        draws=True,
        breaks_ties=False,
        reads_reports=False,
    ),
    PolicySpec(
        name="round-robin",
        factory=RoundRobin,
        summary=(
            "oldest request to the next worker in the cycle; full workers are skipped; the place "
            "is kept across steps"
        ),
        source="BF-IO, appendix A.1.1",
        kernel=greedy_kernel(choose_next, numbers=lambda options: (0,)),
        breaks_ties=False,
        reads_reports=False,
    ),
    PolicySpec(
        name="power-of-2",
        factory=PowerOfChoices,
        options=PowerOfChoicesOptions(),
        summary="oldest request to the emptier of `--choices` sampled workers with a free slot",
        source="BF-IO, appendix A.1.1; BalanceRoute, section 6.1",
        kernel=greedy_kernel(
            choose_of_sample, numbers=lambda options: (options.choices,), supports=is_sampled_alike
        ),
        draws=True,
    ),
)
