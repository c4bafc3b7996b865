"""Measure the units of a case and keep every outcome as a row."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.case import Case, Row, Settings, Unit
from benchmarks.environment import environment
from benchmarks.store import RowStore


@dataclass
class Tally:
    """What a run did: rows measured, rows found already there, rows that failed."""

    measured: int = 0
    skipped: int = 0
    failed: int = 0


def session_name() -> str:
    """Return a name for this run; only rows of one run are compared as ratios."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"


def selected_units(case: Case, settings: Settings, only: Sequence[str]) -> list[Unit]:
    """Return the units whose ``instance method`` holds every one of the given texts."""
    units = case.units(settings)
    return [u for u in units if all(text in f"{u.instance} {u.method}" for text in only)]


def run_units(
    case: Case,
    units: Sequence[Unit],
    store: RowStore,
    session: str,
    on_done: Callable[[], object],
) -> Tally:
    """Measure every unit that has no row yet, in order."""
    tally = Tally()
    for unit in units:
        row = _empty_row(case, unit, session)
        if store.has(row):
            tally.skipped += 1
        else:
            _fill(row, case, unit, store, first=tally.measured == 0)
            store.append(row)
            tally.measured += 1
            tally.failed += row["status"] != "ok"
        on_done()
    return tally


def _empty_row(case: Case, unit: Unit, session: str) -> Row:
    return {
        "case": case.name,
        "instance": unit.instance,
        "method": unit.method,
        "parameters": dict(unit.parameters),
        "run": session,
        "environment": environment(),
    }


def _fill(row: Row, case: Case, unit: Unit, store: RowStore, *, first: bool) -> None:
    """Measure; whatever goes wrong is in the row, for a failure that leaves no row is hidden."""
    row["at"] = datetime.now(UTC).isoformat(timespec="seconds")
    row["load_average"] = round(os.getloadavg()[0], 2)
    try:
        if first:
            case.warm_up()
        row["measured"] = dict(unit.measure())
        row["problems"] = case.judge(row, store.of_instance(case.name, unit.instance))
    # A benchmark of many methods must outlive the failure of one, whatever its type.
    except Exception as error:
        row["measured"] = None
        row["problems"] = [f"{type(error).__name__}: {error}"]
    row["status"] = "failed" if row["problems"] else "ok"
