"""Step problems: `formulations.step`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from bfio.library.kinds.kind import (
    CLOSED_FORM,
    Judged,
    Kind,
    check_certificate,
    field_of,
    integers,
)
from formulations.errors import InputError
from formulations.problem_data import check_keys
from formulations.step import StepProblem, lower_bound, violations
from formulations.step.bound import interval_relaxation
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.check import brute_force

#: Kind of an empty certificate: a tiny problem is enumerated.
EVERY_ASSIGNMENT = "every-assignment"
#: Kind of certificate with multipliers of the interval relaxation.
INTERVAL = "interval"
#: Fields of certificates that do not come from the exact method.
_OTHER_KINDS = {CLOSED_FORM: (), EVERY_ASSIGNMENT: (), INTERVAL: ("flow", "price")}


class Step(Kind):
    """Assignment of waiting requests to workers at one step."""

    name = "step"
    command = "bfio solve"
    unit = "tokens"
    problem = StepProblem

    def solution(
        self, problem: StepProblem, document: Mapping[str, Any]
    ) -> tuple[int | None, ...]:
        """Return the worker of each request."""
        return integers(document, "assignment", problem.num_requests, or_none=True)

    def judge(self, problem: StepProblem, solution: tuple[int | None, ...]) -> Judged:
        """Return the scaled objective and the violations."""
        violated = violations(problem, solution)
        strangers = any(name.startswith("worker[") for name in violated)
        objective = 0 if strangers else problem.objective_value(solution)
        return Judged(objective, violated)

    def certified_bound(self, problem: StepProblem, certificate: Mapping[str, Any]) -> int:
        """Return the bound by the verifier of the certificate's kind."""
        if certificate.get("kind") in _OTHER_KINDS:
            kind = check_certificate(certificate, _OTHER_KINDS)
            if kind == INTERVAL:
                return _interval_bound(problem, certificate)
            return lower_bound(problem) if kind == CLOSED_FORM else _least_of_all(problem)
        try:
            return certified_bound(problem, read_certificate(certificate))
        except InputError:
            raise
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            # Verifiers assume the types of `Certificate`, which a document may violate.
            raise InputError("certificate", f"malformed ({error})", "solve again") from None

    def program(self, problem: StepProblem) -> Any:
        """Return the step program."""
        from formulations.step import StepProgram

        return StepProgram(problem)

    def scale(self, problem: StepProblem) -> int:
        """Return the scale of the discount weights."""
        return problem.scale


def _interval_bound(problem: StepProblem, certificate: Mapping[str, Any]) -> int:
    """Return the bound of multipliers; the flow has a row per worker and a column per step."""
    relaxation = interval_relaxation(problem)
    if relaxation is None:
        raise InputError("certificate.kind", INTERVAL, "it only covers requests with equal growth")
    (price,) = integers({"price": [certificate["price"]]}, "price", 1)
    width = relaxation.times.shape[1]
    flow = [integers({"flow": line}, "flow", width) for line in field_of(certificate, "flow")]
    if max(map(abs, (price, *(y for line in flow for y in line)))) > sum(problem.weights) * len(
        relaxation.times
    ):
        raise InputError("certificate.flow", "larger than all supplies", "solve again")
    return relaxation.bound(np.array(flow, dtype=np.int64), price)


def _least_of_all(problem: StepProblem) -> int:
    best = brute_force(problem)
    if best is None:
        raise InputError("problem", "no assignment is feasible", "there is nothing to bound")
    return best[0]


def written_certificate(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as JSON: the fields that differ from their defaults."""
    return {
        field.name: value
        for field in fields(certificate)
        if (value := getattr(certificate, field.name)) != field.default
    }


def read_certificate(document: Mapping[str, Any]) -> Certificate:
    """Read the output of `written_certificate`.

    Raises
    ------
    InputError
        If a field is unknown, or contains values other than integers.
    """
    names = tuple(field.name for field in fields(Certificate))
    check_keys(document, "certificate", ("kind", "bound"), names)
    return Certificate(
        **{name: _tuples(value, name, name == "kind") for name, value in document.items()}
    )


def _tuples(value: object, where: str, is_word: bool) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_tuples(part, where, False) for part in value)
    if (type(value) is not int) if not is_word else not isinstance(value, str):
        raise InputError(f"certificate.{where}", "not integers", "solve again")
    return value
