"""Data of the threshold programs: WAIT, Nested WAIT, and Nested WAIT with time-varying rates.

With time-varying rates (condition (13) of theorem 3) thresholds stay constant. They must suffice
for the busiest window of the length of a full batch, ``Σ_j λ_j[t, t + ΔT(n)] < n_1`` for all t,
and for the largest share that continues to a next segment, ``n_{i+1}/n_i > p*_i = sup p_i``. The
paper requires this for t up to the end. Here it is required for all ``t >= 0``, since the windows
extend beyond the end anyway.

Windows grow with ΔT, so the conditions are monotone like those of constant rates and have a least
solution. It exists iff the load with mean arrivals and largest shares is below 1. The buffer is
(12) with the exponents of (17), which is (16) with ``p*``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from formulations.arrays import each_of, entries, integer
from formulations.errors import InputError, check_kind
from formulations.fluid import FluidProblem, FluidWorker, RequestClass, VaryingRates
from formulations.problem_data import Validated
from formulations.scalars import exact_number
from formulations.thresholds.conditions import (
    SegmentChain,
    ThresholdConditions,
    ThresholdProblem,
    constant_rate_conditions,
    first_stages,
    least_integer,
)

_MAX_LENGTH = 10**9


@dataclass(frozen=True)
class PromptGroup(Validated):
    """Classes of one prompt length, and the segments of their stages.

    Parameters
    ----------
    prompt : int
        ``l >= 1`` [tokens].
    outputs : tuple of int
        ``l'_j >= 0``, increasing [tokens].
    rates : tuple of Fraction
        ``λ_j > 0`` [1/s].
    boundaries : tuple of int, optional
        ``b_1 < ... < b_L = l'_m``; by default every output length.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    prompt: int
    outputs: tuple[int, ...]
    rates: tuple[Fraction, ...]
    boundaries: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Validate."""
        prompt = integer(self.prompt, "prompt", minimum=1, maximum=_MAX_LENGTH)
        outputs = _increasing(self.outputs, "outputs")
        rates = tuple(
            exact_number(rate, f"rates[{j}]", positive=True)
            for j, rate in enumerate(entries(self.rates, "rates"))
        )
        if len(rates) != len(outputs):
            what = f"{len(rates)} for {len(outputs)} outputs"
            raise InputError("rates", what, "give one rate per output")
        given = outputs if self.boundaries is None else self.boundaries
        boundaries = _increasing(given, "boundaries")
        if boundaries[-1] != outputs[-1]:
            what = f"{boundaries[-1]} is not the longest output"
            raise InputError(f"boundaries[{len(boundaries) - 1}]", what, f"end with {outputs[-1]}")
        self._set(prompt=prompt, outputs=outputs, rates=rates, boundaries=boundaries)

    @property
    def ends(self) -> tuple[int, ...]:
        """``b_1 .. b_L``: the last stage of each segment."""
        assert self.boundaries is not None
        return self.boundaries

    @property
    def entries(self) -> tuple[int, ...]:
        """``e_1 = 0``, ``e_i = b_{i−1} + 1``: the first stage of each segment."""
        return first_stages(self.ends)

    @cached_property
    def chain(self) -> SegmentChain:
        """The chain of segments at the rates of the group."""
        classes = list(zip(self.outputs, self.rates, strict=True))
        reaching, total = [], Fraction(0)
        for entry in reversed(self.entries):
            while classes and classes[-1][0] >= entry:
                total += classes.pop()[1]
            reaching.append(total)
        reaching.reverse()
        passing = tuple(after / before for before, after in pairwise(reaching))
        return SegmentChain(self.prompt, self.ends, total, passing, len(self.outputs))

    def with_boundaries(self, boundaries: Sequence[int]) -> "PromptGroup":
        """Return the group with other boundaries of its segments."""
        return replace(self, boundaries=tuple(boundaries))


def prompt_groups(classes: Sequence[RequestClass]) -> tuple[PromptGroup, ...]:
    """Group the classes by prompt length, in order of first appearance.

    Raises
    ------
    InputError
        If the outputs of a group do not increase, naming the class.
    """
    members: dict[int, list[RequestClass]] = {}
    for j, kind in enumerate(classes):
        others = members.setdefault(kind.prompt, [])
        if others and kind.output <= others[-1].output:
            raise InputError(
                f"classes[{j}].output",
                f"{kind.output} does not exceed {others[-1].output} of the class before it "
                f"with prompt {kind.prompt}",
                "sort them, and merge classes of equal length",
            )
        others.append(kind)
    return tuple(
        PromptGroup(prompt, tuple(k.output for k in kinds), tuple(k.rate for k in kinds))
        for prompt, kinds in members.items()
    )


def _increasing(values: object, where: str) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(where, "not a list of lengths", "give at least one")
    lengths = tuple(integer(v, f"{where}[{i}]", maximum=_MAX_LENGTH) for i, v in enumerate(values))
    for i, (before, after) in enumerate(pairwise(lengths), start=1):
        if after <= before:
            what = f"{after} does not exceed {before}"
            raise InputError(f"{where}[{i}]", what, "sort them, and merge classes of equal length")
    return lengths


@dataclass(frozen=True)
class WaitProblem(ThresholdProblem):
    """Thresholds ``n_j >= 1``: WAIT starts class j once n_j of its requests wait for prefill.

    Every stage of class j then holds 0 or n_j requests. A full batch takes ``ΔT(n) = d0 +
    d1·M(n)`` with ``M(n) = Σ_j n_j w_j``. Condition (9) requires ``ΔT(n) <= n_j/λ_j`` for all j.

    Parameters
    ----------
    fluid : FluidProblem
        Classes and one worker.
    strict : bool
        Whether (9) must hold with ``<``, which the bounded latency of theorem 1 requires.
    within_memory : bool
        Whether ``M(n) <= C`` is required. WAIT never holds more than M(n).

    Raises
    ------
    InputError
        If there are several workers.
    """

    fluid: FluidProblem
    strict: bool = False
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        check_kind(self.fluid, FluidProblem, "fluid", "FluidProblem(...)")
        self.fluid.single_worker()

    def digest(self) -> str:
        """Return the digest of the fluid problem."""
        return self.fluid.digest()

    @property
    def worker(self) -> FluidWorker:
        """The worker."""
        return self.fluid.workers[0]

    @cached_property
    def conditions(self) -> ThresholdConditions:
        """Condition (9): every class is a chain of one segment."""
        chains = [
            SegmentChain(kind.prompt, (kind.output,), kind.rate, (), 1)
            for kind in self.fluid.classes
        ]
        return constant_rate_conditions(
            chains, self.worker, strict=self.strict, within_memory=self.within_memory
        )


@dataclass(frozen=True)
class NestedProblem(ThresholdProblem):
    """Thresholds ``n_i >= 1`` of segments of stages, for one prompt length or several.

    For one prompt length l there are classes with output lengths ``l'_1 < ... < l'_m`` and rates
    λ_j. Segment i ends with stage ``b_i``: the first has stages ``0..b_1``, the others
    ``b_{i−1}+1..b_i``. With ``Λ_i`` the rate of classes longer than ``b_{i−1}`` and ``s_i = Σ (l
    + k)`` over the stages k of segment i, a full batch takes ``ΔT(n) = d0 + d1·Σ n_i s_i``, and
    condition (10) requires

        ΔT(n) < n_1/Λ_1      and      n_{i+1}/n_i > P_{i+1} = Λ_{i+1}/Λ_i.

    With several prompt lengths there is one Nested WAIT for each, and all share the batches. A
    full batch is full in every segment of every group, so ``ΔT(n)`` sums over all of them. The
    first part of (10) must hold for each group with its own rate, the second along each chain. The
    paper only states that groups run independently, but they share the time of a batch. With one
    class in each group this is `WaitProblem`.

    Parameters
    ----------
    groups : tuple of PromptGroup
        At least one, with different prompt lengths (or any, if outputs are known, as in WAIT).
        Fewer boundaries than outputs give the segments of section 7.2. Requests that end within a
        segment leave at once, so ``Σ n_i s_i`` is an upper bound, and the load exceeds that of the
        fluid model.
    worker : FluidWorker
        Times and memory.
    strict : bool
        Whether (10) must hold with ``<`` and ``>``, which bounded latency and buffers require.
        Otherwise equality is allowed, as (14) prints for the first part and the paper's
        experiments use for the second.
    within_memory : bool
        Whether ``Σ n_i s_i <= C`` is required; the safety buffer is additional, see `buffer`.

    Raises
    ------
    InputError
        If there is no group.
    """

    groups: tuple[PromptGroup, ...]
    worker: FluidWorker
    strict: bool = True
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        if not each_of(PromptGroup, self.groups, "groups"):
            raise InputError("groups", "no group", "give at least one")

    @staticmethod
    def single(
        prompt: int,
        outputs: tuple[int, ...],
        rates: tuple[Fraction, ...],
        worker: FluidWorker,
        boundaries: tuple[int, ...] | None = None,
        **options: bool,
    ) -> "NestedProblem":
        """Return the problem of one prompt length; see `PromptGroup` and the options above."""
        group = PromptGroup(prompt, outputs, rates, boundaries)
        return NestedProblem((group,), worker, **options)

    @staticmethod
    def from_fluid(fluid: FluidProblem, **options: bool) -> "NestedProblem":
        """Convert a fluid problem with one worker: one group per prompt length.

        Groups come in order of their first class.

        Raises
        ------
        InputError
            If the outputs of a group do not increase.
        """
        return NestedProblem(prompt_groups(fluid.classes), fluid.single_worker(), **options)

    @staticmethod
    def single_from_fluid(
        fluid: FluidProblem, boundaries: Sequence[int] | None = None, **options: bool
    ) -> "NestedProblem":
        """Convert a fluid problem with one worker and one prompt length.

        ``boundaries`` and ``options`` are those of `single`.

        Raises
        ------
        InputError
            If prompts differ, or outputs do not increase.
        """
        problem = NestedProblem.from_fluid(fluid, **options)
        if len(problem.groups) > 1:
            first = problem.groups[0].prompt
            j = next(j for j, k in enumerate(fluid.classes) if k.prompt != first)
            raise InputError(
                f"classes[{j}].prompt",
                f"{fluid.classes[j].prompt} differs from {first}; all prompts must be equal here",
                "make a problem of several groups",
            )
        return problem if boundaries is None else problem.with_boundaries(boundaries)

    @property
    def group(self) -> PromptGroup:
        """The only group.

        Raises
        ------
        InputError
            If there are several.
        """
        if len(self.groups) > 1:
            what = f"{len(self.groups)} prompt lengths, but only one is supported here"
            raise InputError("groups", what, "make all prompts equal")
        return self.groups[0]

    @cached_property
    def conditions(self) -> ThresholdConditions:
        """Condition (10): one chain of segments for each prompt length."""
        return constant_rate_conditions(
            [group.chain for group in self.groups],
            self.worker,
            strict=self.strict,
            within_memory=self.within_memory,
        )

    def digest(self) -> str:
        """Return the digest of the fluid problem."""
        return self.fluid().digest()

    def fluid(self) -> FluidProblem:
        """Return the fluid problem of the same classes."""
        classes = tuple(
            RequestClass(rate, group.prompt, output)
            for group in self.groups
            for rate, output in zip(group.rates, group.outputs, strict=True)
        )
        return FluidProblem(classes, (self.worker,))

    def with_segments(self, boundaries: Sequence[Sequence[int]]) -> "NestedProblem":
        """Return the problem with other segments: one sequence of boundaries per group."""
        pairs = zip(self.groups, boundaries, strict=True)
        return replace(self, groups=tuple(group.with_boundaries(b) for group, b in pairs))

    def with_boundaries(self, boundaries: Sequence[int]) -> "NestedProblem":
        """Return the problem of one group with other boundaries of its segments."""
        return self.with_segments([boundaries])


@dataclass(frozen=True)
class WindowArrivals:
    """Arrivals of all classes during the busiest window as long as a batch of M tokens.

    Parameters
    ----------
    profile : VaryingRates
        Rates of the classes.
    num_classes : int
        Number of classes.
    worker : FluidWorker
        Worker that runs the batches.
    """

    profile: VaryingRates
    num_classes: int
    worker: FluidWorker

    @property
    def excess(self) -> Fraction:
        """Largest excess of the arrivals during a batch over the long-run rate × batch time."""
        return self.profile.largest_excess(range(self.num_classes))

    def least(self, memory: int, *, strict: bool) -> int:
        """Return the least positive integer >= (strict: >) the arrivals in a batch of M tokens."""
        time = self.worker.d0 + self.worker.d1 * memory
        most = self.profile.largest_window(range(self.num_classes), time)
        return least_integer(most, strict=strict)


@dataclass(frozen=True)
class TimeVaryingProblem(ThresholdProblem):
    """Thresholds of segments that satisfy (13) strictly, as theorem 3 requires.

    With a `RateProfile`, the solution is the least vector of thresholds that satisfies (13). With
    `SinusoidalRates`, upper bounds replace the suprema: the solution satisfies (13) and is the
    least for the tightened condition.

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
            what = f"{number} classes for {len(self.outputs)} outputs"
            raise InputError("profile", what, "give one rate per output")
        group = self.group
        self._set(prompt=group.prompt, outputs=group.outputs, boundaries=group.boundaries)

    @cached_property
    def group(self) -> PromptGroup:
        """The classes, each at its largest rate, and their segments."""
        return PromptGroup(self.prompt, self.outputs, self.profile.largest_rates, self.boundaries)

    @cached_property
    def chain(self) -> SegmentChain:
        """The chain of segments with mean arrivals and the largest shares ``p*``."""
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
