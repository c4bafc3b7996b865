"""Metric of study 34: energy per token over a part of a run."""

from bfio.decode.run import RunPart


def energy_per_token(part: RunPart) -> float | None:
    """Return the energy of all workers divided by their emitted tokens."""
    tokens = int(part.run.active[part.steps].sum())
    return None if part.energy is None or tokens == 0 else part.energy.energy_j / tokens


energy_per_token.unit = "J"  # type: ignore[attr-defined]
