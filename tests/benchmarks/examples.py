"""Rows and instances that several tests of the benchmarks share."""

from pathlib import Path

from benchmarks.case import Row
from benchmarks.step_solvers.instances import read_instances
from formulations.step.problem import StepProblem

#: Two cold starts and two warm steps of 3 workers with 4 slots, R = 8, H = 2.
STORED = Path(__file__).parent / "data" / "steps_3x4-r8_h2.jsonl.gz"


def stored_problems() -> list[StepProblem]:
    """Return the stored step problems."""
    return [instance.problem for instance in read_instances(STORED)]


def step_row(**changes: object) -> Row:
    """Return a row of a step case; keys of its ``measured`` part may be changed by name."""
    measured: Row = {
        "problem": "p", "finished": True, "claims_optimum": True, "proven": True,
        "objective": 10, "bound": 10, "violations": {}, "solve_s": 1.0, "counted_s": 1.0,
        "phases": {"build": 0.5, "bound": None, "search": 1.0}, "certificate": None,
        "closed_by": "bound",
    }  # fmt: skip
    row: Row = {
        "case": "steps-8x24-r64",
        "instance": "i",
        "method": "exact",
        "parameters": {
            "workload": "w", "output_mean": 6, "projection": "constant", "horizon": 0,
            "kind": "warm", "time_limit": 30.0,
        },
        "run": "r",
        "environment": {"sources": "s", "versions": {"python": "3"}},
        "status": "ok",
        "problems": [],
    }  # fmt: skip
    row |= {key: value for key, value in changes.items() if key in row}
    measured |= {key: value for key, value in changes.items() if key not in row}
    return row | {"measured": measured}
