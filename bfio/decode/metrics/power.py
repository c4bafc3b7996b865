"""Energy and power."""

from bfio.common.metrics import Column, MetricTable, Value, exact_sum
from bfio.decode.energy import EnergyReading, energy_account
from bfio.decode.metrics.part import RunPart

#: Energy and power.
POWER: MetricTable[RunPart] = MetricTable()


@POWER.metric(
    "energy_j",
    "J",
    "energy, two-phase reading (BF-IO eqs. 10-11)",
    Column("energy\n[kJ]", factor=1e-3, by_default=False),
)
def _energy(part: RunPart) -> Value:
    return None if part.energy is None else part.energy.energy_j


@POWER.metric(
    "energy_per_token_j",
    "J/token",
    "energy over tokens, two-phase reading: policies that serve less use less, but not per token",
    Column("energy\n[J/token]"),
)
def _energy_per_token(part: RunPart) -> Value:
    tokens = exact_sum(part.run.active[part.steps])
    return None if part.energy is None or tokens == 0 else part.energy.energy_j / tokens


@POWER.metric(
    "energy_averaged_j",
    "J",
    "energy, averaged reading",
    Column("averaged\n[kJ]", factor=1e-3, by_default=False),
)
def _energy_averaged(part: RunPart) -> Value:
    account = energy_account(part.run, part.energy_model, EnergyReading.AVERAGED, steps=part.steps)
    return None if account is None else account.energy_j


@POWER.metric(
    "power_mean_w",
    "W",
    "mean power of all workers over step and idle time, two-phase reading (BF-IO, fig. 7)",
    Column("power\n[W]", by_default=False),
)
def _power_mean(part: RunPart) -> Value:
    if part.energy is None or part.total_s == 0:
        return None
    return part.energy.energy_j / part.total_s


@POWER.metric(
    "power_max_w",
    "W",
    "highest power of all workers in a step, two-phase reading",
    Column("power max\n[W]", by_default=False),
)
def _power_max(part: RunPart) -> Value:
    return None if part.energy is None or len(part.steps) == 0 else part.energy.peak_power_w
