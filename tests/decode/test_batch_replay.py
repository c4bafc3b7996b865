"""The checker of batches detects every kind of tampering, and tests detect mutants of it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.features import batching as batches
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from tests.decode.cases import EXACT, workload
from tests.decode.test_batching import SMALL, THREE
from tests.decode.test_replay import shifted
from tests.mutants import Mutant, mutants

Tampering = Callable[[Run], Run]


def chunk(row: int, step: int = 0, request: int = 0, tokens: int = 0) -> Tampering:
    """Return a tampering that moves the entries of a chunk."""

    def tamper(run: Run) -> Run:
        assert run.chunks is not None
        chunks = run.chunks.copy()
        chunks[row] += (step, request, tokens)
        return replace(run, chunks=chunks)

    return tamper


def more_chunks(*rows: tuple[int, int, int]) -> Tampering:
    """Return a tampering that adds chunks."""

    def tamper(run: Run) -> Run:
        assert run.chunks is not None
        return replace(run, chunks=np.concatenate((run.chunks, np.array(rows))))

    return tamper


def rests(*rows: tuple[int, int, int]) -> Tampering:
    """Return a tampering that claims other rests."""
    return lambda run: replace(run, rests=np.array(rows, dtype=np.int64).reshape(-1, 3))


#: The run is that of `test_chunks_by_hand`, chunks (0, r0, 4), (0, r1, 2), (1, r0, 2), (1, r2, 2),
#: (2, r2, 1); the rule, and how many chunks, requests or cells are at fault.
TAMPERINGS: list[tuple[str, int, Tampering]] = [
    # 5 of 4 tokens on worker 0, and request 0 computes 7 of its 6.
    ("batches", 2, chunk(0, tokens=1)),
    # Request 2 emits after 2 of its 3 tokens.
    ("batches", 1, chunk(3, tokens=-1)),
    # At step 2 request 0 is decoded, and at step 1 its prompt is not done: its first token comes
    # at the step of its last chunk.
    ("batches", 2, chunk(2, step=1)),
    # Request 2 has two chunks at one step, which are more than the budget.
    ("batches", 2, chunk(4, step=-1)),
    # Request 1 has no slot any more at step 3, and computes its prompt twice in part.
    ("batches", 2, more_chunks((3, 1, 1))),
    # Request 0 never computes its last two tokens.
    ("batches", 1, lambda run: replace(run, chunks=run.chunks[[0, 1, 3, 4]])),  # type: ignore[index]
    # Twice the same chunk: too many tokens of the worker and of the request, and a repetition.
    ("batches", 3, more_chunks((0, 0, 4))),
    # It is said to emit a token beside its first chunk; the worker has 5 tokens then.
    ("batches", 3, rests((0, 1, 2), (1, 0, 1), (2, 0, 3))),
    ("rests", 1, rests((0, 0, 2), (1, 0, 1), (2, 0, 4))),
    ("shape", 1, lambda run: replace(run, rests=None, chunks=None)),
    ("shape", 1, lambda run: replace(run, chunks=None)),
    ("shape", 1, lambda run: replace(run, rests=None)),
    ("shape", 1, lambda run: replace(run, chunks=run.chunks[:, :2])),  # type: ignore[index]
    ("shape", 1, lambda run: replace(run, chunks=run.total_load)),
    ("shape", 1, chunk(1, tokens=-2)),
    ("shape", 1, chunk(1, step=4)),
    ("shape", 1, chunk(1, step=-1)),
    ("shape", 1, chunk(1, request=2)),
    ("shape", 1, chunk(1, request=-2)),
    # Two chunks of request 0 are on no worker.
    ("shape", 2, shifted("worker", 0, -1)),
    # At step 1 the second chunk of request 0 reads 3: the cell, the peak and the total.
    ("loads", 3, chunk(0, tokens=-1)),
    # At steps 2 and 3 both cells, the peak and the least.
    ("loads", 8, shifted("worker", 2, 1)),
    ("active", 1, shifted("active", 0, 1)),
    ("duration", 1, shifted("duration_s", 3, 1e-6)),
]


@cache
def small_run() -> Run:
    """Return the run of `test_chunks_by_hand`."""
    return simulate(THREE, "fcfs", SMALL)


def found(rule: str, tamper: Tampering) -> int:
    """Return how often a rule is broken by the tampered run."""
    return run_violations(tamper(small_run()), THREE, SMALL).get(rule, 0)


@pytest.mark.parametrize(("rule", "amount", "tamper"), TAMPERINGS)
def test_tampering_is_caught(rule: str, amount: int, tamper: Tampering) -> None:
    """A right run breaks no rule; the tampered one breaks the named rule, so many times."""
    assert run_violations(small_run(), THREE, SMALL) == {}
    assert found(rule, tamper) == amount


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        # Two cells have 4 tokens.
        (replace(SMALL, token_budget=3), {"batches": 2}),
        (replace(SMALL, token_budget=(3, 4)), {"batches": 2}),
        (replace(SMALL, token_budget=(4, 2)), {}),
        (replace(SMALL, batch_token_time_s=0.5), {"duration": 4}),
        (replace(SMALL, free_tokens=2), {"duration": 4}),
        (EXACT, {"shape": 1}),
    ],
)
def test_another_machine_is_caught(cluster: Cluster, expected: dict[str, int]) -> None:
    """A run held against other budgets or times of batches fails."""
    assert run_violations(small_run(), THREE, cluster) == expected


@cache
def checks() -> list[tuple[Run, Workload, Cluster]]:
    """Return runs, right and tampered, with what they are held against."""
    cases = [(tamper(small_run()), THREE, SMALL) for _, _, tamper in TAMPERINGS]
    cases += [(small_run(), THREE, replace(SMALL, token_budget=b)) for b in (3, (3, 4), (4, 2))]
    plain = simulate(THREE, "fcfs", EXACT)
    cases += [(plain, THREE, EXACT), (plain, THREE, SMALL), (small_run(), THREE, EXACT)]
    cut = simulate(THREE, "fcfs", SMALL, steps=1)
    empty = simulate(workload([], []), "fcfs", SMALL)
    vllm = simulate(THREE, "fcfs", SMALL, batching="vllm")
    return [*cases, (cut, THREE, SMALL), (empty, workload([], []), SMALL), (vllm, THREE, SMALL)]


def verdicts() -> list[Any]:
    """Return what the checker says of each, or which error it ends with."""
    said: list[Any] = []
    for case in checks():
        try:
            said.append(run_violations(*case))
        except Exception as error:
            said.append(type(error))
    return said


#: The functions of the module that are no part of the checker: its metrics and words.
_BESIDE = (
    "Batching", "_Task", "_computed", "_prefill", "_budget_share", "_setting", "_worker_s",
)  # fmt: skip


@cache
def right_verdicts() -> list[Any]:
    """Return what it says as it is."""
    return verdicts()


def mistakes() -> list[Mutant]:
    """Return the mutants of the checker, except those that change ``strict`` of ``zip``."""
    found = [mutant for mutant in mutants(batches) if not mutant.place.startswith(_BESIDE)]
    return [mutant for mutant in found if "strict=False" not in mutant.place]


@pytest.mark.parametrize("mutant", mistakes(), ids=lambda mutant: mutant.place)
def test_mistakes_in_the_checker_are_noticed(mutant: Mutant) -> None:
    """Each makes it say something else of one of these runs."""
    right = right_verdicts()
    with mutant.planted():
        assert verdicts() != right
