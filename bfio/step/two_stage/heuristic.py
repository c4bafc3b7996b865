"""The two-stage heuristic of BalanceRoute (sections 3.2 and 4.2), BR-0 and BR-H.

Stage 1, while more than ``θ`` slots are free: the worker with most free slots takes the single
request of highest F-score. Stage 2: workers in order of (free slots, margin) each take the best
subset of the candidates, until slots or requests run out. Margins and envelope follow each
admission, so the order of workers does too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import is_compiled
from bfio.step.two_stage.fscore import ScoreWeights, scores
from bfio.step.two_stage.subset_choice import best_subset, grows_alike
from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.step.problem import StepProblem

#: Candidates by default when subsets are chosen by reachable sums, and when by enumeration.
CANDIDATES_BY_SUMS = 64
CANDIDATES_BY_ENUMERATION = 12
_ENTRY_POINT = "bfio.step.two_stage.kernels.two_stage:two_stage_decide"


@dataclass(frozen=True)
class TwoStageParameters:
    """Parameters of the two-stage heuristic; see `bfio.decode.policy_options.PolicyOptions`.

    ``beta`` None is the number of workers, which makes the score minus the change of the
    (weighted) imbalance.
    """

    threshold: int = 7
    candidates: int | None = None
    alpha: Fraction = Fraction(1)
    beta: Fraction | None = None
    key: str = "lexicographic"


def two_stage(
    capacity: IntArray,
    base: IntArray,
    contribution: IntArray,
    weights: Sequence[int],
    parameters: TwoStageParameters,
) -> list[int | None]:
    """Assign ``min(N, free slots)`` waiting requests to workers.

    Compiled kernels decide wherever they are compiled already (`compile_kernels`) and exact (see
    `bfio.step.two_stage.kernels`), and otherwise `two_stage_reference`; both give the same
    assignment.

    Parameters
    ----------
    capacity : IntArray
        Shape (G,), free slots.
    base : IntArray
        Shape (G, H+1), projected loads without new admissions [tokens].
    contribution : IntArray
        Shape (N, H+1), projected load of each waiting request in arrival order [tokens].
    weights : sequence of int
        Discount weight of each look-ahead step, on any common scale.
    parameters : TwoStageParameters
        Threshold, candidates, factors, priority.

    Returns
    -------
    list of (int or None)
        Worker of each request, None for those that keep waiting.
    """
    if _kernels_are_on_disk():
        from bfio.step.two_stage.kernels.decide import two_stage_compiled

        found = two_stage_compiled(capacity, base, contribution, weights, parameters)
        if found is not None:
            return found
    return two_stage_reference(capacity, base, contribution, weights, parameters)


def two_stage_reference(
    capacity: IntArray,
    base: IntArray,
    contribution: IntArray,
    weights: Sequence[int],
    parameters: TwoStageParameters,
) -> list[int | None]:
    """Decide as `two_stage` in plain Python: the readable statement of the heuristic."""
    admission = _Admission(capacity, base, contribution, weights, parameters)
    while admission.total_free > parameters.threshold and len(admission.waiting):
        admission.admit_single()
    while admission.total_free > 0 and len(admission.waiting):
        admission.admit_subset()
    return admission.assignment


def prepare_kernels() -> None:
    """Load the kernels if they are compiled, so that no run's clock counts it.

    Policies do so when they are made.
    """
    if _kernels_are_on_disk():
        compile_kernels()


@cache
def compile_kernels() -> None:
    """Compile the kernels, or load them from the cache on disk; once per process."""
    from bfio.step.two_stage.kernels.decide import warm_up

    ensure_compiled("two-stage")
    warm_up()
    _kernels_are_on_disk.cache_clear()


@cache
def _kernels_are_on_disk() -> bool:
    return is_compiled(_ENTRY_POINT)


def two_stage_step(
    problem: StepProblem, parameters: TwoStageParameters | None = None
) -> list[int | None]:
    """Run the heuristic on a step problem, with the problem's own discount weights.

    Raises
    ------
    CapabilityError
        If the problem has token capacities, required requests, worker speeds or a number to admit.
    """
    for name in ("token_capacity", "required", "token_time", "admit"):
        if getattr(problem, name) is not None:
            raise CapabilityError(
                name, "the two-stage heuristic knows no such constraint", "use method cp-sat"
            )
    return two_stage(
        problem.capacity,
        problem.base,
        problem.contribution,
        problem.weights,
        parameters if parameters is not None else TwoStageParameters(),
    )


class _Admission:
    """State of one decision: what is free, what waits, and the projected loads so far."""

    def __init__(
        self,
        capacity: IntArray,
        base: IntArray,
        contribution: IntArray,
        weights: Sequence[int],
        parameters: TwoStageParameters,
    ) -> None:
        num_workers = len(capacity)
        beta = parameters.beta if parameters.beta is not None else Fraction(num_workers)
        self._weights = ScoreWeights.of(parameters.alpha, beta, weights)
        most_tokens = int(base.max()) + len(contribution) * int(contribution.max(initial=0))
        dtype = self._weights.exact_dtype(most_tokens)
        self._contribution = contribution.astype(dtype)
        self._loads = base.astype(dtype)
        self._envelope = self._loads.max(axis=0)
        self._free = np.array(capacity, dtype=np.int64)
        self._product_key = parameters.key == "product"
        self._num_candidates = _num_candidates(contribution, parameters.candidates)
        self._by_size = np.argsort(-self._contribution[:, 0], kind="stable")
        self.total_free = int(self._free.sum())
        self.waiting = np.arange(len(contribution))
        self.assignment: list[int | None] = [None] * len(contribution)

    def admit_single(self) -> None:
        """Stage 1: one request, of highest score (ties: oldest), to the emptiest worker."""
        worker = self._emptiest_worker()
        self._admit(worker, (self._best_single(worker),))

    def admit_subset(self) -> None:
        """Stage 2: the best subset, or the best single request if no subset scores above 0.

        The single request is the best of all that wait: the candidates are the largest ones, and
        where everything overflows a small request does least harm.
        """
        worker = self._largest_product() if self._product_key else self._emptiest_worker()
        candidates = self._candidates()
        members, value = best_subset(
            self._contribution[candidates],
            self._envelope - self._loads[worker],
            int(self._free[worker]),
            self._weights,
        )
        if value > 0:
            self._admit(worker, tuple(int(candidates[k]) for k in members))
        else:
            self._admit(worker, (self._best_single(worker),))

    def _best_single(self, worker: int) -> int:
        """Find the waiting request of highest score for a worker; ties: oldest."""
        margins = self._envelope - self._loads[worker]
        values = scores(self._contribution[self.waiting], margins, self._weights)
        return int(self.waiting[np.argmax(values)])

    def _emptiest_worker(self) -> int:
        """Most free slots; ties: largest ``min_h`` margin, then lowest index."""
        workers = np.flatnonzero(self._free == self._free.max())
        if len(workers) == 1:
            return int(workers[0])
        return int(workers[np.argmax(self._least_margins(workers))])

    def _largest_product(self) -> int:
        """Largest (free slots · ``min_h`` margin) with a free slot; ties: lowest index."""
        workers = np.flatnonzero(self._free > 0)
        return int(workers[np.argmax(self._free[workers] * self._least_margins(workers))])

    def _least_margins(self, workers: IntArray) -> IntArray:
        margins: IntArray = (self._envelope - self._loads[workers]).min(axis=1)
        return margins

    def _candidates(self) -> IntArray:
        """Return the largest waiting requests, in arrival order."""
        if len(self.waiting) <= self._num_candidates:
            return self.waiting
        waits = np.zeros(len(self.assignment), dtype=np.bool_)
        waits[self.waiting] = True
        return np.sort(self._by_size[waits[self._by_size]][: self._num_candidates])

    def _admit(self, worker: int, requests: tuple[int, ...]) -> None:
        for request in requests:
            self.assignment[request] = worker
            self._loads[worker] += self._contribution[request]
        self._envelope = np.maximum(self._envelope, self._loads[worker])
        self._free[worker] -= len(requests)
        self.total_free -= len(requests)
        self.waiting = self.waiting[~np.isin(self.waiting, requests)]


def _num_candidates(contribution: IntArray, chosen: int | None) -> int:
    if chosen is not None:
        return chosen
    return CANDIDATES_BY_SUMS if grows_alike(contribution) else CANDIDATES_BY_ENUMERATION
