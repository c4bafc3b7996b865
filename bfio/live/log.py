"""The log of a router: its decisions, the states they are based on, and the end of each request.

A log is a folder with two files. ``requests.csv`` has one line per ended request, with the columns
of this project's traces, so every command can read it as a trace. ``decisions.jsonl`` has a first
line about the router, then one line per step, decision and event. These lines hold loads and
lengths, but no prompt texts.
"""

from __future__ import annotations

import csv
import json
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.calibration.measurements import MeasuredSteps
from bfio.decode.cluster import MIN_TIME_S
from bfio.decode.observers import StepView
from bfio.decode.state import DecodeState
from formulations.arrays import frozen
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bfio.live.decisions import Decisions, Taken
    from bfio.live.router import Ticket
    from formulations.arrays import IntArray

#: Names of the files of a log.
DECISIONS, REQUESTS = "decisions.jsonl", "requests.csv"
_COLUMNS = (
    "arrival_time_s", "prompt_tokens", "output_tokens", "prompt_key",
    "number", "worker", "sent_s", "first_token_s", "end_s", "end",
)  # fmt: skip
#: Fields of a policy's state that are logged with each decision.
_FIELDS = (
    "loads", "projected_loads", "free_slots", "running", "projected_running", "queued",
    "queued_tokens", "sizes", "ages", "contributions", "bound_loads", "token_time",
    "overhead_tokens",
)  # fmt: skip
_REMEDY = "name the folder of bfio route --log"
#: Work limit of each solve for the regret on the router's page [ticks].
_TICKS = 100_000


class RunLog:
    """Writer of the log of a router.

    Parameters
    ----------
    folder : Path
        Folder of the log; it must not contain a log yet.
    about : dict
        First line of ``decisions.jsonl``: policy, options and workers.

    Raises
    ------
    InputError
        If the folder cannot be written, or contains a log.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        from bfio.gap import GapObserver
        from bfio.step.exact.prepare import prepare

        # Compile here, because later the requests of a running service would wait for it.
        prepare()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._decisions = (folder / DECISIONS).open("x", encoding="utf-8", buffering=2**20)
            self._requests = (folder / REQUESTS).open("x", encoding="utf-8", newline="")
        except FileExistsError:
            raise InputError(str(folder), "contains a log already", "use another folder") from None
        except OSError as error:
            what = f"cannot be written: {error}"
            raise InputError(str(folder), what, "name another folder") from None
        self._rows = csv.writer(self._requests)
        self._rows.writerow(_COLUMNS)
        self._began = time.monotonic()
        self._observer = GapObserver(work_limit=_TICKS)
        self._sampled: tuple[int, Taken] | None = None
        self._lost, self._best = 0, 0
        self.event("start", **about)

    def event(self, name: str, *, at: float | None = None, **told: Any) -> None:
        """Write one line about an event now, or at a time ``at`` of `time.monotonic` [s]."""
        at = time.monotonic() if at is None else at
        line = {"event": name, "t": round(at - self._began, 6)} | told
        self._decisions.write(json.dumps(line, separators=(",", ":"), default=str) + "\n")

    def step(self, at: float, table: Decisions, late: int | None) -> None:
        """Write the loads after a decision.

        ``late`` is the number of requests that were sent too late for the step of the workers that
        has just ended, or None if no step has ended.
        """
        self.event("step", at=at, late=late, loads=table.loads().tolist())

    def flush(self) -> None:
        """Write the buffered lines, and add the last decision to the regret.

        The regret needs a solve. It is postponed until this call, so that the requests that the
        decision admits do not wait for the solve.
        """
        self._decisions.flush()
        self._requests.flush()
        if self._sampled is not None:
            step, taken = self._sampled
            self._sampled = None
            self._observer.on_step(_view(step, taken.state, taken.answer))
            row = self._observer.rows.pop()
            self._lost += row.regret_at_most or 0
            self._best += row.objective

    def decision(self, taken: Taken, numbers: list[int], step: int) -> None:
        """Write a decision; ``numbers`` are the numbers of its waiting requests."""
        state = {name: getattr(taken.state, name) for name in _FIELDS}
        self.event(
            "decision",
            step=step,
            slots=taken.state.slots,
            binds=taken.state.binds,
            requests=numbers,
            **{name: value.tolist() for name, value in state.items() if value is not None},
            decision=taken.answer,
            prepare_s=round(taken.prepare_s, 9),
            policy_s=round(taken.policy_s, 9),
        )
        if not taken.state.binds:
            self._sampled = step, taken

    def regret(self) -> float | None:
        """Return the largest share of the objective that sampled decisions may lose, or None."""
        return self._lost / self._best if self._best else None

    def request(self, ticket: Ticket, began: float) -> None:
        """Write the line of a request that has ended."""
        times = (ticket.sent_s, ticket.first_s, time.monotonic())
        cells = ["" if at is None else f"{at - began:.6f}" for at in times]
        arrival = f"{ticket.came - began:.6f}"
        head = (arrival, ticket.prompt, ticket.tokens, ticket.key, ticket.number, ticket.worker)
        self._rows.writerow((*head, *cells, ticket.end))

    def close(self) -> None:
        """Write all buffered lines, and close the files."""
        self._decisions.close()
        self._requests.close()


def about(folder: Path) -> dict[str, Any]:
    """Return the first line of a log: policy, options and workers.

    Raises
    ------
    InputError
        If the folder has no log.
    """
    for _, told in _lines(folder):
        if told.get("event") == "start" and isinstance(told.get("policy"), str):
            return told
        break
    raise InputError(str(folder), "contains no log of a router", _REMEDY)


def read_steps(folder: Path) -> tuple[MeasuredSteps, IntArray]:
    """Return the steps of a log with known start time, and the loads of all steps.

    A step ends when every running request has reported a token. The step starts at the end of the
    previous step. If the router has decided in between, or no request ran, the start is unknown.

    Returns
    -------
    MeasuredSteps
        Durations [s], and loads after admission and before growth [tokens].
    IntArray
        Shape (K, G): the loads of every step [tokens].

    Raises
    ------
    InputError
        If the log cannot be read, or has no step with known start time.
    """
    loads, timed, durations = [], [], []
    last: dict[str, Any] | None = None
    for where, told in _lines(folder):
        if told["event"] != "step":
            continue
        with _damage(where):
            goes_back = last is not None and told["t"] < last["t"]
            if told["late"] is not None and last is not None:
                loads.append(last["loads"])
                if last["late"] is not None:
                    timed.append(last["loads"])
                    durations.append(told["t"] - last["t"])
        if goes_back:
            what = "is a step that ends before the one above it"
            raise InputError(where, what, "log the run again, with --tick longer than a step")
        last = told
    if not timed:
        what = "has no step at whose start and end every running request reported a token"
        remedy = "log workers in lockstep, with --tick longer than a step"
        raise InputError(str(folder), what, remedy)
    seconds = np.maximum(np.array(durations, dtype=np.float64), MIN_TIME_S)
    steps = MeasuredSteps.from_loads(seconds, np.array(timed, dtype=np.float64))
    return steps, np.array(loads, dtype=np.int64)


def read_decisions(folder: Path) -> Iterator[StepView]:
    """Yield the decisions of a log in the form that an observer of a run gets.

    Raises
    ------
    InputError
        If the log cannot be read, or a line is damaged. An incomplete last line is skipped.
    """
    for where, told in _lines(folder):
        if told["event"] == "decision":
            yield _decision(where, told)


def _lines(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of a log with their places."""
    path = folder / DECISIONS
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return
                where = f"{path}, line {number}"
                with _damage(where):
                    told = json.loads(line)
                    _ = told["event"]
                yield where, told
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "is not text"
        raise InputError(str(path), f"{what}", _REMEDY) from None


@contextmanager
def _damage(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        what = f"is not a line of a log ({type(error).__name__}: {error})"
        raise InputError(where, what, "remove the line") from None


def _decision(where: str, told: dict[str, Any]) -> StepView:
    with _damage(where):
        arrays: dict[str, Any] = {
            name: frozen(np.array(told[name], dtype=np.int64)) for name in _FIELDS if name in told
        }
        state = DecodeState(
            step=told["step"],
            slots=told["slots"],
            binds=told["binds"],
            rng=np.random.default_rng(0),
            **arrays,
        )
        return _view(told["step"], state, tuple(told["decision"]))


def _view(step: int, state: DecodeState, decision: tuple[int | None, ...]) -> StepView:
    none = np.zeros(0, dtype=np.int64)
    return StepView(
        step=step,
        start_s=0.0,
        duration_s=0.0,
        loads=state.loads,
        running=state.running,
        waiting=state.num_waiting,
        admitted=none,
        finished=none,
        completed=0,
        state=state,
        decision=decision,
    )
