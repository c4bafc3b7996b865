"""Verification of entries from the problem data, and evaluation of external solutions.

No solver is used: the digest of the problem is recomputed, the checker of the problem recomputes
the objective of the solution, and the verifier of certificates recomputes the bound.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bfio.library.kinds.kind import Value, digest_of
from bfio.library.store import BestKnown, Entry, Status
from formulations.documents import parse_json
from formulations.errors import InputError


@dataclass(frozen=True)
class Verdict:
    """Result of verifying an entry.

    Parameters
    ----------
    name : str
        Name of the entry.
    status : Status
        Status according to the entry; valid only without faults.
    faults : tuple of str
        Faults found; empty if there are none.
    is_certified : bool
        Whether the bound was recomputed.
    seconds : float
        Wall-clock time.
    """

    name: str
    status: Status
    faults: tuple[str, ...]
    is_certified: bool
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether all values of the entry were confirmed."""
        return not self.faults


@dataclass(frozen=True)
class SolutionVerdict:
    """Evaluation of an external solution.

    Parameters
    ----------
    name : str
        Name of the entry.
    objective : int or Fraction, optional
        Recomputed objective; None if the solution is infeasible.
    violations : mapping
        Violated constraints and the amounts.
    best_known : int or Fraction, optional
        Best known objective.
    is_better : bool
        Whether the solution is better than the best known one.
    closes : bool
        Whether it equals the certified bound, so that it is optimal.
    """

    name: str
    objective: Value | None
    violations: Mapping[str, Value]
    best_known: Value | None
    is_better: bool
    closes: bool


def verify(entry: Entry, *, bounds: bool = True) -> Verdict:
    """Check the digest, the solution and the bound of an entry.

    Parameters
    ----------
    entry : Entry
        Entry to check.
    bounds : bool
        Whether the bound is recomputed, which takes most of the time.
    """
    began = time.perf_counter()
    faults: list[str] = []
    is_certified = False
    try:
        if digest_of(entry.document) != entry.digest:
            faults.append("digest: the problem is not the one that was frozen")
        elif entry.best is None:
            faults.append("best known: nothing")
        else:
            faults += _faults_of_solution(entry, entry.best)
            faults += _contradictions(entry, entry.best)
            if bounds:
                faults += _faults_of_bound(entry, entry.best)
                is_certified = True
    except InputError as error:
        faults.append(str(error))
    seconds = time.perf_counter() - began
    return Verdict(entry.name, entry.status, tuple(faults), is_certified and not faults, seconds)


def check_solution(entry: Entry, document: Mapping[str, Any]) -> SolutionVerdict:
    """Check whether a solution of an entry is feasible and better than the best known one.

    Parameters
    ----------
    entry : Entry
        The problem.
    document : mapping
        JSON answer of the command with ``--json``, or the fields of a solution.

    Raises
    ------
    InputError
        If the document has no solution of the right shape.
    """
    judged = entry.kind.judge(entry.problem, entry.kind.solution(entry.problem, document))
    best = entry.best
    feasible = not judged.violations
    return SolutionVerdict(
        name=entry.name,
        objective=judged.objective if feasible else None,
        violations=judged.violations,
        best_known=None if best is None else best.objective,
        is_better=feasible
        and entry.kind.is_better(judged.objective, None if best is None else best.objective),
        closes=feasible and best is not None and judged.objective == best.bound,
    )


def check_solution_text(entry: Entry, text: str) -> SolutionVerdict:
    """Check a file: a JSON answer, or another solver's solution of the MPS or LP file.

    Raises
    ------
    InputError
        If the file has no solution of the right shape.
    """
    from formulations.exchange import judge, parse_solution

    if text.lstrip()[:1] in ("{", "["):
        return check_solution(entry, parse_json(text))
    program = entry.kind.program(entry.problem)
    if program is None:
        raise InputError("solution", f"of kind {entry.kind_name}", "give a JSON answer (--json)")
    result = judge(program, parse_solution(text)).result
    if result.violations or result.solution is None:
        known = None if entry.best is None else entry.best.objective
        return SolutionVerdict(entry.name, None, result.violations, known, False, False)
    fields = {name: list(getattr(result, name)) for name in result.solution_fields}
    return check_solution(entry, fields)


def _faults_of_solution(entry: Entry, best: BestKnown) -> list[str]:
    judged = entry.kind.judge(entry.problem, entry.kind.solution(entry.problem, best.solution))
    faults = [f"solution: violates {name} by {by}" for name, by in judged.violations.items()]
    if judged.objective != best.objective:
        faults.append(f"solution: its objective is {judged.objective}, not {best.objective}")
    return faults


def _contradictions(entry: Entry, best: BestKnown) -> list[str]:
    """Return the bounds that the best known solution contradicts."""
    bounds = {"bound": best.bound, "claim": best.claim}
    return [
        f"{name}: {value} is refuted by the solution of {best.objective}"
        for name, value in bounds.items()
        if value is not None and entry.kind.is_better(best.objective, value)
    ]


def _faults_of_bound(entry: Entry, best: BestKnown) -> list[str]:
    certificate = entry.certificate
    assert certificate is not None
    if certificate.get("kind") != best.certificate:
        return [f"certificate: of kind {certificate.get('kind')}, not {best.certificate}"]
    derived = entry.kind.certified_bound(entry.problem, certificate)
    if entry.kind.is_tighter(best.bound, derived):
        return [f"bound: the certificate proves {derived}, not {best.bound}"]
    return []
