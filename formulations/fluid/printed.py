"""Formulas of the fluid model as the paper prints them where they are wrong.

For the audit of the paper only; nothing else here or in `thresholds` uses them.
"""

from collections.abc import Sequence
from fractions import Fraction

from formulations.fluid.equilibrium import equilibrium
from formulations.fluid.problem import FluidWorker, RequestClass


def printed_load(classes: Sequence[RequestClass], worker: FluidWorker) -> Fraction:
    """Return ``d0·Σ λ_j w_j``, section 3.1 and proposition 1; stability asks ``d1``."""
    return worker.d0 * sum((k.rate * k.work for k in classes), Fraction(0))


def printed_balance(classes: Sequence[RequestClass], worker: FluidWorker) -> tuple[Fraction, ...]:
    """Return ``n_j = (d0 + d1·M*) λ_j`` of section 3.2: one stage's count, not all stages'."""
    return equilibrium(classes, worker).per_stage


def printed_active(classes: Sequence[RequestClass], worker: FluidWorker) -> tuple[Fraction, ...]:
    """Return ``n_j = ΔT λ_j (l'_j + 1)(l_j + l'_j/2)`` of appendix A.2: a memory, not a count."""
    state = equilibrium(classes, worker)
    pairs = zip(classes, state.active, strict=True)
    return tuple(kind.footprint * active for kind, active in pairs)


def printed_throughput(classes: Sequence[RequestClass], worker: FluidWorker) -> Fraction:
    """Return the middle of (8), ``(1/d0)(Σ n_j*)(1 − A)``: the load without its ``d1``."""
    state = equilibrium(classes, worker)
    return sum(state.active, Fraction(0)) * (1 - state.work_rate) / worker.d0
