"""The fluid equilibrium in closed form, equations (2) to (8), in exact rationals.

At rate ``x_j`` of class j, balance requires that the arrivals during an iteration equal its
completions, ``x_j·ΔT = n_j/(l'_j + 1)``. An iteration takes ``ΔT = d0 + d1·M`` with ``M = Σ_j n_j
(l_j + l'_j/2)``. With ``A = Σ_j x_j w_j`` and the load ``ρ = d1·A < 1``:

    (6) M* = d0·A / (1 − d1·A)      (7) ΔT* = d0 / (1 − d1·A)      n_j* = ΔT*·x_j·(l'_j + 1)
    (8) Thr* = Σ_j x_j (l'_j + 1)   in stages, or Σ_j x_j l'_j in decode tokens, per second

Other variants that the paper prints contradict these equations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from formulations.errors import InputError
from formulations.fluid.problem import FluidWorker, RequestClass


@dataclass(frozen=True)
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
    """

    work_rate: Fraction
    load: Fraction
    memory: Fraction
    iteration_time: Fraction
    per_stage: tuple[Fraction, ...]
    active: tuple[Fraction, ...]
    throughput: Fraction
    decode_throughput: Fraction


def work_rate(
    classes: Sequence[RequestClass], rates: Sequence[Fraction] | None = None
) -> Fraction:
    """Return ``A = Σ_j x_j w_j`` [token-iterations/s]; by default, x_j is the rate of class j."""
    pairs = zip(classes, _rates(classes, rates), strict=True)
    return sum((x * kind.work for kind, x in pairs), Fraction(0))


def equilibrium(
    classes: Sequence[RequestClass],
    worker: FluidWorker,
    rates: Sequence[Fraction] | None = None,
) -> Equilibrium:
    """Return the equilibrium on one worker, without its memory limit.

    Parameters
    ----------
    classes : sequence of RequestClass
        The arriving classes.
    worker : FluidWorker
        Iteration times.
    rates : sequence of Fraction, optional
        ``x_j >= 0`` [1/s]; by default the rates of the classes.

    Raises
    ------
    InputError
        If the load ``d1·A`` is 1 or more: no equilibrium exists (proposition 1).
    """
    x = _rates(classes, rates)
    work = work_rate(classes, x)
    load = worker.d1 * work
    if load >= 1:
        raise InputError(
            "load", f"d1*sum rate*work = {float(load):.6g} >= 1 is unstable", "lower the rates"
        )
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
    )


def throughput(
    classes: Sequence[RequestClass],
    rates: Sequence[Fraction] | None = None,
    *,
    decode: bool = False,
) -> Fraction:
    """Return equation (8) at given rates: stages, or decode tokens, per second."""
    pairs = zip(classes, _rates(classes, rates), strict=True)
    return sum(
        (x * (kind.output if decode else kind.iterations) for kind, x in pairs), Fraction(0)
    )


def _rates(
    classes: Sequence[RequestClass], rates: Sequence[Fraction] | None
) -> Sequence[Fraction]:
    return [kind.rate for kind in classes] if rates is None else rates
