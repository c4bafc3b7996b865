"""Interface of a kind of problem: read it, check a solution, recompute a bound.

A kind uses problem data, checkers and verifiers of `formulations`, and no solver. Its files are
compressed JSON documents with reproducible bytes and exact numbers: objectives and bounds are
integers, or fractions for continuous programs.
"""

import hashlib
import json
import lzma
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from formulations.errors import InputError, check_known
from formulations.fluid import FluidObjective
from formulations.problem_data import check_keys, check_list, parse_json, shown
from formulations.words import counted


def canonical(document: Any) -> str:
    """Return the canonical text of a document, used for its digest: sorted keys, no blanks."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def digest_of(document: Any) -> str:
    """Return the 16-digit hexadecimal digest of a document, as `ProblemData.digest` does."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()[:16]


def packed(document: Any) -> bytes:
    """Return a document in the compressed format of `read_packed`."""
    return lzma.compress(canonical(document).encode(), preset=9 | lzma.PRESET_EXTREME)


def read_packed(path: Path) -> Any:
    """Return the document in a compressed file.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    try:
        return parse_json(lzma.decompress(path.read_bytes()).decode("utf-8"))
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "reinstall bfio") from None
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})", "reinstall bfio") from None


def read_plain(path: Path) -> Any:
    """Return the document in a text file.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})", "reinstall bfio") from None


def lines_text(head: dict[str, Any], name: str, lines: list[str]) -> str:
    """Return JSON: ``head`` on one line, then the field ``name`` with one JSON text per line."""
    fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    opening, closing = ("{", "}") if lines and lines[0].startswith('"') else ("[", "]")
    body = ",\n".join(lines)
    return "{" + ", ".join(fields) + f',\n"{name}": {opening}\n{body}\n{closing}}}\n'


Value: TypeAlias = int | Fraction


def read_value(document: object, where: str) -> Value:
    """Return the number in a JSON value: an integer, or a text such as ``"7/3"``.

    Raises
    ------
    InputError
        If the value is not an exact number.
    """
    if type(document) is int:
        return document
    if isinstance(document, str):
        try:
            return plain(Fraction(document))
        except (ValueError, ZeroDivisionError):
            pass
    raise InputError(where, f"{shown(document)} is not an exact number", 'write 7 or "7/3"')


def written_value(value: Value) -> int | str:
    """Return a value in the format of `read_value`."""
    value = plain(value)
    return value if isinstance(value, int) else str(value)


def plain(value: Value) -> Value:
    """Return integral fractions as integers."""
    return int(value) if value.denominator == 1 else value


def value_text(value: Value | None, scale: int = 1) -> str:
    """Format a value in units of the problem, rounded if it is not an integer."""
    if value is None:
        return "–"
    exact = Fraction(value) / scale
    if exact.denominator == 1:
        return f"{int(exact):,}"
    return f"{float(exact):,.3f}" if abs(exact) >= 1000 else f"{float(exact):.6g}"


#: Kind of an empty certificate: the bound follows from the problem by a formula.
CLOSED_FORM = "closed-form"


@dataclass(frozen=True)
class Judged:
    """Evaluation of a solution by the checker.

    Parameters
    ----------
    objective : int or Fraction
        Exact objective, recomputed from the problem, in the scale of the problem.
    violations : mapping
        Violated constraints and the amounts; empty if the solution is feasible.
    """

    objective: Value
    violations: Mapping[str, Value]


class Kind(ABC):
    """A kind of problem.

    Attributes
    ----------
    name : str
        Name in entries.
    command : str
        Command of `bfio` that solves a problem document of this kind.
    unit : str
        Unit of objectives.
    problem : type
        Class of the problems; its ``from_mapping`` reads them.
    minimised : bool
        Whether the objective is minimised.
    formulation : type, optional
        Class of the `Formulation` that is written for other solvers.
    fluid_program, fluid_objective : str
        Program of a fluid problem that is written for other solvers, and its objective; empty for
        other problems.
    """

    name: ClassVar[str]
    command: ClassVar[str]
    unit: ClassVar[str]
    problem: ClassVar[Any]
    minimised: ClassVar[bool] = True
    formulation: ClassVar[Any] = None
    fluid_program: ClassVar[str] = ""
    fluid_objective: ClassVar[FluidObjective] = FluidObjective.STAGES

    def read(self, document: Any) -> Any:
        """Return the problem in a document.

        Raises
        ------
        InputError
            If the document has no valid problem.
        """
        return self.problem.from_mapping(document)

    @abstractmethod
    def solution(self, problem: Any, document: Mapping[str, Any]) -> Any:
        """Return the solution in a document: an answer with ``--json``, or its fields.

        Raises
        ------
        InputError
            If the document has no valid solution.
        """

    @abstractmethod
    def judge(self, problem: Any, solution: Any) -> Judged:
        """Return the objective of a solution and its violations."""

    @abstractmethod
    def certified_bound(self, problem: Any, certificate: Mapping[str, Any]) -> Value:
        """Return the bound that a certificate proves, recomputed from the problem.

        Raises
        ------
        InputError
            If the certificate proves no bound.
        """

    def program(self, problem: Any) -> Any | None:
        """Return the `Formulation` to write for other solvers; None if there is none."""
        return None if self.formulation is None else self.formulation(problem)

    def unit_of(self, problem: Any) -> str:
        """Return the unit of a problem's objective."""
        return self.unit

    def scale(self, problem: Any) -> int:
        """Return the number of units of objective and bound per unit of the problem."""
        return 1

    def is_better(self, value: Value, than: Value | None) -> bool:
        """Return whether an objective is better than another; every one is better than None."""
        if than is None:
            return True
        return value < than if self.minimised else value > than

    def is_tighter(self, bound: Value, than: Value | None) -> bool:
        """Return whether a bound is tighter than another; every one is tighter than None."""
        if than is None:
            return True
        return bound > than if self.minimised else bound < than


def field_of(document: object, name: str) -> list[Any]:
    """Return the list with a name in a document.

    Raises
    ------
    InputError
        If the document has no list with this name.
    """
    if not isinstance(document, Mapping) or document.get(name) is None:
        what = "missing"
        raise InputError(name, what, f'give a JSON object with "{name}", as commands print it')
    return check_list(document[name], name)


def integers(
    document: object, name: str, length: int, *, or_none: bool = False
) -> tuple[Any, ...]:
    """Return a field with ``length`` integers (or nulls).

    Raises
    ------
    InputError
        If the field is something else.
    """
    values = field_of(document, name)
    if len(values) != length:
        what = f"has {counted(len(values), 'entry')}"
        raise InputError(name, what, f"give {length}, one per request")
    for i, value in enumerate(values):
        if type(value) is not int and not (or_none and value is None):
            remedy = "write an integer" + " or null" * or_none
            raise InputError(f"{name}[{i}]", "is not an integer", remedy)
    return tuple(values)


def fractions_of(values: object, where: str) -> tuple[Fraction, ...]:
    """Return the fractions in a list of texts.

    Raises
    ------
    InputError
        If the values are something else.
    """
    return tuple(
        Fraction(read_value(value, f"{where}[{i}]"))
        for i, value in enumerate(check_list(values, where))
    )


def check_certificate(certificate: object, known: Mapping[str, tuple[str, ...]]) -> str:
    """Return the kind of a certificate, after a check that its fields are those of its kind.

    Parameters
    ----------
    certificate : object
        The certificate document.
    known : mapping
        Fields of each kind, without ``kind``.

    Raises
    ------
    InputError
        If the document is not a valid certificate.
    """
    kind = str(certificate.get("kind")) if isinstance(certificate, Mapping) else ""
    check_known("certificate.kind", kind, known)
    check_keys(certificate, "certificate", ("kind", *known[kind]))
    return kind
