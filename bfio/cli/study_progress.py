"""Progress of a study on stderr: a bar with counts; without a terminal, a line now and then."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import TextColumn

from bfio.cli.output import progress_display
from bfio.studies.results import SEED_CHANGES_NOTHING

if TYPE_CHECKING:
    from typing import Self

    from bfio.studies.results import Results
    from bfio.studies.row import Row

#: Seconds between two lines where there is no terminal.
_LINE_SECONDS = 30.0


class StudyProgress:
    """Shows how a study goes.

    Parameters
    ----------
    stopping : callable
        Whether the user has asked to stop.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping = stopping
        self._console = Console(stderr=True)
        self._counts: Counter[str] = Counter()
        self._total = self._done = 0
        self._has_said = False
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._stack = ExitStack()
        counts = TextColumn("{task.fields[counts]}", markup=False)
        self._bar = progress_display(self._console, counts)

    def __enter__(self) -> "Self":
        self._stack.enter_context(self._bar)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def stops(self) -> bool:
        """Whether the user has asked to stop; says so the first time it is the case."""
        if self._stopping() and not self._has_said:
            self._has_said = True
            self.say("rows in flight have a second to end; all others can be computed later")
        return self._stopping()

    def start(self, results: "Results") -> None:
        """Show what there is already."""
        self._total, self._done = len(results.tasks), len(results.rows)
        self._task = self._bar.add_task(
            results.study.name, total=results.missing, counts=f"{self._done} there already"
        )
        for row in results.rows.values():
            self._count(row)
        if results.repeated:
            self.say(
                f"note: {results.repeated} of {self._total} rows repeat another one but for the "
                f"seed; {SEED_CHANGES_NOTHING}"
            )
        self._say(f"{results.study.name}: {self._done} of {self._total} rows there already")

    def add(self, row: "Row") -> None:
        """Count one more row."""
        self._count(row)
        self._done += 1
        self._bar.update(self._task, advance=1, counts=self._words())
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self._say(f"{self._done}/{self._total} rows; {self._words()}")

    def _count(self, row: "Row") -> None:
        self._counts["without result"] += not row.is_done
        self._counts["unproven"] += row.unproven > 0

    def _words(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self._counts.items())

    def say(self, line: str) -> None:
        """Print a line above the bar, or where there is none."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _say(self, line: str) -> None:
        if not self._console.is_terminal:
            self.say(line)
