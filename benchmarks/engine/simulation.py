"""Describe one simulation to measure, and run it in a fresh process."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from inspect import signature
from typing import Any

from benchmarks.case import ROOT
from bfio.decode import simulation

#: The keyword through which the engine lets one choose its implementation.
ENGINE_KEYWORD = "engine"


@dataclass(frozen=True)
class SimulationSpec:
    """One simulation, as the child process reads it.

    Parameters
    ----------
    workers, slots, pool : int
        ``G``, ``B``, ``R``.
    requests, output_mean, seed : int
        The synthetic workload: lognormal prompts, geometric outputs.
    policy : str
        Policy name.
    engine : str
        ``auto``, ``compiled`` or ``reference``.
    repeats : int
        Whole runs; all their times are kept.
    steady : bool
        Also time the steady part: two more runs per repeat, cut where it starts and ends.
    keep_trajectory : bool
        Whether the run keeps loads of every step and worker.
    """

    workers: int
    slots: int
    pool: int
    requests: int
    output_mean: int
    seed: int
    policy: str
    engine: str = "auto"
    repeats: int = 1
    steady: bool = False
    keep_trajectory: bool = False

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document for the child and the row."""
        return asdict(self)


def engines() -> tuple[str, ...]:
    """Return the implementations to compare: one where the engine offers no choice."""
    offers = ENGINE_KEYWORD in signature(simulation.simulate).parameters
    return ("auto", "reference") if offers else ("auto",)


def measure_in_child(spec: SimulationSpec) -> dict[str, Any]:
    """Run the simulation in a fresh process, so that no earlier one leaves memory or caches.

    Raises
    ------
    RuntimeError
        If the child fails, with the last line it wrote.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine.child"],
        input=json.dumps(spec.to_mapping()),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(f"child process: {lines[-1]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured
