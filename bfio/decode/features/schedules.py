"""Schedules of events, in CSV files or drawn: what fails or is slow when, who gives up when."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from bfio.common.options import NUMBER, OptionKind, read_texts, split_options
from bfio.decode.options import NO_EVENTS, RANDOM, is_drawn
from formulations.errors import InputError

#: Most events that are drawn.
MOST_EVENTS = 2_000_000
#: Time for which events are drawn, unless ``until`` says otherwise [s].
DEFAULT_UNTIL_S = 1e6

Row = TypeVar("Row", bound=tuple[Any, ...])
Schedule = TypeVar("Schedule")


@dataclass(frozen=True)
class ScheduleOption(Generic[Row]):
    """An option of a run that stands for a schedule.

    Parameters
    ----------
    name : str
        How the option is called.
    columns : tuple of str
        Heading of a file of events.
    row_of : callable
        Turns a line into an event; a line it raises ``ValueError`` at is refused.
    form, example : str
        What to write where there is no such file, and a line of one.
    """

    name: str
    columns: tuple[str, ...]
    row_of: Callable[[Mapping[str, str]], Row]
    form: str
    example: str

    def read(
        self,
        given: str | Iterable[Row],
        draw: Callable[[str], Schedule],
        check: Callable[[list[Row], str], Schedule],
    ) -> Schedule:
        """Return the schedule that was given.

        Parameters
        ----------
        given : str or iterable of tuple
            ``none``, ``random:...``, the name of a CSV file, or events.
        draw : callable
            From what begins with ``random`` to the schedule.
        check : callable
            From events, and where they stand, to the schedule.

        Raises
        ------
        InputError
            If a file or a line of it cannot be read, and what the two raise.
        """
        if not isinstance(given, str):
            return check(list(given), self.name)
        if given == NO_EVENTS:
            return check([], self.name)
        if is_drawn(given):
            return draw(given)
        return check(self._file(given), given)

    def _file(self, name: str) -> list[Row]:
        try:
            # Spreadsheets put a byte order mark before the heading.
            with Path(name).open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                lines, heading = list(reader), reader.fieldnames or ()
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or "no text"
            raise InputError(self.name, f"cannot read {name!r}: {reason}", self.form) from None
        if not set(self.columns) <= set(heading):
            columns = ",".join(self.columns)
            remedy = f"write {columns} there, and e.g. {self.example} below it"
            raise InputError(f"{name}, line 1", f"no heading {columns}", remedy)
        found: list[Row] = []
        for number, line in enumerate(lines, 2):
            try:
                found.append(self.row_of(line))
            except (KeyError, ValueError, TypeError, AttributeError):
                what = f"no {', '.join(self.columns)} that can be read"
                remedy = f"write e.g. {self.example} below that heading"
                raise InputError(f"{name}, line {number}", what, remedy) from None
        return found


def in_order(rows: Iterable[Row], where: str, whose: str, count: int) -> Iterator[tuple[str, Row]]:
    """Go through events, each with its place.

    Parameters
    ----------
    rows : iterable of tuple
        Time [s], and whom it happens to; more beside.
    where : str
        Where they stand.
    whose : str
        What it happens to: ``worker`` or ``request``.
    count : int
        How many of these there are.

    Raises
    ------
    InputError
        If they are not in order of time, or happen to what there is not.
    """
    before = 0.0
    for k, row in enumerate(rows):
        place, (time, index) = f"{where}, event {k}", row[:2]
        if not 0 <= time < math.inf:
            raise InputError(place, f"at {time} s", "give a finite time >= 0")
        if time < before:
            raise InputError(place, f"at {time} s after {before} s", "sort events by time")
        if not 0 <= index < count:
            raise InputError(place, f"{whose} {index} of {count}", "count from 0")
        before = time
        yield place, row


def drawn_turns(
    text: str,
    option: str,
    num_workers: int,
    rng: np.random.Generator,
    *,
    form: str,
    more: Mapping[str, tuple[OptionKind, float]] | None = None,
) -> tuple[list[tuple[float, int, int]], Mapping[str, Any]]:
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

    Returns
    -------
    list of (float, int, int)
        In order of time: when [s], which worker, 1 if it is well from then on.
    mapping
        What was written behind ``random``.

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
    return turns, values
