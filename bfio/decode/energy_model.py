"""Constants of the power curve of a worker; see `bfio.decode.energy` for the equations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bfio.common.options import NUMBER, option
from formulations.errors import InputError, known_fields
from formulations.scalars import real

if TYPE_CHECKING:
    from formulations.arrays import FloatArray

#: Range of accepted constants, so that powers and energies stay finite.
MIN_CONSTANT, MAX_CONSTANT = 1e-6, 1e24


@known_fields
@dataclass(frozen=True)
class EnergyModel:
    """Constants of the power curve; defaults for an A100 with a 7-billion-parameter model.

    Parameters
    ----------
    idle_power_w, max_power_w : float
        ``P_idle`` and ``P_max`` [W]; 100 and 400 in BF-IO, appendix on energy.
    saturation : float
        ``mfu_sat``, the utilisation above which power no longer rises; 0.45 in BF-IO.
    exponent : float
        ``γ``; 0.7 in BF-IO.
    parameters : float
        Number of model parameters; BF-IO gives none, 7e9 is our choice.
    peak_flops : float
        Peak floating-point operations per second; 312e12 for an A100 in bfloat16.
    """

    idle_power_w: float = option(
        100.0, NUMBER, "W", "power of an idle worker [W] (100)", name="idle_power"
    )
    max_power_w: float = option(
        400.0, NUMBER, "W", "power of a saturated worker [W] (400)", name="max_power"
    )
    saturation: float = option(
        0.45, NUMBER, "X", "utilisation above which power stays constant (0.45)", name="mfu_sat"
    )
    exponent: float = option(
        0.7, NUMBER, "X", "exponent of power over utilisation (0.7)", name="power_exponent"
    )
    parameters: float = option(
        7e9, NUMBER, "N", "model parameters, for energy (7e9)", name="params"
    )
    peak_flops: float = option(
        312e12, NUMBER, "N", "peak operations per second of a worker, for energy (312e12)"
    )

    def __post_init__(self) -> None:
        """Validate the fields."""
        for name in ("saturation", "exponent", "parameters", "peak_flops"):
            value = real(getattr(self, name), name)
            if not MIN_CONSTANT <= value <= MAX_CONSTANT:
                what = f"{value} is out of range"
                raise InputError(name, what, f"give a number in [{MIN_CONSTANT}, {MAX_CONSTANT}]")
        idle, most = (real(getattr(self, name), name) for name in ("idle_power_w", "max_power_w"))
        if not 0.0 <= idle <= most < float("inf"):
            what = f"{idle} W is not between 0 and a finite maximum power ({most} W)"
            raise InputError("idle_power_w", what, "use 0 <= idle power <= maximum power")

    def power(self, tokens_per_s: FloatArray) -> FloatArray:
        """Return the power of a worker that emits ``tokens_per_s`` tokens/s [W], elementwise."""
        mfu = tokens_per_s * (6.0 * self.parameters / self.peak_flops)
        share = mfu.clip(max=self.saturation) / self.saturation
        dynamic = (self.max_power_w - self.idle_power_w) * share**self.exponent
        return self.idle_power_w + dynamic
