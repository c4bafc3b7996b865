"""A part of a run, on which metrics are computed: some steps and their requests."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bfio.common.metrics import Average, exact_sum
from bfio.decode.energy import EnergyAccount, EnergyReading, energy_account
from bfio.decode.energy_model import EnergyModel
from bfio.decode.features.stragglers import stragglers_of
from bfio.decode.run import Run
from bfio.decode.stints import Cause, Stints, stints
from formulations.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RunPart:
    """Some steps of a run and the requests that belong to them.

    Series over requests are computed anew each time, as a long run has millions of entries.
    """

    run: Run  #: The run.
    steps: IntArray  #: Increasing step indices.
    energy_model: EnergyModel  #: Constants of the energy metrics.
    #: Increasing indices of the requests; by default those that started in these steps.
    requests: IntArray | None = None

    @cached_property
    def started(self) -> IntArray:
        """Indices of the requests of the part that started."""
        if self.requests is not None:
            return self.requests[self.run.start_step[self.requests] >= 0]
        member = np.zeros(self.run.steps, dtype=np.bool_)
        member[self.steps] = True
        start = self.run.start_step
        candidates = np.flatnonzero(start >= 0)
        return candidates[member[start[candidates]]]

    @cached_property
    def stints(self) -> Stints:
        """The stints of each request: intervals in which it had a slot, with their workers."""
        return stints(self.run)

    def interrupted_tokens(self, *causes: Cause) -> int:
        """Return prompt and emitted tokens of requests interrupted in these steps for a cause."""
        if len(self.run.interruptions) == 0:
            return 0
        which = np.isin(self.stints.cause, causes) & np.isin(self.stints.end, self.steps)
        prompts = self.run.prompt_tokens[self.stints.request[which]]
        return exact_sum(prompts + self.stints.emitted[which])

    @cached_property
    def completed(self) -> IntArray:
        """The requests of the part that completed."""
        is_done = self.run.finish_step[self.started] >= 0
        return self.started if is_done.all() else self.started[is_done]

    @cached_property
    def imbalance(self) -> IntArray:
        """Imbalance of each step, ``G·max load - total load`` (BF-IO eq. 2) [tokens]."""
        return self.run.imbalance[self.steps]

    @cached_property
    def balanced_s(self) -> FloatArray:
        """Time that each step would take if all workers had the mean load [s]."""
        run = self.run
        if run.balanced_s is not None:
            return run.balanced_s[self.steps]
        waited = run.cluster.worker_times()[1][0] / run.cluster.workers * self.imbalance
        balanced: FloatArray = run.duration_s[self.steps] - waited
        return balanced

    def mean_waiting(self, field: str) -> Average:
        """Average a field of requests left waiting after admission, over requests and steps."""
        some = self.steps[self.run.waiting[self.steps] > 0]
        total = self.run.waiting_totals[field]
        return Average(total[some], self.run.waiting[some].astype(np.float64))

    @cached_property
    def idle_fractions(self) -> FloatArray:
        """Idle fraction of each step, ``1 - mean load / max load``."""
        return self.run.idle_fractions()[self.steps]

    @property
    def times_per_token(self) -> FloatArray:
        """Time per output token, ``(finish - start)/o_i``, of completed requests [s].

        Source: BF-IO eq. 9. With token budgets, the start is the first step after the prompt is
        computed.
        """
        run, ids = self.run, self.completed
        spent = self._finish_s - run.start_s[run.decode_step()[ids]]
        return spent / run.emitted_tokens[ids]

    @cached_property
    def awake_times_per_token(self) -> FloatArray | None:
        """Times per token without the time at rest [s]; None for runs without rests."""
        run, ids = self.run, self.completed
        if run.rests is None:
            return None
        who, first, end = run.rests.T
        # A request also counts as resting during its prefill, which its times leave out anyway.
        first = np.maximum(first, run.decode_step()[who])
        lasts = first < end
        who, first, end = who[lasts], first[lasts], end[lasts]
        spent = run.end_s()[end - 1] - run.start_s[first]
        at_rest = np.bincount(who, weights=spent, minlength=run.num_requests)
        awake: FloatArray = self.times_per_token - at_rest[ids] / run.emitted_tokens[ids]
        return awake

    @property
    def delays(self) -> FloatArray:
        """Waiting time of each completed request, from arrival or reveal to its first step [s]."""
        return self.run.start_s[self.run.start_step[self.completed]] - self._origin_s

    @property
    def first_tokens(self) -> FloatArray:
        """Time from arrival or reveal to the first token of each completed request [s]."""
        run, ids = self.run, self.completed
        return run.end_s()[run.first_token_step()[ids]] - self._origin_s

    def lost_share(self, own_s: FloatArray) -> float | None:
        """Return the share of worker time spent waiting for the slowest worker.

        ``own_s`` is the time that each worker would need in a step, shape (K, G) [s].
        """
        run = self.run
        whole = float(run.duration_s[self.steps].sum())
        schedule = stragglers_of(run.options.stragglers, run.cluster.workers, run.options.seed)
        own_s = (schedule.factors(run.start_s, run.cluster.workers) * own_s)[self.steps]
        waited = float((own_s.max(axis=1) - own_s.mean(axis=1)).sum())
        return waited / whole if whole else None

    @property
    def latencies(self) -> FloatArray:
        """Time from arrival or reveal to the last token of each completed request [s]."""
        return self._finish_s - self._origin_s

    @cached_property
    def met(self) -> BoolArray | None:
        """Whether each completed request met the latency limits; None if the run has no limits."""
        limits = self.run.options.slo
        return None if limits is None else limits.met(self.first_tokens, self.times_per_token)

    @cached_property
    def total_s(self) -> float:
        """Total time of the steps and of the idle time before them [s]."""
        run = self.run
        return float(run.duration_s[self.steps].sum() + run.idle_before_s[self.steps].sum())

    @cached_property
    def energy(self) -> EnergyAccount | None:
        """Energy and power in the two-phase reading; None if the run kept no trajectory."""
        return energy_account(
            self.run, self.energy_model, EnergyReading.TWO_PHASE, steps=self.steps
        )

    @property
    def _finish_s(self) -> FloatArray:
        return self.run.end_s()[self.run.finish_step[self.completed]]

    @property
    def _origin_s(self) -> FloatArray:
        run = self.run
        return (run.reveal_s if run.arrival_s is None else run.arrival_s)[self.completed]
