"""The first batches of a run, one by one: who is in each, with which tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bfio.batching.log import BatchLog
from bfio.batching.run import BatchRun
from formulations.errors import InputError


@dataclass(frozen=True)
class WorkedBatch:
    """One batch.

    Parameters
    ----------
    engine : str
        Name of the agent; of several engines, ``NAME#0``, ``NAME#1``, ...
    slot, slots : int
        When it is loaded, and how many slots it takes.
    budget, tokens : int
        How many tokens it may have, and how many it has.
    prefill : dict
        Prompt tokens, by request.
    decode : tuple of str
        Requests with a decode token. A request is its number, from 0 in order of arrival; where a
        network has several stages, ``NUMBER@STAGE``.
    """

    engine: str
    slot: int
    slots: int
    budget: int
    tokens: int
    prefill: dict[str, int]
    decode: tuple[str, ...]

    def to_mapping(self) -> dict[str, Any]:
        """Return it as documents have it."""
        return {**vars(self), "decode": list(self.decode)}


def first_batches(run: BatchRun, count: int) -> list[WorkedBatch]:
    """Return the first batches of a run with a log, in the order in which they are loaded.

    Parameters
    ----------
    run : BatchRun
        A run with a log.
    count : int
        At most so many.

    Raises
    ------
    InputError
        If the run has no log.
    """
    if run.log is None:
        raise InputError("log", "the run has none", "simulate with keeps_log=True")
    return list(_batches(run, run.log, count))


def _batches(run: BatchRun, log: BatchLog, count: int) -> Iterator[WorkedBatch]:
    engines, names = _engines(run), _names(run, log)
    first = 0
    for engine, slot, slots, tokens, num_parts in log.batches[:count].tolist():
        parts = log.parts[first : first + num_parts].tolist()
        first += num_parts
        prompts = {names[task]: loaded for _, task, loaded, decodes in parts if not decodes}
        decode = tuple(names[task] for _, task, _, decodes in parts if decodes)
        name, budget = engines[engine]
        yield WorkedBatch(name, slot, slots, budget, tokens, prompts, decode)


def _engines(run: BatchRun) -> list[tuple[str, int]]:
    """Return name and budget of each engine."""
    found = []
    for agent in run.scenario.network.agents:
        many = agent.engines > 1
        found += [
            (f"{agent.name}#{e}" if many else agent.name, agent.budget)
            for e in range(agent.engines)
        ]
    return found


def _names(run: BatchRun, log: BatchLog) -> list[str]:
    """Return what each task is called."""
    stages = run.scenario.network.stages
    if len(stages) == 1:
        return [str(request) for request in log.tasks[:, 1].tolist()]
    return [f"{request}@{stages[k].name}" for request, k in log.tasks[:, 1:3].tolist()]
