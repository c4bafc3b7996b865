"""Data and result of the BF-IO step program: one decode step of synchronised workers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np

from formulations.arrays import (
    MAX_TOKENS,
    BoolArray,
    IntArray,
    check_length,
    entries,
    frozen,
    integer,
    integer_matrix,
    integer_vector,
    optional_flags,
    optional_vector,
)
from formulations.errors import InputError, kind_of, known_fields
from formulations.problem_data import ProblemData, check_keys, check_list, member
from formulations.results import ProgramResult, TieRule
from formulations.scalars import exact_rational
from formulations.words import Words

#: Common denominator of fractional discount weights.
DISCOUNT_SCALE = 10**6
#: Largest objective value (in scaled integers) any assignment may have: 64-bit sums stay exact.
MAX_OBJECTIVE = 2**62

_REQUIRED_KEYS = ("capacity", "base", "contribution")
_OPTIONAL_FIELDS = ("objective", "token_capacity", "required", "token_time", "admit")
_WAITS = ("waited", "longest_wait")
#: ``provenance`` documents the source of a problem; it is ignored.
_OPTIONAL_KEYS = ("discount", *_OPTIONAL_FIELDS, "benefit", *_WAITS, "provenance")


class Objective(StrEnum):
    """What a step minimises, summed over the look-ahead window with the discount weights."""

    IMBALANCE = "imbalance"
    MAX_LOAD = "max-load"
    GAP = "gap"


class StepState(Protocol):
    """The attributes of a policy's state that define the step program; see `bfio.DecodeState`."""

    @property
    def free_slots(self) -> IntArray:
        """Free slots of each worker, shape (G,)."""

    @property
    def projected_loads(self) -> IntArray:
        """Load of each worker and look-ahead step without admissions, shape (G, H+1) [tokens]."""

    @property
    def contributions(self) -> IntArray:
        """Load that each waiting request adds if admitted now, shape (N, H+1) [tokens]."""

    @property
    def token_time(self) -> IntArray | None:
        """Integer time per token of each worker, shape (G,); None for equal workers."""

    def window_loads(self, columns: int) -> IntArray:
        """Return the loads without admissions over ``columns`` steps, (G, columns) [tokens]."""

    def token_capacity(self, columns: int) -> IntArray | None:
        """Return each worker's token limit over ``columns`` steps, shape (G,), or None."""


@known_fields
@dataclass(frozen=True)
class StepProblem(ProblemData):
    """One step of the integer program (IO), BF-IO section 4.

    ``G`` workers, ``N`` waiting requests in arrival order, look-ahead steps ``h = 0..H``. All data
    are integers, so the optimum is one too.

    Parameters
    ----------
    capacity : IntArray
        Shape (G,): free slots of each worker, clipped to N.
    base : IntArray
        Shape (G, H+1): load ``b_g(h)`` without new admissions [tokens].
    contribution : IntArray
        Shape (N, H+1): load ``v_i(h)`` that request i adds if admitted now [tokens].
    weights : tuple of int
        Discount weight of each look-ahead step, times ``scale``; default all 1.
    scale : int
        1, or ``DISCOUNT_SCALE`` when a discount is fractional.
    objective : Objective
        Imbalance (default), maximum load or gap.
    token_capacity : IntArray, optional
        Shape (G,): most tokens a worker may hold at any look-ahead step (KV memory).
    required : BoolArray, optional
        Shape (N,): requests that must be admitted now (starvation bound).
    token_time : IntArray, optional
        Shape (G,), >= 1: time units a worker needs per token. The objective then compares
        ``token_time[g] * load[g]``; speeds 2 and 1 are ``token_time = [1, 2]``.
    admit : int, optional
        Exact number of requests to admit, at most the default ``U = min(N, Σ capacity)``.
    benefit : IntArray, optional
        Shape (N, G), >= 0: benefit of placing request i on worker g, subtracted from the scaled
        objective; with fractional discounts it is ``scale`` times the benefit in tokens. Example:
        a prefix cached on a worker saves prefill, worth μ times the tokens saved, times
        ``scale``. An all-zero benefit counts as None.

    Raises
    ------
    InputError
        If a value breaks its rule, naming field and index.
    """

    capacity: IntArray
    base: IntArray
    contribution: IntArray
    weights: tuple[int, ...] = ()
    scale: int = 1
    objective: Objective = Objective.IMBALANCE
    token_capacity: IntArray | None = None
    required: BoolArray | None = None
    token_time: IntArray | None = None
    admit: int | None = None
    benefit: IntArray | None = None

    def __post_init__(self) -> None:
        """Validate, freeze and clip."""
        base = integer_matrix(self.base, "base")
        if base.size == 0:
            raise InputError(
                "base", "no worker or no look-ahead step", "give at least one load per worker"
            )
        G, steps = base.shape
        contribution = integer_matrix(self.contribution, "contribution", columns=steps)
        N = len(contribution)
        capacity = integer_vector(self.capacity, "capacity", maximum=MAX_TOKENS)
        check_length(capacity, G, "capacity", "worker")
        self._set(
            base=base,
            contribution=contribution,
            capacity=frozen(np.minimum(capacity, N)),
            objective=member(Objective, self.objective, "objective"),
            weights=self._checked_weights(steps),
            token_capacity=optional_vector(self.token_capacity, "token_capacity", G, 0),
            token_time=optional_vector(self.token_time, "token_time", G, 1),
            required=optional_flags(self.required, "required", N),
            benefit=self._checked_benefit(N, G),
        )
        if self.admit is not None:
            self._set(admit=integer(self.admit, "admit", maximum=self._most_admissible))
        self._check_magnitude()

    @property
    def num_workers(self) -> int:
        """``G``."""
        return len(self.capacity)

    @property
    def num_requests(self) -> int:
        """``N``."""
        return len(self.contribution)

    @property
    def num_steps(self) -> int:
        """``H + 1``, look-ahead steps including the current one."""
        return int(self.base.shape[1])

    @property
    def num_admitted(self) -> int:
        """Number of requests that every solution admits: ``admit``, by default ``U``."""
        return self._most_admissible if self.admit is None else self.admit

    @property
    def units_per_token(self) -> int:
        """Units of the scaled objective to a token of the fastest worker."""
        return self.scale * int(self.time_weights.min())

    @property
    def time_weights(self) -> IntArray:
        """``token_time``, all 1 where it is not given; shape (G,)."""
        if self.token_time is None:
            return np.ones(self.num_workers, dtype=np.int64)
        return self.token_time

    def loads(self, assignment: Sequence[int | None]) -> IntArray:
        """Return ``L_g(h)`` under an assignment, shape (G, H+1) [tokens]."""
        loads = self.base.copy()
        for i, worker in enumerate(assignment):
            if worker is not None:
                loads[worker] += self.contribution[i]
        return loads

    def objective_value(self, assignment: Sequence[int | None]) -> int:
        """Return the scaled integer objective of an assignment, less its benefit."""
        return self._objective_of_loads(self.loads(assignment)) - self.benefit_of(assignment)

    def benefit_of(self, assignment: Sequence[int | None]) -> int:
        """Return ``Σ benefit[i,g] x[i,g]`` of an assignment, 0 where there is no benefit."""
        if self.benefit is None:
            return 0
        return sum(int(self.benefit[i, g]) for i, g in enumerate(assignment) if g is not None)

    def without_benefit(self) -> Self:
        """Return the same step without benefits."""
        return self if self.benefit is None else replace(self, benefit=None)

    def with_longest_wait(self, waited: Any, longest_wait: int) -> Self:
        """Return the same step in which requests that have waited too long must start now.

        Parameters
        ----------
        waited : sequence of int
            Length N: rounds that each request has waited.
        longest_wait : int
            ``L >= 0``: requests with ``waited >= L`` join ``required``. If more requests are then
            required than can start, those that waited longest stay required, ties by age.

        Raises
        ------
        InputError
            If a value breaks its rule, or there is not one wait per request.
        """
        waits = integer_vector(waited, "waited")
        check_length(waits, self.num_requests, "waited", "request")
        integer(longest_wait, "longest_wait")
        required = np.zeros(self.num_requests, bool) if self.required is None else self.required
        due = [i for i in np.argsort(-waits, kind="stable") if waits[i] >= longest_wait]
        room = max(0, self.num_admitted - int(required.sum()))
        must = required.copy()
        must[[i for i in due if not required[i]][:room]] = True
        return replace(self, required=must)

    def _objective_of_loads(self, loads: IntArray) -> int:
        times = loads * self.time_weights[:, None]
        peak = times.max(axis=0)
        if self.objective is Objective.IMBALANCE:
            per_step = self.num_workers * peak - times.sum(axis=0)
        elif self.objective is Objective.MAX_LOAD:
            per_step = peak
        else:
            per_step = peak - times.min(axis=0)
        return sum(w * int(value) for w, value in zip(self.weights, per_step, strict=True))

    @classmethod
    def from_state(
        cls,
        state: StepState,
        *,
        look_ahead: int = 0,
        gamma: Fraction | int = 1,
        objective: Objective = Objective.IMBALANCE,
        admit: int | None = None,
        benefit: IntArray | None = None,
    ) -> Self:
        """Return the step program (IO) of a policy's state.

        Parameters
        ----------
        state : StepState
            State of the step: the argument of a policy, or ``view.state`` in an observer of a run.
        look_ahead : int
            ``H``; a state with fewer than ``H + 1`` columns shortens the window.
        gamma : Fraction or int
            Discount per look-ahead step, in (0, 1].
        objective : Objective
            What to minimise.
        admit : int, optional
            Exact number of requests to admit, by default all that fit.
        benefit : IntArray, optional
            Shape (N, G): benefit of each placement [tokens of the objective], before scaling by
            the discount.
        """
        if not callable(getattr(state, "window_loads", None)):
            what = f"{kind_of(state)} is not the state of a step"
            raise InputError("state", what, "give the argument of a policy, or view.state")
        columns = min(integer(look_ahead, "look_ahead") + 1, state.projected_loads.shape[1])
        weights, scale = geometric_weights(Fraction(gamma), columns)
        capacity = state.token_capacity(columns)
        return cls(
            capacity=state.free_slots,
            base=state.window_loads(columns),
            contribution=state.contributions[:, :columns],
            weights=weights,
            scale=scale,
            objective=objective,
            token_capacity=None if capacity is None else np.minimum(capacity, MAX_TOKENS),
            token_time=state.token_time,
            admit=admit,
            benefit=None if benefit is None else benefit * scale,
        )

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Build a problem from the JSON document that ``bfio solve`` reads."""
        fields = check_keys(document, "document", _REQUIRED_KEYS, _OPTIONAL_KEYS)
        weights, scale = discount_weights(fields.get("discount"))
        benefit: Any = fields.get("benefit")
        if benefit is not None:
            weights, scale, benefit = _scaled_benefit(benefit, weights, scale)
        given: dict[str, Any] = {
            name: fields[name] for name in (*_REQUIRED_KEYS, *_OPTIONAL_FIELDS) if name in fields
        }
        problem = cls(**given, weights=weights, scale=scale, benefit=benefit)
        waits = {key: fields[key] for key in _WAITS if key in fields}
        if not waits:
            return problem
        check_keys(waits, "document", _WAITS)
        return problem.with_longest_wait(**waits)

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        document: dict[str, Any] = {
            "capacity": self.capacity.tolist(),
            "base": self.base.tolist(),
            "contribution": self.contribution.tolist(),
            "discount": [str(Fraction(w, self.scale)) for w in self.weights],
            "objective": self.objective.value,
        }
        for key in ("token_capacity", "required", "token_time"):
            if (value := getattr(self, key)) is not None:
                document[key] = value.tolist()
        if self.admit is not None:
            document["admit"] = self.admit
        if self.benefit is not None:
            rows = self.benefit.tolist()
            document["benefit"] = [
                [_written(Fraction(b, self.scale)) for b in row] for row in rows
            ]
        return document

    @property
    def _most_admissible(self) -> int:
        return min(self.num_requests, int(self.capacity.sum()))

    def _checked_weights(self, steps: int) -> tuple[int, ...]:
        self._set(scale=integer(self.scale, "scale", minimum=1))
        weights = tuple(entries(self.weights, "weights")) or (self.scale,) * steps
        if len(weights) != steps:
            raise InputError(
                "discount", f"{len(weights)} weights for {steps} steps", "give one weight per step"
            )
        return tuple(integer(w, f"discount[{h}]") for h, w in enumerate(weights))

    def _checked_benefit(self, N: int, G: int) -> IntArray | None:
        """Return the validated benefit; None if it is missing or all zero."""
        if self.benefit is None:
            return None
        most = min(MAX_OBJECTIVE, MAX_TOKENS * self.scale)
        benefit = integer_matrix(self.benefit, "benefit", columns=G, maximum=most)
        check_length(benefit, N, "benefit", "request")
        return benefit if benefit.any() else None

    def _check_magnitude(self) -> None:
        """Raise if sums of the data could exceed 64-bit integers."""
        most_admitted = int(self.contribution.max(initial=0)) * self.num_requests
        heaviest = (int(self.base.max()) + most_admitted) * int(self.time_weights.max())
        reach = heaviest * self.num_workers * max(1, sum(self.weights))
        most_benefit = 0 if self.benefit is None else int(self.benefit.max()) * self.num_requests
        if reach + most_benefit >= MAX_OBJECTIVE:
            if most_benefit > reach:
                what = f"its sum could reach {most_benefit:.1e}, beyond 64-bit integers"
                raise InputError("benefit", what, "use a smaller μ")
            what = f"the objective could reach {reach:.1e}"
            remedy = "use smaller loads, fewer steps or coarser discount weights (limit 4.6e18)"
            raise InputError("base, contribution", what, remedy)


def discount_weights(discount: object) -> tuple[tuple[int, ...], int]:
    """Convert discounts (strings such as ``"9/10"``, or integers) to integer weights and a scale.

    Integers are kept with scale 1; otherwise every weight is ``round(d · 10^6)``, scale 10^6.

    Returns
    -------
    tuple of (tuple of int, int)
        Weights (empty if ``discount`` is None: all equal) and scale.
    """
    if discount is None:
        return (), 1
    if not isinstance(discount, list | tuple) or len(discount) == 0:
        raise InputError("discount", "not a non-empty list", 'write e.g. ["1", "9/10"]')
    exact = [exact_rational(d, f"discount[{h}]") for h, d in enumerate(discount)]
    if all(d.denominator == 1 for d in exact):
        return tuple(int(d) for d in exact), 1
    weights = tuple(round(d * DISCOUNT_SCALE) for d in exact)
    if any(exact) and not any(weights):
        raise InputError("discount", "every weight rounds to 0 millionths", "use larger weights")
    return weights, DISCOUNT_SCALE


def _scaled_benefit(
    benefit: object, weights: tuple[int, ...], scale: int
) -> tuple[tuple[int, ...], int, list[list[int]]]:
    """Scale the benefit of a document from units of the objective to the scale of the discount.

    A fractional benefit makes the scale `DISCOUNT_SCALE`, as fractional discounts do.

    Returns
    -------
    tuple of (tuple of int, int, list of list of int)
        Weights, scale (both raised if the benefit is fractional), and the benefit times the scale.
    """
    exact = [
        [exact_rational(b, f"benefit[{i}][{g}]") for g, b in enumerate(check_list(row, where))]
        for i, row in enumerate(check_list(benefit, "benefit"))
        if (where := f"benefit[{i}]")
    ]
    if scale == 1 and any(b.denominator > 1 for row in exact for b in row):
        scale = DISCOUNT_SCALE
        weights = tuple(w * scale for w in weights)
    for i, row in enumerate(exact):
        for g, b in enumerate(row):
            if scale % b.denominator:
                raise InputError(
                    f"benefit[{i}][{g}]", f"{b} is not a multiple of 1/{scale}", "round it to one"
                )
    return weights, scale, [[int(b * scale) for b in row] for row in exact]


def _written(value: Fraction) -> int | str:
    """Return a whole number as an integer, any other as text."""
    return int(value) if value.denominator == 1 else str(value)


def geometric_weights(gamma: Fraction, num_steps: int) -> tuple[tuple[int, ...], int]:
    """Return the weights ``round(γ^h · 10^6)`` for h = 0..num_steps-1, and their scale."""
    return discount_weights([gamma**h for h in range(num_steps)])


#: Worker of each request, None for one that keeps waiting.
Assignment = tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class StepResult(ProgramResult[Assignment]):
    """The result of a step program; objective and bound are scaled by the discount's scale.

    Parameters
    ----------
    assignment : tuple of (int or None), optional
        Worker of each request, None for one that keeps waiting.
    tie_rule : TieRule
        Rule that chose among several optimal assignments.
    """

    solution_fields = ("assignment",)

    assignment: Assignment | None = None
    tie_rule: TieRule = TieRule.BACKEND

    def to_mapping(self) -> dict[str, object]:
        """Return the JSON document that ``bfio solve`` prints."""
        document = super().to_mapping() | {"tie_rule": self.tie_rule.value}
        return document if self.scale == 1 else document | {"scale": self.scale}

    def solution_text(self) -> str:
        """Return the assignment in one line."""
        assert self.assignment is not None
        return assignment_text(self.assignment)


def assignment_text(assignment: Assignment) -> str:
    """Return an assignment in one line."""
    placed = [f"{i}->{g}" for i, g in enumerate(assignment) if g is not None]
    return "request->worker: " + (", ".join(placed) or "none admitted")


WORDS = Words(
    title="the BF-IO step program (IO)",
    source="BF-IO (arXiv:2601.17855), section 4, program (IO)",
    objective="imbalance, max-load or gap over the look-ahead window [tokens, or time units]",
    variables={
        "x": "x(i,g) = 1 if waiting request i (from 0, in arrival order) starts on worker g",
        "M": "M(h) = time of the most loaded worker at look-ahead step h",
        "m": "m(h) = time of the least loaded worker at look-ahead step h",
    },
    broken={
        "admit_once": "request {0} starts on more than one worker",
        "capacity": "worker {0} takes {by} requests more than it has free slots",
        "use_slots": "the number of requests that start is off by {by}",
        "peak": "step {1}: worker {0} is {by} above the peak M({1})",
        "floor": "step {1}: worker {0} is {by} below the floor m({1})",
        "token_capacity": "step {1}: worker {0} holds {by} tokens more than fit",
        "required": "request {0} must start now and does not",
        "worker": "request {0} goes to a worker that is not there",
        "objective": "the objective is off by {by}",
    },
)
