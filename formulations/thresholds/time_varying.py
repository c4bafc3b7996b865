"""Data of Nested WAIT with rates that vary in time: condition (13) of theorem 3.

Thresholds stay the same for all time, so they must suffice for the busiest window as long as a
full batch, ``Σ_j λ_j[t, t + ΔT(n)] < n_1`` for all t, and for the largest share that ever goes on
to a next segment, ``n_{i+1}/n_i > p*_i = sup p_i``. The paper asks this for t up to the end;
here it is for all ``t >= 0``, as its windows reach beyond it anyway.

Windows grow with ΔT, so the conditions are monotone as those of constant rates are, and have a
least solution; there is one iff the load with mean arrivals and largest shares is below 1. The
buffer is that of (12) with the exponents of (17), which is (16) with ``p*``.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from formulations.errors import InputError
from formulations.fluid import FluidWorker, VaryingRates
from formulations.thresholds.chain import SegmentChain, least_integer
from formulations.thresholds.conditions import ThresholdConditions, ThresholdProblem
from formulations.thresholds.prompt_group import PromptGroup


@dataclass(frozen=True)
class WindowArrivals:
    """Arrivals of all classes during the busiest window of a batch's time.

    Parameters
    ----------
    profile : VaryingRates
        Their rates.
    num_classes : int
        How many there are.
    worker : FluidWorker
        Whose batches.
    """

    profile: VaryingRates
    num_classes: int
    worker: FluidWorker

    @property
    def excess(self) -> Fraction:
        """By how much they may exceed the long-run rate times the time of the batch."""
        return self.profile.largest_excess(range(self.num_classes))

    def least(self, memory: int, *, strict: bool) -> int:
        """Return the least positive integer at least as large, or larger."""
        time = self.worker.d0 + self.worker.d1 * memory
        most = self.profile.largest_window(range(self.num_classes), time)
        return least_integer(most, strict=strict)


@dataclass(frozen=True)
class TimeVaryingProblem(ThresholdProblem):
    """Thresholds of segments that satisfy (13), strictly as theorem 3 asks.

    With a `RateProfile` they are the least; with `SinusoidalRates`, whose suprema are bounded from
    above, they satisfy (13) and are the least of the bounded condition.

    Parameters
    ----------
    prompt : int
        ``l >= 1`` [tokens].
    outputs : tuple of int
        ``l'_j >= 0``, increasing [tokens].
    profile : VaryingRates
        Rates of these classes over time.
    worker : FluidWorker
        Times and memory.
    boundaries : tuple of int, optional
        As in `NestedProblem`.
    within_memory : bool
        As in `NestedProblem`.

    Raises
    ------
    InputError
        If a value breaks its rule, or the profile has another number of classes.
    """

    prompt: int
    outputs: tuple[int, ...]
    profile: VaryingRates
    worker: FluidWorker
    boundaries: tuple[int, ...] | None = None
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        if (number := len(self.profile.largest_rates)) != len(self.outputs):
            raise InputError(
                "profile", f"{number} classes for {len(self.outputs)} outputs", "give one for each"
            )
        group = self.group
        self._set(prompt=group.prompt, outputs=group.outputs, boundaries=group.boundaries)

    @cached_property
    def group(self) -> PromptGroup:
        """The classes, each at its largest rate, and their segments."""
        return PromptGroup(self.prompt, self.outputs, self.profile.largest_rates, self.boundaries)

    @cached_property
    def chain(self) -> SegmentChain:
        """The segments with mean arrivals and the largest shares that go on, ``p*``."""
        everything = range(len(self.outputs))
        passing = []
        for entry, end in zip(self.group.entries, self.group.ends[:-1], strict=False):
            later = [j for j in everything if self.outputs[j] > end]
            own = [j for j in everything if entry <= self.outputs[j] <= end]
            passing.append(self.profile.largest_share(later, own))
        return SegmentChain(
            self.prompt,
            self.group.ends,
            self.profile.mean_rate(everything),
            tuple(passing),
            len(self.outputs),
        )

    @cached_property
    def conditions(self) -> ThresholdConditions:
        """Condition (13)."""
        arrivals = WindowArrivals(self.profile, len(self.outputs), self.worker)
        return ThresholdConditions(
            (self.chain,), self.worker, True, self.within_memory, (arrivals,)
        )
