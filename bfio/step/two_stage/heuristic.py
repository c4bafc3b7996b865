"""The two-stage heuristic of BalanceRoute (sections 3.2 and 4.2), BR-0 and BR-H.

Stage 1, while more than ``θ`` slots are free: the worker with most free slots takes the single
request of highest F-score. Stage 2: workers in order of (free slots, margin) each take the best
subset of the candidates, until slots or requests run out. Margins, envelope and the order of
workers are updated after each admission.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_of
from bfio.step.two_stage.fscore import ScoreWeights, scores
from bfio.step.two_stage.kernel import (
    DECIDED,
    order_by_size,
    two_stage_decide,
    two_stage_decide_within,
)
from bfio.step.two_stage.limits import Limits, repaired
from bfio.step.two_stage.subset_choice import best_subset, grows_alike
from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.step.problem import StepProblem

#: Default number of candidates for subset choice by reachable sums, and by enumeration.
CANDIDATES_BY_SUMS = 64
CANDIDATES_BY_ENUMERATION = 12


@dataclass(frozen=True)
class TwoStageParameters:
    """Parameters of the two-stage heuristic; see `bfio.decode.policies.balance_route`.

    ``beta`` None means the number of workers. The score is then minus the change of the (weighted)
    imbalance.
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
    limits: Limits | None = None,
) -> list[int | None]:
    """Assign ``min(N, free slots)`` waiting requests to workers.

    Uses the kernels if they are already compiled (`compile_kernels`) and exact for these data (see
    `bfio.step.two_stage.kernel`), and otherwise `two_stage_reference`. Both give the same
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
    limits : Limits, optional
        Further restrictions of the assignment. With token capacities, fewer requests may be
        admitted than required.

    Returns
    -------
    list of (int or None)
        Worker of each request, None for those that keep waiting.
    """
    if _kernels_are_on_disk():
        found = two_stage_compiled(capacity, base, contribution, weights, parameters, limits)
        if found is not None:
            return found
    return two_stage_reference(capacity, base, contribution, weights, parameters, limits)


def two_stage_reference(
    capacity: IntArray,
    base: IntArray,
    contribution: IntArray,
    weights: Sequence[int],
    parameters: TwoStageParameters,
    limits: Limits | None = None,
) -> list[int | None]:
    """Decide as `two_stage`, in plain Python: the reference implementation."""
    if limits is None:
        limits = Limits.none(len(capacity), len(contribution), int(capacity.sum()))
    admission = _Admission(capacity, base, contribution, weights, parameters, limits)
    for pool in (np.flatnonzero(limits.required), np.flatnonzero(~limits.required)):
        admission.begin(pool)
        while admission.total_free > parameters.threshold and len(admission.waiting):
            admission.admit_single()
        while admission.total_free > 0 and len(admission.waiting):
            admission.admit_subset()
    return admission.assignment


def prepare_kernels() -> None:
    """Load the kernels if they are compiled, so that loading is not part of a run's time.

    Policies call this when they are created.
    """
    if _kernels_are_on_disk():
        compile_kernels()


@cache
def compile_kernels() -> None:
    """Compile the kernels or load them from the cache on disk, once per process."""
    ensure_compiled("two-stage decisions")
    warm_up()
    _kernels_are_on_disk.cache_clear()


@cache
def _kernels_are_on_disk() -> bool:
    return entry_of(two_stage_decide).is_compiled()


def two_stage_step(
    problem: StepProblem, parameters: TwoStageParameters | None = None
) -> list[int | None]:
    """Run the heuristic on a step problem, with the problem's own discount weights.

    If token capacities leave requests without a worker, exchanges of requests make room for them
    (`bfio.step.two_stage.limits`).

    Raises
    ------
    CapabilityError
        If the heuristic finds no feasible assignment. One may exist: with token capacities the
        feasibility problem is NP-hard.
    """
    limits = Limits.of(problem)
    found = two_stage(
        problem.capacity,
        problem.base,
        problem.contribution,
        problem.weights,
        parameters if parameters is not None else TwoStageParameters(),
        limits,
    )
    assignment = found if limits is None else repaired(problem, found)
    if assignment is None:
        raise CapabilityError(
            "problem",
            "the two-stage heuristic found no feasible answer, though there may be one",
            "use method exact or cp-sat",
        )
    return assignment


class _Admission:
    """State of one decision: free slots, waiting requests, and the projected loads so far.

    Loads, envelope and margins are in units of time, ``τ_g`` per token.
    """

    def __init__(
        self,
        capacity: IntArray,
        base: IntArray,
        contribution: IntArray,
        weights: Sequence[int],
        parameters: TwoStageParameters,
        limits: Limits,
    ) -> None:
        num_workers = len(capacity)
        beta = parameters.beta if parameters.beta is not None else Fraction(num_workers)
        benefit = limits.benefit
        self._weights = ScoreWeights.of(
            parameters.alpha, beta, weights, has_benefit=benefit is not None
        )
        most_tokens = int(base.max()) + len(contribution) * int(contribution.max(initial=0))
        most_worth = 0 if benefit is None else len(contribution) * int(benefit.max(initial=0))
        dtype = self._weights.exact_dtype(most_tokens * int(limits.time.max()), most_worth)
        self._limits = limits
        self._worth = None if benefit is None else benefit.astype(dtype) * self._weights.benefit
        self._contribution = contribution.astype(dtype)
        self._loads = base.astype(dtype) * limits.time.astype(dtype)[:, None]
        self._envelope = self._loads.max(axis=0)
        self._free = np.array(capacity, dtype=np.int64)
        self._num_slots = limits.num_slots
        self._is_closed = np.zeros(num_workers, dtype=np.bool_)
        self._product_key = parameters.key == "product"
        self._num_candidates = parameters.candidates or _num_candidates(contribution, benefit)
        self._by_size = np.argsort(-self._contribution[:, 0], kind="stable")
        self.waiting = np.arange(len(contribution))
        self.assignment: list[int | None] = [None] * len(contribution)

    @property
    def total_free(self) -> int:
        """Slots that the waiting requests can still fill."""
        return min(self._num_slots, int(self._open_slots().sum()))

    def begin(self, pool: IntArray) -> None:
        """Make these the waiting requests."""
        self.waiting = pool
        self._is_closed[:] = False

    def admit_single(self) -> None:
        """Stage 1: admit the request of highest score (ties: oldest) to the emptiest worker."""
        worker = self._emptiest_worker()
        fitting = self._fitting(worker)
        if len(fitting):
            self._admit(worker, (self._best_single(worker, fitting),))
        else:
            self._is_closed[worker] = True

    def admit_subset(self) -> None:
        """Stage 2: admit the best subset, or the best single request if no subset scores above 0.

        The single request is the best of all waiting ones, not only of the candidates. Candidates
        are the largest requests, but if all overflow, a small request costs least.
        """
        worker = self._largest_product() if self._product_key else self._emptiest_worker()
        fitting = self._fitting(worker)
        if len(fitting) == 0:
            self._is_closed[worker] = True
            return
        candidates = self._candidates(worker, fitting)
        members, value = best_subset(
            self._added(worker, candidates),
            self._envelope - self._loads[worker],
            min(int(self._free[worker]), self._num_slots),
            self._weights,
            self._allowances(worker),
            None if self._worth is None else self._worth[candidates, worker],
        )
        if value > 0:
            self._admit(worker, tuple(int(candidates[k]) for k in members))
        else:
            self._admit(worker, (self._best_single(worker, fitting),))

    def _open_slots(self) -> IntArray:
        """Free slots of the workers that may still take a request of this pool."""
        slots: IntArray = np.where(self._is_closed, 0, self._free)
        return slots

    def _added(self, worker: int, requests: IntArray) -> IntArray:
        """Time that each request would add to a worker."""
        added: IntArray = self._contribution[requests] * int(self._limits.time[worker])
        return added

    def _allowances(self, worker: int) -> IntArray | None:
        """Most time that c requests may add to a worker, for c = 0, 1, ...; None if unlimited.

        If further slots of the worker must be filled, room for the smallest unassigned requests is
        reserved, for as many of them as fit.
        """
        if self._limits.most_time is None:
            return None
        room = int(self._limits.most_time[worker]) - self._loads[worker]
        others = int(self._free.sum() - self._free[worker])
        unassigned = np.flatnonzero([w is None for w in self.assignment])
        smallest = np.sort(self._added(worker, unassigned), axis=0).cumsum(axis=0)
        kept = np.vstack([np.zeros_like(room), smallest])
        # Slots of this worker that must be filled because the other workers have too few.
        must = max(0, min(self._num_slots, len(unassigned)) - others)
        must = min(must, int((kept[1:] <= room).all(axis=1).sum()))
        rest = np.maximum(must - np.arange(int(self._free[worker]) + 1), 0)
        allowances: IntArray = room - kept[rest]
        return allowances

    def _fitting(self, worker: int) -> IntArray:
        """Return the waiting requests that fit on a worker."""
        allowances = self._allowances(worker)
        if allowances is None:
            return self.waiting
        fits = (self._added(worker, self.waiting) <= allowances[1]).all(axis=1)
        fitting: IntArray = self.waiting[fits.astype(np.bool_)]
        return fitting

    def _best_single(self, worker: int, requests: IntArray) -> int:
        """Find the request of highest score for a worker; ties: oldest."""
        margins = self._envelope - self._loads[worker]
        values = scores(self._added(worker, requests), margins, self._weights)
        if self._worth is not None:
            values = values + self._worth[requests, worker]
        return int(requests[np.argmax(values)])

    def _emptiest_worker(self) -> int:
        """Most free slots; ties: largest ``min_h`` margin, then lowest index."""
        slots = self._open_slots()
        workers = np.flatnonzero(slots == slots.max())
        if len(workers) == 1:
            return int(workers[0])
        return int(workers[np.argmax(self._least_margins(workers))])

    def _largest_product(self) -> int:
        """Largest (free slots · ``min_h`` margin) with a free slot; ties: lowest index."""
        slots = self._open_slots()
        workers = np.flatnonzero(slots > 0)
        return int(workers[np.argmax(slots[workers] * self._least_margins(workers))])

    def _least_margins(self, workers: IntArray) -> IntArray:
        margins: IntArray = (self._envelope - self._loads[workers]).min(axis=1)
        return margins

    def _candidates(self, worker: int, fitting: IntArray) -> IntArray:
        """Return the largest of the fitting requests, in arrival order.

        With benefits, the requests with the largest score when nothing overflows.
        """
        if len(fitting) <= self._num_candidates:
            return fitting
        if self._worth is not None:
            no_end = np.full(self._loads.shape[1], self._added(worker, fitting).max())
            values = scores(self._added(worker, fitting), no_end, self._weights)
            values = values + self._worth[fitting, worker]
            chosen = np.argsort(-values, kind="stable")[: self._num_candidates]
            return np.sort(fitting[chosen])
        fits = np.zeros(len(self.assignment), dtype=np.bool_)
        fits[fitting] = True
        return np.sort(self._by_size[fits[self._by_size]][: self._num_candidates])

    def _admit(self, worker: int, requests: tuple[int, ...]) -> None:
        for request in requests:
            self.assignment[request] = worker
            self._loads[worker] += self._contribution[request] * int(self._limits.time[worker])
        self._envelope = np.maximum(self._envelope, self._loads[worker])
        self._free[worker] -= len(requests)
        self._num_slots -= len(requests)
        self.waiting = self.waiting[~np.isin(self.waiting, requests)]


def _num_candidates(contribution: IntArray, benefit: IntArray | None) -> int:
    by_sums = benefit is None and grows_alike(contribution)
    return CANDIDATES_BY_SUMS if by_sums else CANDIDATES_BY_ENUMERATION


#: Factors from this on could overflow 64-bit integers.
_LARGEST = 2**61


def two_stage_compiled(
    capacity: IntArray,
    base: IntArray,
    contribution: IntArray,
    weights: Sequence[int],
    parameters: TwoStageParameters,
    limits: Limits | None = None,
) -> list[int | None] | None:
    """Decide as `two_stage_reference`, with the same arguments.

    Returns
    -------
    list of (int or None), or None
        Worker of each request; None instead of a list if the kernels do not support the data.
    """
    if limits is not None and limits.benefit is not None:
        return None
    beta = Fraction(len(capacity)) if parameters.beta is None else parameters.beta
    factors = _factors(parameters.alpha, beta, tuple(weights))
    if factors is None:
        return None
    # Writeable contiguous copies, so that all callers use the same compiled signature.
    added = np.array(contribution, dtype=np.int64, order="C")
    sizes, growth = added[:, 0].copy(), np.zeros(len(weights), dtype=np.int64)
    if len(added):
        growth = added[0] - added[0, 0]
    by_size, assignment = np.empty((2, len(added)), dtype=np.int64)
    order_by_size(sizes, by_size)
    if limits is not None:
        status = _decide_within(
            capacity, base, added, by_size, factors, parameters, limits, assignment
        )
        return _read(status, assignment)
    status = two_stage_decide(
        np.array(capacity, dtype=np.int64),
        np.array(base, dtype=np.int64, order="C"),
        sizes,
        growth,
        added,
        by_size,
        factors[0],
        factors[1],
        parameters.threshold,
        parameters.candidates or 0,
        parameters.key == "product",
        assignment,
    )
    return _read(status, assignment)


def _decide_within(
    capacity: IntArray,
    base: IntArray,
    added: IntArray,
    by_size: IntArray,
    factors: tuple[IntArray, IntArray],
    parameters: TwoStageParameters,
    limits: Limits,
    assignment: IntArray,
) -> int:
    """Call `two_stage_decide_within`, which fills the assignment."""
    pools = [by_size[limits.required[by_size]], by_size[~limits.required[by_size]]]
    most_time = np.empty(0, np.int64) if limits.most_time is None else limits.most_time
    return two_stage_decide_within(
        np.array(capacity, dtype=np.int64),
        np.ascontiguousarray(base * limits.time[:, None]),
        added,
        np.concatenate(pools),
        len(pools[0]),
        limits.num_slots,
        limits.time.astype(np.int64),
        most_time.astype(np.int64),
        factors[0],
        factors[1],
        parameters.threshold,
        parameters.candidates or 0,
        parameters.key == "product",
        assignment,
    )


def _read(status: int, assignment: IntArray) -> list[int | None] | None:
    if status != DECIDED:
        return None
    return [None if worker < 0 else worker for worker in assignment.tolist()]


@cache
def warm_up() -> None:
    """Compile the kernels or load them from the cache on disk, before any time is measured."""
    one = np.ones((1, 1), dtype=np.int64)
    by_size, assignment = np.zeros((2, 1), dtype=np.int64)
    row, none = one[0].copy(), one[0, :0].copy()
    order_by_size(row, by_size)
    two_stage_decide(
        row.copy(), one.copy(), row, row, one, by_size, row, row, 1, 0, False, assignment
    )
    two_stage_decide_within(
        row, one.copy(), one, by_size, 0, 1, row, none, row, row, 1, 0, False, assignment
    )


@lru_cache(maxsize=64)
def _factors(
    alpha: Fraction, beta: Fraction, weights: tuple[int, ...]
) -> tuple[IntArray, IntArray] | None:
    factors = ScoreWeights.of(alpha, beta, weights)
    if max(*factors.reward, *factors.penalty) >= _LARGEST:
        return None
    return np.array(factors.reward, dtype=np.int64), np.array(factors.penalty, dtype=np.int64)
