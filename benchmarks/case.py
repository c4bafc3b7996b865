"""What a benchmark is: a named case made of units, each measured into one row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from formulations.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One line of ``rows.jsonl``.
Row: TypeAlias = dict[str, Any]

#: The folder that holds ``formulations``, ``bfio`` and ``benchmarks``.
ROOT = Path(__file__).resolve().parents[1]
#: Real trace cuts, where they are at hand.
DEFAULT_DATA = ROOT.parent / "shared" / "data"
DEFAULT_TIME_LIMIT_S = 30.0
DEFAULT_INSTANCES = 20


@dataclass(frozen=True)
class Settings:
    """What the command line chooses for all cases.

    Parameters
    ----------
    out : Path
        Folder of rows, instances and reports.
    smoke : bool
        The smallest size of each case, for tests.
    instances : int
        Warm instances per group of a step case.
    time_limit : float
        Limit of one solve [s].
    seed : int
        First seed.
    methods : tuple of str
        Methods to measure; empty for the defaults of each case.
    data : Path
        Folder of trace files.
    """

    out: Path
    smoke: bool = False
    instances: int = DEFAULT_INSTANCES
    time_limit: float = DEFAULT_TIME_LIMIT_S
    seed: int = 0
    methods: tuple[str, ...] = ()
    data: Path = DEFAULT_DATA


@dataclass(frozen=True)
class Unit:
    """One measurement.

    Parameters
    ----------
    instance, method : str
        What is measured, and with what; with the case they name the unit.
    parameters : mapping
        Everything else its result depends on (sizes, seeds, limits); part of the key of its row.
    measure : callable
        Does it, and returns the ``measured`` part of the row.
    """

    instance: str
    method: str
    parameters: Mapping[str, Any]
    measure: Callable[[], Mapping[str, Any]]


def _no_problems(row: Row, others: Sequence[Row]) -> list[str]:
    del row, others
    return []


@dataclass(frozen=True)
class Case:
    """A named benchmark.

    Parameters
    ----------
    name, summary : str
        What ``list`` prints.
    units : callable
        Lists the units in the order they run; cheap, nothing is measured or generated.
    warm_up : callable
        Loads what the units share (solvers, kernels), so that no row pays for it.
    tables : callable
        Rows of this case to Markdown.
    figure : callable
        Rows of this case to a figure; None if there is nothing to draw.
    judge : callable
        A row and the earlier rows of its instance to what is wrong with it.
    """

    name: str
    summary: str
    units: Callable[[Settings], list[Unit]]
    warm_up: Callable[[], None]
    tables: Callable[[Sequence[Row]], str]
    figure: "Callable[[Sequence[Row]], Figure | None]"
    judge: Callable[[Row, Sequence[Row]], list[str]] = _no_problems


def chosen_methods(
    settings: Settings, known: Sequence[str], defaults: Sequence[str]
) -> tuple[str, ...]:
    """Return the methods of a case that the settings ask for.

    Raises
    ------
    InputError
        If one of them is unknown to the case.
    """
    for method in settings.methods:
        if method not in known:
            raise InputError("--methods", f"{method!r} is unknown", f"use {', '.join(known)}")
    return settings.methods or tuple(defaults)
