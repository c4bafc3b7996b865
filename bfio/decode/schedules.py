"""Schedules of events, in CSV files or drawn: what fails or is slow when, who gives up when."""

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bfio.common.options import NUMBER, OptionKind, read_texts, split_options
from formulations.errors import InputError

#: A schedule drawn with the seed of the run, with its options behind it.
RANDOM = "random"
#: Most events that are drawn.
MOST_EVENTS = 2_000_000
#: Time for which events are drawn, unless ``until`` says otherwise [s].
DEFAULT_UNTIL_S = 1e6

Row = TypeVar("Row")


def read_schedule(
    name: str,
    option: str,
    columns: tuple[str, ...],
    row_of: Callable[[Mapping[str, str]], Row],
    *,
    form: str,
    example: str,
) -> list[Row]:
    """Read the rows of a schedule.

    Parameters
    ----------
    name : str
        File.
    option : str
        Option that names it.
    columns : tuple of str
        Its heading.
    row_of : callable
        Turns a line into what it says; a line it raises ``ValueError`` at is refused.
    form, example : str
        What to write where there is no such file, and a line of one.

    Raises
    ------
    InputError
        If the file or a line cannot be read.
    """
    try:
        with Path(name).open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise InputError(option, f"cannot read {name!r}: {reason}", form) from None
    found: list[Row] = []
    for number, line in enumerate(lines, 2):
        try:
            found.append(row_of(line))
        except (KeyError, ValueError, TypeError, AttributeError):
            what = f"no {', '.join(columns)} that can be read"
            remedy = f"write e.g. {example} below that heading"
            raise InputError(f"{name}, line {number}", what, remedy) from None
    return found


@dataclass(frozen=True)
class DrawnTurns:
    """Workers that change between two states.

    Parameters
    ----------
    turns : list of (float, int, int)
        In order of time: when [s], which worker, 1 if it is well from then on.
    values : mapping
        What was written behind ``random``.
    """

    turns: list[tuple[float, int, int]]
    values: Mapping[str, Any]


def drawn_turns(
    text: str,
    option: str,
    num_workers: int,
    rng: np.random.Generator,
    *,
    form: str,
    more: Mapping[str, tuple[OptionKind, float]] | None = None,
) -> DrawnTurns:
    """Draw times well and not, exponential with means ``mtbf`` and ``mttr``, worker by worker.

    Parameters
    ----------
    text : str
        ``random:mtbf=SECONDS:mttr=SECONDS``, also ``until=SECONDS``.
    option : str
        Option that it was written for.
    num_workers : int
        ``G``.
    rng : numpy.random.Generator
        The only source of randomness.
    form : str
        What to write instead of what cannot be read.
    more : mapping, optional
        Further numbers behind the name, and their defaults.

    Raises
    ------
    InputError
        If a number is missing or not above 0, or there would be too many events.
    """
    further = more or {}
    _, texts = split_options(text, (RANDOM,))
    kinds = {"mtbf": NUMBER, "mttr": NUMBER, "until": NUMBER}
    kinds |= {name: kind for name, (kind, _) in further.items()}
    defaults = {name: default for name, (_, default) in further.items()}
    values = {"until": DEFAULT_UNTIL_S, **defaults, **read_texts(kinds, texts, option)}
    for name in kinds:
        if not 0 < values.get(name, 0.0) < math.inf:
            raise InputError(option, f"{text!r} has no {name} > 0", form)
    mean, until = values["mtbf"] + values["mttr"], values["until"]
    if 2 * num_workers * until / mean > MOST_EVENTS:
        what = f"more than {MOST_EVENTS} events in {until:g} s"
        raise InputError(option, what, f"write e.g. until={mean * 1000:.0f}")
    turns: list[tuple[float, int, int]] = []
    for worker in range(num_workers):
        now, is_well = 0.0, 1
        while True:
            now += float(rng.exponential(values["mtbf" if is_well else "mttr"]))
            if now > until:
                break
            is_well = 1 - is_well
            turns.append((now, worker, is_well))
    turns.sort()
    return DrawnTurns(turns, values)


def check_covers(option: str, until_s: float, end_s: float) -> None:
    """Refuse a run that lasts longer than a schedule was drawn for.

    Raises
    ------
    InputError
        If it does.
    """
    if end_s > until_s:
        raise InputError(
            option,
            f"drawn for {until_s:g} s, and the run lasts {end_s:g} s",
            f"write e.g. until={2 * end_s:.0f}",
        )
