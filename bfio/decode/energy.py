"""Energy of a run (BF-IO, eqs. 10-11 and 55-58), under two readings of the paper.

The power of a worker is ``P(mfu) = P_idle + (P_max - P_idle)·(min(mfu, mfu_sat)/mfu_sat)^γ`` with
``mfu = tokens/s · 6·parameters / peak_flops``. Eq. 58 leaves open which token rate holds inside a
step, and its text lets a worker that finishes early idle until the barrier. There are two
readings:

* **two-phase** (default): worker g with ``n_g`` active requests is busy for
  ``t_g = C + t_l·L_g + t_m·mean load``, at ``n_g/t_g`` tokens/s; then it idles at ``P_idle`` until
  the step ends;
* **averaged**: worker g runs at ``n_g/Δt`` tokens/s for the whole step ``Δt``.

While nothing runs at all (timed arrivals), every worker draws ``P_idle``. A worker without active
requests has mfu 0 and draws ``P_idle``, in both readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.features.stragglers import Stragglers, stragglers_of
from bfio.decode.observers import StepView
from bfio.decode.options import NO_EVENTS
from formulations.arrays import integer
from formulations.errors import InputError, check_kind, kind_of
from formulations.problem_data import member

if TYPE_CHECKING:
    from bfio.decode.run import Run
    from formulations.arrays import FloatArray, IntArray


#: Entries (step, worker) of a trajectory that are computed at once: few enough for the processor's
#: cache.
_BLOCK_CELLS = 1 << 14


class EnergyReading(StrEnum):
    """The token rate that sets the power inside a step: two-phase or averaged."""

    TWO_PHASE = "two-phase"
    AVERAGED = "averaged"


@dataclass(frozen=True)
class EnergyAccount:
    """Energy and worker-time of some steps; busy and idle time sum to G times the total time.

    Parameters
    ----------
    energy_j : float
        Energy of all workers [J].
    busy_s, idle_s : float
        Worker-seconds busy and idle, summed over the workers [s].
    peak_power_w : float
        Highest mean power of all workers over a step [W]; 0 if no step takes time.
    """

    energy_j: float
    busy_s: float
    idle_s: float
    peak_power_w: float = 0.0


def busy_times(
    loads: IntArray, durations: FloatArray, cluster: Cluster, factors: FloatArray | None = None
) -> FloatArray:
    """Return how long each worker is busy in each step, shape (K, G) [s].

    The most loaded worker is busy for the whole step. ``factors``, shape (K, G), are the slowdown
    factors of workers (`bfio.decode.features.stragglers`).
    """
    overhead_s, token_time_s = cluster.worker_times()
    if factors is not None:
        overhead_s, token_time_s = factors * overhead_s, factors * token_time_s
    shared = overhead_s + cluster.mean_time_s * loads.mean(axis=1, keepdims=True)
    # The barrier bounds the busy time; minimum() only removes the last bit of rounding.
    busy: FloatArray = np.minimum(shared + token_time_s * loads, durations[:, None])
    return busy


def step_energies(
    loads: IntArray,
    running: IntArray,
    durations: FloatArray,
    cluster: Cluster,
    model: EnergyModel,
    reading: EnergyReading = EnergyReading.TWO_PHASE,
    factors: FloatArray | None = None,
) -> FloatArray:
    """Return the energy of each worker in each step, shape (K, G) [J].

    Inputs are loads [tokens] and active requests, shape (K, G); ``factors`` as in `busy_times`.
    """
    return _energies(loads, running, durations, cluster, model, reading, factors)[0]


def _energies(
    loads: IntArray,
    running: IntArray,
    durations: FloatArray,
    cluster: Cluster,
    model: EnergyModel,
    reading: EnergyReading,
    factors: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Return energy and busy time of each worker in each step; see `step_energies`."""
    busy = whole = np.broadcast_to(durations[:, None], loads.shape)
    if reading == EnergyReading.TWO_PHASE:
        busy = busy_times(loads, durations, cluster, factors)
    # A busy time of 0 s happens only without active requests, where the rate is 0.
    rate = np.divide(running, busy, out=np.zeros(loads.shape), where=running > 0)
    return model.power(rate) * busy + model.idle_power_w * (whole - busy), busy


def energy_account(
    run: Run,
    model: EnergyModel,
    reading: EnergyReading = EnergyReading.TWO_PHASE,
    steps: IntArray | None = None,
) -> EnergyAccount | None:
    """Return energy and worker-time of a run; None without trajectory or with token budgets.

    The equations count decode tokens only, so they do not apply to token budgets.

    Parameters
    ----------
    run : Run
        The run.
    model, reading
        The power curve and its reading.
    steps : IntArray, optional
        Indices of the steps to count, by default all; the idle time before each step is included.
    """
    if not has_energy(run):
        return None
    chosen: IntArray | slice = slice(None) if steps is None else steps
    G = run.cluster.workers
    durations = run.duration_s[chosen]
    empty_s, whole_s = G * float(run.idle_before_s[chosen].sum()), G * float(durations.sum())
    energies, busy = (values[chosen] for values in _of_steps(run, model, reading))
    lasting = durations > 0
    powers = energies[lasting] / durations[lasting]
    busy_s = whole_s if reading == EnergyReading.AVERAGED else float(busy.sum())
    return EnergyAccount(
        energy_j=model.idle_power_w * empty_s + float(energies.sum()),
        busy_s=busy_s,
        idle_s=whole_s - busy_s + empty_s,
        peak_power_w=float(powers.max(initial=0.0)),
    )


def has_energy(run: Run) -> bool:
    """Return whether a run kept its trajectory and has no token budgets."""
    # The class `Run` cannot be imported here, because its module imports this one.
    if not hasattr(run, "step_energies"):
        raise InputError("run", f"{kind_of(run)} is not a Run", "give the result of simulate")
    return run.loads is not None and run.running is not None and run.chunks is None


def _of_steps(run: Run, model: EnergyModel, reading: EnergyReading) -> FloatArray:
    """Return energy [J] and busy time [s] of all workers together in each step, shape (2, K).

    Every part of a run and several metrics need them, so the run keeps them.
    """
    assert run.loads is not None
    assert run.running is not None
    check_kind(model, EnergyModel, "model", "EnergyModel(...)")
    reading = member(EnergyReading, reading, "reading")
    if (model, reading) in run.step_energies:
        return run.step_energies[model, reading]
    workers, slow, schedule = run.cluster.workers, None, None
    if run.options.stragglers != NO_EVENTS:
        schedule = stragglers_of(run.options.stragglers, workers, run.options.seed)
    totals = run.step_energies[model, reading] = np.empty((2, run.steps))
    block = 1 + _BLOCK_CELLS // workers
    for first in range(0, run.steps, block):
        at = slice(first, first + block)
        if schedule is not None:
            slow = schedule.factors(run.start_s[at], workers)
        seen = run.loads[at], run.running[at], run.duration_s[at]
        for total, cells in zip(
            totals, _energies(*seen, run.cluster, model, reading, slow), strict=True
        ):
            cells.sum(axis=1, out=total[at])
    return totals


@dataclass(eq=False)
class EnergyObserver:
    """Observer that sums the energy step by step, for runs too long to keep their trajectory.

    Parameters
    ----------
    cluster, model, reading
        As in `step_energies`. Idle time between steps is not counted, because observers do not see
        it.
    stragglers : Stragglers, optional
        The stragglers of the run, if any.

    Raises
    ------
    InputError
        If workers have token budgets.
    """

    cluster: Cluster
    model: EnergyModel
    reading: EnergyReading = EnergyReading.TWO_PHASE
    stragglers: Stragglers | None = None

    def __post_init__(self) -> None:
        """Validate the fields."""
        if self.cluster.token_budget is not None:
            what = "the energy equations count decode tokens only"
            raise InputError("token_budget", what, "observe runs without token budgets")
        self.energy_j = 0.0

    def on_step(self, view: StepView) -> None:
        """Add the energy of one step."""
        slow = None
        if self.stragglers is not None:
            slow = self.stragglers.factors(np.array([view.start_s]), self.cluster.workers)
        seen = view.loads[None], view.running[None], np.array([view.duration_s])
        energies = step_energies(*seen, self.cluster, self.model, self.reading, slow)
        self.energy_j += float(energies.sum())


#: Default number of time intervals of a power curve.
DEFAULT_PARTS = 300


@dataclass(frozen=True)
class PowerOverTime:
    """Mean power of all workers together in equal intervals of a run's time.

    Parameters
    ----------
    edges_s : FloatArray
        Shape (N + 1,): bounds of the intervals [s].
    power_w : FloatArray
        Shape (N,): mean power in each interval [W]; 0 in a run that takes no time.
    """

    edges_s: FloatArray
    power_w: FloatArray

    @property
    def energy_j(self) -> float:
        """Energy of the run: the power integrated over time [J]."""
        return float(np.diff(self.edges_s) @ self.power_w)


def power_over_time(
    run: Run,
    model: EnergyModel,
    reading: EnergyReading = EnergyReading.TWO_PHASE,
    parts: int = DEFAULT_PARTS,
) -> PowerOverTime | None:
    """Return the power of a run over time; None if the run kept no trajectory.

    Parameters
    ----------
    run : Run
        The run.
    model, reading
        The power curve and its reading.
    parts : int
        ``N``, number of intervals, >= 1.
    """
    integer(parts, "parts", minimum=1)
    if not has_energy(run):
        return None
    energies, _ = _of_steps(run, model, reading)
    idle_power_w = run.cluster.workers * model.idle_power_w
    # Durations of idle time and step, alternating.
    lengths = np.column_stack((run.idle_before_s, run.duration_s)).ravel()
    spent = np.column_stack((idle_power_w * run.idle_before_s, energies)).ravel()
    times = np.concatenate(([0.0], np.cumsum(lengths)))
    edges = np.linspace(0.0, times[-1], parts + 1)
    until = np.interp(edges, times, np.concatenate(([0.0], np.cumsum(spent))))
    widths = np.diff(edges)
    power = np.divide(np.diff(until), widths, out=np.zeros(parts), where=widths > 0)
    origin = float(run.start_s[0] - run.idle_before_s[0]) if run.steps else 0.0
    return PowerOverTime(origin + edges, power)
