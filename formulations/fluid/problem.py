"""Data of the fluid programs, and the fluid equilibrium in closed form, in exact rationals.

At rate ``x_j`` of class j, balance requires that the arrivals during an iteration equal its
completions, ``x_j·ΔT = n_j/(l'_j + 1)``. An iteration takes ``ΔT = d0 + d1·M`` with ``M = Σ_j n_j
(l_j + l'_j/2)``. With ``A = Σ_j x_j w_j`` and the load ``ρ = d1·A < 1``:

    (6) M* = d0·A / (1 − d1·A)      (7) ΔT* = d0 / (1 − d1·A)      n_j* = ΔT*·x_j·(l'_j + 1)
    (8) Thr* = Σ_j x_j (l'_j + 1)   in stages, or Σ_j x_j l'_j in decode tokens, per second

Other variants that the paper prints contradict these equations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Self

from formulations.arrays import each_of, integer
from formulations.errors import InputError, check_kind, within
from formulations.problem_data import ProblemData, Validated, check_keys, check_list, json_word
from formulations.scalars import exact_number

#: Largest prompt and output [tokens].
_MAX_LENGTH = 10**9
#: Limits on classes and workers: the exact programs use fractions, whose digits grow.
_MAX_CLASSES, _MAX_WORKERS = 10_000, 1_000
_CLASS_KEYS = ("rate", "prompt", "output")
_WORKER_KEYS = ("d0", "d1", "memory")


@dataclass(frozen=True)
class RequestClass(Validated):
    """A class of requests with one prompt length, one output length and one arrival rate.

    Parameters
    ----------
    rate : Fraction
        ``λ_j > 0`` [1/s]; exact, see `exact_number`.
    prompt, output : int
        ``l_j >= 1`` and ``l'_j >= 0`` [tokens]; output 0 means prefill only.
    workers : tuple of int, optional
        The workers that may serve the class; all by default.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    rate: Fraction
    prompt: int
    output: int
    workers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Validate."""
        otherwise = "leave the class out, or "
        self._set(
            rate=exact_number(self.rate, "rate", positive=True, otherwise=otherwise),
            prompt=integer(self.prompt, "prompt", minimum=1, maximum=_MAX_LENGTH),
            output=integer(self.output, "output", maximum=_MAX_LENGTH),
            workers=None if self.workers is None else _worker_indices(self.workers),
        )

    @property
    def iterations(self) -> int:
        """``l'_j + 1``, iterations of a request: prefill (stage 0) and one per output token."""
        return self.output + 1

    @property
    def work(self) -> int:
        """``w_j = Σ_{k=0..l'_j} (l_j + k)``, the memory of one request summed over its stages.

        [token-iterations]
        """
        return self.iterations * (2 * self.prompt + self.output) // 2

    @property
    def footprint(self) -> Fraction:
        """``w_j / (l'_j + 1) = l_j + l'_j/2``, mean memory of a request [tokens]."""
        return Fraction(2 * self.prompt + self.output, 2)

    def may_use(self, worker: int) -> bool:
        """Return whether a worker may serve the class."""
        return self.workers is None or worker in self.workers


@dataclass(frozen=True)
class FluidWorker(Validated):
    """One engine: an iteration on X tokens takes ``d0 + d1·X`` (the paper's equation (1)).

    Parameters
    ----------
    d0 : Fraction
        Fixed time of an iteration, > 0 [s].
    d1 : Fraction
        Time per token [s/token].
    memory : int
        ``C >= 1``, tokens of the KV cache.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    d0: Fraction
    d1: Fraction
    memory: int

    def __post_init__(self) -> None:
        """Validate."""
        self._set(
            d0=exact_number(self.d0, "d0", positive=True),
            d1=exact_number(self.d1, "d1"),
            memory=integer(self.memory, "memory", minimum=1),
        )

    @property
    def capacity(self) -> Fraction:
        """``C / (d0 + d1·C)``, the work rate with full memory [token-iterations/s].

        The equilibrium memory of a work rate A is within C, ``d0·A / (1 − d1·A) <= C``, iff A is
        at most this capacity.
        """
        return self.memory / (self.d0 + self.d1 * self.memory)

    def capacity_at(self, rate: Fraction) -> Fraction | None:
        """Return the largest work rate at an iteration rate of at least ``rate`` [1/s].

        ``min(K, (1 − d0·rate)/d1)`` in token-iterations/s, from ``d0·rate + d1·A <= 1``; None if
        even empty iterations take longer than ``1/rate``.
        """
        idle = 1 - self.d0 * rate
        if idle < 0:
            return None
        return self.capacity if self.d1 == 0 else min(self.capacity, idle / self.d1)

    @property
    def capacity_per_token(self) -> Fraction:
        """Derivative of `capacity` by the memory C, ``d0 / (d0 + d1·C)²`` [1/s]."""
        return self.d0 / (self.d0 + self.d1 * self.memory) ** 2


@dataclass(frozen=True)
class FluidProblem(ProblemData):
    """The data of the fluid programs: classes of requests, and the workers that serve them.

    Parameters
    ----------
    classes : tuple of RequestClass
        At least one; j = 0..m−1.
    workers : tuple of FluidWorker
        At least one; g = 0..G−1.

    Raises
    ------
    InputError
        If there are no or too many classes or workers, or a class names an unknown worker.
    """

    classes: tuple[RequestClass, ...]
    workers: tuple[FluidWorker, ...]

    def __post_init__(self) -> None:
        """Validate."""
        for name, of, most in (
            ("classes", RequestClass, _MAX_CLASSES), ("workers", FluidWorker, _MAX_WORKERS),
        ):  # fmt: skip
            values = each_of(of, getattr(self, name), name)
            if not 1 <= len(values) <= most:
                raise InputError(name, f"found {len(values)}", f"give 1 to {most}")
            self._set(**{name: values})
        for j, kind in enumerate(self.classes):
            for g in kind.workers or ():
                if g >= len(self.workers):
                    remedy = f"use 0 to {len(self.workers) - 1}"
                    raise InputError(f"classes[{j}].workers", f"there is no worker {g}", remedy)

    @property
    def work_rate(self) -> Fraction:
        """``A = Σ_j λ_j w_j``, the arriving work per second [token-iterations/s]."""
        return sum((kind.rate * kind.work for kind in self.classes), Fraction(0))

    @property
    def is_pooled(self) -> bool:
        """Whether every class may use every worker."""
        everything = set(range(len(self.workers)))
        return all(k.workers is None or set(k.workers) == everything for k in self.classes)

    def single_worker(self) -> FluidWorker:
        """Return the worker of a problem with one worker.

        Raises
        ------
        InputError
            If there are several.
        """
        if len(self.workers) != 1:
            raise InputError("workers", f"found {len(self.workers)}", "give one worker")
        return self.workers[0]

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        classes = []
        for kind in self.classes:
            row: dict[str, Any] = {"rate": str(kind.rate)}
            row |= {"prompt": kind.prompt, "output": kind.output}
            classes.append(row if kind.workers is None else row | {"workers": list(kind.workers)})
        workers = [{"d0": str(w.d0), "d1": str(w.d1), "memory": w.memory} for w in self.workers]
        return {"classes": classes, "workers": workers}

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"classes": [{"rate", "prompt", "output"}...], "d0", "d1", "memory"}``.

        Optional: ``workers`` of a class; ``workers`` of the document, either their number or a
        list of objects whose missing keys default to those of the document.
        ``provenance`` is ignored.
        """
        _check_object(document, "document", "classes, d0, d1, memory; optional: workers")
        check_keys(document, "document", ("classes",), (*_WORKER_KEYS, "workers", "provenance"))
        rows = check_list(document["classes"], "classes")
        classes = tuple(_class(row, f"classes[{j}]") for j, row in enumerate(rows))
        return cls(classes, _workers(document))


def _class(row: object, where: str) -> RequestClass:
    _check_object(row, where, "rate, prompt, output; optional: workers")
    check_keys(row, where, _CLASS_KEYS, ("workers",))
    assert isinstance(row, Mapping)
    return within(where, lambda: RequestClass(**row))


def _workers(document: Mapping[str, Any]) -> tuple[FluidWorker, ...]:
    given = document.get("workers", 1)
    if isinstance(given, list):
        common = {name: document[name] for name in _WORKER_KEYS if name in document}
        return tuple(_worker(row, common, f"workers[{g}]") for g, row in enumerate(given))
    number = integer(given, "workers", minimum=1, maximum=_MAX_WORKERS)
    check_keys(document, "document", ("classes", *_WORKER_KEYS), ("workers", "provenance"))
    alike = FluidWorker(*(document[name] for name in _WORKER_KEYS))
    return (alike,) * number


def _worker(row: object, common: Mapping[str, Any], where: str) -> FluidWorker:
    _check_object(row, where, "d0, d1, memory; optional: those that the document has")
    check_keys(row, where, (), _WORKER_KEYS)
    assert isinstance(row, Mapping)
    values = {**common, **row}
    check_keys(values, where, _WORKER_KEYS)
    return within(where, lambda: FluidWorker(**values))


def _check_object(value: object, where: str, keys: str) -> None:
    """Raise unless a value is a JSON object; the remedy lists its required and optional keys."""
    if not isinstance(value, Mapping):
        raise InputError(where, json_word(value), f"write an object with {keys}")


def _worker_indices(values: object) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(
            "workers", "not a list of worker indices", "list one or more, or leave out the key"
        )
    indices = [integer(g, f"workers[{i}]") for i, g in enumerate(values)]
    if len(set(indices)) < len(indices):
        raise InputError("workers", "a worker occurs twice", "list each worker once")
    return tuple(sorted(indices))


@dataclass(frozen=True)
class ServiceLimits(Validated):
    """Limits on the mean latency and time to first token of every admitted class (section 2.4).

    Hypotheses: one worker in equilibrium, iterations of equal length ``ΔT``, admitted requests
    arriving at a constant rate. A request that arrives during an iteration starts with the next
    one and waits ``ΔT/2`` on average. By Little's law the latency of class j is its mean
    number in the system over its rate, ``(n_j + x_j·ΔT/2)/x_j = (l'_j + 3/2)·ΔT``. The first token
    comes at the end of stage 1 (of stage 0 without output): ``(min(1, l'_j) + 3/2)·ΔT``.

    The paper limits the means over all classes together. Limits of each class imply these; the
    two agree if all outputs are equal. The paper's own form is a product of iteration rate and
    throughput, whose optimum need not be rational.

    Parameters
    ----------
    latency, ttft : Fraction, optional
        Limits, > 0 [s]; None means no limit.

    Raises
    ------
    InputError
        If a limit is not a positive number.
    """

    latency: Fraction | None = None
    ttft: Fraction | None = None

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("latency", "ttft"):
            if (limit := getattr(self, name)) is not None:
                otherwise = "leave it out, or "
                self._set(**{name: exact_number(limit, name, positive=True, otherwise=otherwise)})

    def iterations(self, kind: RequestClass) -> tuple[tuple[Fraction, Fraction | None], ...]:
        """Return the mean latency and TTFT of a class in iterations, each with its limit [s]."""
        half = Fraction(1, 2)
        return (
            (kind.iterations + half, self.latency),
            (min(1, kind.output) + 1 + half, self.ttft),
        )

    def iteration_rate(self, kind: RequestClass) -> Fraction:
        """Return the iterations per second that a class needs within its limits [1/s]."""
        needs = (number / limit for number, limit in self.iterations(kind) if limit is not None)
        return max(needs, default=Fraction(0))


class FluidObjective(StrEnum):
    """The two definitions of throughput in the paper: stages, or decode tokens, per second."""

    #: ``l'_j + 1`` iterations, as in (4), (8) and section 4.2.
    STAGES = "stages"
    #: ``l'_j`` decode tokens, as in section 2.3 and the proof of proposition 2.
    DECODE = "decode"

    def worth(self, kind: RequestClass) -> int:
        """Return the contribution of one request of a class to the throughput."""
        return kind.iterations if self is FluidObjective.STAGES else kind.output


@dataclass(frozen=True, repr=False)
class Equilibrium:
    """The stationary state of the fluid model on one worker.

    Parameters
    ----------
    work_rate : Fraction
        ``A`` [token-iterations/s].
    load : Fraction
        ``ρ = d1·A < 1``.
    memory : Fraction
        ``M*`` [tokens].
    iteration_time : Fraction
        ``ΔT*`` [s].
    per_stage : tuple of Fraction
        ``ΔT*·x_j``: requests of class j in each of its stages.
    active : tuple of Fraction
        ``n_j*``: requests of class j in all its stages together.
    throughput, decode_throughput : Fraction
        Stages and decode tokens per second.
    fits : bool
        Whether the worker's memory holds M*. Otherwise no engine reaches this state; `knapsack`
        returns the best admission.
    """

    work_rate: Fraction
    load: Fraction
    memory: Fraction
    iteration_time: Fraction
    per_stage: tuple[Fraction, ...]
    active: tuple[Fraction, ...]
    throughput: Fraction
    decode_throughput: Fraction
    fits: bool

    def __repr__(self) -> str:
        fits = "fits" if self.fits else "exceeds"
        numbers = (self.memory, self.iteration_time, self.throughput)
        memory, time, stages = (f"{float(value):.6g}" for value in numbers)
        return (
            f"<Equilibrium: {fits} the memory with {memory} tokens, {time} s, {stages} stages/s>"
        )


def work_rate(
    classes: Sequence[RequestClass], rates: Sequence[Fraction] | None = None
) -> Fraction:
    """Return the work rate ``A = Σ_j x_j w_j`` [token-iterations/s]; x_j defaults to λ_j."""
    pairs = zip(classes, _rates(classes, rates), strict=True)
    return sum((x * kind.work for kind, x in pairs), Fraction(0))


def equilibrium(
    classes: Sequence[RequestClass],
    worker: FluidWorker,
    rates: Sequence[Fraction] | None = None,
) -> Equilibrium:
    """Return the equilibrium on one worker, and whether its memory holds it.

    Parameters
    ----------
    classes : sequence of RequestClass
        The arriving classes.
    worker : FluidWorker
        Iteration times, and the memory for `Equilibrium.fits`.
    rates : sequence of Fraction, optional
        ``x_j >= 0`` [1/s]; by default the rates of the classes.

    Raises
    ------
    InputError
        If the load ``d1·A`` is 1 or more: no equilibrium exists (proposition 1).
    """
    check_kind(worker, FluidWorker, "worker", "FluidWorker(...)")
    x = _rates(classes, rates)
    work = work_rate(classes, x)
    load = worker.d1 * work
    if load >= 1:
        what = f"d1*sum rate*work = {float(load):.6g} >= 1: no equilibrium exists"
        raise InputError("load", what, "lower the rates")
    time = worker.d0 / (1 - load)
    return Equilibrium(
        work_rate=work,
        load=load,
        memory=time * work,
        iteration_time=time,
        per_stage=tuple(time * rate for rate in x),
        active=tuple(time * rate * k.iterations for k, rate in zip(classes, x, strict=True)),
        throughput=throughput(classes, x),
        decode_throughput=throughput(classes, x, decode=True),
        fits=time * work <= worker.memory,
    )


def throughput(
    classes: Sequence[RequestClass],
    rates: Sequence[Fraction] | None = None,
    *,
    decode: bool = False,
) -> Fraction:
    """Return the throughput (8) at given rates [stages/s, or decode tokens/s]."""
    pairs = zip(classes, _rates(classes, rates), strict=True)
    return sum(
        (x * (kind.output if decode else kind.iterations) for kind, x in pairs), Fraction(0)
    )


def _rates(
    classes: Sequence[RequestClass], rates: Sequence[Fraction] | None
) -> Sequence[Fraction]:
    known = each_of(RequestClass, classes, "classes")
    return [kind.rate for kind in known] if rates is None else rates
